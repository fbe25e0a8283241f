"use strict";

/* The details of one row: reason, budget, held tensors, timeline and growth. */

const METRICS = [
  ["peak", "highest requested bytes alive"],
  ["allocated", "with the allocator's rounding"],
  ["reserved", "segments taken from the device"],
  ["retained", "alive at the end"],
];

/** The number of held tensors that are shown at first. */
const FIRST = 8;

/** Returns a tensor of the page's data, with its texts. */
function tensor([bytes, ...words], texts) {
  const [shape, meaning, dtype, op, where, inside, module] = words.map((word) => texts[word]);
  return { bytes, size: Number(bytes), shape, meaning, dtype, op, where, function: inside, module };
}

/** Returns a text such as: attn.py:14 in attention */
function madeAt(held) {
  return [held.where, held.function && `in ${held.function}`].filter(Boolean).join(" ");
}

function detailsOf(row, texts) {
  const made = make("div", "details");
  if (row.reason) made.append(make("p", `reason ${row.state}`, row.reason));
  const facts = [make("div", "facts", "", promise(row), circumstances(row), ...again(row)), metrics(row)];
  if (row.components.length) facts.push(componentPanel(row, texts));
  const tensors = row.held.length ? [heldTable(row, texts)] : [];
  // Of a failure, which line made what comes first.
  made.append(...(row.explanation.length ? [...tensors, ...facts] : [...facts, ...tensors]));
  made.append(row.timeline?.spans.length ? timelineFigure(row, texts) : noTimeline(row));
  const charts = row.growth.map((chart) => growthFigure(chart, row));
  if (charts.length) made.append(make("div", "growths", "", ...charts));
  return made;
}

function section(className, title) {
  return make("section", className, "", make("h3", "", title));
}

/** Returns the limit: as a failure or its writer wrote it, its symbols, and its bytes. */
function promise(row) {
  const made = section("promise", "Budget");
  if (row.explanation.length) {
    made.append(make("pre", "formula explanation", row.explanation.join("\n")));
  } else {
    made.append(make("code", "formula", row.budget || (row.baseline_bytes === null ? "none: it was only measured" : "none: only the baseline")));
    const read = new Set(row.budget.match(/[A-Za-z_]\w*/g));
    const values = row.symbols.filter(([name]) => read.has(name));
    if (values.length) made.append(make("p", "values", `with ${symbols(values)}`));
  }
  if (row.limit_bytes !== null) {
    made.append(make("p", "limit", "", make("b", "", `= ${sized(row.limit_bytes)}`), ` ${exact(row.limit_bytes)}`));
  }
  if (row.limit_bytes !== null && row.value !== null) {
    const apart = difference(row.value, row.limit_bytes);
    const [words, size] = apart.startsWith("-") ? ["below it", apart.slice(1)] : ["above it", apart];
    const said = apart === "0" ? "met to the byte" : `${sized(size)} ${words} (${exact(size)})`;
    made.append(make("p", "values", `${row.metric} ${sized(row.value)}: ${said}`));
  }
  if (row.out_of_memory) {
    made.append(make("p", "values", `memory ran out: ${row.out_of_memory}; nothing was measured to its end`));
  }
  if (row.baseline_bytes !== null) {
    const change = row.value === null ? "" : `, ${signed(difference(row.value, row.baseline_bytes))}`;
    const state = row.baseline_state ? ` (${row.baseline_state})` : "";
    const torch = row.baseline_torch ? ` on torch ${row.baseline_torch}` : "";
    made.append(make("p", "values", `baseline ${sized(row.baseline_bytes)} (${exact(row.baseline_bytes)})${torch}${change}${state}`));
  }
  return made;
}

function symbols(pairs) {
  return pairs.map(([name, size]) => `${name}=${size}`).join(" ");
}

/** Returns the place and the conditions of the measurement, and a command to repeat it. */
function circumstances(row) {
  const list = make("dl");
  const add = (name, value, tag = "dd") => {
    if (value !== "" && value !== null) list.append(make("dt", "", name), make(tag, "", value));
  };
  add("test", row.where);
  add("region", row.region);
  add("measured on", row.place === row.backend ? row.place : [row.place, row.backend].filter(Boolean).join(", by "));
  add("shape", row.shape);
  if (row.value !== null) add("allocations", grouped(row.allocations));
  if (row.value !== null && row.duration_s !== null) add("took", `${(row.duration_s * 1000).toFixed(1)} ms`);
  if (row.workspace_bytes) add("workspace", `${sized(row.workspace_bytes)}, from library warm-up, not counted in any test`);
  const made = section("circumstances", "Measured");
  made.append(list);
  return made;
}

/** Returns the command of a test, its name quoted for a shell; nothing for other rows. */
function again(row) {
  if (!row.nodeid.includes("::")) return [];
  const backend = /^(cpu|null|simulated)/.test(row.place) ? ` --attnmem-backend=${row.place}` : "";
  const command = `pytest '${row.nodeid.replaceAll("'", "'\\''")}'${backend}`;
  return [make("p", "again", "run it again", make("code", "", command))];
}

/** Returns all four numbers, whichever one the budget limits. */
function metrics(row) {
  const made = make("div", "metrics");
  for (const [name, meaning] of METRICS) {
    const size = row.out_of_memory ? null : row[`${name}_bytes`];
    const tile = make("div", name === row.metric ? "metric chosen" : "metric");
    const title = make("div", "name", name);
    if (name === row.metric && row.state !== "measured") title.append(make("span", "tag", "held to the budget"));
    tile.append(title, make("div", "number", size === null ? "not measured" : sized(size)));
    tile.append(make("div", "exact", size === null ? "" : exact(size)), make("div", "meaning", meaning));
    made.append(tile);
  }
  return made;
}

/** Returns the tensors at the peak, each with its share of the peak. */
function heldTable(row, texts) {
  const peak = Number(row.peak_bytes ?? 0);
  const count = row.held_count;
  const made = section("held", `Held at the ${row.metric === "retained" ? "end" : "peak"}: ${plural(count, "tensor")}`);
  const table = make("table");
  const head = make("tr");
  const lines = row.held.map(([number, many, module, holder]) => ({
    held: tensor(row.tensors[number], texts),
    many,
    module: texts[module],
    holder: texts[holder],
  }));
  const modules = lines.some(({ module }) => module) ? ["module"] : [];
  for (const name of ["size", "", "% of peak", "at", "shape", "made by", "dtype", ...modules]) {
    const cell = make("th", name ? "" : "exact", name || "bytes");
    cell.scope = "col";
    head.append(cell);
  }
  const body = make("tbody");
  lines.forEach(({ held, many, module, holder }, place) => {
    const at = make("td", "mono", madeAt(held));
    if (holder) at.append(make("div", "holder", holder));
    const what = make("td", "mono", held.shape);
    if (held.meaning) what.append(make("span", "meaning", held.meaning));
    const words = [held.op || "not known", held.dtype, ...(modules.length ? [module] : [])];
    const line = heldLine(held.bytes, many, peak, [at, what], ...words);
    if (place >= FIRST) line.className = "past";
    body.append(line);
  });
  const [more, bytes] = row.more_held;
  if (more) {
    const line = heldLine(bytes, 1, peak, [make("td", "", plural(more, "smaller one")), make("td")], "", "");
    line.className = "past";
    body.append(line);
  }
  table.append(make("thead", "", "", head), body);
  const scroll = make("div", "scroll", "", table);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", made.textContent);
  made.append(scroll);
  if (lines.length + (more ? 1 : 0) > FIRST) made.append(unfolding(table, count));
  return made;
}

function unfolding(table, count) {
  const button = make("button", "all-of", `Show all ${grouped(count)}`);
  button.type = "button";
  button.addEventListener("click", () => {
    table.className = "all";
    button.remove();
  });
  return button;
}

/** Returns a line of equal tensors; bytes are of each. */
function heldLine(bytes, many, peak, cells, ...words) {
  const size = make("td", "number", `${many > 1 ? `${many} × ` : ""}${sized(bytes)}`);
  const whole = many > 1 ? BigInt(bytes) * BigInt(many) : bytes;
  const share = peak ? Number(whole) / peak : null;
  const line = make("tr", "", "", size, make("td", "exact", exact(whole)), shareCell(share), ...cells);
  const classes = ["op", "mono", "mono"];
  words.forEach((word, index) => line.append(make("td", classes[index], word)));
  return line;
}

/** Returns a bar and its number. */
function shareCell(share) {
  const cell = make("td", "share");
  if (share === null) return cell;
  cell.append(bar(share), make("span", "percent", percent(share)));
  return cell;
}

/** Returns a bar for a share of the whole; a share above the whole has an arrow at its end. */
function bar(share) {
  const fill = make("span", "fill");
  fill.style.width = `${Math.max(0, Math.min(share, 1)) * 100}%`;
  const track = make("span", share > 1 ? "bar beyond" : "bar", "", fill);
  track.setAttribute("aria-hidden", "true");
  return track;
}

/** Returns the reason why the chart is missing, and the option that would draw it. */
function noTimeline(row) {
  const made = section("no-timeline", "Memory over time");
  const said = make("p", "note", "Who was alive when was not recorded");
  if (row.out_of_memory) said.append(": memory ran out.");
  else if (row.value === null || row.backend.startsWith("simulated")) said.append(".");
  else said.append(". ", make("code", "", "--attnmem-explain all"), " records it for every test that ends.");
  made.append(said);
  return made;
}

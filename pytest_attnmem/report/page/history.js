"use strict";

/* The page of a history: a line for each row over commits or dates, and the list of steps. */

const page = JSON.parse(document.getElementById("data").textContent);
const times = page.commits.reduce((all, [, date]) => {
  all.push(Math.max(all.at(-1) ?? -Infinity, Date.parse(date)));
  return all;
}, []);
let overDates = false;
let least = 0;

function header() {
  const top = document.getElementById("top");
  const line = make("div", "line", "", make("p", "kind", "Memory over commits"), themeButton());
  const facts = make("dl", "environment");
  for (const [name, value] of page.facts) {
    facts.append(make("div", "", "", make("dt", "", name), make("dd", "", value)));
  }
  top.append(line, make("h1", "", page.name), make("p", "counts", page.counts), facts, tools());
}

function tools() {
  const made = make("div", "tools");
  const axis = choice("over", [["commits", false], ["dates", true]], (value) => {
    overDates = value;
    drawAll();
  });
  const size = choice("steps", [["all", 0], ["of 1 % or more", 1], ["of 10 % or more", 10]], (value) => {
    least = value;
    drawAll();
    listSteps();
  });
  made.append(axis, size);
  return made;
}

function choice(name, options, change) {
  const select = make("select");
  for (const [text, value] of options) {
    const option = make("option", "", text);
    option.value = JSON.stringify(value);
    select.append(option);
  }
  select.addEventListener("change", () => change(JSON.parse(select.value)));
  return make("label", "choice", "", make("span", "", name), select);
}

function shown(step) {
  return step.share === null || Math.abs(step.share) >= least;
}

function drawAll() {
  document.getElementById("rows").replaceChildren(...page.rows.map(rowFigure));
}

function rowFigure(row, index) {
  const sizes = row.runs.map(([, value]) => value).filter((value) => value !== null);
  const said = `${sized(sizes[0])} at first, ${sized(sizes.at(-1))} now, at most ${sized(Math.max(...sizes))}`;
  const made = figure("row-chart", "", (width) => drawRow(row, index, sizes, width));
  made.querySelector("figcaption").append(make("span", "name", row.name), make("span", "muted", said));
  return made;
}

/** Returns the runs of equal bytes as [first, end, bytes]; bytes are null in a gap. */
function spans(row) {
  return row.runs.map(([first, value], place) => [first, row.runs[place + 1]?.[0] ?? page.commits.length, value]);
}

function drawRow(row, index, sizes, width) {
  const height = 150;
  const box = { left: 68, right: width - 10, top: 10, bottom: height - 24 };
  const count = page.commits.length;
  const low = Math.min(...sizes);
  const high = Math.max(...sizes);
  const floor = low < high && low - high * 0.02 > (high - low) * 1.5 ? low - Math.max((high - low) * 0.3, high * 0.02) : 0;
  const ceiling = high + Math.max((high - floor) * 0.06, 1);
  const across = (part) => box.left + (box.right - box.left) * part;
  const span = times.at(-1) - times[0];
  const x = (at) => {
    if (!overDates || !span) return across(count > 1 ? Math.min(at, count - 1) / (count - 1) : 0.5);
    return across((times[Math.min(at, count - 1)] - times[0]) / span);
  };
  const y = (value) => box.bottom - ((value - floor) / (ceiling - floor)) * (box.bottom - box.top);
  const svg = canvas(width, height, `bytes of ${row.name} over commits`);
  for (const tick of sizeTicks(floor, ceiling).filter((_, place, all) => all.length < 6 || place % 2 === 0)) {
    svg.append(shape("path", { d: `M${box.left} ${px(y(tick))}H${box.right}`, class: "grid" }));
    svg.append(label(box.left - 8, y(tick) + 4, rounded(tick), "tick", "end"));
  }
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const at = overDates ? times.findIndex((time) => time >= times[0] + span * part) : Math.round((count - 1) * part);
    svg.append(label(across(part), height - 6, page.commits[at][1], "tick", anchor));
  }
  let line = "";
  for (const [first, end, value] of spans(row)) {
    if (value === null) continue;
    const last = x(end - (end === count ? 1 : 0));
    const before = row.runs.findLast(([start]) => start < first);
    line += `${line && before && before[1] !== null ? "L" : "M"}${px(x(first))} ${px(y(value))}L${px(last)} ${px(y(value))}`;
  }
  svg.append(shape("path", { d: line, class: "level" }));
  const cursor = shape("path", { class: "cursor" });
  const all = shape("rect", { x: box.left, y: box.top, width: px(box.right - box.left), height: box.bottom - box.top, class: "over-all" });
  all.addEventListener("pointermove", (event) => {
    const inside = (event.offsetX * width) / svg.clientWidth;
    let at = 0;
    for (let place = 1; place < count; place++) if (Math.abs(x(place) - inside) < Math.abs(x(at) - inside)) at = place;
    cursor.setAttribute("d", `M${px(x(at))} ${box.top}V${box.bottom}`);
    tell(about(row, at), event.clientX, event.clientY);
  });
  all.addEventListener("pointerleave", () => {
    cursor.removeAttribute("d");
    hush();
  });
  svg.append(cursor, all);
  for (const [first, end, value] of spans(row)) {
    if (value !== null) continue;
    const to = Math.max(x(end - 1), x(first) + 2);
    const mark = shape("path", { d: `M${px(x(first))} ${box.bottom}H${px(to)}`, class: "missing" });
    telling(mark, () => [plural(end - first, "commit") + " without a number", row.gaps[first] ?? ""]);
    svg.append(mark);
  }
  const marks = page.steps.filter((step) => step.row === index && shown(step)).map((step) => {
    const mark = shape("circle", { cx: px(x(step.at)), cy: px(y(step.after)), r: 5, class: `mark ${tone(step)}` });
    telling(mark, () => [step.text, `${page.commits[step.at][0]} ${page.commits[step.at][1]}`, page.commits[step.at][3]]);
    mark.addEventListener("click", () => pick(step));
    mark.addEventListener("keydown", (event) => event.key === "Enter" && pick(step));
    return mark;
  });
  if (marks.length) oneStop(marks, marks[0]);
  svg.append(...marks);
  return svg;
}

function about(row, at) {
  const [, , value] = spans(row).findLast(([first]) => first <= at);
  const [sha, date, author, subject] = page.commits[at];
  return [value === null ? "no number" : sized(value), value === null ? "" : exact(value), `${sha} ${date} ${author}`, subject];
}

function tone(step) {
  return step.after > step.before ? "grew" : "shrank";
}

function pick(step) {
  const card = document.getElementById(`step-${step.at}`);
  document.querySelectorAll(".picked").forEach((other) => other.classList.remove("picked"));
  card.classList.add("picked");
  card.scrollIntoView({ block: "center", behavior: "smooth" });
  hush();
}

function listSteps() {
  const place = document.getElementById("steps");
  const seen = new Map();
  for (const step of page.steps.filter(shown)) seen.set(step.at, [...(seen.get(step.at) ?? []), step]);
  place.replaceChildren(make("h2", "", plural(seen.size, "commit") + " with a step"), ...[...seen].map(card));
}

function card([at, steps]) {
  const [sha, date, author, subject] = page.commits[at];
  const made = make("article", `step ${tone(steps[0])}`);
  made.id = `step-${at}`;
  made.append(make("h3", "", subject), make("p", "of", `${sha} · ${date} · ${author}`));
  const list = make("ul", "changes");
  for (const step of steps) {
    const said = make("p", "", "", make("code", "", page.rows[step.row].name), " ");
    said.append(make("span", "size", step.sizes), " ", make("span", `delta ${tone(step)}`, step.delta));
    if (step.fate) said.append(make("span", "muted", step.fate));
    const item = make("li", "", "", said);
    if (step.lines.length) item.append(make("pre", "", step.lines.join("\n")));
    list.append(item);
  }
  const command = `git show ${sha}`;
  const copy = make("button", "copy", "copy");
  copy.type = "button";
  copy.addEventListener("click", () => navigator.clipboard?.writeText(command).then(() => (copy.textContent = "copied")));
  made.append(list, make("div", "command", "", make("code", "", command), copy));
  return made;
}

function gaps() {
  const place = document.getElementById("gaps");
  if (page.gaps.length) {
    const list = make("ul", "reasons");
    for (const [count, reason] of page.gaps) list.append(make("li", "", `${grouped(count)} × ${reason}`));
    place.append(make("h2", "", "Commits and rows without a number"), list);
  }
  for (const note of page.notes) place.append(make("p", "warning", note));
}

document.body.append(tooltip);
header();
drawAll();
listSteps();
gaps();

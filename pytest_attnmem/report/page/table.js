"use strict";

/* The table: rows are sorted and filtered, and one row at a time is open. */

const STATES = ["over", "not enforced", "expected failure", "within", "measured", "not measured"];
/** The number of rows that are drawn before somebody scrolls to their end. */
const AT_ONCE = 60;
const SIGNS = { over: "✕", "not enforced": "!", "expected failure": "≈", within: "✓", measured: "○", "not measured": "!" };

const COLUMNS = [
  { name: "test", value: (row) => row.name, cell: testCell },
  { name: "shape", value: (row) => row.shape, cell: (row) => make("td", "shape mono", row.shape) },
  { name: "backend", value: (row) => row.place, cell: (row) => make("td", "backend", "", ...breakable(row.place)) },
  { name: "budget", unit: true, value: (row) => number(row.limit_bytes), cell: budgetCell },
  { name: "peak", unit: true, value: (row) => number(row.value), cell: valueCell },
  { name: "used %", right: true, value: (row) => row.share, cell: (row) => shareCell(row.share) },
  { name: "Δ baseline", right: true, value: (row) => row.change, cell: changeCell },
  { name: "outcome", value: (row) => row.rank, cell: outcomeCell },
];

function number(size) {
  return size === null ? null : Number(size);
}

/** A row of the table: its data, and the values to sort and search by. */
function prepared(row, rank) {
  row.rank = rank;
  row.state = row.outcome;
  row.name = row.region ? `${row.nodeid} [${row.region}]` : row.nodeid;
  row.value = row.out_of_memory ? null : row[`${row.metric}_bytes`];
  row.share = row.value === null || row.limit_bytes === null ? null : Number(row.value) / Number(row.limit_bytes);
  if (Number.isNaN(row.share)) row.share = null;
  row.change = row.value === null || row.baseline_bytes === null ? null : Number(difference(row.value, row.baseline_bytes));
  row.key = `#${encodeURIComponent(`${row.name} ${row.metric}`.toWellFormed?.() ?? rank)}`;
  return row;
}

function testCell(row) {
  const [, path, test] = /^(?:(.*?)::)?(.*)$/s.exec(row.nodeid);
  const button = make("button", "opener", "", ...breakable(test));
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  if (row.region) button.append(make("span", "region", row.region));
  const cell = make("td", "test", "", button);
  if (path) cell.append(make("span", "path", "", ...breakable(path)));
  return cell;
}

function budgetCell(row, unit) {
  if (row.limit_bytes === null) return make("td", "number contract mono", row.budget || "–");
  return sizeCell(row.limit_bytes, unit);
}

function valueCell(row, unit) {
  if (row.value === null) {
    const cell = make("td", "number", row.out_of_memory ? "out of memory" : "–");
    if (row.out_of_memory) cell.append(make("span", "metric-name", row.out_of_memory.split(" at ")[0]));
    return cell;
  }
  const cell = sizeCell(row.value, unit);
  if (row.metric !== "peak") cell.append(make("span", "metric-name", row.metric));
  return cell;
}

function sizeCell(size, unit) {
  const cell = make("td", "number", unit ? inUnit(size, unit) : sized(size));
  cell.title = exact(size);
  return cell;
}

function changeCell(row) {
  const cell = make("td", `number change ${row.baseline_state}`);
  const note = row.baseline_torch ? `torch ${row.baseline_torch}` : row.change ? row.baseline_state : "";
  if (row.change === null) return make("td", "number change", row.baseline_state);
  cell.textContent = row.change ? signed(row.change) : "same";
  cell.title = exact(difference(row.value, row.baseline_bytes));
  if (note) cell.append(make("span", "metric-name", note));
  return cell;
}

function outcomeCell(row) {
  return make("td", "outcome", "", badge(row.state));
}

function badge(state) {
  const sign = make("span", "sign", SIGNS[state]);
  sign.setAttribute("aria-hidden", "true");
  return make("span", `badge ${state}`, "", sign, state);
}

class Table {
  constructor(page, texts) {
    this.rows = page.rows.map(prepared);
    this.texts = texts;
    this.unit = ""; // each size in its own
    this.columns = COLUMNS.filter(
      (column) => column.cell !== changeCell || this.rows.some((row) => row.baseline_bytes !== null || row.baseline_state),
    );
    this.by = this.columns.at(-1);
    this.ascending = true;
    this.words = [];
    this.state = null;
    this.opened = null;
    this.body = make("tbody");
    this.element = make("table", "results", "", make("caption", "hidden", "Budgets and what was measured"), this.head(), this.body);
    this.none = make("p", "none", "Nothing matches.");
    this.more = make("button", "more-rows");
    this.more.addEventListener("click", () => this.lengthen(Infinity));
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("keydown", (event) => this.escaped(event));
    addEventListener("beforeprint", () => this.lengthen(Infinity));
    this.nearEnd = new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.lengthen(), { rootMargin: "1500px" });
    this.draw();
  }

  head() {
    const line = make("tr");
    for (const column of this.columns) {
      const button = make("button", "", column.name);
      button.type = "button";
      if (column.unit) button.append(make("span", "unit"));
      button.addEventListener("click", () => this.sort(column, column === this.by ? !this.ascending : true));
      column.head = make("th", column.unit || column.right ? "number" : "", "", button);
      column.head.scope = "col";
      line.append(column.head);
    }
    return make("thead", "", "", line);
  }

  /** Shows sizes in the chosen unit. */
  draw() {
    this.close();
    for (const { head, unit } of this.columns) {
      if (unit) head.querySelector(".unit").textContent = this.unit ? ` ${this.unit}` : "";
    }
    for (const row of this.rows) row.line = null;
    this.sort(this.by, this.ascending);
  }

  sort(column, ascending) {
    this.by = column;
    this.ascending = ascending;
    const way = ascending ? 1 : -1;
    this.rows.sort((a, b) => compare(column.value(a), column.value(b), way) || a.rank - b.rank);
    for (const { head } of this.columns) head.removeAttribute("aria-sort");
    column.head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    this.fill();
  }

  /** Shows the rows that contain all of these words and have this outcome. */
  filter(text, state) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.state = state;
    this.fill();
  }

  fits(row) {
    return (!this.state || row.state === this.state) && this.words.every((word) => this.textOf(row).includes(word));
  }

  /** Draws the matching rows from the start. */
  fill() {
    this.fitting = this.rows.filter((row) => this.fits(row));
    this.drawn = 0;
    this.body.replaceChildren();
    this.none.hidden = this.fitting.length > 0;
    this.element.setAttribute("aria-rowcount", this.fitting.length + 1);
    this.lengthen();
    this.changed?.();
  }

  /** Draws more rows: a browser is slow to lay out a thousand rows at every key. */
  lengthen(count = AT_ONCE) {
    const next = this.fitting.slice(this.drawn, this.drawn + count);
    this.drawn += next.length;
    this.body.append(...next.flatMap((row) => [this.lineOf(row), row === this.opened && row.more].filter(Boolean)));
    this.more.hidden = this.drawn === this.fitting.length;
    this.more.textContent = `Show all ${plural(this.fitting.length, "row")}`;
    this.nearEnd.disconnect();
    this.nearEnd.observe(this.more); // the observer reports at once if the end is still near
  }

  lineOf(row) {
    if (row.line) return row.line;
    row.line = make("tr", row === this.opened ? `row ${row.state} opened` : `row ${row.state}`);
    for (const column of this.columns) {
      const cell = column.cell(row, this.unit);
      cell.dataset.name = column.unit && this.unit ? `${column.name} ${this.unit}` : column.name;
      row.line.append(cell);
    }
    row.line.row = row;
    return row.line;
  }

  /** Returns all text to search, with the operators and source lines of the held tensors. */
  textOf(row) {
    row.text ??= [row.name, row.shape, row.place, row.budget, row.state, row.reason, row.baseline_state]
      .concat(row.tensors.flatMap(([, ...words]) => words.map((word) => this.texts[word])))
      .join("\n")
      .toLowerCase();
    return row.text;
  }

  clicked(event) {
    const line = event.target.closest("tr.row");
    if (!line || (!event.target.closest("button") && String(getSelection()))) return;
    if (this.opened === line.row) this.close();
    else this.open(line.row);
  }

  pressed(event) {
    const line = event.target.closest("tr.row");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!line || !step) return;
    event.preventDefault();
    const lines = [...this.body.querySelectorAll("tr.row:not([hidden])")];
    lines[lines.indexOf(line) + step]?.querySelector(".opener").focus();
  }

  escaped(event) {
    if (event.key !== "Escape" || !this.opened || event.target.closest("input, select")) return;
    const opener = this.opened.line.querySelector(".opener");
    this.close();
    opener.focus();
  }

  open(row) {
    this.close();
    while (!row.line?.isConnected && this.drawn < this.fitting.length) this.lengthen();
    const cell = make("td", "", "", detailsOf(row, this.texts));
    cell.colSpan = this.columns.length;
    row.more = make("tr", "more", "", cell);
    row.line.after(row.more);
    row.line.classList.add("opened");
    row.line.querySelector(".opener").setAttribute("aria-expanded", "true");
    this.opened = row;
    remember(row.key);
  }

  close() {
    if (!this.opened) return;
    this.opened.more.remove();
    this.opened.line.classList.remove("opened");
    this.opened.line.querySelector(".opener").setAttribute("aria-expanded", "false");
    this.opened = null;
    hush();
    remember("#");
  }
}

/** Compares numbers by size and words by the alphabet; unknown values come last in both orders. */
function compare(a, b, way) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "string") return way * (a < b ? -1 : a > b ? 1 : 0);
  return way * (a - b || 0);
}

/** Keeps the open row in the address, so that a link can open it. */
function remember(key) {
  try {
    history.replaceState(null, "", key);
  } catch {
    // an address that may not change, as in a frame
  }
}

"use strict";

/* The whole page: the head, the tools over the table, and the rows that are open at first. */

const page = JSON.parse(document.getElementById("data").textContent);

function header(table) {
  const counts = new Map(STATES.map((state) => [state, 0]));
  for (const row of table.rows) counts.set(row.state, counts.get(row.state) + 1);
  const worst = STATES.find((state) => counts.get(state)) ?? "measured";
  const sign = make("span", `sign ${worst}`, SIGNS[worst]);
  sign.setAttribute("aria-hidden", "true");
  const title = make("h1", "", "", sign, make("span", "", page.verdict));
  const line = make("div", "line", "", make("p", "kind", "Memory budgets"), themeButton());
  const top = document.getElementById("top");
  top.append(line, title);
  if (page.budgets) top.append(make("p", "counts", countsText(counts)), proportions(counts));
  top.append(facts());
  return counts;
}

function countsText(counts) {
  const budgets = ["within", "over", "not enforced"].map((state) => `${grouped(counts.get(state))} ${state}`);
  const expected = counts.get("expected failure");
  if (expected) budgets.push(plural(expected, "expected failure"));
  const measured = counts.get("measured") + counts.get("not measured");
  const more = measured ? ` · ${plural(measured, "region or test", "regions or tests")} without a budget` : "";
  return `${plural(page.budgets, "budget")}: ${budgets.join(", ")}${more}`;
}

function proportions(counts) {
  const made = make("div", "proportions");
  made.setAttribute("aria-hidden", "true");
  for (const state of STATES) {
    if (!counts.get(state)) continue;
    const part = make("span", state);
    part.style.flexGrow = counts.get(state);
    made.append(part);
  }
  return made;
}

/** Returns the facts of the machine, the session's peak, and the workspaces. */
function facts() {
  const list = make("dl", "environment");
  const add = (name, value) => list.append(make("div", "", "", make("dt", "", name), make("dd", "", value)));
  for (const [name, value] of page.environment) add(name, value);
  if (page.highest && page.highest[0] !== null) add("session peak", `${sized(page.highest[0])} in ${page.highest[1]}`);
  for (const [place, size] of page.workspaces) {
    if (Number(size)) add(`workspace on ${place}`, sized(size));
  }
  return list;
}

/** Returns the search field, the outcomes, and the unit of the columns. */
function tools(table, counts) {
  const search = make("input", "search");
  Object.assign(search, { type: "search", placeholder: "Filter: test, shape, op, source line …", spellcheck: false });
  search.setAttribute("aria-label", "Filter the table");
  search.setAttribute("aria-keyshortcuts", "/");
  const said = make("p", "shown");
  said.setAttribute("role", "status");
  let state = null;
  const apply = () => {
    table.filter(search.value, state);
  };
  const chips = make("div", "chips");
  chips.setAttribute("role", "group");
  chips.setAttribute("aria-label", "Outcomes");
  const chip = (name, count, chosen) => {
    const made = make("button", `chip ${chosen ?? "all"}`, "", chosen && badge(chosen), chosen ? "" : name);
    made.append(make("span", "count", grouped(count)));
    made.type = "button";
    made.setAttribute("aria-pressed", String(chosen === null));
    made.addEventListener("click", () => {
      state = chosen === state ? null : chosen;
      for (const other of chips.children) other.setAttribute("aria-pressed", String(other === (state === null ? chips.firstChild : made)));
      apply();
    });
    chips.append(made);
  };
  chip("All", table.rows.length, null);
  for (const [name, count] of counts) if (count) chip(name, count, name);
  search.addEventListener("input", apply);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    search.focus();
  });
  table.changed = () => {
    const shown = table.fitting.length;
    for (const option of sorting.options) option.selected = option.value === table.by.name;
    said.textContent = (shown < table.rows.length ? `${grouped(shown)} of ` : "") + plural(table.rows.length, "row");
  };
  const sorting = choice("Sort by", table.columns.map(({ name }) => [name, name]), table.by.name, (name) =>
    table.sort(table.columns.find((column) => column.name === name), true),
  );
  const units = [...UNITS.map((unit) => [unit, unit]), ["", "each its own"]];
  const unit = choice("Unit", units, table.unit, (name) => {
    table.unit = name;
    table.draw();
  });
  sorting.parentNode.classList.add("sorting");
  table.changed();
  return make("div", "tools", "", search, chips, sorting.parentNode, unit.parentNode, said);
}

function choice(title, options, chosen, changed) {
  const made = make("select");
  for (const [value, text] of options) {
    const option = make("option", "", text);
    option.value = value;
    option.selected = value === chosen;
    made.append(option);
  }
  made.addEventListener("change", () => changed(made.value));
  make("label", "choice", title, made);
  return made;
}

function start() {
  const asked = location.hash;
  const table = new Table(page, page.texts);
  const counts = header(table);
  document.body.append(tooltip);
  const results = document.getElementById("results");
  if (!table.rows.length) {
    results.append(make("p", "none", "No test was marked, and no region was measured."));
    return;
  }
  results.append(tools(table, counts), table.element, table.more, table.none);
  const first = table.rows.find((row) => row.key === asked) ?? table.rows.find((row) => row.state === "over");
  if (first) table.open(first);
  if (first?.key === asked) first.line.scrollIntoView();
}

start();

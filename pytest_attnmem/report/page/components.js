"use strict";

/* The components of a peak: a bar of all of them, and a table. */

const NOT_ATTRIBUTED = "not attributed";

/** A letter marks each component, in case colours look alike; bytes without a tensor are hatched. */
function key(part, parts) {
  const known = part.name !== NOT_ATTRIBUTED;
  const index = parts.filter((other) => other.name !== NOT_ATTRIBUTED).indexOf(part);
  const hue = known && index < HUES ? index + 1 : 0;
  return { letter: known ? String.fromCharCode(65 + index) : "", className: `key hue${hue}${known ? "" : " hatched"}` };
}

function componentPanel(row, texts) {
  const parts = row.components.map(([bytes, count, name, growth]) => ({
    bytes, size: Number(bytes), count, name: texts[name], growth: texts[growth],
  }));
  const [whole, title] = row.metric === "retained"
    ? [row.retained_bytes, "What was still alive at the end"]
    : [row.peak_bytes, "What the peak consists of"];
  const made = section("components", `${title}: ${sized(whole)}`);
  made.append(componentBar(parts), componentTable(parts, whole));
  const over = parts.find((part) => part.name === NOT_ATTRIBUTED && part.size < 0);
  if (over) made.append(make("p", "note", "The tensors that were seen come to more than was measured: they were seen in another run."));
  return made;
}

function componentBar(parts) {
  const made = make("div", "stacked");
  made.setAttribute("aria-hidden", "true");
  const drawn = parts.filter((part) => part.size > 0);
  const sum = drawn.reduce((total, part) => total + part.size, 0);
  for (const part of drawn) {
    const { letter, className } = key(part, parts);
    const share = part.size / sum;
    const segment = make("span", className, share < 0.03 ? "" : letter);
    segment.style.flexGrow = share;
    segment.title = `${part.name}: ${sized(part.bytes)}`;
    made.append(segment);
  }
  return made;
}

function componentTable(parts, whole) {
  const total = Number(whole);
  const scaling = parts.some((part) => part.growth);
  const names = ["component", "size", "bytes", "%", "tensors", ...(scaling ? ["grows as"] : [])];
  const head = make("tr");
  for (const name of names) {
    const cell = make("th", name === "bytes" ? "exact" : name === "tensors" ? "count" : "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const line = (className, name, bytes, count, growth) => {
    const share = total ? Number(bytes) / total : null;
    const made = make("tr", className, "", name, make("td", "number", sized(bytes)), make("td", "exact", exact(bytes)));
    made.append(make("td", "number", percent(share)), make("td", "number count", count ? grouped(count) : "–"));
    if (scaling) made.append(make("td", "mono", growth));
    return made;
  };
  const named = (sign, text) => {
    const cell = make("th", "", "", sign, text);
    cell.scope = "row";
    return cell;
  };
  const body = make("tbody");
  for (const part of parts) {
    const { letter, className } = key(part, parts);
    const sign = make("span", className, letter);
    sign.setAttribute("aria-hidden", "true");
    body.append(line("", named(sign, part.name), part.bytes, part.count, part.growth));
  }
  const tensors = parts.reduce((sum, part) => sum + part.count, 0);
  const foot = make("tfoot", "", "", line("", named(null, "all of it"), whole, tensors, ""));
  const scroll = make("div", "scroll", "", make("table", "", "", make("thead", "", "", head), body, foot));
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "Components");
  return scroll;
}

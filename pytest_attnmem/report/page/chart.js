"use strict";

/* The parts of every chart: shapes, ticks, and the one tooltip. */

/** Returns an SVG element with attributes. */
function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Returns a text element of a chart. */
function label(x, y, text, className, anchor = "start") {
  return shape("text", { x, y, class: className, "text-anchor": anchor }, text);
}

/** Returns a position in tenths of a pixel. */
function px(number) {
  return Math.round(number * 10) / 10;
}

/** Returns the frame of a chart; screen readers read its title and skip the drawing. */
function canvas(width, height, title) {
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title });
  svg.setAttribute("class", "canvas");
  return svg;
}

/** Returns four to eight ticks of a range around 0, at round numbers of IEC units. */
function sizeTicks(lowest, highest) {
  const step = Math.max(1, 2 ** Math.ceil(Math.log2((highest - lowest) / 8)));
  const ticks = [];
  for (let at = Math.ceil(lowest / step) * step; at <= highest; at += step) ticks.push(at);
  return ticks;
}

/** Returns the ticks from 0 to a largest count, in steps of 1, 2 or 5 times a power of ten. */
function countTicks(largest, most) {
  const rough = Math.max(largest / most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const ticks = [];
  for (let at = 0; at <= largest; at += step) ticks.push(at);
  return ticks;
}

/** Returns powers of two in a range, as few as there is room for. */
function powerTicks(from, to, most) {
  const first = Math.ceil(Math.log2(from));
  const last = Math.floor(Math.log2(to));
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks = [];
  for (let at = first; at <= last; at += step) ticks.push(2 ** at);
  return ticks;
}

const tooltip = make("div", "tooltip");
tooltip.setAttribute("role", "tooltip");
tooltip.id = "tooltip";
tooltip.hidden = true;

/** Shows lines of text, the first one large, beside a point of the window. */
function tell(lines, x, y) {
  tooltip.replaceChildren(
    ...lines.filter(Boolean).map((line, place) => make("div", place ? "" : "lead", line)),
  );
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const right = x + 16 + box.width > innerWidth ? x - box.width - 16 : x + 16;
  tooltip.style.left = `${Math.max(8, right)}px`;
  tooltip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - box.height - 8))}px`;
}

function hush() {
  tooltip.hidden = true;
}

/** Makes a mark show its lines when it is pointed at or focused by keyboard. */
function telling(mark, lines, on = () => {}, off = () => {}) {
  mark.setAttribute("role", "img");
  mark.setAttribute("aria-label", lines().filter(Boolean).join(", "));
  const point = (event) => {
    on();
    tell(lines(event), event.clientX, event.clientY);
  };
  const leave = () => {
    off();
    hush();
  };
  mark.addEventListener("pointermove", point);
  mark.addEventListener("pointerdown", point);
  mark.addEventListener("pointerleave", leave);
  mark.addEventListener("focus", () => {
    if (!mark.matches(":focus-visible")) return;
    const box = mark.getBoundingClientRect();
    on();
    tell(lines(), box.left + box.width / 2, box.top + box.height / 2);
  });
  mark.addEventListener("blur", leave);
}

/** Makes many marks one stop for the Tab key; arrow keys move between them. */
function oneStop(marks, first) {
  for (const mark of marks) mark.setAttribute("tabindex", mark === first ? 0 : -1);
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const move = (event) => {
    const at = marks.indexOf(event.currentTarget);
    const ends = { Home: 0, End: marks.length - 1 };
    const next = marks[ends[event.key] ?? at + (step[event.key] ?? NaN)];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    event.currentTarget.setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    next.focus();
  };
  for (const mark of marks) mark.addEventListener("keydown", move);
}

/** A chart in less space is scaled down. */
const NARROWEST = 260;

/** Returns a figure that is drawn to its width, and redrawn when the width changes. */
function figure(className, title, draw) {
  const made = make("figure", className);
  const place = make("div", "drawing");
  made.append(make("figcaption", "", title), place);
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(place.clientWidth);
    if (!now || now === width) return;
    width = now;
    place.replaceChildren(draw(Math.max(width, NARROWEST)));
  }).observe(place);
  return made;
}

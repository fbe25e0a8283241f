"use strict";

/* The lifetimes of tensors: each is a layer from its allocation to its free, stacked. */

const HUES = 8;

/** Returns a row's timeline with its spans as objects; time is the order of events. */
function readTimeline({ timeline: data, tensors }, texts) {
  const spans = data.spans.map(([allocated, freed, number]) => {
    const end = freed ?? data.events;
    return { ...tensor(tensors[number], texts), allocated, end, stays: freed === null };
  });
  const times = new Set([0, data.events, ...spans.flatMap(({ allocated, end }) => [allocated, end])]);
  const life = { events: data.events, times: [...times].sort((a, b) => a - b) };
  // The longest span lies lowest, so the layers above it have as few steps as possible.
  life.spans = spans.filter((span) => span.size > 0);
  life.spans.sort((a, b) => b.end - b.allocated - (a.end - a.allocated) || a.allocated - b.allocated);
  stack(life, spans.filter((span) => span.size < 0));
  paint(life);
  return life;
}

/** Gives each layer its floor at each time, above the layers below; finds the peak. */
function stack(life, takenOff) {
  const place = new Map(life.times.map((time, index) => [time, index]));
  const level = new Float64Array(life.times.length);
  const add = (span) => {
    for (let at = span.from; at < span.to; at++) level[at] += span.size;
  };
  for (const span of [...takenOff, ...life.spans]) {
    span.from = place.get(span.allocated);
    span.to = place.get(span.end);
    span.floor = level.slice(span.from, span.to);
    add(span);
    if (span === takenOff.at(-1)) life.ground = level.slice();
  }
  life.lowest = Math.min(0, ...(life.ground ?? []));
  life.level = level;
  life.peak = level.indexOf(Math.max(...level.subarray(0, -1)));
}

/** Gives one hue to the tensors of one line of code and one operator; only the largest get one. */
function paint(life) {
  const groups = new Map();
  for (const span of life.spans) {
    const name = `${span.op}\n${span.where}\n${span.function}`;
    if (!groups.has(name)) groups.set(name, { ...span, count: 0, atPeak: 0, largest: 0, spans: [] });
    const group = groups.get(name);
    const there = span.from <= life.peak && life.peak < span.to;
    group.count += 1;
    group.atPeak += there ? span.size : 0;
    group.largest = Math.max(group.largest, span.size);
    group.spans.push(span);
  }
  const sorted = [...groups.values()].sort((a, b) => b.atPeak - a.atPeak || b.largest - a.largest);
  let hue = 0;
  sorted.forEach((group) => {
    group.known = Boolean(group.dtype || group.where);
    group.hue = group.known && hue < HUES ? ++hue : 0;
    for (const span of group.spans) span.hue = group.hue;
  });
  life.groups = sorted;
}

/** Returns the chart of a record's timeline, and the legend under it. */
function timelineFigure(row, texts) {
  const life = readTimeline(row, texts);
  const made = figure("timeline", "Memory over time", (width) => drawTimeline(life, row, width));
  made.append(legend(life, made));
  if (row.timeline.note) made.append(make("p", "note", `Seen in ${row.timeline.note}.`));
  return made;
}

function drawTimeline(life, row, width) {
  const narrow = width < 560;
  const height = narrow ? 260 : 340;
  const box = { left: 66, right: width - 12, top: 40, bottom: height - 44 };
  const highest = life.level[life.peak] || 1;
  const limit = row.limit_bytes === null ? null : Number(row.limit_bytes);
  const fits = limit !== null && limit <= highest * 2;
  const top = Math.max(highest, fits ? limit : 0) * 1.06;
  const x = (event) => box.left + (event / Math.max(life.events, 1)) * (box.right - box.left);
  const y = (bytes) => box.bottom - ((bytes - life.lowest) / (top - life.lowest)) * (box.bottom - box.top);

  const svg = canvas(width, height, `Bytes alive over ${plural(life.events, "event")}`);
  for (const tick of sizeTicks(life.lowest, top)) {
    svg.append(shape("path", { d: `M${box.left} ${y(tick)}H${box.right}`, class: "grid" }));
    svg.append(label(box.left - 8, y(tick) + 4, rounded(tick), "tick", "end"));
  }
  for (const tick of countTicks(life.events, narrow ? 4 : 10)) {
    svg.append(label(x(tick), box.bottom + 17, grouped(tick), "tick", "middle"));
  }
  svg.append(label(4, 14, "bytes alive", "title"));
  const axis = narrow ? "event, in order" : "event: memory is taken or freed, in order";
  svg.append(label(box.right, height - 6, axis, "title", "end"));

  const layers = shape("g", { class: life.spans.length > 60 ? "layers dense" : "layers" });
  const words = shape("g", { class: "words", "aria-hidden": "true" });
  const marks = life.spans.map((span) => {
    const mark = shape("path", { d: outline(life, span, x, y), class: `layer hue${span.hue}` });
    mark.dataset.group = life.groups.findIndex((group) => group.spans.includes(span));
    telling(mark, (event) => lifeLines(life, span, event && eventAt(event, svg, life, box, width)));
    layers.append(mark);
    const word = wordIn(life, span, x, y);
    if (word) words.append(word);
    return mark;
  });
  if (marks.length) oneStop(marks, marks[0]);
  const at = x((life.times[life.peak] + (life.times[life.peak + 1] ?? life.events)) / 2);
  const stem = shape("path", { d: `M${at} ${box.bottom}V${y(highest) - 6}`, class: "stem" });
  svg.append(layers, stem, words);
  if (life.lowest < 0) svg.append(...groundLines(life, x, y, box));

  if (limit !== null) budgetLine(svg, row, limit, fits, box, y);
  const side = at > (box.left + box.right) / 2 ? "end" : "start";
  const peak = shape("g", { class: "peak", "aria-hidden": "true" });
  peak.append(shape("circle", { cx: at, cy: y(highest), r: 4 }));
  const said = `peak ${sized(highest)}`;
  peak.append(label(at + (side === "end" ? -8 : 8), y(highest) - 9, said, "", side));
  svg.append(peak);
  return svg;
}

/** Returns the lines at zero and under the layers; freeing an older tensor lowers the latter. */
function groundLines(life, x, y, box) {
  const steps = [...life.ground.slice(0, -1)].map(
    (bytes, at) => `${at ? "V" : `M${px(x(life.times[at]))} `}${px(y(bytes))}H${px(x(life.times[at + 1]))}`,
  );
  return [
    shape("path", { d: `M${box.left} ${y(0)}H${box.right}`, class: "zero" }),
    shape("path", { d: steps.join(""), class: "ground" }),
  ];
}

/** Draws a line at the budget, or a note at the edge if the budget is far above all layers. */
function budgetLine(svg, row, limit, fits, box, y) {
  const what = row.metric === "peak" ? "budget" : `budget (${row.metric})`;
  if (!fits) {
    const text = `${what} ${sized(limit)} is above this scale ↑`;
    svg.append(label(box.right, 14, text, "budget-word", "end"));
    return;
  }
  svg.append(shape("path", { d: `M${box.left} ${y(limit)}H${box.right}`, class: "budget-line" }));
  const below = y(limit) < box.top + 24;
  svg.append(
    label(box.right - 4, y(limit) + (below ? 15 : -6), `${what} ${sized(limit)}`, "budget-word", "end"),
  );
}

/** Returns the outline: along the floor to the right, back along the ceiling. */
function outline(life, span, x, y) {
  const steps = [];
  for (let at = 0; at < span.floor.length; at++) {
    if (at && span.floor[at] === span.floor[at - 1]) continue;
    steps.push([x(life.times[span.from + at]), span.floor[at]]);
  }
  const end = x(life.times[span.to]);
  const there = steps.map(([from, bytes], i) => `${i ? "L" : "M"}${px(from)} ${px(y(bytes))}H${px(steps[i + 1]?.[0] ?? end)}`);
  const back = steps.reverse().map(([from, bytes]) => `V${px(y(bytes + span.size))}H${px(from)}`);
  return `${there.join("")}${back.join("")}Z`;
}

/** Writes the name of a layer on it, if there is room. */
function wordIn(life, span, x, y) {
  let best = [0, 0, 0];
  for (let at = 0, start = 0; at < span.floor.length; at++) {
    if (span.floor[at] !== span.floor[start]) start = at;
    const from = x(life.times[span.from + start]);
    const width = x(life.times[span.from + at + 1]) - from;
    if (width > best[0]) best = [width, from, span.floor[start]];
  }
  const [width, from, floor] = best;
  if (y(floor) - y(floor + span.size) < 15) return null;
  const texts = [`${span.op} ${span.shape}`, span.op].map((text) => text.trim());
  const text = texts.find((text) => text && text.length * 6.8 + 10 < width);
  return text && label(from + width / 2, y(floor + span.size / 2) + 4, text, `word hue${span.hue}`, "middle");
}

function eventAt(pointer, svg, life, box, width) {
  const frame = svg.getBoundingClientRect();
  const at = ((pointer.clientX - frame.left) * width) / frame.width - box.left;
  const event = Math.floor((at / (box.right - box.left)) * life.events);
  return Math.max(0, Math.min(life.events - 1, event));
}

/** Returns the tooltip of a layer. */
function lifeLines(life, span, event) {
  const there = span.from <= life.peak && life.peak < span.to;
  const share = there ? percent(span.size / life.level[life.peak]) : "";
  let place = -1;
  if (event !== undefined) place = life.times.findLastIndex((time) => time <= event);
  return [
    `${span.op || "a block"} · ${sized(span.bytes)}`,
    [span.shape, span.dtype].filter(Boolean).join(" "),
    span.meaning,
    exact(span.bytes),
    madeAt(span),
    span.module,
    `alive from event ${span.allocated} to ${span.stays ? "the end" : span.end}`,
    there ? `${share}% of the peak` : "not alive at the peak",
    place >= 0 && `at event ${event}: ${sized(life.level[place])} alive in all`,
  ];
}

function legend(life, made) {
  const list = make("ul", "legend");
  const shown = life.groups.filter((group) => group.hue || !group.known);
  for (const group of shown) {
    const swatch = make("span", `swatch hue${group.hue}`);
    const count = group.known && group.count > 1 ? ` ×${group.count}` : "";
    const size = group.atPeak ? `${sized(group.atPeak)} at the peak` : `${sized(group.largest)}, not at the peak`;
    const what = make("div", "", "", make("b", "", (group.op || "a block") + count), ` ${size}`);
    const place = make("div", "place", madeAt(group));
    place.title = place.textContent;
    what.append(place);
    const item = make("li", "", "", swatch, what);
    item.addEventListener("pointerenter", () => {
      made.classList.add("picking");
      for (const mark of made.querySelectorAll(".layer")) {
        mark.classList.toggle("picked", mark.dataset.group === String(life.groups.indexOf(group)));
      }
    });
    item.addEventListener("pointerleave", () => made.classList.remove("picking"));
    list.append(item);
  }
  if (life.lowest < 0) {
    const what = make("div", "", "", make("b", "", "from before"), ` ${sized(-life.lowest)} freed: the ground sinks by it`);
    list.append(make("li", "", "", make("span", "swatch ground"), what));
  }
  const more = life.groups.length - shown.length;
  if (more) list.append(make("li", "", "", make("span", "swatch hue0"), make("div", "", `${plural(more, "other line")} of code`)));
  return list;
}

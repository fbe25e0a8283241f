"use strict";

/* The growth of a peak with a size: points, the curve through them, and the curve of the budget. */

function growthFigure(chart, row) {
  const title = `${row.metric[0].toUpperCase()}${row.metric.slice(1)} over ${chart.symbol}`;
  const made = figure("growth", title, (width) => drawGrowth(chart, row, width));
  const said = make("p", "note", chart.formula ? "" : "No polynomial was found through these points; ");
  if (chart.formula) said.append(make("code", "", `${row.metric} = ${chart.formula}`), " B, ");
  said.append(`${plural(chart.points.length, "size")}, ${chart.note}.`);
  made.append(make("div", "beside", "", said, pointTable(chart, row)));
  return made;
}

function numbers(points) {
  return points.map(([size, bytes]) => [Number(size), Number(bytes)]).filter(([size, bytes]) => size > 0 && bytes > 0);
}

function drawGrowth(chart, row, width) {
  const height = Math.min(320, Math.max(240, width * 0.62));
  const box = { left: 66, right: width - 16, top: 40, bottom: height - 46 };
  const points = numbers(chart.points);
  const svg = canvas(width, height, `${row.metric} over ${chart.symbol}, both on logarithmic scales`);
  svg.append(label(4, 14, `${row.metric}, log`, "title"));
  if (!points.length) {
    svg.append(label(width / 2, height / 2, "nothing above 0 B was measured", "title", "middle"));
    return svg;
  }
  const fit = numbers(chart.fit);
  const last = points.at(-1)[0];
  const budget = numbers(chart.budget);
  const guide = guideline(chart, points, fit.at(-1)?.[0] ?? last);
  const all = [...points, ...fit, ...budget, ...guide];
  const [x, xs] = logScale(all.map((point) => point[0]), box.left + 8, box.right - 8);
  const [y, ys] = logScale(all.map((point) => point[1]), box.bottom - 8, box.top + 4);

  for (const tick of powerTicks(...ys, 6)) {
    svg.append(shape("path", { d: `M${box.left} ${px(y(tick))}H${box.right}`, class: "grid" }));
    svg.append(label(box.left - 8, y(tick) + 4, rounded(tick), "tick", "end"));
  }
  for (const tick of powerTicks(...xs, width / 64)) {
    svg.append(shape("path", { d: `M${px(x(tick))} ${box.top}V${box.bottom}`, class: "grid" }));
    svg.append(label(x(tick), box.bottom + 17, short(tick), "tick", "middle"));
  }
  svg.append(label(box.right, height - 6, `${chart.symbol}, log`, "title", "end"));
  if (fit.length && fit.at(-1)[0] > last) {
    const from = px(x(last));
    svg.append(shape("rect", { x: from, y: box.top, width: px(box.right - from), height: box.bottom - box.top, class: "beyond" }));
    svg.append(label(from + 6, box.bottom - 6, "beyond what was measured", "tick"));
  }
  const joined = fit.length ? fit : points;
  svg.append(curve(budget, x, y, "budget-line"), curve(guide, x, y, "budget-line"));
  svg.append(curve(joined.filter(([size]) => size <= last), x, y, "fit"));
  svg.append(curve(joined.filter(([size]) => size >= last), x, y, "fit extrapolated"));
  const held = budget.length ? ["budget", budget] : [`as ${row.budget}`, guide];
  endWords(svg, [[fit.length ? "fit" : "", fit, "fit-word"], [...held, "budget-word"]], x, y, box);
  const marks = points.map(([size, bytes], index) => {
    const mark = shape("circle", { cx: px(x(size)), cy: px(y(bytes)), r: 5, class: "point" });
    const [, measured] = chart.points[index];
    telling(mark, () => [`${chart.symbol} = ${grouped(size)}`, sized(measured), exact(measured)]);
    return mark;
  });
  oneStop(marks, marks[0]);
  svg.append(...marks);
  return svg;
}

/** Returns the curve that the contract allows, from the first point on. */
function guideline(chart, points, last) {
  if (chart.contract === null) return [];
  const [size, bytes] = points[0];
  return [[size, bytes], [last, bytes * (last / size) ** chart.contract]];
}

/** Returns a function from a value to its position, with its range. */
function logScale(values, from, to) {
  const low = Math.min(...values);
  const high = Math.max(...values, low * 2);
  const place = (value) => from + ((to - from) * Math.log2(value / low)) / Math.log2(high / low);
  return [place, [low, high]];
}

function curve(points, x, y, className) {
  const steps = points.map(([size, bytes], index) => `${index ? "L" : "M"}${px(x(size))} ${px(y(bytes))}`);
  return shape("path", { d: steps.join(""), class: `curve ${className}` });
}

/** Writes the names of the curves at their right ends, without overlap. */
function endWords(svg, named, x, y, box) {
  const ends = named.filter(([name, points]) => name && points.length).map(([name, points, className]) => {
    const [size, bytes] = points.at(-1);
    return { name, className, x: Math.min(x(size), box.right - 4), y: y(bytes) };
  });
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, index) => {
    const above = index === 0;
    const y_ = above ? Math.max(end.y - 10, box.top - 8) : Math.max(end.y + 18, ends[0].y + 18);
    svg.append(label(end.x, y_, end.name, end.className, "end"));
  });
}

/** Returns 1024, 4096, 16Ki: most lengths are powers of two. */
function short(size) {
  if (size < 10000) return String(size);
  const unit = size >= 2 ** 20 ? 2 : 1;
  return `${Math.round(size / 1024 ** unit)}${["", "Ki", "Mi"][unit]}`;
}

/** Returns the table of the chart's numbers. */
function pointTable(chart, row) {
  const table = make("table", "points");
  const limits = new Map(chart.budget.map(([size, bytes]) => [String(size), bytes]));
  const head = make("tr");
  for (const name of [chart.symbol, row.metric, limits.size ? "budget" : ""]) {
    if (name) head.append(make("th", "", name));
  }
  table.append(make("thead", "", "", head));
  const body = make("tbody");
  for (const [size, bytes] of chart.points) {
    const line = make("tr", "", "", make("td", "", grouped(size)), make("td", "", exact(bytes)));
    const limit = limits.get(String(size));
    if (limits.size) line.append(make("td", "", limit === undefined ? "" : exact(limit)));
    body.append(line);
  }
  table.append(body);
  const made = make("details", "", "", make("summary", "", "The points as a table"), table);
  made.open = innerWidth >= 1000;
  return made;
}

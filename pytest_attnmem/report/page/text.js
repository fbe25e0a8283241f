"use strict";

/* Elements and sizes. The tests' texts are inserted as text, never as markup. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Returns an element with a class, text and children. */
function make(tag, className = "", text = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  made.append(...children.filter(Boolean));
  return made;
}

/** Returns a name that wraps between its parts first. */
function breakable(name) {
  return name.split(/(?<=[:/_[,])(?!:)/).flatMap((part) => [part, make("wbr")]);
}

/** Returns the largest unit in which a size, rounded to a tenth, is 1.0 or more. */
function unitOf(size) {
  const bytes = Math.abs(Number(size));
  if (bytes < 1024) return "B";
  return UNITS.slice(1, -1).find((unit) => Math.round((bytes / factor(unit)) * 10) < 10240) ?? "TiB";
}

function factor(unit) {
  return 1024 ** UNITS.indexOf(unit);
}

/** Returns a size in one unit, for a column: 76.5, or <0.1 if it would read 0.0. */
function inUnit(size, unit) {
  if (unit === "B") return grouped(size);
  const shown = (Math.abs(Number(size)) / factor(unit)).toFixed(1);
  if (shown === "0.0" && Number(size) !== 0) return "<0.1";
  return (Number(size) < 0 ? "-" : "") + grouped(shown);
}

/** Returns a text such as 76.5 MiB. */
function sized(size) {
  const unit = unitOf(size);
  return `${inUnit(size, unit)} ${unit}`;
}

/** Returns 80,216,064 B; digits that a number cannot hold come as text. */
function exact(size) {
  return `${grouped(size)} B`;
}

/** Returns the label of an axis: 64 MiB, 1.5 GiB. */
function rounded(size) {
  return sized(size).replace(/\.0 /, " ");
}

/** Returns a size with its sign: +4.0 MiB. */
function signed(size) {
  return (Number(size) > 0 ? "+" : "") + sized(size).replace("-", "−");
}

/** Returns the exact difference of two sizes, as digits. */
function difference(size, from) {
  return String(BigInt(size) - BigInt(from));
}

function grouped(number) {
  return String(number).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ",");
}

function plural(count, one, many = `${one}s`) {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

function percent(share) {
  if (share === null) return "";
  if (share > 9.99) return ">999";
  const shown = (share * 100).toFixed(1);
  return shown === "100.0" && share > 1 ? ">100" : shown;
}

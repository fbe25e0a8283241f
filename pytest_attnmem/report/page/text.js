"use strict";

/* Elements and sizes. Text goes in as text and never as markup: it is the tests' own. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** An element with a class and text, and whatever else it holds. */
function make(tag, className = "", text = "", ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  made.append(...children.filter(Boolean));
  return made;
}

/** A name that is broken at its parts before it is broken anywhere. */
function breakable(name) {
  return name.split(/(?<=[:/_[,])(?!:)/).flatMap((part) => [part, make("wbr")]);
}

/** The largest unit in which a size, rounded to a tenth, reads 1.0 or more. */
function unitOf(size) {
  const bytes = Math.abs(Number(size));
  if (bytes < 1024) return "B";
  return UNITS.slice(1, -1).find((unit) => Math.round((bytes / factor(unit)) * 10) < 10240) ?? "TiB";
}

function factor(unit) {
  return 1024 ** UNITS.indexOf(unit);
}

/** A size as a number of one unit, for a column: 76.5, or <0.1 where it would read as nothing. */
function inUnit(size, unit) {
  if (unit === "B") return grouped(size);
  const shown = (Math.abs(Number(size)) / factor(unit)).toFixed(1);
  if (shown === "0.0" && Number(size) !== 0) return "<0.1";
  return (Number(size) < 0 ? "-" : "") + grouped(shown);
}

/** 76.5 MiB */
function sized(size) {
  const unit = unitOf(size);
  return `${inUnit(size, unit)} ${unit}`;
}

/** 80,216,064 B: of digits that are too many for a number too, which come as text. */
function exact(size) {
  return `${grouped(size)} B`;
}

/** On an axis: 64 MiB, and 1.5 GiB. */
function rounded(size) {
  return sized(size).replace(/\.0 /, " ");
}

/** With its sign: +4.0 MiB. */
function signed(size) {
  return (Number(size) > 0 ? "+" : "") + sized(size).replace("-", "−");
}

/** The difference of two sizes, exactly, as digits. */
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

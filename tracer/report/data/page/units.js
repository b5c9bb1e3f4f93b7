// Numbers and elements for people: joules, watts, seconds, percents; and small helpers that make elements.
// Text from the recording goes through `textContent` alone. Leaves out what is shown where.

/** What amounts are of: joules, or seconds of CPU time where no energy was measured. */
const amount = { unit: "J" };

/** Microjoules (or microseconds) with three digits and the unit that they need. */
function joules(uj) {
  const size = Math.abs(uj);
  if (size >= 1e10) return `${digits(uj / 1e9)} k${amount.unit}`;
  if (size >= 1e6) return `${digits(uj / 1e6)} ${amount.unit}`;
  if (size >= 1e3) return `${digits(uj / 1e3)} m${amount.unit}`;
  return `${Math.round(uj)} µ${amount.unit}`;
}

/** Three digits. */
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2);
}

/** Watts, from microjoules and nanoseconds. */
function watts(uj, ns) {
  return ns > 0 ? `${digits((uj / ns) * 1e3)} W` : "–";
}

/** A part of a whole in percent; nothing where there is no whole. */
function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "–";
}

/** Seconds without zeros at the end, exact to a microsecond. */
function seconds(ns) {
  return String(Number((ns / 1e9).toFixed(6)));
}

/** One unit for a whole column, so that numbers can be compared at a glance. */
function columnUnit(largest) {
  const [prefix, scale] = largest >= 1e6 ? ["", 1e6] : largest >= 1e3 ? ["m", 1e3] : ["µ", 1];
  const places = scale === 1 ? 0 : Math.max(0, 3 - Math.floor(Math.log10(Math.max(largest / scale, 1))));
  return { unit: prefix + amount.unit, show: (uj) => (uj / scale).toFixed(places) };
}

/** An element with attributes and children; strings become text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The same for SVG. */
function draw(name, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** The element of this id. */
function byId(id) {
  return document.getElementById(id);
}

// Temperatures and clocks over time, below the power: a line for each, and marks where something slowed a part down. Leaves out the
// range, which is chosen as in the other charts.

const SLOWED = { heat: "too warm", power: "at its limit of power", unknown: "slowed down by its hardware" };

/** One chart for each unit that there are gauges of. */
function makeGaugeCharts(model) {
  const charts = [["°C", "temperature", "°C", 1], ["MHz", "clock", "GHz", 1000]];
  return charts.flatMap(([given, title, unit, divisor]) => {
    const gauges = model.gauges.filter((gauge) => gauge.unit === given).slice(0, 6).map((gauge) => inUnit(gauge, divisor));
    if (gauges.length === 0) return [];
    const svg = makeSvg(title[0].toUpperCase() + title.slice(1));
    return [{ svg, fill: (frame) => drawGauges(model, { title, unit, gauges }, frame) }];
  });
}

function inUnit(gauge, divisor) {
  const divided = (value) => (value === null ? null : value / divisor);
  return { ...gauge, values: gauge.values.map(divided), limit: divided(gauge.limit) };
}

function drawGauges(model, { title, unit, gauges }, { svg, x, width }) {
  const known = gauges.flatMap((gauge) => gauge.values.filter((value) => value !== null));
  const [low, high] = gaugeRange(unit, known);
  const y = (value) => CHART.top + CHART.height * (1 - (value - low) / (high - low));
  drawScale(svg, [low, (low + high) / 2, high], unit, y, width);
  const name = draw("text", { class: "name", x: CHART.left, y: 11 }, title);
  svg.append(name);
  drawKeys(svg, gauges, unit, CHART.left + name.getComputedTextLength() + 14, width);
  gauges.forEach((gauge, at) => {
    if (gauge.limit !== null && gauge.limit <= high) {
      svg.append(draw("line", { class: `gauge gauge${at} limit`, x1: CHART.left, x2: width - CHART.right, y1: y(gauge.limit), y2: y(gauge.limit) }));
    }
    svg.append(draw("path", { class: `gauge gauge${at}`, d: gaugePath(gauge.values, x, y) }));
  });
  model.slowed.forEach((slowed) => drawSlowed(svg, slowed, x));
}

/** From where to where: clocks begin at zero, temperatures at the ten degrees below the coolest. */
function gaugeRange(unit, known) {
  const [least, most] = [Math.min(...known), Math.max(...known)];
  if (unit === "GHz") return [0, niceTop(most)];
  const low = Math.floor(least / 10) * 10;
  return [low, Math.max(low + 20, Math.ceil(most / 10 + 0.01) * 10)];
}

/** A step a bin, with a gap where nothing is known. */
function gaugePath(values, x, y) {
  let isDrawing = false;
  return values
    .map((value, bin) => {
      const move = isDrawing ? "L" : "M";
      isDrawing = value !== null;
      return value === null ? "" : `${move}${x(bin).toFixed(1)} ${y(value).toFixed(1)}L${x(bin + 1).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join("");
}

/** Which line is which, and what its limits were. */
function drawKeys(svg, gauges, unit, from, width) {
  let place = from;
  gauges.forEach((gauge, at) => {
    const known = gauge.values.filter((value) => value !== null);
    const limit = gauge.limit === null ? "" : `, slows down at ${Math.round(gauge.limit)}`;
    const [least, most] = [Math.min(...known), Math.max(...known)].map((value) => value.toFixed(unit === "GHz" ? 2 : 0));
    const text = `${gauge.name} ${least === most ? least : `${least} to ${most}`} ${unit}${limit}`;
    const label = draw("text", { x: place + 18, y: 11 }, text);
    svg.append(draw("line", { class: `gauge gauge${at}`, x1: place, x2: place + 13, y1: 7, y2: 7 }), label);
    label.append(draw("title", {}, gauge.place));
    place += label.getComputedTextLength() + 34;
    if (place > width) label.remove();
  });
}

/** A bar above the lines for each stretch in which a part was slowed down. */
function drawSlowed(svg, { part, by, bins }, x) {
  let first = 0;
  bins.forEach((bin, at) => {
    if (bins[at + 1] === bin + 1) return;
    const [from, to] = [x(bins[first]), x(bin + 1)];
    const bar = draw("rect", { class: `slowed ${by}`, x: from, width: Math.max(2, to - from), y: CHART.top - 3, height: 4 });
    bar.append(draw("title", {}, `${part}: ${SLOWED[by]}`));
    svg.append(bar);
    first = at + 1;
  });
}

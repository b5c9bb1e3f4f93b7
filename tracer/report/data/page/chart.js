// Power over time, a chart for each domain, and the range that is chosen in them: by pointer, or by the keyboard. Leaves out
// what is done with the range.

const CHART = { left: 52, right: 8, height: 92, top: 16, bottom: 4, axis: 18, most: 10 };
/** From the bottom up. What nobody was charged with is drawn where it is above zero. */
const PARTS = [
  ["program", "this program", (domain, bin) => domain.target[bin]],
  ["other", "other programs", (domain, bin) => domain.other[bin]],
  ["nobody", "charged to nobody", (domain, bin) => nobodys(domain, bin)],
  ["idle", "idle", (domain, bin) => domain.idle[bin]],
];

function nobodys(domain, bin) {
  const reasons = Object.values(domain.unattributed).reduce((all, list) => all + list[bin], 0);
  return domain.uncore[bin] + domain.residual[bin] + reasons;
}

/** Makes the charts; `choose(from, to)` is called with bins. */
function makeCharts(model, choose) {
  const place = byId("charts");
  const domains = model.domains.length ? model.domains : [busyCpus(model)];
  if (!model.domains.length) byId("power-title").textContent = "Busy CPUs over time";
  const shown = domains.filter((domain) => domain.class !== "core").slice(0, CHART.most);
  const charts = shown.map((domain) => ({ svg: makeChart(domain), fill: (frame) => drawPower(model, domain, frame) }));
  charts.push(...makePhaseTrack(model), ...makeRangeTrack(model), ...makeWorkCharts(model), ...makeGaugeCharts(model));
  charts.forEach(({ svg, below }) => place.append(svg, ...(below ? [below] : [])));
  charts.forEach(({ svg }) => listen(svg, model, choose));
  charts.forEach((chart) => chart.listen?.(choose));
  const isLast = (chart) => chart === charts[charts.length - 1];
  return {
    draw: (range) => charts.forEach((chart) => drawChart(model, chart, range, place.clientWidth, isLast(chart))),
    choice: (range) => charts.forEach((chart) => drawChoice(model, chart.svg, range)),
  };
}

function makeChart(domain) {
  return makeSvg(domain.class === "time" ? "Busy CPUs" : `Power of ${domain.name}`);
}

function makeSvg(what, more = "") {
  const label = `${what} over time. Arrow keys move the range, with shift its end; Escape: whole run. ${more}`.trim();
  return draw("svg", { class: "chart", tabindex: 0, role: "application", "aria-label": label });
}

/** Watts of each part in each bin, as far as the counter was read there. */
function powers(domain, count) {
  const of = (part) => (bin) => {
    const ns = domain.covered_ns[bin];
    return ns > 0 ? Math.max(0, (part(domain, bin) / ns) * 1e3) : 0;
  };
  return PARTS.map(([, , part]) => Array.from({ length: count }, (_, bin) => of(part)(bin)));
}

function drawChart(model, { svg, fill, height: inside = CHART.height }, range, width, isLast) {
  const height = CHART.top + inside + CHART.bottom + (isLast ? CHART.axis : 0);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  svg.replaceChildren();
  const inner = width - CHART.left - CHART.right;
  const x = (bin) => CHART.left + inner * Math.min(1, (bin * model.bins.width_ns) / Math.max(model.bins.length_ns, 1));
  fill({ svg, x, width });
  if (isLast) drawAxis(svg, model, x, CHART.top + inside);
  svg.append(draw("rect", { class: "choice", y: CHART.top, height: inside, width: 0 }));
  svg.dataset.inner = inner;
  drawChoice(model, svg, range);
}

/** The power of a domain. */
function drawPower(model, domain, { svg, x, width }) {
  const series = powers(domain, model.bins.count);
  const most = niceTop(Math.max(...series[0].map((_, bin) => series.reduce((all, part) => all + part[bin], 0))));
  const y = (value) => CHART.top + CHART.height * (1 - value / most);
  const quality = domain.quality === "estimated" ? " (estimated)" : "";
  drawScale(svg, [0, most / 2, most], domain.unit ?? "W", y, width);
  svg.append(draw("text", { class: "name", x: CHART.left, y: 11 }, domain.name + quality));
  drawAreas(svg, series, x, y);
}

/** The areas, one upon the other, with a step a bin. */
function drawAreas(svg, series, x, y) {
  const floor = series[0].map(() => 0);
  series.forEach((part, at) => {
    const ceiling = part.map((value, bin) => floor[bin] + value);
    const over = ceiling.map((value, bin) => `L${x(bin).toFixed(1)} ${y(value).toFixed(1)}L${x(bin + 1).toFixed(1)} ${y(value).toFixed(1)}`);
    const under = floor.map((value, bin) => `L${x(bin + 1).toFixed(1)} ${y(value).toFixed(1)}L${x(bin).toFixed(1)} ${y(value).toFixed(1)}`);
    const path = `M${x(0)} ${y(0)}${over.join("")}${under.reverse().join("")}Z`;
    if (part.some((value) => value > 0)) svg.append(draw("path", { d: path, class: PARTS[at][0] }));
    ceiling.forEach((value, bin) => (floor[bin] = value));
  });
}

function drawScale(svg, values, unit, y, width) {
  for (const value of values) {
    svg.append(draw("line", { class: "grid", x1: CHART.left, x2: width - CHART.right, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: CHART.left - 6, y: y(value) + 4, "text-anchor": "end" }, `${Number(value.toPrecision(3))} ${unit}`));
  }
}

function drawAxis(svg, model, x, bottom) {
  const length = model.bins.length_ns / 1e9;
  const step = niceTop(length / 8, [1, 2, 5, 10]);
  for (let at = 0; at <= length * 1.0001; at += step) {
    const place = x((at * 1e9) / model.bins.width_ns);
    const anchor = at === 0 ? "start" : at + step / 2 > length ? "end" : "middle";
    svg.append(draw("text", { x: place, y: bottom + 15, "text-anchor": anchor }, `${Number(at.toPrecision(6))} s`));
  }
}

/** The next of some round numbers times a power of ten. */
function niceTop(value, round = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return round.map((factor) => factor * power).find((top) => top >= value * 0.9999);
}

function drawChoice(model, svg, { from, to }) {
  const rectangle = svg.querySelector(".choice");
  const inner = Number(svg.dataset.inner);
  const x = (bin) => CHART.left + inner * Math.min(1, (bin * model.bins.width_ns) / Math.max(model.bins.length_ns, 1));
  const isPart = from > 0 || to < model.bins.count;
  rectangle.setAttribute("x", x(from));
  rectangle.setAttribute("width", isPart ? Math.max(1, x(to) - x(from)) : 0);
}

function listen(svg, model, choose) {
  let start = null;
  const binAt = (event) => {
    const part = (event.clientX - svg.getBoundingClientRect().left - CHART.left) / Number(svg.dataset.inner);
    const bin = Math.floor((part * model.bins.length_ns) / model.bins.width_ns);
    return Math.min(model.bins.count - 1, Math.max(0, bin));
  };
  const reach = (event) => {
    const bin = binAt(event);
    choose(Math.min(start, bin), Math.max(start, bin) + 1);
  };
  svg.addEventListener("pointerdown", (event) => {
    start = binAt(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => start !== null && reach(event));
  svg.addEventListener("pointerup", () => (start = null));
  svg.addEventListener("pointercancel", () => (start = null));
  svg.addEventListener("dblclick", () => choose(0, model.bins.count));
  svg.addEventListener("keydown", (event) => {
    const range = moved(event);
    if (range) choose(...range);
  });
  /** Where a key takes the range. */
  const moved = (event) => {
    const { from, to } = choose.range();
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") return [0, model.bins.count];
    if (step === undefined) return null;
    event.preventDefault();
    if (from === 0 && to === model.bins.count) return step > 0 ? [0, 1] : [to - 1, to];
    if (event.shiftKey) return [from, Math.min(model.bins.count, Math.max(from + 1, to + step))];
    const by = Math.max(-from, Math.min(step, model.bins.count - to));
    return [from + by, to + by];
  };
}

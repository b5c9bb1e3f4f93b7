// Joules per unit of work over time, below the power: a chart for each unit. Leaves out the range, which is
// chosen as in the other charts.

function makeWorkCharts(model) {
  return model.work.map((work, at) => {
    const more = at + 1 === model.work.length ? model.more_work : 0;
    return { svg: makeSvg(`Joules per ${work.name}`), fill: (frame) => drawWork({ ...work, more }, frame) };
  });
}

function drawWork({ name, is_estimated, values, more }, { svg, x, width }) {
  const known = values.filter((value) => value !== null);
  const { unit, scale } = unitOf(Math.max(...known));
  const inUnit = (value) => (value === null ? null : value / scale);
  const most = niceTop(Math.max(...known) / scale);
  const y = (value) => CHART.top + CHART.height * (1 - value / most);
  drawScale(svg, [0, most / 2, most], unit, y, width);
  const [least, largest] = [Math.min(...known), Math.max(...known)].map((value) => joules(value));
  const range = least === largest ? least : `${least} to ${largest}`;
  const words = `${range} per ${name}${is_estimated ? " (estimated)" : ""}${more ? `; ${more} more in the JSON report` : ""}`;
  svg.append(draw("text", { class: "name", x: CHART.left, y: 11 }, words), draw("path", { class: "gauge gauge0", d: gaugePath(values.map(inUnit), x, y) }));
}

/** The unit in which so many microjoules have few digits. */
function unitOf(uj) {
  const [unit, scale] = uj >= 1e6 ? ["J", 1e6] : uj >= 1e3 ? ["mJ", 1e3] : ["µJ", 1];
  return { unit, scale };
}

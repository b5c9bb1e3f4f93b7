// Phases over time, below the power: a bar for each stretch, a colour for each phase. They were found from what ran; no program marked them.
// Leaves out how they are found, and how bars are drawn and picked (ranges.js).

const SHADES = ["#9ecbe8", "#f2c879", "#a6d9b8", "#e5b5d3", "#d8d68b", "#c5cbd2"];

/** The chart, where there are several phases. */
function makePhaseTrack(model) {
  if (model.phases.length < 2) return [];
  const used = usedByAll(model);
  const bars = model.phases.flatMap((phase, at) => phase.bins.map((bins) => phaseBar(used, phase, bins, SHADES[at % SHADES.length])));
  const order = bars.sort((a, b) => a.from - b.from);
  const amounts = model.phases.slice(0, SHADES.length).map(({ name, energy }) => (model.classes.length ? `${name}: ${joules(energy)}` : name));
  const more = model.phases.length > SHADES.length ? `, and ${model.phases.length - SHADES.length} more` : "";
  const about = `${amounts.join(", ")}${more}. Found from what ran, to ${seconds(model.phase_step_ns)} s; the program marked none of them.`;
  return [makeTrack({ model, what: "Phases, found, not marked", kind: "phase-bar", bars: order, lanes: [[]], heights: [TRACK.lane], about })];
}

/** What the program used in each bin. */
function usedByAll(model) {
  const used = { energy: new Float64Array(model.bins.count), time: new Float64Array(model.bins.count) };
  const lists = chosenClasses(model, "total").map((at) => model.energy[at]);
  model.bin.forEach((bin, at) => {
    used.time[bin] += model.time[at];
    for (const list of lists) used.energy[bin] += list[at];
  });
  return used;
}

function phaseBar(used, { name, told_by }, [from, to], shade) {
  const sum = (list) => list.slice(from, to).reduce((all, one) => all + one, 0);
  const [energy, time] = [used.energy, used.time].map(sum);
  const label = energy > 0 ? `${name}, ${joules(energy)}` : name;
  return { path: name, name: label, more: told_by, shade, lane: 0, from, parts: Array.from({ length: to - from }, () => [0, 1]), energy, time };
}

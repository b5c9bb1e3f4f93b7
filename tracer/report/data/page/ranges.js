// Ranges that the program marks, over time, below the power: a lane for each level, in it a bar for each stretch in which samples show a range,
// as high as the range's part of what the program used. A lane is higher where several lie upon one another, so that each has its name. Leaves out the part of the run that is chosen, which is done as in the other charts.

const TRACK = { lane: 18, levels: 6, times: 3, part: 0.2, name: 10, apart: 40, bars: 2000, outside: "[outside of ranges]", within: " > " };

/** The chart, where there are ranges. */
function makeRangeTrack(model) {
  const view = model.views.find((found) => found.by === "range");
  const lanes = view ? lanesOf(model, view) : [];
  if (lanes.length === 0) return [];
  const shown = { model, lanes: lanes.slice(0, TRACK.levels) };
  const bars = barsOf(shown);
  const about = aboutRanges(model, lanes.length - TRACK.levels, bars.slice(TRACK.bars));
  return [makeTrack({ ...shown, what: "Ranges", kind: "range-bar", bars: bars.slice(0, TRACK.bars), heights: heightsOf(shown, bars), about })];
}

/** A chart of bars in lanes, and below it what is known of them all, or of one. */
function makeTrack(track) {
  const svg = makeSvg(track.what, "Up and down go from bar to bar, Enter chooses its time.");
  const below = make("p", { class: "quiet", "aria-live": "polite" });
  Object.assign(track, { svg, below });
  pick(track, null);
  return { svg, below, height: track.heights.reduce((all, height) => all + height, 0), fill: (frame) => drawTrack(track, frame), listen: (choose) => listenTrack(track, choose) };
}

/** Of each level the ranges with the most energy, and the others together; without what each used. */
function lanesOf(model, view) {
  const { above, label } = view.tree;
  const { energy, time } = sumRows(model, { from: 0, to: model.bins.count, choice: "total" });
  const [most, longest] = [energy, time].map((values) => sumTree(view.tree, view.nodes, values).total);
  const level = new Uint32Array(above.length);
  const lanes = [];
  for (let node = 1; node < above.length; node++) {
    level[node] = level[above[node]] + 1;
    if (view.names[label[node]] !== TRACK.outside) (lanes[level[node] - 1] ??= []).push(node);
  }
  const byEnergy = (a, b) => most[b] - most[a] || longest[b] - longest[a] || a - b;
  return lanes.map((nodes) => {
    const sorted = nodes.sort(byEnergy);
    const items = sorted.slice(0, TRACK.apart).map((node) => ({ nodes: [node], ...namesOf(view, node) }));
    const rest = sorted.slice(TRACK.apart);
    const text = `${rest.length} more ranges`;
    return rest.length ? [...items, { nodes: rest, name: text, path: text }] : items;
  });
}

/** A range's own name, and that with those around it. */
function namesOf(view, node) {
  const path = view.names[view.tree.label[node]];
  const around = `${view.names[view.tree.label[view.tree.above[node]]] ?? ""}${TRACK.within}`;
  return { path, name: view.tree.above[node] && path.startsWith(around) ? path.slice(around.length) : path };
}

/** What the ranges of lanes used in each bin, and the whole program. */
function usedInBins({ model, lanes }) {
  const view = model.views.find((found) => found.by === "range");
  const empty = () => ({ energy: new Float64Array(model.bins.count), time: new Float64Array(model.bins.count) });
  const of = new Map();
  const all = lanes.map((items) => items.map(({ nodes }) => {
    const used = empty();
    nodes.forEach((node) => of.set(node, used));
    return used;
  }));
  const whole = empty();
  const lists = chosenClasses(model, "total").map((at) => model.energy[at]);
  view.nodes.forEach((node, row) => {
    const takers = [whole];
    for (let at = node; at !== 0; at = view.tree.above[at]) if (of.has(at)) takers.push(of.get(at));
    for (let at = model.firsts[row]; at < model.firsts[row + 1]; at++) {
      for (const taker of takers) {
        taker.time[model.bin[at]] += model.time[at];
        for (const list of lists) taker.energy[model.bin[at]] += list[at];
      }
    }
  });
  return { whole, all };
}

/** A bar for each stretch, those with the most energy first; a lane's ranges lie upon one another where several are in one bin. */
function barsOf(track) {
  const { whole, all } = usedInBins(track);
  const bars = [];
  track.lanes.forEach((items, lane) => {
    const floor = new Float64Array(whole.time.length);
    items.forEach((item, at) => bars.push(...stretchesOf({ ...item, lane }, all[lane][at], whole, floor)));
  });
  const byEnergy = (a, b) => b.energy - a.energy || b.time - a.time;
  return bars.sort(byEnergy);
}

function stretchesOf(item, used, whole, floor) {
  const bars = [];
  let bar = null;
  for (let bin = 0; bin < floor.length; bin++) {
    const kind = whole.energy[bin] > 0 ? "energy" : "time";
    const part = Math.min(Math.max(0, used[kind][bin] / whole[kind][bin]) || 0, 1 - floor[bin]);
    if (part === 0 && used.time[bin] === 0) {
      bar = null;
      continue;
    }
    if (!bar) bars.push((bar = { ...item, from: bin, parts: [], energy: 0, time: 0 }));
    bar.parts.push([floor[bin], part]);
    bar.energy += used.energy[bin];
    bar.time += used.time[bin];
    floor[bin] += part;
  }
  return bars;
}

/** How high each lane is: for as many ranges as lie upon one another in a tenth of it. */
function heightsOf({ model, lanes }, bars) {
  const atOnce = lanes.map(() => new Uint8Array(model.bins.count));
  for (const { lane, from, parts } of bars) parts.forEach(([, part], at) => (atOnce[lane][from + at] += part >= TRACK.part));
  return atOnce.map((counts) => {
    const withMore = (times) => counts.filter((count) => count > times).length;
    let times = 1;
    while (times < TRACK.times && withMore(times) * 10 > withMore(0)) times++;
    return times * TRACK.lane;
  });
}

/** Where a lane begins and ends. */
function placeOf({ heights }, lane) {
  const top = CHART.top + heights.slice(0, lane).reduce((all, height) => all + height, 0);
  return { top, height: heights[lane] - 2 };
}

function drawTrack(track, { svg, x, width }) {
  const title = draw("text", { class: "name", x: CHART.left, y: 11 }, track.what.toLowerCase());
  svg.append(title);
  track.lanes.forEach((_, lane) => {
    const { top, height } = placeOf(track, lane);
    svg.append(draw("rect", { class: "gap", x: CHART.left, y: top, width: width - CHART.left - CHART.right, height }));
  });
  // Names lie upon all bars.
  const names = track.bars.flatMap((bar) => drawBar(track, bar, { svg, x }));
  svg.append(...names);
  markPicked(track);
}

/** Draws a bar; its name, where there is room for it. */
function drawBar(track, bar, { svg, x }) {
  const { top, height } = placeOf(track, bar.lane);
  const y = (part) => top + height * (1 - part);
  const steps = bar.parts.map(([floor, part], at) => ({ floor: y(floor), top: y(floor + part), left: x(bar.from + at), right: x(bar.from + at + 1) }));
  const over = steps.map(({ top, left, right }) => `L${left.toFixed(1)} ${top.toFixed(1)}L${right.toFixed(1)} ${top.toFixed(1)}`);
  const under = steps.map(({ floor, left, right }) => `L${right.toFixed(1)} ${floor.toFixed(1)}L${left.toFixed(1)} ${floor.toFixed(1)}`);
  const first = steps[0];
  const d = `M${first.left.toFixed(1)} ${first.floor.toFixed(1)}${over.join("")}${under.reverse().join("")}Z`;
  bar.drawn = draw("path", { class: track.kind, d, fill: bar.shade ?? shadeOf("range", bar.name), "data-uj": Math.round(bar.energy) });
  bar.drawn.append(draw("title", {}, describeBar(track.model, bar)));
  svg.append(bar.drawn);
  const room = Math.floor((steps[steps.length - 1].right - first.left - 6) / 6.5);
  const name = fitting("range", bar.name, room);
  const beneath = steps.filter(({ left }) => left <= first.left + 6.5 * name.length);
  const [high, low] = [middle(beneath.map((step) => step.top)), middle(beneath.map((step) => step.floor))];
  if (room < 3 || low - high < TRACK.name) return [];
  return [draw("text", { class: "of-bar", x: first.left + 3, y: (low + high) / 2 + 4 }, name)];
}

/** The median of some numbers. */
function middle(numbers) {
  return numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

/** Name, time and energy of a bar. */
function describeBar(model, { path, from, parts, energy, time, more }) {
  const [start, end] = [from, from + parts.length].map((bin) => Math.min(bin * model.bins.width_ns, model.bins.length_ns));
  const used = model.classes.length ? `, ${joules(energy)}` : "";
  return `${path}: ${digits((end - start) / 1e9)} s from ${seconds(start)} s on, ${digits(time / 1e6)} s of CPU time${used}${more ? `; ${more}` : ""}`;
}

/** Marks a bar, or none, and says what is known of it. */
function pick(track, bar) {
  track.picked = bar;
  track.below.textContent = bar ? describeBar(track.model, bar) : track.about;
  markPicked(track);
}

function aboutRanges(model, deeper, small) {
  const of = model.classes.length ? "energy" : "CPU time";
  const energy = small.reduce((sum, bar) => sum + (model.classes.length ? bar.energy : bar.time), 0);
  const left = [deeper > 0 ? `${deeper} deeper levels` : "", small.length ? `the ${small.length} smallest bars (${joules(energy)})` : ""].filter(Boolean);
  const text = `Bars are where samples show a range, in steps of ${seconds(model.bins.width_ns)} s, as high as its part of the program's ${of}`;
  return `${text}${left.length ? `; left out, but in the table of ranges: ${left.join(", ")}` : ""}.`;
}

function markPicked({ bars, picked }) {
  bars?.forEach((bar) => bar.drawn?.classList.toggle("picked", bar === picked));
}

function listenTrack(track, choose) {
  const order = track.bars.slice().sort((a, b) => a.lane - b.lane || a.from - b.from);
  const beside = (step) => order[(order.indexOf(track.picked) + step + order.length) % order.length];
  track.svg.addEventListener("pointermove", (event) => {
    const bar = track.bars.find((found) => found.drawn === event.target);
    if (bar && bar !== track.picked) pick(track, bar);
  });
  track.svg.addEventListener("pointerleave", () => pick(track, null));
  track.svg.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") pick(track, beside(1));
    else if (event.key === "ArrowUp") pick(track, track.picked ? beside(-1) : order[order.length - 1]);
    else if (event.key === "Enter" && track.picked) choose(track.picked.from, track.picked.from + track.picked.parts.length);
    else return;
    event.preventDefault();
  });
}

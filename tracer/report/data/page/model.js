// The recording in memory: reads the page's data, and sums it up for a range of bins. Energies are microjoules, times
// microseconds. Leaves out everything that is drawn.

/** Makes arrays that are quick to sum up. */
function readModel(data) {
  const firsts = running(data.entries.counts);
  return {
    ...data,
    flame: { ...data.flame, tree: readTree(data.flame.tree) },
    views: data.views.map((view) => ({ ...view, tree: readTree(view.tree) })),
    rows: data.entries.counts.length,
    firsts,
    bin: readBins(data.entries.steps, firsts),
    time: Float64Array.from(data.entries.time_us),
    energy: data.entries.energy.map((list) => Float64Array.from(list)),
    entries: null,
  };
}

/** Where each of several lists of these lengths begins, and behind them the end. */
function running(counts) {
  const firsts = new Uint32Array(counts.length + 1);
  counts.forEach((count, at) => (firsts[at + 1] = firsts[at] + count));
  return firsts;
}

/** The bin of each entry. */
function readBins(steps, firsts) {
  const bins = new Uint16Array(steps.length);
  for (let row = 0; row + 1 < firsts.length; row++) {
    let bin = 0;
    for (let at = firsts[row]; at < firsts[row + 1]; at++) bins[at] = bin += steps[at];
  }
  return bins;
}

/** A tree: of each node the one above it, and its label. Node 0 is the root. */
function readTree([up, labels]) {
  const above = new Uint32Array(up.length + 1);
  const label = new Uint32Array(up.length + 1);
  up.forEach((distance, at) => (above[at + 1] = at + 1 - distance));
  label.set(labels, 1);
  return { above, label };
}

/** Which classes of domain a choice sums up. */
function chosenClasses(model, choice) {
  const all = model.classes.map((found, at) => ({ ...found, at }));
  const adding = all.filter((found) => found.adds_up);
  if (choice === "total") return (adding.length ? adding : all.slice(0, 1)).map((found) => found.at);
  return all.filter((found) => found.name === choice).map((found) => found.at);
}

/** Energy and time of each row within bins `from` (first) to `to` (behind the last). */
function sumRows(model, { from, to, choice }) {
  const isTime = model.classes.length === 0;
  const lists = chosenClasses(model, choice).map((at) => model.energy[at]);
  const energy = new Float64Array(model.rows);
  const time = new Float64Array(model.rows);
  for (let row = 0; row < model.rows; row++) {
    for (let at = model.firsts[row]; at < model.firsts[row + 1]; at++) {
      if (model.bin[at] < from) continue;
      if (model.bin[at] >= to) break;
      for (const list of lists) energy[row] += list[at];
      time[row] += model.time[at];
    }
  }
  return { energy: isTime ? time : energy, time };
}

/** What each node has itself, and with all below it. */
function sumTree(tree, nodes, values) {
  const own = new Float64Array(tree.above.length);
  nodes.forEach((node, row) => (own[node] += values[row]));
  const total = own.slice();
  for (let node = tree.above.length - 1; node > 0; node--) total[tree.above[node]] += total[node];
  return { own, total };
}

/** What each label of a view has itself and in total, and its time of both. A stack has each label once. */
function sumView(view, sums) {
  const [own, total, ownCpu, cpu] = [0, 1, 2, 3].map(() => new Float64Array(view.names.length));
  view.own.forEach((label, row) => (own[label] += sums.energy[row]));
  view.own.forEach((label, row) => (ownCpu[label] += sums.time[row]));
  const energy = sumTree(view.tree, view.nodes, sums.energy).total;
  const time = sumTree(view.tree, view.nodes, sums.time).total;
  for (let node = 1; node < energy.length; node++) {
    total[view.tree.label[node]] += energy[node];
    cpu[view.tree.label[node]] += time[node];
  }
  return { own, total, ownCpu, cpu };
}

/** Busy CPUs in place of power, for a recording without energy. */
function busyCpus(model) {
  const count = model.bins.count;
  const nothing = Array(count).fill(0);
  const target = nothing.slice();
  model.bin.forEach((bin, at) => (target[bin] += model.time[at]));
  const width = (bin) => Math.min(model.bins.width_ns, model.bins.length_ns - bin * model.bins.width_ns);
  return { name: "busy CPUs", unit: "", quality: "measured", class: "time", covered_ns: nothing.map((_, bin) => width(bin)),
    target, other: model.others_us, idle: nothing, uncore: nothing, residual: nothing, measured: nothing, unattributed: {} };
}

/** The ledger of a domain within bins. */
function sumDomain(domain, { from, to }) {
  const sum = (list) => list.slice(from, to).reduce((all, one) => all + one, 0);
  const parts = Object.entries(domain.unattributed).map(([reason, list]) => [reason, sum(list)]);
  const of = (name) => sum(domain[name]);
  return {
    measured: of("measured"), target: of("target"), other: of("other"), idle: of("idle"), uncore: of("uncore"),
    residual: of("residual"), covered: of("covered_ns"), reasons: parts,
    unattributed: parts.reduce((all, [, energy]) => all + energy, 0),
  };
}

/** The domains of a choice. */
function chosenDomains(model, choice) {
  const names = chosenClasses(model, choice).map((at) => model.classes[at].name);
  return model.domains.filter((domain) => names.includes(domain.class));
}

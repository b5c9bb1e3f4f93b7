// The ledger of the chosen range, and what to know before believing a number. Leaves out tables of the program (table.js).

/** Writes the ledger: where all energy went, domain by domain. */
function showLedger(model, range, place) {
  const sums = model.domains.map((domain) => ({ domain, ...sumDomain(domain, range) }));
  if (sums.length === 0) return place.replaceChildren(make("p", {}, "No energy was measured: only time is shown."));
  const columns = [["energy", "measured"], ["this program", "target"], ["other programs", "other"], ["idle", "idle"],
    ["uncore", "uncore"], ["residual", "residual"], ["unattributed", "unattributed"]];
  const shown = columns.filter(([, key], at) => at < 2 || sums.some((sum) => sum[key] !== 0));
  const unit = columnUnit(Math.max(...sums.map((sum) => sum.measured)));
  const words = ["domain", "quality"].map((head) => make("th", { class: "text", scope: "col" }, head));
  const heads = [...shown.map(([head]) => `${head}, ${unit.unit}`), "average W"].map((head) => make("th", { scope: "col" }, head));
  const rows = sums.map((sum) => ledgerRow(sum, shown, unit));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...words, ...heads)), make("tbody", {}, ...rows));
  place.replaceChildren(make("div", { class: "scroll" }, table), ...reasonsOf(sums), make("p", { class: "quiet" },
    "energy = this program + other programs + idle + uncore + residual + unattributed, to the microjoule. psys contains the other domains, a core is part of its package."));
}

function ledgerRow(sum, shown, unit) {
  const cells = shown.map(([, key]) => make("td", { "data-uj": sum[key] }, unit.show(sum[key])));
  const words = [sum.domain.name, sum.domain.quality].map((word) => make("td", { class: "text" }, word));
  return make("tr", {}, ...words, ...cells, make("td", {}, sum.covered > 0 ? digits((sum.measured / sum.covered) * 1e3) : "–"));
}

function reasonsOf(sums) {
  const text = (sum, [reason, energy]) => `${sum.domain.name}: ${joules(energy)} unattributed: ${reason}`;
  const reasons = sums.flatMap((sum) => sum.reasons.filter(([, energy]) => energy !== 0).map((reason) => text(sum, reason)));
  return reasons.map((reason) => make("p", {}, reason));
}

/** Writes what was lost, what is estimated, and what the numbers mean. */
function showQuality(model, place) {
  const { facts, merged } = model;
  const shares = Object.entries(facts.verdicts).map(([verdict, count]) => `stacks ${verdict}: ${count} (${percent(count, facts.samples)})`);
  const notes = [
    `Energy is placed in time by who ran when and by the counter, in steps of ${seconds(model.bins.width_ns)} s; over the whole run all sums are those of the ledger, to the microjoule.`,
    `Workers are charged in the ${facts.view} view; idle energy: ${facts.idle}; split: ${facts.attribution}.`,
  ];
  if (facts.intervals) notes.unshift(facts.intervals + ". They are shown for the whole run only: nothing says how sure a part of it is.");
  if (facts.estimate) notes.unshift(facts.estimate);
  if (facts.modelled) notes.unshift("All joules are CPU time times a constant: shares are worth more than totals.");
  if (merged) notes.unshift(`${merged.stacks} stacks, the smallest, with ${joules(merged.energy)} together, are one stack for each thread in this page; reports on the command line have them all.`);
  const machine = [`${facts.cpu}, ${facts.cpus} CPUs, kernel ${facts.kernel}`, ...facts.python, ...facts.sources,
    `${facts.samples} samples at ${facts.hz} Hz, ${facts.lost} events lost`, ...shares];
  place.replaceChildren(...list("Warnings", facts.warnings, "None."), ...list("What the numbers mean", notes),
    ...list("Notes, without effect on the total", facts.remarks), ...list("Machine, sources, samples", machine));
}

function list(title, items, none) {
  if (items.length === 0 && !none) return [];
  const lines = items.length ? [make("ul", {}, ...items.map((item) => make("li", {}, item)))] : [make("p", {}, none)];
  return [make("h3", {}, title), ...lines];
}

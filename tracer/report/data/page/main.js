// Puts the page together: reads the data, keeps the chosen range, domain and view, and draws what depends on them. Leaves out
// how each part is drawn.

const model = readModel(JSON.parse(byId("data").textContent));
const state = { from: model.chosen[0], to: model.chosen[1], choice: "total", tab: 0, pending: false };
const tabs = [
  { title: "Flame graph", open: (place) => openFlame(place) },
  ...model.views.map((view) => ({ title: view.title, open: (place) => openTable(view, place) })),
  { title: "Ledger", open: (place) => ({ draw: () => showLedger(model, state, place) }) },
  { title: "Quality", open: (place) => openQuality(place) },
];
let current = null;
if (model.classes.length === 0) amount.unit = "s";

function openFlame(place) {
  const flame = makeFlame(model, place);
  return { draw: () => flame.show(sumRows(model, measured())), resize: () => flame.draw() };
}

function openTable(view, place) {
  const table = makeTable(view, place, model.facts);
  const draw = () => {
    const sums = sumRows(model, measured());
    const whole = sums.energy.reduce((all, one) => all + one, 0);
    table.show(sums, { whole, isWhole: isWhole() && state.choice === "total" });
  };
  return { draw };
}

function openQuality(place) {
  showQuality(model, place);
  return { draw: () => {} };
}

function measured() {
  return { from: state.from, to: state.to, choice: state.choice };
}

function isWhole() {
  return state.from === 0 && state.to === model.bins.count;
}

/** Nanoseconds since the start at which a bin begins. */
function edge(bin) {
  return Math.min(bin * model.bins.width_ns, model.bins.length_ns);
}

/** Chooses bins; what depends on them is drawn once a frame. */
function choose(from, to) {
  if (from === state.from && to === state.to) return;
  Object.assign(state, { from, to });
  later();
}
choose.range = () => state;

function later() {
  if (state.pending) return;
  state.pending = true;
  requestAnimationFrame(() => {
    state.pending = false;
    showRange();
    current.draw();
  });
}

function showRange() {
  charts.choice(state);
  byId("from").value = seconds(edge(state.from));
  byId("to").value = seconds(edge(state.to));
  const sums = chosenDomains(model, state.choice).map((domain) => sumDomain(domain, state));
  const all = (key) => sums.reduce((sum, one) => sum + one[key], 0);
  const ns = edge(state.to) - edge(state.from);
  const text = `${digits(ns / 1e9)} s: this program ${joules(all("target"))} (${watts(all("target"), ns)}) of ${joules(all("measured"))}`;
  byId("selected").textContent = model.domains.length ? text : `${digits(ns / 1e9)} s`;
  const part = ` --from ${seconds(edge(state.from))} --to ${seconds(edge(state.to))}`;
  byId("same").textContent = isWhole()
    ? "Drag in a chart to choose a part of the run; arrow keys move it."
    : `On the command line: energy-trace report FILE${part}`;
}

/** Takes what was typed for the range, widened to whole bins. */
function typed() {
  const ns = (id) => Math.round(Number(byId(id).value.replace(",", ".")) * 1e9);
  const [from, to] = [ns("from"), ns("to")];
  if (!(from >= 0) || !(to > from)) return showRange();
  const first = Math.min(Math.floor(from / model.bins.width_ns), model.bins.count - 1);
  choose(first, Math.min(model.bins.count, Math.max(first + 1, Math.ceil(to / model.bins.width_ns))));
  showRange();
}

function openTab(at) {
  state.tab = at;
  const buttons = [...byId("tabs").children];
  buttons.forEach((button, number) => {
    button.setAttribute("aria-selected", String(number === at));
    button.tabIndex = number === at ? 0 : -1;
  });
  byId("panel").replaceChildren();
  byId("panel").setAttribute("aria-label", tabs[at].title);
  current = tabs[at].open(byId("panel"));
  current.draw();
}

function makeTabs() {
  tabs.forEach(({ title }, at) => {
    const button = make("button", { type: "button", role: "tab" }, title);
    button.addEventListener("click", () => openTab(at));
    byId("tabs").append(button);
  });
  byId("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    openTab((state.tab + step + tabs.length) % tabs.length);
    byId("tabs").children[state.tab].focus();
  });
}

function showHeader() {
  const { facts } = model;
  byId("command").textContent = facts.command;
  document.title = `${facts.command} – energy-trace`;
  const sums = chosenDomains(model, "total").map((domain) => sumDomain(domain, { from: 0, to: model.bins.count }));
  const all = (key) => sums.reduce((sum, one) => sum + one[key], 0);
  const length = model.bins.length_ns;
  const took = `${digits(length / 1e9)} s`;
  byId("used").textContent = facts.quality
    ? `${joules(all("target"))} (${facts.quality}) in ${took}, ${watts(all("target"), length)} on average`
    : `${took}; no energy was measured, only CPU time is shown`;
  const parts = [["this program", "target"], ["other programs", "other"], ["idle", "idle"], ["uncore", "uncore"], ["unattributed", "unattributed"]];
  const shares = parts.filter(([, key]) => all(key) !== 0).map(([name, key]) => `${name} ${percent(all(key), all("measured"))}`);
  byId("split").textContent = facts.quality ? `of the machine's ${joules(all("measured"))}: ${shares.join(", ")}` : "";
  byId("work").replaceChildren(...facts.work.map((text) => make("p", { class: "quiet" }, text)));
  byId("alerts").replaceChildren(...facts.warnings.slice(0, 3).map((text) => make("p", { class: "warning quiet" }, text)));
  byId("footer").textContent = `energy-trace ${facts.version} · ${facts.start} · ${facts.cpu} · ${facts.samples} samples at ${facts.hz} Hz`;
  // What is less than a thousandth everywhere is no more than what rounding leaves.
  const drawn = (domain, part) => domain.target.reduce((sum, _, bin) => sum + Math.max(0, part(domain, bin)), 0);
  const isDrawn = ([, , part]) => model.domains.some((domain) => drawn(domain, part) * 1000 > domain.measured.reduce((a, b) => a + b, 0));
  for (const [key, text] of PARTS.filter(isDrawn)) byId("legend").append(make("span", { class: `key ${key}` }), text);
}

function makeChoices() {
  const adding = model.classes.filter((found) => found.adds_up);
  const others = model.classes.filter((found) => !found.adds_up && adding.length > 0);
  const names = [...(adding.length > 1 ? adding : []), ...others].map((found) => found.name);
  for (const name of ["total", ...names]) byId("domain").append(make("option", { value: name }, name));
  byId("domain-label").hidden = names.length === 0;
  byId("domain").addEventListener("change", () => {
    state.choice = byId("domain").value;
    later();
  });
}

function switchTheme() {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  current.resize?.();
}

showHeader();
makeChoices();
makeTabs();
const charts = makeCharts(model, choose);
let width = byId("charts").clientWidth;
charts.draw(state);
showRange();
openTab(0);
byId("theme").addEventListener("click", switchTheme);
byId("whole").addEventListener("click", () => choose(0, model.bins.count));
for (const id of ["from", "to"]) byId(id).addEventListener("change", typed);
byId("range").addEventListener("submit", (event) => {
  event.preventDefault();
  typed();
});
// `/` goes to the search of the view, a digit sorts by that column.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
  const column = byId("panel").querySelectorAll("th button")[Number(event.key) - 1];
  const search = event.key === "/" ? byId("panel").querySelector("input[type=search]") : null;
  if (!column && !search) return;
  event.preventDefault();
  column?.click();
  search?.focus();
});
// A frame in a notebook may have its size later than its page.
new ResizeObserver(() => {
  if (width === byId("charts").clientWidth) return;
  width = byId("charts").clientWidth;
  charts.draw(state);
  current.resize?.();
}).observe(byId("charts"));

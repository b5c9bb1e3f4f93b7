// The flame graph of the chosen range: width is energy, the root is at the top, drawn on a canvas. Click or Enter zooms,
// arrow keys go from frame to frame, a search says how much it matches; a button turns all stacks over, so that functions that used energy
// themselves stand at the top and their callers below. Leaves out sums (model.js).

const FLAME = { row: 18, font: 12, narrowest: 0.5, most: 250 };
/** Okabe and Ito's hues, and how far a frame's shade goes towards white; as in the SVG. */
const HUES = {
  python: [[86, 180, 233], 100], native: [[230, 159, 0], 80], inlined: [[250, 226, 160], 40], kernel: [[213, 94, 0], 60],
  gpu: [[0, 158, 115], 40], range: [[204, 121, 167], 60], special: [[205, 205, 205], 60], holder: [[212, 219, 228], 60],
};

/** A flame graph in `place`; `show(sums)` draws it for other sums. */
function makeFlame(model, place) {
  const flame = { model, zoom: 0, selected: 0, search: null, boxes: [], sides: [], byCallee: false };
  turn(flame, false);
  flame.canvas = make("canvas", { class: "flame", tabindex: 0, role: "application" });
  flame.input = make("input", { type: "search", placeholder: "search (regex): /", "aria-label": "Search frames" });
  flame.matched = make("output", { "aria-live": "polite" });
  const reset = make("button", { type: "button" }, "reset zoom");
  const callee = make("button", { type: "button", "aria-pressed": "false", title: "Functions at the top, their callers below" }, "by callee");
  flame.details = make("div", { id: "details", "aria-live": "polite" });
  place.append(make("div", { class: "bar" }, flame.input, flame.matched, reset, callee, hueLegend(model)), flame.details, flame.canvas);
  reset.addEventListener("click", () => zoomTo(flame, 0));
  callee.addEventListener("click", () => {
    turn(flame, !flame.byCallee);
    callee.setAttribute("aria-pressed", String(flame.byCallee));
    show(flame);
    searchFor(flame, flame.input.value);
  });
  flame.input.addEventListener("input", () => searchFor(flame, flame.input.value));
  listenFlame(flame);
  return {
    show: (sums) => {
      flame.ofRows = sums;
      show(flame);
    },
    draw: () => layOut(flame),
  };
}

function show(flame) {
  flame.sums = sumTree(flame.tree, flame.nodes, flame.ofRows.energy);
  flame.time = sumTree(flame.tree, flame.nodes, flame.ofRows.time);
  layOut(flame);
  tell(flame);
}

/** Shows the other side of all stacks, which is made when it is asked for first. */
function turn(flame, byCallee) {
  const { tree, nodes } = flame.model.flame;
  const side = (flame.sides[Number(byCallee)] ??= byCallee ? turned(tree, nodes) : { tree, nodes });
  side.order ??= childrenOf(flame.model, side);
  Object.assign(flame, side, { byCallee, zoom: 0, selected: 0 });
}

/** The tree of the same stacks from their innermost frames on, and the node of each row. */
function turned(tree, nodes) {
  const [above, label, known, ends] = [[0], [0], new Map(), new Map()];
  const step = (from, frame) => {
    const key = from * 2 ** 26 + frame;
    if (!known.has(key)) known.set(key, above.push(from) - 1), label.push(frame);
    return known.get(key);
  };
  const end = (node) => {
    if (!ends.has(node)) {
      let to = 0;
      for (let at = node; at !== 0; at = tree.above[at]) to = step(to, tree.label[at]);
      ends.set(node, to);
    }
    return ends.get(node);
  };
  return { nodes: Array.from(nodes, end), tree: { above, label } };
}

/** The nodes below each node, those with the most energy over the whole run first: they keep their places when the range changes. */
function childrenOf(model, { tree, nodes }) {
  const { above } = tree;
  const whole = sumRows(model, { from: 0, to: model.bins.count, choice: "total" });
  const weights = sumTree(tree, nodes, whole.energy).total;
  const below = Array.from(above, () => null);
  for (let node = 1; node < above.length; node++) (below[above[node]] ??= []).push(node);
  below.forEach((nodes) => nodes?.sort((a, b) => weights[b] - weights[a]));
  return below;
}

function hueLegend(model) {
  const kinds = [...new Set(model.flame.kinds)].filter((kind) => kind !== "holder");
  const legend = make("span", { class: "legend" });
  for (const kind of Object.keys(HUES).filter((kind) => kinds.includes(kind))) {
    const key = make("span", { class: "key" });
    key.style.background = `rgb(${HUES[kind][0]})`;
    legend.append(key, { special: "no code", python: "Python", gpu: "GPU" }[kind] ?? kind);
  }
  return legend;
}

/** Places all boxes that are wide enough, the zoomed one over the whole width. */
function layOut(flame) {
  if (!flame.sums) return;
  const width = flame.canvas.parentElement.clientWidth;
  const { total } = flame.sums;
  if (!(total[flame.zoom] > 0)) flame.zoom = 0;
  flame.boxes = [];
  for (let node = flame.zoom; node !== 0; node = flame.tree.above[node]) {
    flame.boxes.unshift({ node, x: 0, width, isPath: node !== flame.zoom });
  }
  flame.boxes.forEach((box, depth) => (box.depth = depth));
  flame.rest = { depth: flame.boxes.length, x: 0, energy: total[flame.zoom] };
  placeBelow(flame, { node: flame.zoom, x: 0, width, depth: flame.boxes.length - 1 });
  const placed = flame.boxes.filter((box) => box.depth === flame.rest.depth);
  flame.rest.x = placed.reduce((end, box) => Math.max(end, box.x + box.width), 0);
  flame.rest.energy -= placed.reduce((sum, box) => sum + total[box.node], flame.sums.own[flame.zoom]);
  paint(flame, width);
}

function placeBelow(flame, top) {
  const scale = top.width / Math.max(flame.sums.total[flame.zoom], 1e-9);
  const open = [top];
  while (open.length > 0) {
    const box = open.pop();
    let x = box.x;
    for (const node of flame.order[box.node] ?? []) {
      const width = Math.max(0, flame.sums.total[node]) * scale;
      if (width >= FLAME.narrowest && box.depth + 1 < FLAME.most) {
        const below = { node, x, width, depth: box.depth + 1 };
        flame.boxes.push(below);
        open.push(below);
      }
      x += width;
    }
  }
}

function paint(flame, width) {
  const { canvas, boxes } = flame;
  const depth = boxes.reduce((most, box) => Math.max(most, box.depth), flame.rest?.depth ?? 0);
  const height = (depth + 1) * FLAME.row;
  const scale = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(height, 1));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = `${FLAME.font}px ui-monospace, monospace`;
  pen.textBaseline = "middle";
  const letter = pen.measureText("m").width;
  boxes.forEach((box) => paintBox(flame, pen, letter, box));
  paintRest(flame, pen, letter, width);
  canvas.setAttribute("aria-label", `Flame graph, ${boxes.length} frames; ${describe(flame, flame.selected).join(", ")}`);
}

/** Says what is not drawn because it is narrower than a pixel, where there is room for it. */
function paintRest({ rest, sums, zoom }, pen, letter, width) {
  const text = `${joules(rest.energy)} too narrow to draw`;
  const room = Math.floor((width - rest.x - 6) / letter);
  if (rest.energy < 0.01 * sums.total[zoom] || room < 5) return;
  pen.fillStyle = getComputedStyle(document.body).color;
  pen.fillText(text.length <= room ? text : `${text.slice(0, room - 1)}…`, rest.x + 3, (rest.depth + 0.5) * FLAME.row);
}

function paintBox(flame, pen, letter, { node, x, width, depth, isPath }) {
  const frame = flame.tree.label[node];
  const name = flame.model.flame.names[frame];
  const isMatch = flame.search !== null && flame.search.test(name);
  pen.globalAlpha = isPath ? 0.5 : 1;
  pen.fillStyle = isMatch ? "#f0e442" : shadeOf(flame.model.flame.kinds[frame], name);
  pen.fillRect(x, depth * FLAME.row, Math.max(width - 0.6, 0.4), FLAME.row - 1);
  const room = Math.floor((width - 6) / letter);
  pen.fillStyle = "#000000";
  if (room >= 3) pen.fillText(fitting(flame.model.flame.kinds[frame], name, room), x + 3, (depth + 0.5) * FLAME.row);
  if (node === flame.selected) {
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, depth * FLAME.row + 1, Math.max(width - 2, 1), FLAME.row - 3);
  }
  pen.globalAlpha = 1;
}

/** As much of a name as fits: without arguments, then without what is before the last part, then cut off; as in the SVG. */
function fitting(kind, name, room) {
  if (name.length <= room) return name;
  const separator = { python: ".", native: "::", inlined: "::", gpu: "::" }[kind];
  let rest = separator === "::" ? withoutBrackets(name) : separator === "." ? name.replaceAll(".<locals>", "") : name;
  while (rest.length > room) {
    const at = separator === undefined ? -1 : rest.indexOf(separator);
    if (at < 0) return `${rest.slice(0, room - 1)}…`;
    rest = rest.slice(at + separator.length);
  }
  return rest;
}

/** `a::b<c<d>>::e(int)` becomes `a::b<…>::e(…)`. */
function withoutBrackets(name) {
  let [text, depth, last] = ["", 0, ""];
  for (const letter of name) {
    const closes = depth > 0 && (letter === ")" || (letter === ">" && last !== "-"));
    depth -= closes ? 1 : 0;
    if (depth === 0) text += letter;
    if (letter === "(" || letter === "<") text += depth++ === 0 ? "…" : "";
    last = letter;
  }
  return text;
}

/** Always the same for the same name. */
function shadeOf(kind, name) {
  const [base, reach] = HUES[kind] ?? HUES.special;
  let hash = 5381;
  for (let at = 0; at < name.length; at++) hash = ((hash * 33) ^ name.charCodeAt(at)) >>> 0;
  const white = ((hash % 256) * reach) / 255;
  return `rgb(${base.map((channel) => Math.round(channel + ((255 - channel) * white) / 255))})`;
}

/** Name, place, energy and time of a node. */
function describe(flame, node) {
  const { model, sums, time } = flame;
  if (node === 0 || !sums) return ["", `${joules(sums?.total[0] ?? 0)} of the program; point at a frame, click to zoom`];
  const frame = flame.tree.label[node];
  const name = model.flame.names[frame];
  const parts = [
    `${joules(sums.total[node])} (${percent(sums.total[node], sums.total[0])} of the program)`,
    flame.byCallee ? null : `itself ${joules(sums.own[node])}`,
    `${digits(time.total[node] / 1e6)} s of CPU time`,
  ];
  return [name, [model.flame.places[frame], ...parts].filter(Boolean).join(" · ")];
}

function select(flame, node) {
  if (flame.selected === node) return;
  flame.selected = node;
  paint(flame, flame.canvas.parentElement.clientWidth);
  tell(flame);
}

/** Writes what is known of the selected frame. */
function tell(flame) {
  const [name, text] = describe(flame, flame.selected);
  const head = name ? [make("b", {}, name), make("br")] : [];
  flame.details.replaceChildren(...head, text);
}

function zoomTo(flame, node) {
  flame.zoom = node;
  layOut(flame);
}

/** Marks frames, and says what stacks with any of them used: each stack once. */
function searchFor(flame, text) {
  try {
    flame.search = text ? new RegExp(text, "i") : null;
  } catch {
    flame.matched.textContent = "no regular expression";
    return;
  }
  const { above, label } = flame.tree;
  const found = new Uint8Array(above.length);
  let energy = 0;
  for (let node = 1; flame.search && node < above.length; node++) {
    const isBelow = found[above[node]] === 1;
    found[node] = isBelow || flame.search.test(flame.model.flame.names[label[node]]) ? 1 : 0;
    if (found[node] && !isBelow) energy += flame.sums.total[node];
  }
  flame.matched.textContent = flame.search ? `${joules(energy)}, ${percent(energy, flame.sums.total[0])} of the program` : "";
  layOut(flame);
}

function listenFlame(flame) {
  const boxAt = (event) => {
    const place = flame.canvas.getBoundingClientRect();
    const [x, depth] = [event.clientX - place.left, Math.floor((event.clientY - place.top) / FLAME.row)];
    return flame.boxes.find((box) => box.depth === depth && x >= box.x && x < box.x + box.width)?.node ?? 0;
  };
  flame.canvas.addEventListener("mousemove", (event) => select(flame, boxAt(event)));
  flame.canvas.addEventListener("click", (event) => zoomTo(flame, boxAt(event)));
  flame.canvas.addEventListener("keydown", (event) => {
    const to = { ArrowUp: () => flame.tree.above[flame.selected], ArrowDown: () => below(flame, flame.selected)[0],
      ArrowLeft: () => beside(flame, -1), ArrowRight: () => beside(flame, 1) }[event.key];
    if (to) select(flame, to() ?? flame.selected);
    else if (event.key === "Enter") zoomTo(flame, flame.selected);
    else if (event.key === "Escape") zoomTo(flame, 0);
    else return;
    event.preventDefault();
  });
}

function below(flame, node) {
  return (flame.order[node] ?? []).filter((child) => flame.boxes.some((box) => box.node === child));
}

function beside(flame, step) {
  const row = below(flame, flame.tree.above[flame.selected]);
  return row[row.indexOf(flame.selected) + step];
}

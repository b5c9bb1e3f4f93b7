// A table of what the program's energy went to in the chosen range, with sort and filter. Leaves out sums (model.js).

const ROWS = 40;
const COLUMNS = [
  { key: "own", head: "self", title: "in this itself" },
  { key: "total", head: "total", title: "with all that it calls" },
  { key: "share", head: "share", title: "part of the program's energy, of itself or in total as the rows are ranked" },
  { key: "cpu", head: "CPU s", title: "CPU time, of itself or in total as the rows are ranked" },
  { key: "mark", head: "", title: "what is doubtful about a row, over the whole run" },
  { key: "name", head: "name", title: "" },
];

const MARKS = { "~": "fewer than 100 samples", "?": "this run cannot separate its power from other code" };

/** A table in `place`; `show(sums, whole, isWhole)` fills it. */
function makeTable(view, place, facts) {
  const rank = view.by_total ? "total" : "own";
  const table = { view, facts, rank, sort: rank, filter: "", rows: ROWS };
  table.input = make("input", { type: "search", placeholder: "filter: /", "aria-label": "Filter rows" });
  table.count = make("output", { class: "quiet", "aria-live": "polite" });
  table.body = make("div", { class: "scroll" });
  table.more = make("button", { type: "button" }, "show more");
  table.legend = make("p", { class: "quiet" });
  place.append(make("div", { class: "bar" }, table.input, table.count), table.body, table.more, table.legend);
  table.input.addEventListener("input", () => {
    table.filter = table.input.value.toLowerCase();
    fillTable(table);
  });
  table.more.addEventListener("click", () => {
    table.rows *= 10;
    fillTable(table);
  });
  return {
    show: (sums, context) => {
      Object.assign(table, { sums: sumView(view, sums), context });
      fillTable(table);
    },
  };
}

/** The rows that are there, in order. */
function rowsOf({ view, sums, sort, rank, filter }) {
  const found = [];
  view.names.forEach((name, label) => {
    const [own, total] = [sums.own[label], sums.total[label]];
    const cpu = rank === "own" ? sums.ownCpu[label] : sums.cpu[label];
    const isThere = label !== view.hidden && (own !== 0 || total !== 0 || sums.cpu[label] !== 0);
    if (isThere && name.toLowerCase().includes(filter)) found.push({ label, name, own, total, cpu });
  });
  const order = { name: (a, b) => (a.name < b.name ? -1 : 1) }[sort];
  const second = rank === "own" ? "total" : "own";
  return found.sort(order ?? ((a, b) => b[sort] - a[sort] || b[second] - a[second] || b.cpu - a.cpu));
}

function fillTable(table) {
  const rows = rowsOf(table);
  const shown = rows.slice(0, table.rows);
  const largest = Math.max(0, ...shown.map((row) => row.total));
  const unit = columnUnit(largest);
  const hasIntervals = table.context.isWhole && Object.keys(table.view.intervals).length > 0;
  const interval = { key: "interval", title: table.facts.intervals };
  const isTime = amount.unit === "s";
  const marks = shown.map((row) => table.view.marks[row.label]).filter(Boolean);
  const columns = COLUMNS.filter(({ key }) => (key !== "cpu" || !isTime) && (key !== "mark" || marks.length > 0));
  if (hasIntervals) columns.splice(columns.findIndex(({ key }) => key === "cpu") + 1, 0, interval);
  const head = make("tr", {}, ...columns.map((column) => headOf(table, column, unit)));
  const body = make("tbody", {}, ...shown.map((row) => rowOf(table, row, columns, unit)));
  table.body.replaceChildren(make("table", {}, make("thead", {}, head), body));
  table.count.textContent = `${rows.length} rows`;
  table.more.hidden = shown.length === rows.length;
  table.legend.textContent = Object.keys(MARKS).filter((mark) => marks.includes(mark)).map((mark) => `${mark} ${MARKS[mark]}`).join("   ");
}

function headOf(table, { key, head, title }, unit) {
  const ranked = table.rank === "own" ? "self" : "total";
  const text = { own: `self ${unit.unit}`, total: `total ${unit.unit}`, interval: `total, 95 % ${unit.unit}`,
    share: `${ranked} share`, cpu: `${ranked} CPU s` }[key] ?? head;
  const isText = key === "name";
  const cell = make("th", { scope: "col", title, class: (isText ? "text" : "") + (key === "interval" ? " optional" : "") });
  if (key === "share") cell.className = "text";
  if (key === "share" || key === "interval" || key === "mark") {
    cell.append(text);
    return cell;
  }
  const button = make("button", { type: "button" }, text + (table.sort === key ? (isText ? " ▲" : " ▼") : ""));
  cell.setAttribute("aria-sort", table.sort === key ? (isText ? "ascending" : "descending") : "none");
  button.addEventListener("click", () => {
    table.sort = key;
    if (key === "own" || key === "total") table.rank = key;
    fillTable(table);
    table.body.querySelector('[aria-sort$="ending"] button')?.focus();
  });
  cell.append(button);
  return cell;
}

function rowOf(table, row, columns, unit) {
  const element = make("tr", row.name.startsWith("[") && row.name.endsWith("]") ? { class: "mark" } : {});
  for (const { key } of columns) element.append(cellOf(table, row, key, unit));
  return element;
}

function cellOf(table, row, key, unit) {
  if (key === "name") return make("td", { class: "name" }, row.name, make("span", { class: "quiet" }, table.view.inside[row.label] ?? ""));
  if (key === "mark") return markOf(table.view.marks[row.label]);
  if (key === "cpu") return make("td", {}, (row.cpu / 1e6).toFixed(2));
  if (key === "share") return shareOf(row[table.rank], table.context.whole);
  if (key === "interval") {
    const interval = table.view.intervals[row.label];
    return make("td", { class: "optional" }, interval ? `${unit.show(interval[0])} to ${unit.show(interval[1])}` : "");
  }
  return make("td", { "data-uj": Math.round(row[key]) }, unit.show(row[key]));
}

function markOf(mark) {
  return make("td", mark ? { class: "doubt", title: MARKS[mark] } : {}, mark ?? "");
}

function shareOf(energy, whole) {
  const bar = make("span", { class: "share" });
  bar.style.width = `${Math.max(0, Math.min(1, whole > 0 ? energy / whole : 0)) * 70}px`;
  return make("td", { class: "part text" }, percent(energy, whole), bar);
}

// A table of what the program's energy went to in the chosen range, with sort and filter. Leaves out sums (model.js).

const ROWS = 40;
const COLUMNS = [
  { key: "own", head: "self", title: "in this itself" },
  { key: "total", head: "total", title: "with all that it calls" },
  { key: "share", head: "share", title: "part of the program's energy, by the column that is sorted" },
  { key: "cpu", head: "CPU s", title: "CPU time, with all that it calls" },
  { key: "name", head: "name", title: "" },
];

/** A table in `place`; `show(sums, whole, isWhole)` fills it. */
function makeTable(view, place, facts) {
  const table = { view, facts, sort: view.by === "api" || view.by === "call" ? "total" : "own", filter: "", rows: ROWS };
  table.input = make("input", { type: "search", placeholder: "filter", "aria-label": "Filter rows" });
  table.count = make("output", { class: "quiet", "aria-live": "polite" });
  table.body = make("div", { class: "scroll" });
  table.more = make("button", { type: "button" }, "show more");
  place.append(make("div", { class: "bar" }, table.input, table.count), table.body, table.more);
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
function rowsOf({ view, sums, sort, filter }) {
  const found = [];
  view.names.forEach((name, label) => {
    const [own, total, cpu] = [sums.own[label], sums.total[label], sums.cpu[label]];
    const isThere = own !== 0 || total !== 0 || cpu !== 0;
    if (isThere && name.toLowerCase().includes(filter)) found.push({ label, name, own, total, cpu });
  });
  const order = { name: (a, b) => (a.name < b.name ? -1 : 1) }[sort];
  const second = sort === "own" ? "total" : "own";
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
  const columns = COLUMNS.filter(({ key }) => key !== "cpu" || !isTime);
  if (hasIntervals) columns.splice(-1, 0, interval);
  const head = make("tr", {}, ...columns.map((column) => headOf(table, column, unit)));
  const body = make("tbody", {}, ...shown.map((row) => rowOf(table, row, columns, unit)));
  table.body.replaceChildren(make("table", {}, make("thead", {}, head), body));
  table.count.textContent = `${rows.length} rows`;
  table.more.hidden = shown.length === rows.length;
}

function headOf(table, { key, head, title }, unit) {
  const text = { own: `self ${unit.unit}`, total: `total ${unit.unit}`, interval: `total, 95 % ${unit.unit}` }[key] ?? head;
  const isText = key === "name";
  const cell = make("th", { scope: "col", title, class: (isText ? "text" : "") + (key === "interval" ? " optional" : "") });
  if (key === "share") cell.className = "text";
  if (key === "share" || key === "interval") {
    cell.append(text);
    return cell;
  }
  const button = make("button", { type: "button" }, text + (table.sort === key ? (isText ? " ▲" : " ▼") : ""));
  cell.setAttribute("aria-sort", table.sort === key ? (isText ? "ascending" : "descending") : "none");
  button.addEventListener("click", () => {
    table.sort = key;
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
  if (key === "name") return make("td", { class: "name" }, row.name);
  if (key === "cpu") return make("td", {}, (row.cpu / 1e6).toFixed(2));
  if (key === "share") return shareOf(table.sort === "total" ? row.total : row.own, table.context.whole);
  if (key === "interval") {
    const interval = table.view.intervals[row.label];
    return make("td", { class: "optional" }, interval ? `${unit.show(interval[0])} to ${unit.show(interval[1])}` : "");
  }
  return make("td", { "data-uj": Math.round(row[key]) }, unit.show(row[key]));
}

function shareOf(energy, whole) {
  const bar = make("span", { class: "share" });
  bar.style.width = `${Math.max(0, Math.min(1, whole > 0 ? energy / whole : 0)) * 70}px`;
  return make("td", { class: "part text" }, percent(energy, whole), bar);
}

// Opens the HTML report in Chromium and uses it: what a range shows is what `report --from --to` says, search and keyboard work,
// nothing is asked of the network and no name becomes code. Called by `cargo xtask page`: node check.mjs ENERGY-TRACE RECORDING PAGE.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { drag, evaluate, open, pause, picture, press, start } from "./chromium.mjs";

const [product, recording, page, pictures] = process.argv.slice(2);
const url = `file://${page}`;
const browser = await start();
const run = (expression) => evaluate(browser, expression);
const tab = (title) => run(`[...document.querySelectorAll("#tabs button")].find((tab) => tab.textContent === ${JSON.stringify(title)}).click()`);
const shift = 8;

/** Three steps of time in seconds, as the page writes it. */
const threeSteps = () => run(`String(Number((3 * JSON.parse(document.getElementById("data").textContent).bins.width_ns / 1e9).toFixed(6)))`);

/** The rows of the table that is open: name, self and total in microjoules. */
const table = () =>
  run(`[...document.querySelectorAll("#panel tbody tr")].map((row) => [row.querySelector(".name").firstChild.textContent,
    ...[...row.querySelectorAll("[data-uj]")].map((cell) => Number(cell.dataset.uj))])`);

/** What the command line says for the range that is chosen. */
function reported(from, to, by) {
  const args = ["report", recording, "--format", "json", "--by", by, "--from", from, "--to", to];
  const report = JSON.parse(execFileSync(product, args, { maxBuffer: 1 << 30 }));
  const sum = (energy) => ["package", "dram", "gpu"].reduce((all, part) => all + (energy[part] ?? 0), 0);
  return { ledger: report.ledger, rows: (report.rows ?? report.functions).map((row) => [row.name, sum(row.self_uj), sum(row.total_uj)]) };
}

async function dragged() {
  const box = await run(`(({x, y, width, height}) => ({x, y, width, height}))(document.querySelector(".chart").getBoundingClientRect())`);
  const at = (part) => [box.x + 52 + (box.width - 60) * part, box.y + 50];
  await drag(browser, at(0.3), at(0.62));
  return run(`[document.getElementById("from").value, document.getElementById("to").value]`);
}

const sorted = (rows) => [...rows].sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1] || a[2] - b[2]));

const checks = {
  async "the charts are called what they show"() {
    const [title, label, hasEnergy] = await run(`[document.getElementById("power-title").textContent, document.querySelector(".chart").getAttribute("aria-label"), JSON.parse(document.getElementById("data").textContent).domains.length > 0]`);
    assert.equal(title, hasEnergy ? "Power over time" : "Busy CPUs over time");
    assert.equal(label.startsWith("Power of"), hasEnergy, label);
  },
  async "a range in the page is that of the command line"() {
    const [from, to] = await dragged();
    assert.ok(Number(from) > 0 && Number(to) > Number(from), `${from} ${to}`);
    // Without energy the page shows time, and with very many stacks it has fewer rows than the report.
    const isWhole = await run(`(({ domains, merged }) => domains.length > 0 && !merged)(JSON.parse(document.getElementById("data").textContent))`);
    if (!isWhole) return console.log("      not compared: no energy, or too many stacks for a page");
    for (const [title, by] of [["Lines", "line"], ["Functions", "function"], ["Python functions", "python"], ["API calls", "api"], ["Calls by line", "call"], ["Threads", "thread"], ["Libraries", "library"]]) {
      await tab(title);
      for (let more = 0; more < 4; more++) await run(`document.querySelector("#panel > button").click()`);
      const wanted = reported(from, to, by);
      // Long names are shortened in the page.
      const whole = new Set(wanted.rows.map(([name]) => name).filter((name) => name.length <= 160));
      const named = ([name, ...numbers]) => [whole.has(name) ? name : "…", ...numbers];
      const shown = (rows) => sorted(rows.map(named)).filter(([, own, total]) => own !== 0 || total !== 0);
      assert.deepEqual(shown(await table()), shown(wanted.rows), title);
    }
    await tab("Ledger");
    const { ledger } = reported(from, to, "thread");
    const row = await run(`[...document.querySelectorAll("#panel tbody tr")][0].querySelector("[data-uj]").dataset.uj`);
    assert.equal(Number(row), ledger[0]?.measured_uj);
  },
  async "typing a range and going back to the whole run"() {
    const steps = await threeSteps();
    await run(`(() => { const from = document.getElementById("from"); from.value = ${steps}; from.dispatchEvent(new Event("change")); })()`);
    await pause(60);
    assert.equal(await run(`document.getElementById("from").value`), steps);
    await run(`document.getElementById("whole").click()`);
    await pause(60);
    assert.equal(await run(`document.getElementById("from").value`), "0");
  },
  async "the keyboard moves the range"() {
    await run(`document.querySelector(".chart").focus()`);
    const range = () => run(`["from", "to"].map((id) => Number(document.getElementById(id).value))`);
    await press(browser, "ArrowRight");
    const first = await range();
    await press(browser, "ArrowRight", shift);
    const wider = await range();
    await press(browser, "ArrowRight");
    const moved = await range();
    assert.ok(wider[0] === first[0] && wider[1] > first[1] && moved[0] > wider[0] && moved[1] > wider[1]);
    await press(browser, "Escape");
    assert.equal((await range())[0], 0);
  },
  async "ranges lie over time, and have the joules of their table"() {
    const hasBars = await run(`document.querySelector(".range-bar") !== null`);
    if (!hasBars) return console.log("      not looked at: no ranges");
    const bars = await run(`[...document.querySelectorAll(".range-bar")].map((bar) => [bar.textContent.match(/^(.*): [0-9.]+ s from /)[1], Number(bar.dataset.uj)])`);
    const sums = new Map();
    for (const [name, uj] of bars) sums.set(name, (sums.get(name) ?? 0) + uj);
    await tab("Ranges");
    const hasEnergy = await run(`JSON.parse(document.getElementById("data").textContent).classes.length > 0`);
    const rows = (await table()).filter(([name]) => name !== "[outside of ranges]" && sums.has(name));
    assert.ok(rows.length > 0);
    // Each bar is rounded.
    for (const [name, , total] of rows) if (hasEnergy) assert.ok(Math.abs(sums.get(name) - total) <= bars.length, `${name}: ${sums.get(name)} of ${total} µJ`);
    const chart = `document.querySelector('.chart[aria-label^="Ranges"]')`;
    // A range that another one lies upon has its name too.
    const names = await run(`[...${chart}.querySelectorAll("text.of-bar")].map((name) => name.textContent)`);
    for (const name of ["load", "epoch 0"]) if (sums.has(name)) assert.ok(names.includes(name), `no ${name} in ${names}`);
    await run(`${chart}.focus()`);
    await press(browser, "ArrowDown");
    const told = await run(`${chart}.nextSibling.textContent`);
    assert.match(told, /^.+: [0-9.]+ s from [0-9.]+ s on, .+ of CPU time/);
    await press(browser, "Enter");
    assert.equal(await run(`document.getElementById("from").value`), told.match(/ s from ([0-9.]+) s on/)[1]);
    await press(browser, "Escape");
  },
  async "phases lie over time, and have the joules of their report"() {
    const bars = await run(`[...document.querySelectorAll(".phase-bar")].map((bar) => [bar.textContent.match(/^(.*): [0-9.]+ s from /)[1], Number(bar.dataset.uj)])`);
    const args = ["report", recording, "--format", "json", "--by", "phase"];
    const { rows } = JSON.parse(execFileSync(product, args, { maxBuffer: 1 << 30 }));
    const wanted = rows.filter((row) => rows.length > 1).flatMap((row) => row.phase.stretches_ns.map(() => row.name.split(":")[0]));
    assert.deepEqual(bars.map(([name]) => name).sort(), wanted.sort());
    if (!bars.length) return console.log("      not looked at: one phase");
    for (const { name, total_uj: uj } of rows) {
      const drawn = bars.filter(([bar]) => name.startsWith(`${bar}:`)).reduce((all, [, one]) => all + one, 0);
      assert.equal(drawn, (uj.package ?? 0) + (uj.dram ?? 0) + (uj.gpu ?? 0), name);
    }
    const chart = `document.querySelector('.chart[aria-label^="Phases"]')`;
    await run(`${chart}.focus()`);
    for (let bar = 0; bar < 2; bar++) await press(browser, "ArrowDown");
    const told = await run(`${chart}.nextSibling.textContent`);
    assert.match(told, /^phase 2: .+ elsewhere: /);
    await press(browser, "Enter");
    assert.equal(await run(`document.getElementById("from").value`), told.match(/ s from ([0-9.]+) s on/)[1]);
    await press(browser, "Escape");
  },
  async "charts have the width of their place, also where the window keeps its own"() {
    await tab("Flame graph");
    const widths = () => run(`[document.getElementById("charts").clientWidth, Number(document.querySelector(".chart").getAttribute("viewBox").split(" ")[2]), document.querySelector("canvas").clientWidth]`);
    for (const width of ["600px", ""]) {
      await run(`document.body.style.maxWidth = "${width}"`);
      await pause(200);
      const [place, chart, flame] = await widths();
      assert.ok(place > 0 && chart === place && flame === place, `${place} ${chart} ${flame}`);
    }
  },
  async "tabs, frames and columns have keys"() {
    await tab("Flame graph");
    await run(`document.querySelector("#tabs [aria-selected=true]").focus()`);
    await press(browser, "ArrowRight");
    assert.notEqual(await run(`document.querySelector("#tabs [aria-selected=true]").textContent`), "Flame graph");
    await tab("Flame graph");
    await run(`document.querySelector("canvas").focus()`);
    await press(browser, "ArrowDown");
    const name = await run(`document.querySelector("#details b").textContent`);
    await press(browser, "ArrowDown");
    assert.ok(name && name !== (await run(`document.querySelector("#details b").textContent`)));
    await press(browser, "Enter");
    await press(browser, "Escape");
  },
  async "keys sort, and go to the search"() {
    await tab("Functions");
    await press(browser, "2");
    const sorted = () => run(`document.querySelector("#panel th[aria-sort=descending]").textContent`);
    const cpu = () => run(`[...document.querySelectorAll("#panel th")].find((head) => head.textContent.includes("CPU s"))?.textContent`);
    assert.match(await sorted(), /^total/);
    assert.match((await cpu()) ?? "total", /^total/);
    await press(browser, "1");
    assert.match(await sorted(), /^self/);
    assert.match((await cpu()) ?? "self", /^self/);
    await press(browser, "/");
    assert.equal(await run(`document.activeElement.type`), "search");
  },
  async "the flame graph turns over"() {
    await tab("Flame graph");
    const button = `[...document.querySelectorAll("#panel .bar button")].find((button) => button.textContent === "by callee")`;
    const describe = async (...keys) => {
      await run(`document.querySelector("canvas").focus()`);
      await press(browser, "Escape");
      for (const key of keys) await press(browser, key);
      return run(`document.getElementById("details").textContent`);
    };
    const root = await describe("ArrowDown");
    await run(`${button}.click()`);
    assert.equal(await run(`${button}.getAttribute("aria-pressed")`), "true");
    const [first, caller] = [await describe("ArrowDown"), await describe("ArrowDown", "ArrowDown")];
    const share = (text) => Number(text.match(/\(([0-9.]+) % of the program\)/)[1]);
    assert.ok(share(first) >= share(caller) && !first.includes("itself"), `${first}\n${caller}`);
    await run(`(() => { const input = document.querySelector("#panel input"); input.value = "."; input.dispatchEvent(new Event("input")); })()`);
    assert.match(await run(`document.querySelector("#panel output").textContent`), /100\.0 %/);
    await run(`(() => { const input = document.querySelector("#panel input"); input.value = ""; input.dispatchEvent(new Event("input")); })()`);
    await run(`${button}.click()`);
    assert.equal(await describe("ArrowDown"), root);
  },
  async "search and filter say what they find"() {
    await tab("Flame graph");
    const type = (text) => run(`(() => { const input = document.querySelector("#panel input"); input.value = ${JSON.stringify(text)}; input.dispatchEvent(new Event("input")); })()`);
    await type(".");
    assert.match(await run(`document.querySelector("#panel output").textContent`), /100\.0 %/);
    await type("no such name at all");
    assert.match(await run(`document.querySelector("#panel output").textContent`), /^0 µ[Js]/);
    await type("(");
    assert.match(await run(`document.querySelector("#panel output").textContent`), /no regular expression/);
    await tab("Functions");
    const [[name]] = await table();
    await type(name);
    assert.ok((await table()).every(([found]) => found.toLowerCase().includes(name.toLowerCase())));
  },
  async "nothing is asked for, nothing is injected, nothing fails"() {
    const asked = browser.events.filter((event) => event.method === "Network.requestWillBeSent").map((event) => event.params.request.url);
    assert.deepEqual([...new Set(asked.filter((asked) => asked !== "about:blank"))], [url]);
    const failed = browser.events.filter((event) => event.method === "Runtime.exceptionThrown" || event.method === "Log.entryAdded");
    assert.deepEqual(failed.map((event) => event.params.exceptionDetails?.exception?.description ?? event.params.entry?.text), []);
    assert.equal(await run(`document.querySelectorAll("script").length`), 2);
    await run(`(() => { const script = document.createElement("script"); script.textContent = "window.injected = 1"; document.body.append(script); })()`);
    assert.equal(await run(`window.injected`), undefined);
    assert.equal(await run(`fetch("file:///etc/hostname").then(() => "read", () => "refused")`), "refused");
  },
};

async function photograph() {
  for (const [width, dark] of [[1400, false], [1400, true], [500, false], [500, true]]) {
    await open(browser, url, width, 900, dark);
    for (const title of ["Flame graph", "API calls", "Functions", "Ledger", "Quality"]) {
      await tab(title);
      await pause(100);
      writeFileSync(`${pictures}/${width}-${dark ? "dark" : "light"}-${title.replace(" ", "_")}.png`, await picture(browser));
    }
    await tab("Flame graph");
    await run(`[...document.querySelectorAll("#panel .bar button")].find((button) => button.textContent === "by callee").click()`);
    await pause(100);
    writeFileSync(`${pictures}/${width}-${dark ? "dark" : "light"}-by_callee.png`, await picture(browser));
  }
}

/** How long a new range takes until it is drawn, in milliseconds, for the tab that is open. */
const brush = async () =>
  run(`new Promise((done) => { const begun = performance.now(); const from = document.getElementById("from");
    from.value = from.value === "0" ? ${await threeSteps()} : "0"; from.dispatchEvent(new Event("change"));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun))); })`);

let failures = 0;
try {
  const opened = await open(browser, url);
  console.log(`opened ${(readFileSync(page).length / 1e6).toFixed(2)} MB in ${opened.toFixed(0)} ms`);
  for (const title of ["Flame graph", "Functions"]) {
    await tab(title);
    await brush();
    console.log(`brush, ${title}: ${(await brush()).toFixed(0)} ms`);
  }
  await run(`document.getElementById("whole").click()`);
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok    ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED ${name}\n${error.stack}`);
    }
  }
  if (pictures) await photograph();
} finally {
  await browser.close();
}
process.exitCode = failures === 0 ? 0 : 1;

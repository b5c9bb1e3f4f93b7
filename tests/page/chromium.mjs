// Drives a headless Chromium over its debugging pipe: opens a page, evaluates, clicks, types, takes pictures. Nothing to install
// beside Debian's chromium and node. Leaves out what is tested (check.mjs).

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe"];

/** Starts a browser; `close` ends it. */
export async function start() {
  const home = mkdtempSync(join(tmpdir(), "page-"));
  const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
  const child = spawn("chromium", [...FLAGS, `--user-data-dir=${home}`], { stdio });
  const pipe = talk(child.stdio[3], child.stdio[4]);
  const { targetId } = await pipe.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await pipe.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => pipe.send(method, params, sessionId);
  for (const domain of ["Page", "Runtime", "Network", "Log"]) await send(`${domain}.enable`);
  const close = async () => {
    child.kill();
    await new Promise((done) => child.once("exit", done));
    await removed(home);
  };
  return { send, sendTo: pipe.send, events: pipe.events, close };
}

/** Removes the browser's folder, in which its other processes may still write. */
async function removed(home) {
  for (let tries = 0; tries < 50; tries++) {
    try {
      return rmSync(home, { recursive: true, force: true });
    } catch {
      await pause(100);
    }
  }
}

/** Messages end with a zero byte, both ways. */
function talk(input, output) {
  const [waiting, events] = [new Map(), []];
  let [next, rest] = [1, Buffer.alloc(0)];
  output.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
      take(JSON.parse(rest.subarray(0, end).toString()));
      rest = rest.subarray(end + 1);
    }
  });
  const take = (message) => {
    if (!message.id) return events.push(message);
    const [resolve, reject] = waiting.get(message.id);
    waiting.delete(message.id);
    return message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result);
  };
  const send = (method, params = {}, sessionId = undefined) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, [resolve, reject]);
      input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  return { send, events };
}

/** Opens a page and waits until its scripts have run; says how long that took in milliseconds. */
export async function open(browser, url, width = 1400, height = 900, dark = false) {
  await browser.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  await browser.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
  const before = performance.now();
  await browser.send("Page.navigate", { url });
  while ((await evaluate(browser, "document.querySelectorAll('#tabs button').length")) === 0) await pause(20);
  return performance.now() - before;
}

/** The value of an expression in the page, whose policy does not bind the debugger. */
export async function evaluate(browser, expression) {
  const { result, exceptionDetails } = await browser.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** Presses a key on what has the focus. */
export async function press(browser, key, modifiers = 0) {
  for (const type of ["keyDown", "keyUp"]) await browser.send("Input.dispatchKeyEvent", { type, key, code: key, modifiers });
  await pause(60);
}

/** Drags from one place to another. */
export async function drag(browser, from, to) {
  const event = (type, [x, y], buttons) => browser.send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons, clickCount: 1 });
  await event("mousePressed", from, 1);
  for (let step = 1; step <= 8; step++) {
    await event("mouseMoved", [0, 1].map((at) => from[at] + ((to[at] - from[at]) * step) / 8), 1);
  }
  await event("mouseReleased", to, 0);
  await pause(100);
}

/** A picture as PNG, of all that is there or of what the window shows: beyond that, frames with a process of their own are empty. */
export async function picture(browser, captureBeyondViewport = true) {
  const { data } = await browser.send("Page.captureScreenshot", { format: "png", captureBeyondViewport });
  return Buffer.from(data, "base64");
}

export function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

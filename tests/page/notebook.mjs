// A picture of a notebook as a web page, when the HTML report in its frame has been drawn: node notebook.mjs NOTEBOOK PICTURE. Fails where the
// report does not run there. The frame has a process of its own, for which `chromium --screenshot` does not wait.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { evaluate, pause, picture, start } from "./chromium.mjs";

const [notebook, file] = process.argv.slice(2);
const browser = await start();

/** Whether the report draws itself in the frame, which may have its size later than its page. */
async function drawn() {
  for (let tries = 0; tries < 100; tries++) {
    const found = browser.events.find(({ method, params }) => method === "Target.attachedToTarget" && params.targetInfo.type === "iframe");
    const send = (method, params) => browser.sendTo(method, params, found.params.sessionId);
    if (found && (await evaluate({ send }, `document.querySelector("canvas")?.width`)) > 0) return true;
    await pause(100);
  }
  return false;
}

try {
  await browser.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: true });
  await browser.send("Emulation.setDeviceMetricsOverride", { width: 1000, height: 1400, deviceScaleFactor: 1, mobile: false });
  await browser.send("Page.navigate", { url: `file://${notebook}` });
  assert.ok(await drawn(), "the report does not run in the notebook's frame");
  await pause(500);
  writeFileSync(file, await picture(browser, false));
} finally {
  await browser.close();
}

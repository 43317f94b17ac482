// Looks at every page of a running node's dashboard in headless Chromium, in both themes and at three widths:
// no violation that axe-core finds, no error in the console, no request to another host, no scroll sideways, and
// hostile text shown as text.
//
//   node check.mjs URL TOKEN SERVER CALL-ID [FOLDER]     FOLDER: keeps pictures there

import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [url, token, server, callId, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const problems = [];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(width, height, theme) {
  const page = await browser.newPage();
  // The pages forbid scripts from elsewhere; the checker's own is let in by the browser's debugger.
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error") problems.push(`console: ${message.text()}`); });
  page.on("dialog", (dialog) => { problems.push(`a script of a stranger ran: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(url) && !/^(blob|data):/.test(request.url())) problems.push(`a request to ${request.url()}`); });
  await page.goto(`${url}/#token=${token}`);
  await page.waitForFunction(() => document.getElementById("freshness").textContent === "live");
  return page;
}

async function look(page, name, hash, wanted) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.waitForFunction((text) => document.getElementById("main").textContent.includes(text), { timeout: 10000 }, wanted)
    .catch(() => problems.push(`${name}: never showed "${wanted}"`));
  await new Promise((resolve) => setTimeout(resolve, 300));
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  for (const { id, help, nodes } of violations) problems.push(`${name}: ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (wide > 0) problems.push(`${name}: scrolls ${wide} px sideways`);
  if (folder) await page.screenshot({ path: `${folder}/${name}.png` });
}

if (folder) await mkdir(folder, { recursive: true });
const PAGES = [
  ["overview", "#/", "Pools"],
  ["certificates", "#/", "Our own authority"],
  ["server", `#/server/app/${encodeURIComponent(server)}`, "Its calls"],
  ["calls", "#/calls?search=" + encodeURIComponent(callId), callId],
  ["call", `#/call/${encodeURIComponent(callId)}`, "INVITE"],
  ["users", "#/users", "User"],
  ["bans", "#/bans", "No source is banned"],
  ["configuration", "#/configuration", "the file is what runs"],
  ["log", "#/log", "has started"],
];
for (const [width, height, theme] of [[1400, 900, "light"], [1400, 900, "dark"], [360, 740, "dark"], [3840, 2160, "light"]]) {
  const page = await open(width, height, theme);
  for (const [name, hash, wanted] of PAGES) await look(page, `${name}-${width}-${theme}`, hash, wanted);
  await page.close();
}

// By keyboard alone: the first message of a call, then the next.
const page = await open(1400, 900, "dark");
await look(page, "keyboard", `#/call/${encodeURIComponent(callId)}`, "INVITE");
await page.focus(".ladder button");
await page.keyboard.press("Enter");
const first = await page.$eval("aside pre", (pre) => pre.textContent);
await page.keyboard.press("ArrowDown");
const second = await page.$eval("aside pre", (pre) => pre.textContent);
if (!first.startsWith("INVITE") || first === second) problems.push(`the keyboard did not go from ${first.slice(0, 20)} to the next message`);
// A drain asks first, and says what was done.
await look(page, "drain", `#/server/app/${encodeURIComponent(server)}`, "Its calls");
await page.evaluate(() => [...document.querySelectorAll("main button")].find((button) => button.textContent === "Drain").click());
await page.waitForSelector("dialog[open]");
await page.evaluate(() => document.querySelector("dialog .danger").click());
await page.waitForFunction(() => document.getElementById("main").textContent.includes("drains"), { timeout: 5000 }).catch(() => problems.push("a drain said nothing"));
await page.waitForFunction(() => document.querySelector("main .badge").textContent === "draining", { timeout: 5000 }).catch(() => problems.push("a drained server is not shown so"));
await browser.close();

for (const problem of new Set(problems)) console.log(problem);
console.log(`${new Set(problems).size} problems`);
process.exitCode = problems.length ? 1 : 0;

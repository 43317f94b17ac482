// Looks at pages of results in headless Chromium, in both themes and at two widths: no violation that axe-core finds, no
// error in the console, no request, no page that scrolls sideways, and no text of a plot that is too small to read.
//
//   node pages.mjs FOLDER FILE...     FOLDER: keeps pictures there; "": none

import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const TEXT_PX_MIN = 9;
const [folder, ...files] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const problems = new Set();
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function look(file, width, theme) {
  const name = `${basename(file, ".html")}-${width}-${theme}`;
  const page = await browser.newPage();
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  page.on("pageerror", (error) => problems.add(`${name}: script: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error") problems.add(`${name}: console: ${message.text()}`); });
  const own = pathToFileURL(file).href;
  page.on("request", (request) => { if (request.url() !== own) problems.add(`${name}: a request to ${request.url()}`); });
  await page.goto(own);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  for (const { id, help, nodes } of violations) problems.add(`${name}: ${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  const seen = await page.evaluate(() => {
    const texts = [...document.querySelectorAll("svg text")];
    const height = (text) => parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getScreenCTM().c, text.getScreenCTM().d);
    const cut = texts.filter((text) => {
      const [inner, outer] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
      return inner.left < outer.left - 1 || inner.right > outer.right + 1;
    });
    return {
      sideways: document.documentElement.scrollWidth - innerWidth,
      smallest: Math.min(99, ...texts.map(height)),
      cut: cut.slice(0, 3).map((text) => text.textContent),
      footer: document.querySelector("footer")?.textContent ?? "",
    };
  });
  if (seen.sideways > 0) problems.add(`${name}: scrolls ${seen.sideways} px sideways`);
  if (seen.smallest < TEXT_PX_MIN) problems.add(`${name}: a plot has text of ${seen.smallest.toFixed(1)} px`);
  for (const text of seen.cut) problems.add(`${name}: a plot cuts "${text}" off`);
  if (!/Made by .+ on \d{4}-\d\d-\d\d/.test(seen.footer)) problems.add(`${name}: says not which command made it, and when`);
  if (folder) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  await page.close();
}

if (folder) await mkdir(folder, { recursive: true });
for (const file of files) {
  for (const width of [420, 1400]) {
    for (const theme of ["light", "dark"]) await look(file, width, theme);
  }
}
await browser.close();

for (const problem of problems) console.log(problem);
console.log(`${problems.size} problems`);
process.exitCode = problems.size ? 1 : 0;

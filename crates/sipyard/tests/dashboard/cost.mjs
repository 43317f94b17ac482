// Times the dashboard of a running node with many servers in headless Chromium, for docs/results/operator.md: until the
// pools stand there, and how long the browser and the network are busy a second afterwards.
//
//   node cost.mjs URL TOKEN SERVERS

import puppeteer from "puppeteer-core";

const [url, token, servers] = process.argv.slice(2);
const SECONDS = 10;
const LOADS = 5;
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function load() {
  const page = await browser.newPage();
  await page.setViewport({ width: 1400, height: 900 });
  const session = await page.createCDPSession();
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.dataReceived", ({ encodedDataLength, dataLength }) => { bytes += encodedDataLength || dataLength; });
  const began = performance.now();
  await page.goto(`${url}/#token=${token}`);
  await page.waitForFunction((rows) => document.querySelectorAll("main table tbody tr").length >= rows, { timeout: 60000 }, Number(servers));
  return { page, took: performance.now() - began, bytes: () => bytes };
}

const times = [];
for (let n = 0; n < LOADS; n += 1) {
  const { page, took, bytes } = await load();
  times.push(took);
  if (n === LOADS - 1) {
    const busy = async () => (await page.metrics()).TaskDuration;
    const [before, bytesBefore] = [await busy(), bytes()];
    await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
    console.log(`${bytesBefore} bytes until the page stands`);
    console.log(`each second: ${((await busy() - before) / SECONDS * 1000).toFixed(1)} ms of the browser, ${((bytes() - bytesBefore) / SECONDS).toFixed(0)} bytes`);
  }
  await page.close();
}
times.sort((a, b) => a - b);
console.log(`${times.map((time) => time.toFixed(0)).join(", ")} ms until the page stands`);
await browser.close();

// Browsers' phones: JsSIP in headless Chromium, each in a page of its own. Reads commands from standard input, one a
// line, and writes what happens to whom:
//
//   NAME open {"url": "wss://...", "uri": "sip:...", "password": "...", "instance": "UUID"}
//   NAME call URI
//   NAME hangup
//
// They answer calls at once. Their sound is a tone.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const requires = createRequire(import.meta.url);

// The modules that one needs, each as a function: what a browser has no loader for.
function bundle(entry) {
  const modules = new Map();
  const find = (name, from) => {
    if (name === "events") return requires.resolve("events/events.js");
    if (name === "debug") return join(dirname(requires.resolve("debug")), "browser.js");
    return createRequire(from).resolve(name);
  };
  const take = (path) => {
    if (modules.has(path)) return;
    const text = readFileSync(path, "utf8");
    const needs = {};
    modules.set(path, { text: path.endsWith(".json") ? `module.exports = ${text}` : text, needs });
    for (const [, name] of text.matchAll(/require\(['"]([^'"]+)['"]\)/g)) {
      try { needs[name] = find(name, path); } catch { continue; }
      if (needs[name].startsWith("/")) take(needs[name]);
    }
  };
  take(entry);
  const table = [...modules].map(([path, { text, needs }]) =>
    `${JSON.stringify(path)}: [${JSON.stringify(needs)}, (module, exports, require) => {${text}\n}]`);
  return `(() => { const table = {${table.join(",\n")}}, ready = {}; const process = { env: {} };
    const load = (path) => { if (!ready[path]) { const module = ready[path] = { exports: {} };
      table[path][1](module, module.exports, (name) => load(table[path][0][name])); } return ready[path].exports; };
    window.JsSIP = load(${JSON.stringify(entry)}); })();`;
}

// Runs in the page.
function phone(name, { url, uri, password, instance }) {
  const tell = (what) => window.tell(`${name} ${what}`);
  const sound = new AudioContext().createMediaStreamDestination().stream;
  const options = { mediaStream: sound, pcConfig: { iceServers: [] } };
  const ua = new JsSIP.UA({
    sockets: [new JsSIP.WebSocketInterface(url)], uri, password, instance_id: instance, register: true,
    session_timers: false, connection_recovery_min_interval: 1, connection_recovery_max_interval: 2,
  });
  for (const what of ["connected", "disconnected", "registered", "unregistered"]) ua.on(what, () => tell(what));
  ua.on("registrationFailed", ({ cause }) => tell(`refused ${cause}`));
  ua.on("newRTCSession", ({ originator, session }) => {
    window.session = session;
    session.on("confirmed", () => tell("confirmed"));
    session.on("ended", () => tell("ended"));
    session.on("failed", ({ cause }) => tell(`failed ${cause}`));
    session.on("peerconnection:setremotedescriptionfailed", (error) => tell(`error ${error}`));
    if (originator === "remote") {
      tell("incoming");
      session.answer(options);
    }
  });
  window.call = (to) => ua.call(to, options);
  ua.start();
}

const say = (line) => process.stdout.write(`${line}\n`);
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-proxy-server", "--ignore-certificate-errors", "--allow-loopback-in-peer-connection", "--autoplay-policy=no-user-gesture-required",
    "--disable-features=WebRtcHideLocalIpsWithMdns"],
});
const script = bundle(requires.resolve("jssip"));
const pages = new Map();
say("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [, name, command, rest] = line.match(/^(\S+) (\S+) ?(.*)$/);
  if (command === "open") {
    const page = await browser.newPage();
    page.on("pageerror", (error) => say(`${name} error ${error.message}`));
    await page.exposeFunction("tell", say);
    await page.evaluate(script);
    await page.evaluate(phone, name, JSON.parse(rest));
    pages.set(name, page);
  } else if (command === "call") {
    await pages.get(name).evaluate((to) => { window.call(to); }, rest);
  } else if (command === "hangup") {
    await pages.get(name).evaluate(() => { window.session.terminate(); });
  }
}
await browser.close();

// The frame: which page is shown, and whether the data is fresh.

import { askToken, follow, merge } from "./api.js";
import { callPage, callsPage } from "./calls.js";
import { overview, serverPage } from "./overview.js";
import { bansPage, configurationPage, logPage, usersPage } from "./pages.js";

const STALE_MS = 4000;
const LINES_MAX = 1000;

let state = null;
let before = null;
let heard = 0;
let shown = { page: null, update() {}, end() {} };
const lines = [];

function page() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  switch (parts[0]) {
    case "calls": return callsPage(parameters);
    case "call": return callPage(parts[1] ?? "");
    case "server": return serverPage(parts[1] ?? "", parts[2] ?? "");
    case "users": return usersPage(parameters);
    case "bans": return bansPage();
    case "configuration": return configurationPage();
    case "log": return logPage(lines);
    default: return overview();
  }
}

function route() {
  if (location.hash === "#main") return;
  shown.end();
  shown = page();
  const main = document.getElementById("main");
  main.replaceChildren(shown.page);
  const here = location.hash.split("?")[0] || "#/";
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href");
    if (target === here || (target === "#/calls" && here.startsWith("#/call/"))) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${shown.page.querySelector("h1")?.textContent ?? "Sipyard"} – ${state?.name ?? "Sipyard"}`;
  if (state) shown.update(state, before);
}

function handle(event, data) {
  heard = Date.now();
  if (event === "log") {
    lines.push(...data);
    lines.splice(0, Math.max(0, lines.length - LINES_MAX));
    shown.log?.();
    return;
  }
  if (event === "alive") return;
  before = state && structuredClone(state);
  state = event === "state" ? data : merge(state, data);
  document.getElementById("name").textContent = state.name;
  document.getElementById("version").textContent = state.version;
  shown.update(state, before);
}

function freshness() {
  const late = Date.now() - heard;
  const element = document.getElementById("freshness");
  const isStale = late > STALE_MS;
  document.body.classList.toggle("stale", isStale);
  const [text, kind] = !heard ? ["no answer yet", "warn"] : isStale ? [`stale: ${Math.round(late / 1000)} s old`, "bad"] : ["live", "good"];
  if (element.textContent !== text) {
    element.textContent = text;
    element.className = `badge ${kind}`;
  }
}

function theme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("sipyard-theme", root.dataset.theme);
  route();
}

const kept = localStorage.getItem("sipyard-theme");
if (kept) document.documentElement.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", theme);
document.getElementById("token").addEventListener("click", askToken);
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
  event.preventDefault();
  if (!document.getElementById("search")) location.hash = "#/calls";
  setTimeout(() => document.getElementById("search")?.focus(), 50);
});
addEventListener("hashchange", route);
setInterval(freshness, 500);
route();
follow(handle, (error) => {
  if (error.status === 401) {
    document.getElementById("freshness").textContent = "needs a token";
    if (!document.getElementById("dialog").open && !sessionStorage.getItem("sipyard-token")) askToken();
  }
});

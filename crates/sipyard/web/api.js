// Speaks with the node: requests, and the stream of its state.

import { announce, h } from "./dom.js";

const KEY = "sipyard-token";

// A link may bring a token behind the #, which browsers send to nobody.
const brought = /^#token=([0-9a-zA-Z]+)$/.exec(location.hash);
if (brought) {
  sessionStorage.setItem(KEY, brought[1]);
  history.replaceState(null, "", "#/");
}

const headers = () => {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

export class Refused extends Error {
  constructor(status, problems) {
    super(problems.join("; "));
    this.status = status;
  }
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers() });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({ problems: [`${answer.status} ${answer.statusText}`] }));
  throw new Refused(answer.status, told.problems);
}

export const read = async (path) => (await ask(path)).json();

export async function change(method, path) {
  const { done } = await (await ask(path, { method })).json();
  announce(done);
  return done;
}

export async function save(path, name) {
  const blob = await (await ask(path)).blob();
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// RFC 7396
export function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const base = target !== null && typeof target === "object" && !Array.isArray(target) ? target : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete base[key];
    else base[key] = merge(base[key], value);
  }
  return base;
}

// Calls `handle(event, data)` for each event, for ever; `lost(error)` when the node is away.
export async function follow(handle, lost) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const answer = await ask("/api/v1/live");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      wait = 500;
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        parts.forEach((part) => deliver(part, handle));
      }
      lost(new Error("the node ended the stream"));
    } catch (error) {
      lost(error);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function deliver(part, handle) {
  let event = "message";
  const data = [];
  for (const line of part.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length) handle(event, JSON.parse(data.join("\n")));
  else handle("alive", null);
}

export function askToken() {
  const dialog = document.getElementById("dialog");
  const input = h("input", { type: "password", id: "shown-token", autocomplete: "off" });
  const take = () => {
    if (input.value.trim()) sessionStorage.setItem(KEY, input.value.trim());
    else sessionStorage.removeItem(KEY);
    dialog.close();
    location.reload();
  };
  dialog.replaceChildren(
    h("h2", { id: "question" }, "Token"),
    h("p", {}, "Calls, users and changes need a token, which ", h("code", {}, "sipyard token read"), " or ",
      h("code", {}, "sipyard token operate"), " makes. This window keeps it until it is closed."),
    h("label", { for: "shown-token" }, "The token; empty: forget it"), input,
    h("div", { class: "row" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", onclick: take }, "Use it")),
  );
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") take(); });
  dialog.showModal();
}

// Recorded calls: a list, and the ladder of one.

import { read, save } from "./api.js";
import { age, announce, badge, bytes, clock, count, decimal, h, table } from "./dom.js";

const KINDS = { lost: "bad", refused: "bad", ringing: "warn", trying: "warn", cancelled: "", talking: "good", done: "" };
const COLUMNS = [
  { name: "State", word: true }, { name: "Status", word: true }, { name: "Method", word: true }, { name: "From", word: true }, { name: "To", word: true },
  { name: "Server", word: true }, { name: "Began", word: true }, { name: "Ring s", title: "From the first request to the first response but 100" },
  { name: "Talk s" }, { name: "Messages" }, { name: "Call-ID", word: true },
];

export const linkTo = (callId) => `#/call/${encodeURIComponent(callId)}`;

export function callsPage(parameters) {
  const search = h("input", { type: "search", id: "search", value: parameters.get("search") ?? "", placeholder: "Call-ID, user, number, address, status" });
  const state = h("select", { id: "state" }, h("option", { value: "" }, "any"), Object.keys(KINDS).map((name) => h("option", { value: name }, name)));
  const order = h("select", { id: "order" }, h("option", { value: "trouble" }, "trouble first"), h("option", { value: "newest" }, "newest first"));
  const last = h("select", { id: "last" }, h("option", { value: "" }, "any time"), [[60, "minute"], [600, "10 minutes"], [3600, "hour"], [86400, "day"]].map(([seconds, words]) => h("option", { value: seconds }, `last ${words}`)));
  state.value = parameters.get("state") ?? "";
  order.value = parameters.get("order") ?? "trouble";
  last.value = parameters.get("last") ?? "";
  const list = h("div");
  const told = h("p", { class: "quiet", role: "status" });
  const page = h("div", {}, h("h1", {}, "Calls"),
    h("form", { class: "bar", role: "search", onsubmit: (event) => { event.preventDefault(); go(); } },
      h("label", { for: "search" }, "Find", search), h("label", { for: "state" }, "State", state),
      h("label", { for: "last" }, "Time", last), h("label", { for: "order" }, "Order", order), h("button", { type: "submit" }, "Find")),
    told, list);
  const query = () => {
    const wanted = new URLSearchParams();
    for (const [name, field] of Object.entries({ search, state, order, last })) if (field.value) wanted.set(name, field.value);
    return wanted;
  };
  const go = () => {
    history.replaceState(null, "", `#/calls?${query()}`);
    draw();
  };
  [state, order, last].forEach((field) => field.addEventListener("change", go));

  async function draw() {
    const wanted = query();
    if (wanted.has("last")) wanted.set("since", Date.now() / 1000 - Number(last.value));
    wanted.set("limit", 200);
    const began = performance.now();
    try {
      const found = await read(`/api/v1/calls?${wanted}`);
      if (!found.is_recording) {
        told.textContent = "The node records no calls: calls.record is false in its configuration.";
        return;
      }
      list.replaceChildren(table("Recorded calls", COLUMNS, found.calls.map(row)));
      told.textContent = `${count(found.calls.length)} of ${count(found.matching)} calls in ${decimal(performance.now() - began, 0)} ms; ${count(found.kept)} are kept in ${bytes(found.kept_bytes)}, ${count(found.forgotten)} were forgotten to make room`
        + (found.one_in > 1 ? `; one call in ${count(found.one_in)} is recorded` : "")
        + (found.missed ? `; ${count(found.missed)} messages or reasons were too many to record` : "");
    } catch (error) {
      told.textContent = error.message;
    }
  }
  draw();
  const timer = setInterval(() => { if (!page.contains(document.activeElement) || document.activeElement.tagName !== "A") draw(); }, 5000);
  return { page, update() {}, end: () => clearInterval(timer) };
}

function row(call) {
  const word = (text) => h("td", { class: "word" }, text);
  return h("tr", {},
    h("td", { class: "word" }, badge(call.state, KINDS[call.state])), word(call.status ?? "–"), word(call.method),
    word(call.from), word(call.to), word(call.server ?? "–"), h("td", { class: "word", title: clock(call.began) }, `${age(Date.now() / 1e3 - call.began)} ago`),
    h("td", {}, decimal(call.ring_delay_seconds, 2)), h("td", {}, decimal(call.talked_seconds, 1)), h("td", {}, count(call.messages)),
    h("td", { class: "word" }, h("a", { href: linkTo(call.call_id) }, call.call_id)));
}

export function callPage(callId) {
  const page = h("div", {}, h("h1", {}, "Call ", h("code", {}, callId)), h("p", {}, "Loading."));
  load();
  return { page, update() {}, end() {} };

  async function load() {
    const path = `/api/v1/call?call_id=${encodeURIComponent(callId)}`;
    try {
      show(await read(path), path);
    } catch (error) {
      page.lastChild.textContent = error.message;
    }
  }

  function show(call, path) {
    const message = h("pre", { tabindex: 0, "aria-label": "The chosen message" }, "Choose a message.");
    const copy = async (event) => {
      await navigator.clipboard.writeText(location.href).catch(() => {});
      event.target.textContent = "Link copied";
    };
    const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const [kind] = [KINDS[call.state]];
    page.replaceChildren(h("h1", {}, "Call ", h("code", {}, call.call_id)),
      h("p", {}, badge(call.state, kind), ` ${call.from} to ${call.to}, ${call.status ?? "no response"}`, call.ended_by ? `, ended by the ${call.ended_by}` : "", `; began ${clock(call.began)}`),
      h("dl", { class: "tiles" }, fact("Rang after", `${decimal(call.ring_delay_seconds, 2)} s`), fact("Talked", `${decimal(call.talked_seconds, 1)} s`), fact("Messages", count(call.messages)), fact("Server", call.server ?? "–")),
      h("div", { class: "bar" },
        h("button", { type: "button", onclick: () => save(`${path}&format=pcapng`, "call.pcapng") }, "Save as pcapng"),
        h("button", { type: "button", onclick: () => save(`${path}&format=text`, "call.txt") }, "Save as text"),
        h("button", { type: "button", onclick: copy }, "Copy the link"),
        h("button", { type: "button", onclick: load }, "Look again")),
      h("p", { class: "quiet" }, call.left_out ? `${count(call.left_out)} earlier messages and reasons were left out.` : ""),
      h("div", { class: "split" }, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ladder" }, ladder(call, message)), h("aside", {}, message)));
    announce(`${call.messages} messages`);
  }
}

// Columns: time, then the caller, the node and all others.
function ladder(call, shown) {
  const order = [1, 0, ...call.parties.map((_, place) => place).slice(2)].filter((place) => place < call.parties.length);
  const columnOf = (party) => order.indexOf(party) * 2 + 2;
  const grid = h("div", { class: "ladder" });
  // A style sheet can't know the number of parties; a property set by script is allowed where inline styles are not.
  grid.style.gridTemplateColumns = `90px repeat(${order.length * 2}, minmax(70px, 1fr))`;
  const put = (element, row, from, to) => {
    element.style.gridRow = String(row);
    element.style.gridColumn = `${from} / ${to}`;
    grid.append(element);
  };
  order.forEach((party) => {
    const { address, role } = call.parties[party];
    const column = columnOf(party);
    put(h("div", { class: "head" }, party === 0 ? `${role} (this node)` : `${role} ${address}`), 1, column, column + 2);
    put(h("div", { class: "life", "aria-hidden": "true" }), 2, column, column + 2);
    grid.lastChild.style.gridRow = `2 / ${call.rungs.length + 3}`;
  });
  const buttons = [];
  call.rungs.forEach((rung, place) => {
    const row = place + 2;
    put(h("div", { class: "time" }, `${decimal(rung.at * 1e3, 3)} ms`), row, 1, 2);
    if (rung.kind !== "message") {
      put(h("div", { class: "why" }, rung.text), row, 2, order.length * 2 + 2);
      return;
    }
    const [from, to] = rung.came_in ? [rung.party, 0] : [0, rung.party];
    const rightwards = order.indexOf(from) < order.indexOf(to);
    const [left, right] = [Math.min(columnOf(from), columnOf(to)), Math.max(columnOf(from), columnOf(to))];
    const status = Number.parseInt(rung.label, 10);
    const classes = [rightwards ? "right" : "left", rung.is_repeated ? "again" : "", status >= 400 ? "failure" : ""].join(" ");
    const name = (party) => (party === 0 ? "this node" : call.parties[party].address);
    const button = h("button", {
      type: "button", class: classes, "aria-pressed": "false", title: `${name(from)} to ${name(to)} over ${rung.transport}`,
      "aria-label": `${decimal(rung.at * 1e3, 1)} ms: ${rung.label}, from ${name(from)} to ${name(to)}${rung.is_repeated ? ", again" : ""}`,
      onclick: () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        shown.textContent = rung.text;
      },
      onkeydown: (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const next = step && buttons[buttons.indexOf(button) + step];
        if (!next) return;
        event.preventDefault();
        next.focus();
        next.click();
      },
    }, h("span", {}, rung.label, rung.is_repeated ? " (again)" : ""));
    buttons.push(button);
    put(button, row, left + 1, right + 1);
  });
  return grid;
}


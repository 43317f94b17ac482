// The overview: is it well? And the page of one server.

import { change, read } from "./api.js";
import { age, announce, badge, bytes, confirmed, count, decimal, h, milliseconds, table } from "./dom.js";
import { plot } from "./plot.js";

const STATES = {
  up: ["up", "good"], slow_start: ["slow start", "warn"], down: ["down", "bad"], draining: ["draining", "warn"],
  backing_off: ["backing off", "warn"], removed: ["removed", ""], reserve: ["reserve", ""],
};
const COLUMNS = [
  { name: "Server", word: true }, { name: "State", word: true }, { name: "Calls" },
  { name: "Share", title: "Of the pool's open calls" }, { name: "Transactions" }, { name: "Work", title: "Sum of the costs of the open transactions" },
  { name: "Placed/s" }, { name: "Placed" }, { name: "Failed" },
  { name: "First ms", title: "Mean time to the first response" }, { name: "Final ms", title: "Mean time to the 2xx" },
  { name: "Capacity" }, { name: "Elsewhere", title: "Open calls that other edges have reported" }, { name: "Since, why", word: true },
];

const pools = (state) => Object.entries(state.pools ?? {});
const servers = (state) => pools(state).flatMap(([pool, it]) => Object.values(it.servers).map((server) => ({ ...server, pool })));
const sum = (list, of) => list.reduce((total, item) => total + (of(item) ?? 0), 0);
const total = (state, name) => sum(state.workers, (worker) => worker[name]);
const lost = (state) => sum(state.workers, (worker) => worker.lost.receive_buffer_full);
const replies = (state, status) => sum(state.workers, (worker) => worker.replies[status]);

// Rates between the last two states.
export function rates(before, state) {
  const seconds = before ? state.at - before.at : 0;
  const rate = (of) => (seconds > 0 ? Math.max(0, of(state) - of(before)) / seconds : null);
  return {
    calls: rate((it) => sum(servers(it), (server) => server.placed)),
    messages: rate((it) => total(it, "messages_received")),
    refused: rate((it) => replies(it, "503")),
    dropped: rate((it) => sum(it.workers, (worker) => sum(Object.values(worker.dropped), (one) => one))),
    lost: rate(lost),
    failed: rate((it) => sum(servers(it), (server) => server.failed)),
    store: rate((it) => total(it, "store_failed")),
  };
}

function problems(state, rate) {
  const found = [];
  if (state.state !== "serving") found.push(["bad", "The node drains: it takes no new calls."]);
  for (const [name, pool] of pools(state)) {
    const all = Object.values(pool.servers);
    const down = all.filter((server) => server.state === "down");
    const away = all.filter((server) => !["up", "slow_start"].includes(server.state));
    if (all.length && away.length === all.length) found.push(["bad", `No server of pool ${name} takes calls.`]);
    else if (down.length) found.push(["warn", `${down.length} of ${all.length} servers of pool ${name} are down: ${down.slice(0, 3).map((server) => server.address).join(", ")}.`]);
    for (const source of pool.sources) if (source.problem) found.push(["warn", `${source.name}: ${source.problem}.`]);
  }
  if (rate.lost > 0) found.push(["bad", `The kernel drops ${decimal(rate.lost)} datagrams/s: the workers are too slow.`]);
  if (rate.refused > 0) found.push(["warn", `The node refuses ${decimal(rate.refused)} requests/s with 503.`]);
  if (rate.store > 0) found.push(["bad", "The store fails requests."]);
  const share = Math.min(...state.workers.map((worker) => worker.share_let_in ?? 1));
  if (share < 1) found.push(["warn", `Overload: ${decimal(share * 100, 0)} % of the new requests are let in.`]);
  for (const it of state.certificates) if (it.warning) found.push([it.days_left < 0 ? "bad" : "warn", `${it.shown}: ${it.warning}.`]);
  for (const peer of state.peers) if (!peer.heard) found.push(["warn", `Edge ${peer.name} is silent.`]);
  return found;
}

export function overview() {
  const verdict = h("div", { class: "verdict", role: "status" });
  const tiles = h("dl", { class: "tiles" });
  const plots = h("div", { class: "plots" });
  const tables = h("div");
  const rest = h("div");
  const span = h("select", { id: "span" }, h("option", { value: "hour" }, "last hour"), h("option", { value: "day" }, "last day"));
  const page = h("div", {}, h("h1", {}, "Overview"), verdict, tiles,
    h("p", { class: "bar" }, h("label", { for: "span" }, "Plots", span)), plots, tables, rest);
  let told = "";
  let shape = "";
  const rows = new Map();
  // Rows out of sight are filled when they come into view: a thousand servers cost what a screen of them costs.
  const inView = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    const row = rows.get(target.dataset.place);
    if (!row) return;
    row.isInView = isIntersecting;
    if (isIntersecting) row.fill();
  }));

  async function drawPlots() {
    const past = await read(`/api/v1/history?span=${span.value}`).catch(() => null);
    if (!past || !page.isConnected) return;
    plots.replaceChildren(
      plot("Calls per second", past, [["placed_per_second", "placed"], ["refused_per_second", "refused"], ["failed_per_second", "failed"]]),
      plot("Open calls", past, [["calls", "calls"]]),
      plot("Time to the first response, ms", past, [["first_response_milliseconds", "mean"]]),
      plot("Processor, of 1 for each worker", past, [["processor_share", "used"]]),
      plot("Messages per second", past, [["received_per_second", "received"], ["dropped_per_second", "dropped"], ["lost_per_second", "lost"]]),
    );
  }
  span.addEventListener("change", drawPlots);
  const timer = setInterval(drawPlots, 10000);

  function update(state, before) {
    const rate = rates(before, state);
    const found = problems(state, rate);
    const words = JSON.stringify(found.map(([, text]) => text.replace(/[\d.]+ (datagrams|requests)/, "$1")));
    if (words !== told) {
      told = words;
      const worst = found.some(([kind]) => kind === "bad") ? "bad" : found.length ? "warn" : "good";
      verdict.className = `verdict ${worst}`;
      verdict.replaceChildren(...(found.length
        ? [h("strong", {}, found.length === 1 ? "One thing needs a look" : `${found.length} things need a look`), h("ul", {}, found.map(([, text]) => h("li", {}, text)))]
        : [h("strong", {}, "All is well"), ": every server takes calls, nothing is refused or lost."]));
    }
    const all = servers(state);
    const times = all.map((server) => server.first_response_seconds).filter((time) => time != null);
    const tile = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    tiles.replaceChildren(
      tile("Open calls", count(sum(all, (server) => server.calls))),
      tile("Calls/s", decimal(rate.calls)),
      tile("Messages/s", decimal(rate.messages, 0)),
      tile("Refused/s", decimal(rate.refused)),
      tile("Dropped/s", decimal(rate.dropped)),
      tile("First response", `${milliseconds(times.length ? times.reduce((a, b) => a + b) / times.length : null)} ms`),
      tile("Sessions", count(total(state, "sessions_active"))),
      tile("Bans", count(state.figures.bans)),
      tile("Calls recorded", state.recorder ? count(state.recorder.kept) : "off"),
      tile("Up for", age(state.figures.uptime_seconds)),
    );
    const keys = JSON.stringify(pools(state).map(([name, pool]) => [name, Object.keys(pool.servers)]));
    if (keys !== shape) {
      shape = keys;
      build(state);
    }
    for (const [name, pool] of pools(state)) fill(name, pool, before?.pools?.[name], before ? state.at - before.at : 0);
    if (!rest.childElementCount || Math.round(state.at) % 5 === 0) rest.replaceChildren(...others(state));
  }

  function build(state) {
    rows.clear();
    inView.disconnect();
    tables.replaceChildren(h("h2", {}, "Pools"), ...pools(state).map(([name, pool]) => {
      const lines = Object.keys(pool.servers).map((address) => {
        const cells = COLUMNS.map((column) => h("td", { class: column.word ? "word" : "" }));
        cells[0].append(h("a", { href: `#/server/${encodeURIComponent(name)}/${encodeURIComponent(address)}` }, address));
        const place = `${name} ${address}`;
        const line = h("tr", { "data-place": place }, cells);
        rows.set(place, { cells, fill() {}, isInView: true });
        inView.observe(line);
        return line;
      });
      return table(`${name}: ${pool.policy}`, COLUMNS, lines);
    }));
  }

  function fill(name, pool, before, seconds) {
    const list = Object.values(pool.servers);
    const calls = sum(list, (server) => server.calls);
    for (const server of list) {
      const row = rows.get(`${name} ${server.address}`);
      row.fill = () => fillRow(row.cells, server, before?.servers?.[server.address], seconds, calls);
      if (row.isInView) row.fill();
    }
  }

  function fillRow(cells, server, then, seconds, calls) {
    const placed = then && seconds > 0 ? Math.max(0, server.placed - then.placed) / seconds : null;
    const share = calls ? server.calls / calls : 0;
    const [label, kind] = STATES[server.state] ?? [server.state, ""];
    if (cells[1].textContent !== label) cells[1].replaceChildren(badge(label, kind));
    const texts = [count(server.calls), `${decimal(share * 100, 0)} %`, count(server.transactions), decimal(server.work, 2), decimal(placed),
      count(server.placed), count(server.failed), milliseconds(server.first_response_seconds), milliseconds(server.final_response_seconds),
      decimal(server.capacity, 2), count(server.calls_elsewhere), server.why ? `${age(server.since_seconds)}: ${server.why}` : ""];
    texts.forEach((text, place) => {
      if (cells[place + 2].textContent !== text) cells[place + 2].textContent = text;
    });
  }

  drawPlots();
  return { page, update, end: () => { clearInterval(timer); inView.disconnect(); } };
}

function others(state) {
  const word = (text) => h("td", { class: "word" }, text);
  const cell = (text) => h("td", {}, text);
  const parts = [];
  if (state.peers.length) {
    parts.push(h("h2", {}, "Other edges"), table("Edges before the same servers",
      [{ name: "Edge", word: true }, { name: "Address", word: true }, { name: "State", word: true }, { name: "Age" }, { name: "Calls" }, { name: "Places/s" }],
      state.peers.map((peer) => h("tr", {}, word(peer.name), word(peer.address), h("td", { class: "word" }, peer.heard ? badge("heard", "good") : badge("silent", "bad")),
        cell(age(peer.age_seconds)), cell(count(peer.calls)), cell(count(peer.rate))))));
  }
  if (state.registrar) {
    parts.push(h("h2", {}, "Registrar"), table(`Users of ${state.registrar.domains.join(", ")}, kept in ${state.registrar.store}`,
      [{ name: "Bound" }, { name: "Unbound" }, { name: "Looked up" }, { name: "Wrong credentials" }, { name: "Store failed" }],
      [h("tr", {}, ["bound", "unbound", "looked_up", "wrong_credentials", "store_failed"].map((name) => cell(count(total(state, name)))))]));
  }
  parts.push(h("h2", {}, "Transports and certificates"), table("Where the node listens",
    [{ name: "Transport", word: true }, { name: "Address", word: true }, { name: "As others know it", word: true }, { name: "Connections" }],
    state.listeners.map((it) => h("tr", {}, word(it.transport), word(it.address), word(it.advertise), cell(count(it.connections))))));
  if (state.certificates.length) {
    const left = (it) => badge(`${count(it.days_left)} days`, it.days_left < 0 ? "bad" : it.warning ? "warn" : "good");
    parts.push(table("Certificates that the node shows",
      [{ name: "Of", word: true }, { name: "Names", word: true }, { name: "Issuer", word: true }, { name: "Ends", word: true }, { name: "Left" }, { name: "File", word: true }],
      state.certificates.map((it) => h("tr", {}, word(it.shown), h("td", { class: "word wide" }, it.names.join(", ")), h("td", { class: "word wide" }, it.issuer),
        word(it.ends.slice(0, 10)), h("td", {}, left(it)), h("td", { class: "word wide" }, it.file)))));
  }
  const reasons = (worker) => Object.entries({ ...worker.dropped, ...worker.lost }).filter(([, many]) => many > 0).map(([why, many]) => `${why} ${count(many)}`).join(", ");
  parts.push(h("h2", {}, "Workers"), table("Threads that carry calls",
    [{ name: "Worker", word: true }, { name: "Sessions" }, { name: "Transactions" }, { name: "Received" }, { name: "Sent" }, { name: "Let in" }, { name: "Memory of messages" }, { name: "Dropped or lost, why", word: true }],
    state.workers.map((worker, number) => h("tr", {}, word(String(number)), cell(count(worker.sessions_active)), cell(count(worker.transactions)),
      cell(count(worker.messages_received)), cell(count(worker.messages_sent)), cell(`${decimal((worker.share_let_in ?? 1) * 100, 0)} %`),
      cell(bytes((worker.retained_requests_bytes ?? 0) + (worker.held_transactions_bytes ?? 0) + (worker.handover_queue_bytes ?? 0) + (worker.lobby_bytes ?? 0))),
      h("td", { class: "word wide" }, reasons(worker) || "none")))));
  return parts;
}

export function serverPage(pool, address) {
  const facts = h("dl", { class: "tiles" });
  const plots = h("div", { class: "plots" });
  const state = h("p", {});
  const said = h("p", { role: "status" });
  const verb = (name, question, detail, path) => h("button", {
    type: "button", class: name === "Undrain" ? "" : "danger",
    onclick: async () => {
      if (!await confirmed(question, detail(), name)) return;
      said.textContent = await change("POST", path()).catch((error) => error.message);
    },
  }, name);
  const capacity = h("input", { id: "capacity", type: "number", min: 0.01, max: 100, step: 0.1, value: 1 });
  const at = `/api/v1/servers/${encodeURIComponent(address)}`;
  const page = h("div", {}, h("h1", {}, `Server ${address} of ${pool}`), state, facts,
    h("div", { class: "bar" },
      verb("Drain", `Drain ${address}?`, () => "It gets no new calls, in any pool. Open calls go on.", () => `${at}/drain`),
      verb("Undrain", `Send calls to ${address} again?`, () => "It begins slowly.", () => `${at}/undrain`),
      h("label", { for: "capacity" }, "Capacity until the next reload", capacity),
      verb("Weigh", `Change the capacity of ${address}?`, () => `Its share becomes ${capacity.value}.`, () => `${at}/weight?value=${encodeURIComponent(capacity.value)}`),
      h("a", { href: `#/calls?search=${encodeURIComponent(address)}` }, "Its calls")),
    said, plots);

  async function drawPlots() {
    const past = await read(`/api/v1/history?pool=${encodeURIComponent(pool)}&server=${encodeURIComponent(address)}`).catch(() => null);
    if (!past?.series[0].values.length || !page.isConnected) {
      plots.replaceChildren(h("p", { class: "quiet" }, "The history begins some seconds after the node."));
      return;
    }
    plots.replaceChildren(
      plot("Open calls", past, [["calls", "calls"]]),
      plot("Placed and failed per second", past, [["placed_per_second", "placed"], ["failed_per_second", "failed"]]),
      plot("Time to the first response, ms", past, [["first_response_milliseconds", "mean"]]),
    );
  }
  const timer = setInterval(drawPlots, 10000);
  let weighed = false;

  function update(whole) {
    const server = whole.pools[pool]?.servers[address];
    if (!server) {
      state.textContent = "No pool has this server.";
      return;
    }
    if (!weighed) {
      weighed = true;
      capacity.value = server.capacity;
    }
    const [label, kind] = STATES[server.state] ?? [server.state, ""];
    state.replaceChildren(badge(label, kind), server.why ? ` for ${age(server.since_seconds)}: ${server.why}` : "");
    const known = Object.entries(server).filter(([name, value]) => typeof value === "number" && name !== "since_seconds");
    facts.replaceChildren(...known.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, name.endsWith("seconds") ? `${milliseconds(value)} ms` : decimal(value, Number.isInteger(value) ? 0 : 2)))));
  }
  drawPlots();
  announce(`Server ${address}`);
  return { page, update, end: () => clearInterval(timer) };
}

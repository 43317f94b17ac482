// Users, bans, configuration and log.

import { change, read } from "./api.js";
import { age, badge, clock, confirmed, h, table } from "./dom.js";

export function bansPage() {
  const list = h("div");
  const said = h("p", { role: "status" });
  const page = h("div", {}, h("h1", {}, "Bans"), said, list);
  async function draw() {
    try {
      const { bans } = await read("/api/v1/bans");
      const lift = (source) => async () => {
        if (!await confirmed(`Lift the ban of ${source}?`, "The node hears this source again at once.", "Lift")) return;
        said.textContent = await change("DELETE", `/api/v1/bans/${encodeURIComponent(source)}`).catch((error) => error.message);
        draw();
      };
      list.replaceChildren(bans.length
        ? table("Banned sources", [{ name: "Source", word: true }, { name: "Banned for" }, { name: "Ends in" }, { name: "Why", word: true }, { name: "", word: true }],
          bans.map((ban) => h("tr", {}, h("td", { class: "word" }, ban.source), h("td", {}, age(ban.age_seconds)), h("td", {}, age(ban.left_seconds)),
            h("td", { class: "word wide" }, ban.why), h("td", { class: "word" }, h("button", { type: "button", onclick: lift(ban.source) }, "Lift")))))
        : h("p", {}, "No source is banned."));
    } catch (error) {
      list.replaceChildren(h("p", {}, error.message));
    }
  }
  draw();
  const timer = setInterval(draw, 10000);
  return { page, update() {}, end: () => clearInterval(timer) };
}

export function usersPage(parameters) {
  const user = h("input", { type: "search", id: "user", value: parameters.get("user") ?? "", placeholder: "alice@example.com" });
  const found = h("div");
  const said = h("p", { role: "status" });
  const page = h("div", {}, h("h1", {}, "Users"),
    h("form", { class: "bar", role: "search", onsubmit: (event) => { event.preventDefault(); history.replaceState(null, "", `#/users?user=${encodeURIComponent(user.value)}`); draw(); } },
      h("label", { for: "user" }, "User", user), h("button", { type: "submit" }, "Show")), said, found);
  async function draw() {
    if (!user.value) return;
    const path = `/api/v1/users/${encodeURIComponent(user.value)}`;
    try {
      const told = await read(path);
      const drop = (binding) => async () => {
        if (!await confirmed(`Remove this binding of ${told.user}?`, `Calls no longer ring ${binding.contact}, until the phone registers again.`, "Remove")) return;
        said.textContent = await change("DELETE", `${path}/bindings?contact=${encodeURIComponent(binding.contact)}`).catch((error) => error.message);
        draw();
      };
      found.replaceChildren(
        h("p", {}, told.has_password ? badge("has a password", "good") : badge("has no password here", "warn"), " ", h("a", { href: `#/calls?search=${encodeURIComponent(told.user)}` }, "Calls of this user")),
        told.bindings.length
          ? table(`Where ${told.user} is`, [{ name: "Contact", word: true }, { name: "Came from", word: true }, { name: "By way of", word: true }, { name: "q" }, { name: "Ends in" }, { name: "Refreshed", word: true }, { name: "", word: true }],
            told.bindings.map((binding) => h("tr", {}, h("td", { class: "word wide" }, binding.contact), h("td", { class: "word" }, binding.received), h("td", { class: "word wide" }, binding.path || "–"),
              h("td", {}, String(binding.q)), h("td", {}, age(binding.expires_in_seconds)), h("td", { class: "word" }, clock(binding.updated)),
              h("td", { class: "word" }, h("button", { type: "button", class: "danger", onclick: drop(binding) }, "Remove")))))
          : h("p", {}, "No phone of this user is registered."));
    } catch (error) {
      found.replaceChildren(h("p", {}, error.message));
    }
  }
  draw();
  return { page, update() {}, end() {} };
}

export function configurationPage() {
  const body = h("div", {}, h("p", {}, "Loading."));
  const said = h("p", { role: "status" });
  const page = h("div", {}, h("h1", {}, "Configuration"), said, body);
  async function draw() {
    try {
      const told = await read("/api/v1/configuration");
      const reload = async () => {
        if (!await confirmed("Reload the file?", "All of it holds at once, or nothing changes if it has a mistake. Calls go on.", "Reload")) return;
        said.textContent = await change("POST", "/api/v1/reload").catch((error) => error.message);
        draw();
      };
      const verdict = told.problems.length ? badge("the file has mistakes", "bad")
        : told.needs_restart.length ? badge("the file needs a restart", "warn")
          : told.changes.length ? badge("a reload would change something", "warn") : badge("the file is what runs", "good");
      const line = (text) => h("span", { class: text.startsWith("+") ? "add" : text.startsWith("-") ? "del" : "" }, `${text}\n`);
      body.replaceChildren(h("p", {}, verdict, " ", h("code", {}, told.path)), h("p", {}, told.summary),
        told.problems.length ? h("ul", {}, told.problems.map((problem) => h("li", {}, problem))) : "",
        told.needs_restart.length ? h("p", {}, `Fixed at the start: ${told.needs_restart.join(", ")}.`) : "",
        h("p", {}, h("button", { type: "button", class: "danger", onclick: reload }, "Reload")),
        h("h2", {}, "Against the file"),
        told.changes.length ? h("pre", { tabindex: 0, "aria-label": "Lines that differ" }, told.changes.map(line)) : h("p", {}, "No line differs from what was loaded."));
    } catch (error) {
      body.replaceChildren(h("p", {}, error.message));
    }
  }
  draw();
  return { page, update() {}, end() {} };
}

export function logPage(lines) {
  const list = h("div");
  const page = h("div", {}, h("h1", {}, "Log"), h("p", { class: "quiet" }, "The latest lines, newest first. What operators change begins with ", h("code", {}, "audit"), "."), list);
  const kinds = { ERROR: "bad", WARN: "warn" };
  const draw = () => list.replaceChildren(table("Log", [{ name: "Time", word: true }, { name: "Level", word: true }, { name: "What", word: true }],
    lines.toReversed().map((line) => h("tr", {}, h("td", { class: "word" }, clock(line.at)), h("td", { class: "word" }, badge(line.level.toLowerCase(), kinds[line.level])), h("td", { class: "word wide" }, line.text)))));
  draw();
  return { page, update() {}, end() {}, log: draw };
}

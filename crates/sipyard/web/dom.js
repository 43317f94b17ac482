// Makes elements. Text of strangers becomes text nodes only, so it can't become markup.

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

export const badge = (text, kind) => h("span", { class: `badge ${kind ?? ""}` }, text);

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const count = (value) => (value == null ? "–" : counts.format(value));
export const decimal = (value, digits = 1) => (value == null ? "–" : value.toFixed(digits));
export const milliseconds = (seconds) => (seconds == null ? "–" : decimal(seconds * 1e3, 2));

export function age(seconds) {
  if (seconds == null) return "–";
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

export function bytes(value) {
  if (value == null) return "–";
  if (value < 1024) return `${value} B`;
  if (value < 1048576) return `${decimal(value / 1024)} KiB`;
  return `${decimal(value / 1048576)} MiB`;
}

export const clock = (epoch) => new Date(epoch * 1e3).toLocaleString(undefined, { hour12: false });

export const announce = (text) => { document.getElementById("announce").textContent = text; };

// Asks before something is changed; resolves to whether to go on.
export function confirmed(question, detail, verb) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const close = (answer) => { dialog.close(); resolve(answer); };
    dialog.replaceChildren(
      h("h2", { id: "question" }, question),
      h("p", {}, detail),
      h("div", { class: "row" },
        h("button", { type: "button", onclick: () => close(false) }, "Cancel"),
        h("button", { type: "button", class: "danger", onclick: () => close(true) }, verb)),
    );
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
  });
}

// A table: columns are { name, word, title }.
export function table(caption, columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col", class: column.word ? "word" : "", title: column.title }, column.name));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

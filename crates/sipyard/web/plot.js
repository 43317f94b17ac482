// Draws histories.

import uPlot from "./vendor/uPlot.esm.js";
import { decimal, h } from "./dom.js";

const COLOURS = ["#2c8f7b", "#c2571a", "#6d6fd8"];
const HEIGHT = 130;

// A figure with one line for each of the named series: [[name in the history, words], ...].
export function plot(title, span, lines) {
  const columns = lines.map(([name]) => span.series.find((series) => series.name === name)?.values ?? []);
  const length = columns[0]?.length ?? 0;
  const times = Array.from({ length }, (_, place) => span.end - (length - 1 - place) * span.step_seconds);
  const keys = lines.map(([, words], place) => {
    const known = columns[place].filter((value) => value != null);
    const last = known.at(-1);
    const text = `${words} ${last == null ? "–" : decimal(last, last < 10 ? 2 : 0)}`;
    return h("span", { class: `key key-${place}` }, h("i"), text);
  });
  const area = h("div", { role: "img", "aria-label": summary(title, lines, columns) });
  const figure = h("figure", {}, h("figcaption", {}, title, keys), area);
  const draw = () => {
    const width = area.clientWidth;
    if (!width || !area.isConnected) return;
    const quiet = getComputedStyle(document.documentElement).getPropertyValue("--quiet").trim();
    const grid = { stroke: getComputedStyle(document.documentElement).getPropertyValue("--line").trim(), width: 1 };
    const axis = { stroke: quiet, grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const series = lines.map(([, words], place) => ({ label: words, stroke: COLOURS[place], width: 1.5, points: { show: length < 2 } }));
    area.replaceChildren();
    new uPlot({
      width, height: HEIGHT, legend: { show: false }, cursor: { show: false },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high > 0 ? high : 1) * 1.1] } },
      axes: [{ ...axis, size: 26, space: 80, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1e3).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })) },
        { ...axis, size: 52 }],
      series: [{}, ...series],
    }, [times, ...columns], area);
  };
  new ResizeObserver(draw).observe(area);
  return figure;
}

function summary(title, lines, columns) {
  const told = lines.map(([, words], place) => {
    const known = columns[place].filter((value) => value != null);
    if (!known.length) return `${words}: nothing yet`;
    return `${words}: now ${decimal(known.at(-1), 2)}, least ${decimal(Math.min(...known), 2)}, most ${decimal(Math.max(...known), 2)}`;
  });
  return `${title}. ${told.join("; ")}`;
}

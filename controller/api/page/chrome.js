// The theme, the legend of the picture and the help.
import { byId, h, svg } from "./dom.js";

// Follows the choice of the user, else the system's.
export function applyTheme(fabric) {
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  fabric?.readColours();
}

export function toggleTheme(fabric) {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  applyTheme(fabric);
}

export function showLegend(fabric) {
  const line = (colour, text, dash = "", width = 3) => h("li", {}, svg("svg", { width: 22, height: 8, "aria-hidden": "true" }, svg("line", { x1: 1, x2: 21, y1: 4, y2: 4, stroke: `var(--${colour})`, "stroke-width": width, "stroke-dasharray": dash })), text);
  const figure = (load) => String(Math.round(100 * load) / 100);
  const load = fabric.mode === "load"
    ? [line("load-one", `unavoidable: up to ${figure(fabric.fair)}`, "", 2), line("load-two", `avoidable: up to ${figure(2 * fabric.fair)}`), line("load-many", "more", "", 4)]
    : [line("load-one", "below half", "", 2), line("load-two", "up to 90 %"), line("load-many", "more", "", 4)];
  byId("legend").replaceChildren(line("load-idle", "idle", "", 1.5), ...load, line("failed", "failed", "7 4"), line("drained", "drained, lossy", "2 3"));
}

const keys = {
  "1 – 9": "tables", c: "controls: steering, maintenance windows, topology", a: "advice: what bursts cost, and would cost by other schemes", e: "telemetry: feeds, and what they say of links", d: "discovery: where the fabric differs from the topology", "/": "filter flows", s: "find a switch, host or link",
  f: "go to the picture; then arrow keys select, and L selects the next link", "+ − 0": "zoom in the picture; Shift and arrow keys move it",
  g: "fold all groups, or unfold them; Enter unfolds a selected group", w: "give the picture the room of the tables", x: "switch between map and matrix", m: "switch between load and traffic", h: "go to the history; then arrow keys choose a moment", n: "back to now",
  r: "recompute, with a preview of the moves", t: "switch between dark and light", Esc: "clear the selection",
};

export function showHelp() {
  const dialog = byId("dialog");
  dialog.replaceChildren(h("div", { class: "sheet" },
    h("header", {}, h("h2", { id: "dialog-title" }, "Keyboard")),
    h("div", { class: "content" }, h("div", { class: "keys" }, Object.entries(keys).flatMap(([key, text]) => [h("kbd", {}, key), h("span", {}, text)])),
      h("p", { class: "muted" }, h("br"), "The load of a link is the number of flows on it, relative to the fastest link of the fabric; at a load of 1, one flow has the link to itself. Colours mean the same everywhere: blue is load that no assignment of these flows can avoid, orange is load that one could, pink is failed, violet is drained, or avoided as it loses packets. The all-reduce time is the median of the rounds of a job's slowest group of flows; the ideal is the time that the job would take with the fabric for itself. Rates are averages of the last 100 ms. The bars of a job are blue where its rounds are near their ideal. All times are UTC.")),
    h("footer", {}, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"))));
  dialog.showModal();
}

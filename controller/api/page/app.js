// The operator's page: follows the live feed of the controller and draws its state.
import { byId, count, h, ratio, setText, svg } from "./dom.js";
import { logIn, recompute } from "./actions.js";
import { Fabric } from "./fabric.js";
import { showDetails } from "./details.js";
import { ask, follow, Model } from "./model.js";
import { makePanels } from "./panels.js";

class App {
  constructor() {
    this.model = new Model();
    this.picked = null;
    this.live = false;
    this.measured = { updates: 0, since: performance.now(), rate: 0, firstPicture: 0 };
    this.#applyTheme(localStorage.getItem("theme"));
    this.fabric = new Fabric(byId("fabric"), byId("tip"), this.model, (kind, item) => this.pick(kind, item));
    this.fabric.onDrawn = () => this.#notePicture();
    this.panels = makePanels(this);
    this.#makeTabs();
    this.#bind();
    this.#showLegend();
    this.#showPanel(this.panels.findIndex((panel) => slug(panel) === location.hash.slice(1)));
    this.#render(new Set(["status"]));
    follow((update, whole) => this.#take(update, whole), (state, why, wait) => this.#connection(state, why, wait), logIn);
  }

  async #take(update, whole) {
    // After a lost connection the controller may be a new one, with another topology.
    if (whole) {
      const topology = await ask("GET", "/api/v1/topology");
      if (JSON.stringify(topology) !== this.topology) {
        this.topology = JSON.stringify(topology);
        this.model.setTopology(topology);
        this.picked = null;
        this.fabric.layOut();
        byId("empty").hidden = topology.nodes.length > 0;
        setText(byId("empty"), "The topology is empty.");
      }
    }
    this.#schedule(this.model.apply(update, whole));
    this.measured.updates += 1;
    this.#pace();
  }

  // Draws all changes within one frame once, and nothing while a pointer is pressed.
  #schedule(changed) {
    if (this.pending) {
      for (const part of changed) this.pending.add(part);
      return;
    }
    this.pending = changed;
    const draw = () => {
      if (this.pressing) {
        requestAnimationFrame(draw);
        return;
      }
      const parts = this.pending;
      this.pending = null;
      this.#render(parts);
    };
    requestAnimationFrame(draw);
  }

  #render(parts) {
    this.#figures();
    this.#remark();
    showDetails(this, byId("details"));
    this.panels.forEach((panel, index) => {
      setText(this.tabs[index].lastChild, panel.count === undefined ? "" : panel.count.toLocaleString("en"));
    });
    if (this.panel.parts.some((part) => parts.has(part))) this.panel.update();
  }

  #figures() {
    const { status, links } = this.model;
    if (!status) return;
    const fair = Math.max(1, ratio(status.lower_bound));
    if (fair !== this.fabric.fair) {
      this.fabric.fair = fair;
      this.#showLegend();
    }
    setText(byId("fabric-name"), status.topology);
    const crossing = status.flows - status.flows_by_status.LOCAL;
    const figure = (id, value, note = "") => byId(id).replaceChildren(value, note ? h("small", {}, ` ${note}`) : "");
    figure("figure-flows", status.flows.toLocaleString("en"));
    figure("figure-routed", crossing ? `${Math.floor((100 * status.flows_by_status.ROUTED) / crossing)} %` : "–");
    figure("figure-load", status.max_load, status.optimal ? "optimal" : `lower bound ${status.lower_bound}`);
    figure("figure-agents", status.agents_connected.toLocaleString("en"), `of ${status.hosts.toLocaleString("en")}`);
    const down = links.filter((link) => link.state === "DOWN").length;
    const drained = links.filter((link) => link.state === "DRAINED").length;
    figure("figure-links", String(down + drained), down && drained ? `${drained} drained` : "");
    const health = byId("health");
    health.hidden = false;
    health.className = `pill ${status.health}`;
    health.title = status.health_reasons.join("\n");
    setText(health, status.health);
  }

  pick(kind, item) {
    this.picked = kind ? { kind, item } : null;
    this.#remark();
    showDetails(this, byId("details"));
    this.panel.update();
  }

  pickNodeNamed(name) {
    const node = this.model.nodeById.get(name) ?? this.model.nodes.find((one) => one.host === name);
    if (node) this.pick("node", node);
  }

  // Chooses the links that the picture highlights.
  #remark() {
    const { kind, item } = this.picked ?? {};
    let marked = null;
    if (kind === "flow") {
      const flow = this.model.flows.get(item.flow);
      marked = flow ? this.model.linksOf(flow) : new Set();
    } else if (kind === "job") {
      marked = new Set();
      for (const flow of this.model.flows.values()) {
        if (flow.job === item.job) for (const link of this.model.linksOf(flow)) marked.add(link);
      }
    } else if (kind === "forest") {
      marked = new Set(item.planned.keys());
    } else if (kind === "node" && !item.uplink) {
      marked = new Set(item.links);
    }
    this.fabric.pick(this.picked, marked, kind === "forest" ? item.planned : null);
  }

  #connection(state, why, wait) {
    this.live = state === "live";
    const pill = byId("connection");
    pill.className = `pill ${state}`;
    setText(pill, this.live ? "live" : "no connection");
    byId("trouble").hidden = this.live;
    byId("recompute").disabled = !this.live;
    if (!this.live) {
      setText(byId("trouble"), `The controller does not answer (${why}). Flows keep their ports meanwhile. Next attempt in ${Math.round(wait / 100) / 10} s; the page shows the state of ${new Date().toLocaleTimeString()}.`);
    }
  }

  #notePicture() {
    if (this.measured.firstPicture || this.model.links.length === 0 || !this.model.status) return;
    this.measured.firstPicture = performance.now();
    this.#pace();
  }

  #pace() {
    const { measured } = this;
    const now = performance.now();
    if (now - measured.since > 2000) {
      measured.rate = (1000 * measured.updates) / (now - measured.since);
      measured.updates = 0;
      measured.since = now;
    }
    setText(byId("pace"), `First picture after ${Math.round(measured.firstPicture)} ms${measured.rate ? ` · ${measured.rate.toFixed(1)} updates a second` : ""} · drawn in ${this.fabric.drawMs.toFixed(1)} ms`);
  }

  #makeTabs() {
    this.tabs = this.panels.map((panel, index) => h("button", {
      type: "button", role: "tab", id: `tab-${slug(panel)}`, "aria-controls": "panel",
      onclick: () => this.#showPanel(index),
    }, panel.title, h("span", { class: "count" })));
    byId("tabs").replaceChildren(...this.tabs);
    byId("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      this.#showPanel((this.panels.indexOf(this.panel) + step + this.panels.length) % this.panels.length);
      this.tabs[this.panels.indexOf(this.panel)].focus();
    });
  }

  #showPanel(index) {
    const at = Math.max(0, index);
    this.panel = this.panels[at];
    this.tabs.forEach((tab, one) => {
      tab.setAttribute("aria-selected", one === at);
      tab.tabIndex = one === at ? 0 : -1;
    });
    byId("panel").setAttribute("aria-labelledby", this.tabs[at].id);
    byId("panel").replaceChildren(this.panel.element);
    history.replaceState(null, "", `#${slug(this.panel)}`);
    this.panel.update();
    clearInterval(this.asking);
    if (this.panel.every) this.asking = setInterval(() => this.panel.update(), this.panel.every);
  }

  #bind() {
    byId("recompute").addEventListener("click", () => recompute());
    byId("theme").addEventListener("click", () => this.#toggleTheme());
    byId("help").addEventListener("click", () => this.#showHelp());
    for (const button of document.querySelectorAll("[data-mode]")) {
      button.addEventListener("click", () => this.#setMode(button.dataset.mode));
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#applyTheme(localStorage.getItem("theme")));
    document.addEventListener("keydown", (event) => this.#handleKey(event));
    document.addEventListener("pointerdown", () => { this.pressing = true; });
    // Runs after the click event that follows.
    for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(() => { this.pressing = false; }));
    document.addEventListener("visibilitychange", () => document.hidden || this.fabric.request());
  }

  #handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key >= "1" && event.key <= String(this.panels.length)) return this.#showPanel(Number(event.key) - 1);
    const deeds = {
      "/": () => { this.#showPanel(1); byId("filter").focus(); event.preventDefault(); },
      Escape: () => this.pick(null, null),
      r: () => this.live && recompute(),
      t: () => this.#toggleTheme(),
      m: () => this.#setMode(this.fabric.mode === "load" ? "traffic" : "load"),
      f: () => byId("fabric").focus(),
      "?": () => this.#showHelp(),
    };
    deeds[event.key]?.();
  }

  #setMode(mode) {
    this.fabric.setMode(mode);
    for (const button of document.querySelectorAll("[data-mode]")) button.setAttribute("aria-checked", button.dataset.mode === mode);
    this.#showLegend();
  }

  #applyTheme(chosen) {
    const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    this.fabric?.readColours();
  }

  #toggleTheme() {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    this.#applyTheme(next);
  }

  #showLegend() {
    const line = (colour, text, dash = "", width = 3) => h("li", {}, svg("svg", { width: 22, height: 8, "aria-hidden": "true" }, svg("line", { x1: 1, x2: 21, y1: 4, y2: 4, stroke: `var(--${colour})`, "stroke-width": width, "stroke-dasharray": dash })), text);
    const figure = (load) => String(Math.round(100 * load) / 100);
    const load = this.fabric.mode === "load"
      ? [line("load-one", `load up to ${figure(this.fabric.fair)}`, "", 2), line("load-two", `up to ${figure(2 * this.fabric.fair)}`), line("load-many", "more", "", 4)]
      : [line("load-one", "below half", "", 2), line("load-two", "up to 90 %"), line("load-many", "more", "", 4)];
    byId("legend").replaceChildren(line("load-idle", "idle", "", 1.5), ...load, line("failed", "failed", "7 4"), line("drained", "drained", "2 3"));
  }

  #showHelp() {
    const keys = { "1 – 9": "tables", "/": "filter flows", f: "go to the picture; then arrow keys select, and L selects the next link", m: "switch between load and traffic", r: "recompute, with a preview of the moves", t: "switch between dark and light", Esc: "clear the selection" };
    const dialog = byId("dialog");
    dialog.replaceChildren(h("div", { class: "sheet" },
      h("header", {}, h("h2", { id: "dialog-title" }, "Keyboard")),
      h("div", { class: "content" }, h("div", { class: "keys" }, Object.entries(keys).flatMap(([key, text]) => [h("kbd", {}, key), h("span", {}, text)])),
        h("p", { class: "muted" }, h("br"), "The load of a link is the number of flows on it, relative to the fastest link of the fabric; at a load of 1, one flow has the link to itself. Blue is a load that no assignment of these flows can avoid. The all-reduce time is that of the rounds of a job's traffic; the ideal is the time that its busiest NIC or pair would take alone.")),
      h("footer", {}, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"))));
    dialog.showModal();
  }
}

const slug = (panel) => panel.title.toLowerCase().replaceAll(" ", "-");

new App();

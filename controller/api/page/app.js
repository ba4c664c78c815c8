// The operator's page: follows the live feed of the controller and draws its state.
import { byId, clock, decimal, exact, h, ratio, setText } from "./dom.js";
import { logIn, recompute, toast } from "./actions.js";
import { applyTheme, showHelp, showLegend, toggleTheme } from "./chrome.js";
import { describe } from "./describe.js";
import { Fabric } from "./fabric.js";
import { bindFinder, foldAll, listGroups, showFolds, toggleWhole } from "./finder.js";
import { showDetails } from "./details.js";
import { TimeBar } from "./history.js";
import { ask, follow, Model } from "./model.js";
import { makePanels } from "./panels.js";
import { showSession } from "./session.js";

class App {
  constructor() {
    this.model = new Model();
    this.picked = null;
    this.live = false;
    this.heard = Date.now();  // when the controller sent something last
    this.session = { name: "", role: "", canAct: true, isAdmin: true };
    // Asked for at once, not only when the feed has begun.
    this.asked = ask("GET", "/api/v1/topology").catch(() => null);
    applyTheme();
    this.fabric = new Fabric(byId("fabric"), byId("tip"), this.model, (kind, item) => this.pick(kind, item));
    this.fabric.onDrawn = () => this.#notePicture();
    this.fabric.onFolded = () => {
      showFolds(this.fabric);
      if (["group", "bundle"].includes(this.picked?.kind)) this.pick(null, null);
      else showDetails(this, byId("details"));
    };
    this.time = new TimeBar((moment) => this.#showMoment(moment), (text) => toast(text, true));
    this.panels = makePanels(this);
    this.#makeTabs();
    this.#bind();
    showLegend(this.fabric);
    this.#showPanel(this.panels.findIndex((panel) => slug(panel) === location.hash.slice(1)));
    this.#render(new Set(["status"]));
    follow((update, whole) => this.#take(update, whole), (state, why, wait) => this.#connection(state, why, wait), logIn);
  }

  async #take(update, whole) {
    // After a lost connection the controller may be a new one, with another topology.
    if (whole) {
      const topology = (await this.asked) ?? (await ask("GET", "/api/v1/topology"));
      this.asked = null;
      if (JSON.stringify(topology) !== this.topology) {
        this.topology = JSON.stringify(topology);
        this.model.setTopology(topology);
        this.picked = null;
        this.fabric.layOut();
        listGroups(this.fabric);
        if (this.time.at !== null) this.time.toNow();
        byId("empty").hidden = topology.nodes.length > 0;
        setText(byId("empty"), "The topology is empty.");
      }
    }
    const changed = this.model.apply(update, whole);
    // The past does not change.
    this.#schedule(this.model.past ? new Set() : changed);
    document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
  }

  // Shows the fabric as it was at a moment, or the present again.
  #showMoment(moment) {
    if (!moment && !this.model.past) return;
    if (moment) this.model.showPast(moment);
    else this.model.showNow();
    const { past } = this.model;
    document.body.classList.toggle("past", Boolean(past));
    byId("past").hidden = !past;
    if (past) setText(byId("past-text"), `This is the past: the fabric as it was at ${clock(past.time)} UTC${past.resolution > 1 ? `, in the ${past.resolution} s from then on` : ""}.`);
    this.#allowActions();
    this.#noteNow();
    this.#schedule(new Set(["status", "flows", "links", "agents", "jobs", "events"]));
  }

  #allowActions() {
    byId("recompute").disabled = !this.live || Boolean(this.model.past) || !this.session.canAct;
    byId("recompute").title = this.session.canAct ? "" : `takes the role operator; ${this.session.name} has the role ${this.session.role}`;
  }

  // Tables of what has no history say so.
  #noteNow() {
    const isPresent = this.model.past && !this.panel.hasPast;
    byId("panel").querySelector(".now-note")?.remove();
    if (isPresent) byId("panel").prepend(h("p", { class: "now-note", role: "note" }, `${this.panel.title}: the state of now, as the history keeps only links, jobs, the slowest flows and the fabric as a whole.`));
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
      showLegend(this.fabric);
    }
    setText(byId("fabric-name"), status.topology);
    const { past } = this.model;
    const crossing = past ? status.flows : status.flows - status.flows_by_status.LOCAL;
    const fine = past ? status.flows - status.flows_without_path - status.flows_on_dead_links : status.flows_by_status.ROUTED;
    const figure = (id, value, note = "") => byId(id).replaceChildren(value, note ? h("small", {}, ` ${note}`) : "");
    figure("figure-flows", status.flows.toLocaleString("en"));
    figure("figure-routed", crossing ? `${Math.floor((100 * fine) / crossing)} %` : "–");
    figure("figure-load", exact(status.max_load), status.optimal ? "optimal" : `lower bound ${decimal(status.lower_bound)}`);
    figure("figure-agents", status.agents_connected.toLocaleString("en"), `of ${status.hosts.toLocaleString("en")}`);
    const down = links.filter((link) => link.state === "DOWN").length;
    const drained = links.filter((link) => link.state === "DRAINED").length;
    figure("figure-links", String(down + drained), down && drained ? `${drained} drained` : "");
    byId("health").hidden = false;
    const health = byId("health-word");
    health.className = `pill ${status.health}`;
    health.title = status.health_reasons.join("\n");
    setText(health, status.health);
  }

  // Shows in a panel only what a filter finds.
  seek(title, wanted) {
    const panel = this.panels.find((one) => one.title === title);
    panel.seek?.(wanted);
    this.#showPanel(this.panels.indexOf(panel));
    byId("panels").focus();
  }

  pick(kind, item) {
    this.picked = kind ? { kind, item } : null;
    setText(byId("announce"), describe(kind, item, this.model).join(", "));
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
    // Trees have no history, and of flows only the slowest: those of now say nothing of the links of then.
    if (this.model.past && ["job", "forest"].includes(kind)) {
      this.fabric.pick(this.picked, null);
      return;
    }
    if (kind === "flow") {
      const flow = this.model.shownFlows.get(item.flow);
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
    } else if (kind === "group") {
      marked = new Set(item.links.flatMap((bundle) => bundle.links));
    }
    this.fabric.pick(this.picked, marked, kind === "forest" ? item.planned : null);
  }

  #connection(state, why, wait) {
    if (state === "live") {
      if (!this.live) showSession().then((session) => { this.session = session; this.#allowActions(); this.#schedule(new Set()); });
      this.heard = Date.now();
    }
    this.live = state === "live";
    document.body.classList.toggle("stale", !this.live);
    const pill = byId("connection");
    pill.className = `pill ${state}`;
    const words = { live: "live", login: "waits for a log-in" };
    setText(pill, words[state] ?? `no connection since ${clock(this.heard)} UTC`);
    byId("trouble").hidden = state !== "lost";
    this.#allowActions();
    if (state === "lost") {
      this.asked = null;
      setText(byId("trouble"), `The controller does not answer (${why}). Flows keep their ports meanwhile. Next attempt in ${Math.round(wait / 100) / 10} s; the page shows the state of ${clock(this.heard)} UTC.`);
    }
  }

  // The measurements of tests and benchmarks are attributes of the page, not texts for operators.
  #notePicture() {
    const { dataset } = document.body;
    dataset.drawMs = this.fabric.drawMs.toFixed(1);
    if (dataset.firstPicture || this.model.links.length === 0 || !this.model.status) return;
    dataset.firstPicture = Math.round(performance.now());
    this.time.start();
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
    if (document.body.classList.contains("whole")) toggleWhole();
    this.panel = this.panels[at];
    this.tabs.forEach((tab, one) => {
      tab.setAttribute("aria-selected", one === at);
      tab.tabIndex = one === at ? 0 : -1;
    });
    byId("panel").setAttribute("aria-labelledby", this.tabs[at].id);
    byId("panel").replaceChildren(this.panel.element);
    history.replaceState(null, "", `${location.pathname}${location.search}#${slug(this.panel)}`);
    this.#noteNow();
    this.panel.update();
    clearInterval(this.asking);
    if (this.panel.every) this.asking = setInterval(() => this.panel.update(), this.panel.every);
  }

  #showTitled(title) {
    this.#showPanel(this.panels.findIndex((panel) => panel.title === title));
  }

  #bind() {
    byId("recompute").addEventListener("click", () => recompute());
    byId("health-word").addEventListener("click", () => this.pick(null, null));
    byId("links-off").addEventListener("click", () => this.seek("Links", { state: "NOT_UP" }));
    byId("theme").addEventListener("click", () => toggleTheme(this.fabric));
    byId("help").addEventListener("click", () => showHelp());
    bindFinder(this.fabric, this.model, (kind, item) => this.pick(kind, item));
    for (const button of document.querySelectorAll("[data-mode]")) {
      button.addEventListener("click", () => this.#setMode(button.dataset.mode));
    }
    for (const button of document.querySelectorAll("[data-shape]")) {
      button.addEventListener("click", () => this.#setShape(button.dataset.shape));
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(this.fabric));
    document.addEventListener("keydown", (event) => this.#handleKey(event));
    document.addEventListener("pointerdown", () => { this.pressing = true; });
    // Runs after the click event that follows.
    for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(() => { this.pressing = false; }));
    document.addEventListener("visibilitychange", () => document.hidden || this.fabric.request());
  }

  #handleKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
    const isText = event.target.matches("input:not([type=range]), select, textarea");
    if (isText || (event.target.type === "range" && event.key.length > 1)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key >= "1" && event.key <= "9") return this.#showPanel(Number(event.key) - 1);
    const deeds = {
      "/": () => { this.#showPanel(1); byId("filter").focus(); event.preventDefault(); },
      Escape: () => this.pick(null, null),
      c: () => this.#showPanel(this.panels.length - 1),
      a: () => this.#showTitled("Advice"),
      e: () => this.#showTitled("Telemetry"),
      d: () => this.#showTitled("Discovery"),
      r: () => byId("recompute").disabled || recompute(),
      t: () => toggleTheme(this.fabric),
      m: () => this.#setMode(this.fabric.mode === "load" ? "traffic" : "load"),
      g: () => foldAll(this.fabric),
      w: () => toggleWhole(),
      x: () => this.#setShape(this.fabric.shape === "map" ? "matrix" : "map"),
      s: () => { byId("search").focus(); event.preventDefault(); },
      h: () => byId("time-slider").focus(),
      n: () => this.time.toNow(),
      f: () => byId("fabric").focus(),
      "?": () => showHelp(),
    };
    deeds[event.key]?.();
  }

  #setMode(mode) {
    this.fabric.setMode(mode);
    for (const button of document.querySelectorAll("[data-mode]")) button.setAttribute("aria-checked", button.dataset.mode === mode);
    showLegend(this.fabric);
  }

  #setShape(shape) {
    this.fabric.setShape(shape);
    for (const button of document.querySelectorAll("[data-shape]")) button.setAttribute("aria-checked", button.dataset.shape === shape);
  }
}

const slug = (panel) => panel.title.toLowerCase().replaceAll(" ", "-");

new App();

// The panel of what operators set for a time: steering, maintenance windows, the running topology.
import { count, h, minute, row, setText, stateWord, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { addWindow, applyTopology, endWindow, steerPart, steerPercentage, switchSteering } from "./operations.js";

const until = (text) => (text ? `, until ${minute(text)}` : "");
const windowKinds = { WAITING: ["waits for its time", ""], ACTIVE: ["active", "drained"], HELD: ["held: it would cut off flows", "warn"] };

export class ControlsPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Controls", parts: ["events", "status"], every: 5000 });
    this.element = h("div", { class: "controls" });
    this.after = () => this.update();
    this.flows = h("span");
  }
  get count() { return undefined; }

  async ask() {
    const [steering, { windows }] = await Promise.all([ask("GET", "/api/v1/steering"), ask("GET", "/api/v1/maintenance")]);
    // Figures that always change have texts of their own: buttons stay while one presses them.
    const { flows, flows_unsteered: unsteered, ...lasting } = steering;
    setText(this.flows, `${unsteered.toLocaleString("en")} of ${flows.toLocaleString("en")}`);
    const { model, session } = this.app;
    const shown = JSON.stringify([lasting, windows, session.role, Boolean(model.past), this.#topology()]);
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = document.activeElement?.dataset?.control;
    this.element.replaceChildren(this.#steeringPart(steering), this.#windowsPart(windows), this.#topologyPart());
    if (focused) this.element.querySelector(`[data-control="${CSS.escape(focused)}"]`)?.focus();
  }

  // Why the operator cannot act, or null; `role` is the one that it takes.
  #barred(role = "operator") {
    const { model, session } = this.app;
    if (model.past) return h("p", { class: "muted" }, "Go back to now to change it.");
    const may = role === "admin" ? session.isAdmin : session.canAct;
    return may ? null : h("p", { class: "muted" }, `Changing it takes the role ${role}; ${session.name} has the role ${session.role}.`);
  }

  #buttons(...all) {
    return this.#barred() ?? h("div", { class: "actions" }, all);
  }

  #steeringPart(told) {
    const button = (id, text, onclick) => h("button", { type: "button", "data-control": id, onclick }, text);
    return h("section", { "aria-label": "Steering" },
      h("h3", {}, "Steering"), h("p", {}, told.on ? tag(told.settings.length ? "in part" : "on", told.settings.length ? "warn" : "good") : tag("off", "bad"), ` ${told.summary}`),
      row("Hosts that are steered", `${told.hosts_steered.toLocaleString("en")} of ${told.hosts.toLocaleString("en")}`),
      row("Flows on plain ECMP for that", this.flows),
      told.settings.map((one) => h("div", { class: "intent" }, h("b", {}, `${one.scope}: ${one.value}`), h("div", { class: "muted" }, `${one.actor}, ${minute(one.since)}${until(one.until)}`), one.reason ? h("div", {}, one.reason) : null)),
      this.#buttons(
        told.on ? button("steering-off", "Switch off…", () => switchSteering(false, this.after)) : button("steering-on", "Switch on…", () => switchSteering(true, this.after)),
        button("steering-percent", "Percentage…", () => steerPercentage(told.percent, this.after)),
        button("steering-part", "Hosts or jobs…", () => steerPart({}, this.after))));
  }

  #windowsPart(windows) {
    return h("section", { "aria-label": "Maintenance windows" },
      h("h3", {}, "Maintenance windows"),
      windows.length ? windows.map((one) => this.#window(one)) : h("p", { class: "muted" }, "There are none."),
      this.#buttons(h("button", { type: "button", "data-control": "window-add", onclick: () => addWindow(this.app.model, "", this.after) }, "Add a window…")));
  }

  #window(one) {
    const [text, kind] = windowKinds[one.state] ?? [one.state, ""];
    const end = this.#barred() ? null : h("button", { type: "button", class: "small", "data-control": `end-${one.window}`, "aria-label": `End window ${one.window}`, onclick: () => endWindow(one, this.after) }, one.state === "ACTIVE" ? "End…" : "Remove…");
    return h("div", { class: "intent" },
      h("b", {}, `${one.window}: ${one.kind} ${one.id}`), " ", tag(text, kind), " ", one.forced ? tag("even if it cuts off flows", "warn") : null,
      h("div", { class: "muted" }, `${minute(one.from)} – ${minute(one.until)}, ${one.actor}`), one.reason ? h("div", {}, one.reason) : null, end);
  }

  // The running topology in figures.
  #topology() {
    const { model } = this.app;
    const switches = model.nodes.filter((node) => node.tier >= 0 && !node.host);
    const states = ["LOSSY", "DRAINED", "DOWN"].map((state) => [state, model.links.filter((link) => link.state === state).length]);
    return { name: model.name, hosts: model.status?.hosts, tiers: new Set(switches.map((node) => node.tier)).size, switches: switches.length, nodes: model.nodes.length, links: model.links.length, states };
  }

  #topologyPart() {
    const told = this.#topology();
    const file = h("input", { type: "file", id: "topology-file", accept: ".json,application/json", onchange: () => { applyTopology(file.files[0]); file.value = ""; } });
    return h("section", { "aria-label": "Topology" },
      h("h3", {}, "Topology"), row("Name", told.name ?? "–"),
      row("Switches", `${count(told.switches, "switch", "switches")} in ${count(told.tiers, "tier")}`), row("Hosts", (told.hosts ?? 0).toLocaleString("en")), row("Links", told.links.toLocaleString("en")),
      told.states.map(([state, number]) => (number ? row(`Links ${stateWord(state)}`, number.toLocaleString("en")) : null)),
      this.#barred("admin") ?? h("div", {}, h("label", { for: "topology-file" }, "Apply a topology file"), file, h("p", { class: "muted" }, "Its difference is shown first. Up to 1 MiB.")));
  }
}

// The tables below the picture, one panel for each tab.
import { count, h, rate, ratio, seconds, seenKind, seenWord, statusKind, svg, tag, why } from "./dom.js";
import { rollBack } from "./actions.js";
import { AdvicePanel } from "./advice_panel.js";
import { AskingPanel } from "./asking_panel.js";
import { ControlsPanel } from "./controls_panel.js";
import { DiscoveryPanel } from "./discovery_panel.js";
import { LinksPanel } from "./links_panel.js";
import { ask } from "./model.js";
import { PredictionsPanel } from "./predictions.js";
import { Table } from "./table.js";
import { TelemetryPanel } from "./telemetry_panel.js";
import { TreesPanel } from "./trees.js";

// From so many times its ideal on, a round is long.
const longFactor = 1.15;

class JobsPanel {
  constructor(app) {
    Object.assign(this, { app, title: "Jobs", parts: ["jobs"], hasPast: true });
    this.element = h("div", { class: "jobs" });
  }
  get count() { return this.app.model.jobs.length; }

  update() {
    const { jobs } = this.app.model;
    if (jobs.length === 0) {
      this.element.replaceChildren(h("p", { class: "empty-note muted" }, this.app.model.past ? "No job had elephant flows then." : "No job has elephant flows. Programs announce flows to the agent on their host."));
      return;
    }
    const focused = document.activeElement?.dataset?.job;
    const ended = (job) => Number(job.flows === 0);
    this.element.replaceChildren(...[...jobs].sort((a, b) => ended(a) - ended(b)).map((job) => this.#row(job)));
    if (focused !== undefined) [...this.element.children].find((row) => row.dataset.job === focused)?.focus();
  }

  #row(job) {
    const slow = job.ideal_seconds > 0 ? job.allreduce_seconds / job.ideal_seconds : 0;
    // Orange stands for load that could be avoided; time over the ideal has other causes, too.
    const isContended = job.max_link_flows > 0 && this.app.model.status && ratio(this.app.model.status.max_load) > Math.max(1, ratio(this.app.model.status.lower_bound));
    const kind = slow < longFactor ? "" : isContended ? "avoidable" : "warn";
    const figure = (label, value, note) => h("div", {}, h("div", { class: "label" }, label), h("div", { class: "value" }, value), note ? h("div", { class: "label" }, note) : null);
    const row = h("button", {
      type: "button", class: "job", "aria-pressed": this.app.picked?.kind === "job" && this.app.picked.item.job === job.job,
      onclick: () => this.app.pick("job", job),
    },
    h("div", {}, h("div", { class: "name" }, job.job), h("div", { class: "label" }, job.in_round ? "communicating" : job.flows > 0 ? "computing" : "between rounds")),
    figure("Flows on their path", `${job.flows_routed} of ${job.flows}`, job.flows_unroutable ? `${job.flows_unroutable} unroutable` : ""),
    figure("Rate", rate(job.achieved_bps), this.app.model.past ? "" : "last 100 ms"),
    figure("Slowest flow", job.in_round ? rate(job.slowest_flow_bps) : "–", ""),
    h("div", {}, h("div", { class: "label" }, "All-reduce"), h("div", { class: "value" }, seconds(job.allreduce_seconds), " ", slow ? tag(`${slow.toFixed(2)}× ideal`, kind) : null), h("div", { class: "label" }, `ideal ${seconds(job.ideal_seconds)}, ${count(job.rounds, "round")}`)),
    job.history.length > 0 || !this.app.model.past ? this.#history(job) : null);
    row.dataset.job = job.job;
    return row;
  }

  // Draws bars of the last rounds; the part above the ideal time is lost to contention, to starting up and to the transport.
  // A round well above its ideal has no blue in it.
  #history(job) {
    const rounds = job.history.slice(-40);
    const picture = svg("svg", { viewBox: "0 0 320 42", preserveAspectRatio: "none", role: "img", "aria-label": `Last ${rounds.length} rounds beside the ideal time` });
    const most = Math.max(1e-9, ...rounds.map((round) => Math.max(round.seconds, round.ideal_seconds)));
    rounds.forEach((round, at) => {
      const tall = (value) => (value / most) * 38;
      const ideal = Math.min(round.seconds, round.ideal_seconds);
      const x = 320 - (rounds.length - at) * 8;
      const isLong = round.ideal_seconds > 0 && round.seconds >= longFactor * round.ideal_seconds;
      picture.append(svg("rect", { x, width: 6, y: 40 - tall(ideal), height: tall(ideal), rx: 1, fill: isLong ? "var(--over)" : "var(--load-one)" }));
      if (round.seconds > ideal) {
        picture.append(svg("rect", { x, width: 6, y: 40 - tall(round.seconds), height: tall(round.seconds - ideal), rx: 1, fill: isLong ? "var(--warn)" : "var(--over)" }));
      }
    });
    return picture;
  }
}

class FlowsPanel {
  constructor(app) {
    Object.assign(this, { app, title: "Flows", parts: ["flows"], hasPast: true });
    this.table = new Table([
      { title: "Flow", width: "minmax(175px,1.2fr)", text: (flow) => flow.flow },
      { title: "Job", width: "minmax(90px,1fr)", text: (flow) => flow.job },
      { title: "From", width: "minmax(70px,1fr)", text: (flow) => flow.source },
      { title: "To", width: "minmax(70px,1fr)", text: (flow) => flow.destination },
      { title: "Path", width: "minmax(90px,1.2fr)", text: (flow) => flow.via || "–" },
      { title: "Port", width: "minmax(60px,.7fr)", text: (flow) => flow.ports || "–" },
      { title: "Rate, 100 ms", width: "100px", right: true, text: (flow) => rate(flow.rate), sort: (flow) => flow.rate },
      { title: "Status", width: "120px", text: (flow) => flow.status, node: (flow) => tag(flow.status.toLowerCase() + (flow.acknowledged ? "" : " …"), statusKind(flow.status)) },
      { title: "Seen", width: "100px", text: (flow) => seenWord(flow.attested), node: (flow) => tag(seenWord(flow.attested), seenKind(flow.attested)) },
      { title: "Why", width: "minmax(150px,1.6fr)", text: why },
    ], {
      label: "Flows", key: (flow) => flow.flow, empty: "No flow is open.",
      onPick: (flow) => app.pick("flow", flow),
    });
    this.filter = h("input", { type: "search", id: "filter", placeholder: "Filter: host, job, switch…   ( / )", "aria-label": "Filter flows", oninput: () => this.update() });
    this.only = h("select", { "aria-label": "Filter by status", onchange: () => this.update() },
      ["all", "ROUTED", "LEARNING", "NEW", "ADOPTING", "LOCAL", "FIXED", "UNSTEERED", "UNROUTABLE"].map((name) => h("option", { value: name }, name.toLowerCase())));
    this.seen = h("select", { id: "flow-seen", "aria-label": "Filter by what switches saw", onchange: () => this.update() },
      Object.entries({ all: "seen or not", AS_DECIDED: "seen as decided", ELSEWHERE: "seen elsewhere", NOT_SEEN: "not seen yet" }).map(([value, text]) => h("option", { value }, text)));
    this.shown = h("span", { class: "muted" });
    this.element = h("div", { class: "panel" }, h("div", { class: "filter" }, this.filter, this.only, this.seen, this.shown), this.table.element);
  }
  get count() { return this.app.model.flows.size; }

  seek({ text = "", state = "all", seen = "all" }) {
    this.filter.value = text;
    this.only.value = state;
    this.seen.value = seen;
  }

  update() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = this.only.value;
    const seen = this.seen.value;
    const rows = [];
    const { past, shownFlows } = this.app.model;
    for (const flow of shownFlows.values()) {
      if ((only === "all" || flow.status === only) && (seen === "all" || flow.attested === seen) && words.every((word) => this.app.model.textOf(flow).includes(word))) rows.push(flow);
    }
    this.shown.textContent = past ? `${count(rows.length, "flow")}: the slowest of those that sent then` : `${rows.length.toLocaleString("en")} of ${count(this.count, "flow")}`;
    this.table.picked = this.app.picked?.kind === "flow" ? this.app.picked.item.flow : null;
    this.table.show(rows);
  }
}

const connection = (agent) => (agent.connected ? "connected" : agent.isMissing ? "never came" : "gone");

class AgentsPanel {
  constructor(app) {
    Object.assign(this, { app, title: "Agents", parts: ["agents"] });
    this.table = new Table([
      { title: "Agent", width: "minmax(120px,1fr)", text: (agent) => agent.name },
      { title: "Connection", width: "130px", text: connection, node: (agent) => tag(connection(agent), agent.connected ? "good" : "bad") },
      { title: "NICs", width: "minmax(140px,2fr)", text: (agent) => agent.nics.join(" ") },
      { title: "Flows", width: "90px", right: true, text: (agent) => agent.flows, sort: (agent) => agent.flows },
      { title: "Pushed", width: "100px", right: true, text: (agent) => agent.generation, sort: (agent) => Number(agent.generation) },
      { title: "Acknowledged", width: "120px", right: true, text: (agent) => agent.acknowledged_generation, sort: (agent) => Number(agent.acknowledged_generation) },
    ], { label: "Agents", key: (agent) => agent.name, empty: "No agent has connected yet.", onPick: (agent) => app.pickNodeNamed(agent.name) });
    this.element = this.table.element;
  }
  get count() { return this.app.model.agents.size; }

  // Hosts without an agent come first.
  update() {
    const { agents, hosts } = this.app.model;
    const missing = hosts.filter((name) => !agents.has(name)).map((name) => ({ name, connected: false, isMissing: true, nics: [], flows: 0, generation: "", acknowledged_generation: "" }));
    const gone = (agent) => (agent.connected ? 1 : 0);
    this.table.show([...missing, ...[...agents.values()].sort((a, b) => gone(a) - gone(b))]);
  }
}

class EventsPanel {
  constructor(app) {
    Object.assign(this, { app, title: "Events", parts: ["events"], hasPast: true });
    this.table = new Table([
      { title: "Time (UTC)", width: "200px", text: (event) => event.time.replace("T", " ").replace("Z", "") },
      { title: "What", width: "200px", text: (event) => event.kind.replaceAll("_", " ") },
      { title: "Details", width: "minmax(200px,1fr)", text: (event) => event.text },
    ], { label: "Events", key: (event) => event.sequence, empty: "No events yet." });
    this.filter = h("input", { type: "search", id: "event-filter", placeholder: "Filter: link, host, feed, what…", "aria-label": "Filter events", oninput: () => this.update() });
    this.shown = h("span", { class: "muted" });
    this.element = h("div", { class: "panel" }, h("div", { class: "filter" }, this.filter, this.shown), this.table.element);
  }

  seek({ text = "" }) {
    this.filter.value = text;
  }

  // In the past, what had happened by then.
  update() {
    const { events, past } = this.app.model;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = events.filter((event) => (!past || Date.parse(event.time) <= past.time + 1000 * past.resolution)
      && words.every((word) => `${event.kind.replaceAll("_", " ")} ${event.text}`.toLowerCase().includes(word)));
    this.shown.textContent = `${rows.length.toLocaleString("en")} of ${count(events.length, "event")}`;
    this.table.show(rows.reverse());
  }
}

class PathMapPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Path map", parts: [], every: 5000 });
    this.table = new Table([
      { title: "From", width: "1fr", text: (pair) => pair.source },
      { title: "To", width: "1fr", text: (pair) => pair.destination },
      { title: "Protocol", width: "90px", text: (pair) => ({ 6: "TCP", 17: "UDP" })[pair.protocol] ?? pair.protocol },
      { title: "To port", width: "90px", text: (pair) => pair.destination_port, sort: (pair) => pair.destination_port },
      { title: "Paths known", width: "120px", right: true, text: (pair) => `${pair.paths_known} of ${pair.paths}`, sort: (pair) => pair.paths_known / pair.paths },
      { title: "Verified", width: "90px", right: true, text: (pair) => pair.verified, sort: (pair) => pair.verified },
      { title: "Predicted", width: "90px", right: true, text: (pair) => pair.predicted, sort: (pair) => pair.predicted },
      { title: "To reverify", width: "90px", right: true, text: (pair) => pair.reverify, sort: (pair) => pair.reverify },
    ], { label: "Pairs of the path map", key: (pair) => `${pair.source} ${pair.destination} ${pair.protocol} ${pair.destination_port}`, empty: "The path map is empty: it learns pairs of NICs when they have flows." });
    this.total = h("div", {});
    this.element = h("div", { class: "split" }, this.total, h("div", {}, this.table.element));
  }
  get count() { return this.app.model.status?.path_map_pairs; }

  async ask() {
    const map = await ask("GET", "/api/v1/path-map");
    const all = Math.max(1, map.verified + map.predicted + map.reverify);
    const part = (number, colour) => {
      const bar = h("span");
      bar.style.width = `${(100 * number) / all}%`;
      bar.style.background = `var(--${colour})`;
      return bar;
    };
    const row = (name, number) => h("div", { class: "row" }, h("span", {}, name), h("b", {}, number.toLocaleString("en")));
    this.total.replaceChildren(
      h("h3", {}, "Which port takes which path"),
      h("div", { class: "meter" }, part(map.verified, "accent"), part(map.predicted, "muted"), part(map.reverify, "over")),
      row("Verified by a probe", map.verified), row("Predicted by a hash model", map.predicted), row("To be verified again after a change of the fabric", map.reverify), row("Pairs", map.pairs_known),
      map.pairs_left_off ? h("p", { class: "muted" }, `The first ${map.pairs.length} pairs are shown.`) : "");
    this.table.show(map.pairs);
  }
}

class HistoryPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Intents and audit", parts: ["events"] });
    this.table = new Table([
      { title: "Time (UTC)", width: "200px", text: (entry) => entry.time.replace("T", " ").replace("Z", "") },
      { title: "Who", width: "minmax(90px,.7fr)", text: (entry) => entry.actor },
      { title: "Did", width: "110px", text: (entry) => entry.action },
      { title: "What", width: "minmax(110px,1fr)", text: (entry) => entry.target },
      { title: "Why", width: "minmax(90px,1fr)", text: (entry) => entry.reason },
      { title: "Moved", width: "70px", right: true, text: (entry) => entry.moved, sort: (entry) => entry.moved },
      { title: "Result", width: "110px", text: (entry) => entry.result, node: (entry) => tag(entry.result.toLowerCase(), entry.result === "DONE" ? "good" : "warn") },
      { title: "Revision", width: "90px", right: true, text: (entry) => entry.revision || "", sort: (entry) => Number(entry.revision) },
    ], { label: "Audit log", key: (entry) => entry.sequence, empty: "No actions yet." });
    this.intents = h("div", {});
    this.element = h("div", { class: "split" }, this.intents, h("div", {}, this.table.element));
  }
  get count() { return undefined; }

  async ask() {
    const [intents, audit] = await Promise.all([ask("GET", "/api/v1/intents"), ask("GET", "/api/v1/audit")]);
    this.intents.replaceChildren(
      h("h3", {}, "In force"),
      h("p", { class: "muted" }, `Revision ${intents.revision}`),
      ...(intents.intents.length ? intents.intents.map((intent) => h("div", { class: "intent" },
        h("b", {}, `${intent.what} ${intent.id}`), h("div", { class: "muted" }, `${intent.actor}, ${intent.since}${intent.until ? `, until ${intent.until}` : ""}`), intent.reason ? h("div", {}, intent.reason) : null))
        : [h("p", {}, "No intents are in force.")]),
      h("div", { class: "actions" }, h("button", { type: "button", id: "rollback", disabled: Number(intents.revision) === 0, onclick: () => rollBack() }, "Roll back the last change…")));
    this.table.show(audit.audit.reverse());
  }
}

export const makePanels = (app) =>
  [JobsPanel, FlowsPanel, LinksPanel, AgentsPanel, PathMapPanel, TreesPanel, PredictionsPanel, EventsPanel, HistoryPanel, AdvicePanel, TelemetryPanel, DiscoveryPanel, ControlsPanel].map((Panel) => new Panel(app));

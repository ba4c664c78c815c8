// What telemetry feeds say: who reports and who is silent, the links and loads that they name, and the large
// flows that nobody announced.
import { count, h, minute, rate, row, seconds, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

const feedKinds = { LOADS: "loads of links", FLOWS: "flows that switches saw" };
const lapse = (age) => (age < 1 ? "less than 1 s" : age < 120 ? `${Math.round(age)} s` : age < 7200 ? `${Math.round(age / 60)} min` : `${Math.round(age / 3600)} h`);
const ago = (age) => `${lapse(age)} ago`;

export class TelemetryPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Telemetry", parts: [], every: 5000, shape: "links" });
    this.links = new Table([
      { title: "Link", width: "minmax(170px,1.4fr)", text: (one) => one.name },
      { title: "What", width: "150px", text: (one) => (one.isDown ? "reported down" : "background load"), node: (one) => tag(one.isDown ? "reported down" : "background load", one.isDown ? "failed" : "") },
      { title: "Load", width: "110px", right: true, text: (one) => (one.isDown ? "–" : rate(one.bps)), sort: (one) => (one.isDown ? -1 : one.bps) },
      { title: "Last report", width: "110px", right: true, text: (one) => (one.isDown ? "–" : rate(one.reported)), sort: (one) => (one.isDown ? -1 : one.reported) },
      { title: "Feed", width: "minmax(110px,1fr)", text: (one) => one.source || "without a name" },
      { title: "When", width: "minmax(170px,1fr)", text: (one) => (one.isDown ? `since ${minute(one.since)}` : ago(one.age)), sort: (one) => (one.isDown ? -1 : one.age) },
    ], { label: "Links of which feeds report", key: (one) => one.key, empty: "No feed reports a link as down, and none a background load.", onPick: (one) => this.#pick(one) });
    this.flows = new Table([
      { title: "From", width: "minmax(110px,1fr)", text: (flow) => flow.source },
      { title: "To", width: "minmax(110px,1fr)", text: (flow) => flow.destination },
      { title: "Ports", width: "120px", text: (flow) => `${flow.source_port} → ${flow.destination_port}`, tip: (flow) => `${{ 6: "TCP", 17: "UDP" }[flow.protocol] ?? `protocol ${flow.protocol}`}, ports ${flow.source_port} to ${flow.destination_port}` },
      { title: "Queue pair", width: "100px", right: true, text: (flow) => flow.queue_pair || "–", sort: (flow) => flow.queue_pair },
      { title: "Rate", width: "150px", right: true, text: (flow) => `${rate(flow.bps)} ± ${Math.round(100 * flow.error)} %`, sort: (flow) => Number(flow.bps) },
      { title: "Seen on", width: "minmax(170px,1.6fr)", text: (flow) => flow.via || "–" },
      { title: "Seen", width: "120px", text: (flow) => ago(flow.age_seconds), sort: (flow) => flow.age_seconds },
    ], { label: "Flows that no agent reports", key: (flow) => JSON.stringify([flow.source_address, flow.destination_address, flow.protocol, flow.source_port, flow.destination_port, flow.queue_pair]), empty: "Switches saw no large flow that no agent reports." });
    this.choices = Object.entries({ links: "Links", flows: "Unannounced flows" }).map(([shape, text]) => h("button", {
      type: "button", role: "radio", "data-telemetry": shape, "aria-checked": shape === this.shape, onclick: () => this.#choose(shape),
    }, text));
    this.shown = h("span", { class: "muted" });
    this.told = h("div", { id: "telemetry-told" });
    this.place = h("div", {});
    this.element = h("div", { class: "split" }, this.told, this.place);
    this.#choose(this.shape);
  }
  get count() { return undefined; }

  #choose(shape) {
    this.shape = shape;
    for (const choice of this.choices) choice.setAttribute("aria-checked", choice.dataset.telemetry === shape);
    const focused = document.activeElement;
    this.place.replaceChildren(h("div", { class: "filter" }, h("div", { class: "choice", role: "radiogroup", "aria-label": "Show" }, this.choices), this.shown), (shape === "links" ? this.links : this.flows).element);
    if (this.choices.includes(focused)) focused.focus();
    this.#draw();
  }

  #pick({ link, key }) {
    this.links.picked = key;
    const found = this.app.model.linkById.get(link);
    if (found) this.app.pick("link", found);
  }

  async ask() {
    const [feeds, { flows }] = await Promise.all([ask("GET", "/api/v1/feeds"), ask("GET", "/api/v1/flows/unannounced")]);
    this.answer = { feeds, flows };
    this.#draw();
  }

  #draw() {
    if (!this.answer) return;
    const { feeds, flows } = this.answer;
    const down = feeds.links_down.map(({ link, source, since }) => ({ key: `down ${link}`, name: link, link, isDown: true, source, since }));
    const loads = feeds.loads.map((load) => ({
      key: `load ${load.link}`, name: load.link, link: load.link.slice(0, load.link.lastIndexOf(">")), isDown: false,
      bps: Number(load.bps), reported: Number(load.reported_bps), source: load.source, age: load.age_seconds,
    }));
    this.links.show([...down, ...loads]);
    this.flows.show(flows);
    const more = feeds.loads_left_out ? `, and ${feeds.loads_left_out.toLocaleString("en")} smaller loads` : "";
    this.shown.textContent = this.shape === "links" ? `${count(down.length, "link")} reported down, ${count(loads.length, "load")}${more}` : count(flows.length, "flow");
    this.told.replaceChildren(h("h3", {}, "Feeds"), ...this.#feeds(feeds.feeds), h("h3", {}, "Flows that switches saw"), ...this.#seen());
  }

  #feeds(feeds) {
    if (feeds.length === 0) return [h("p", { class: "muted" }, "No feed reports loads or flows. States of links count as long as nothing newer is reported.")];
    return feeds.map((feed) => {
      const isSilent = feed.state === "SILENT";
      return h("div", { class: "intent" }, h("b", {}, feed.source), " ", tag(isSilent ? "silent" : "reports", isSilent ? "bad" : "good"),
        h("div", { class: "muted" }, `${feedKinds[feed.kind] ?? feed.kind}${feed.links ? `, ${count(feed.links, "direction of links", "directions of links")}` : ""}; ${isSilent && feed.kind === "LOADS" ? `missed for ${lapse(feed.age_seconds)}` : `last report ${ago(feed.age_seconds)}`}`));
    });
  }

  #seen() {
    const { liveStatus: status } = this.app.model;
    if (!status) return [];
    const { flows_seen_as_decided: decided, flows_seen_elsewhere: elsewhere } = status;
    const seek = () => this.app.seek("Flows", { seen: "ELSEWHERE" });
    return [
      row("As decided", decided.toLocaleString("en")),
      row("Elsewhere", elsewhere ? h("button", { type: "button", class: "link", onclick: seek }, elsewhere.toLocaleString("en")) : "0"),
      row("Not yet", Math.max(0, status.flows - status.flows_by_status.LOCAL - decided - elsewhere).toLocaleString("en")),
    ];
  }
}

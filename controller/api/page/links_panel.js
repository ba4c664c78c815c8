// The table of links, with filters.
import { count, h, rate, stateTag } from "./dom.js";
import { Table } from "./table.js";

const most = (values) => Math.max(...values);
const states = { all: "any state", NOT_UP: "not up", UP: "up", DOWN: "failed", DRAINED: "drained", LOSSY: "lossy" };

export class LinksPanel {
  constructor(app) {
    Object.assign(this, { app, title: "Links", parts: ["links"], hasPast: true });
    this.table = new Table([
      { title: "Link", width: "minmax(160px,1.4fr)", text: (link) => link.id },
      { title: "State", width: "110px", text: (link) => link.state, node: (link) => stateTag(link.state) },
      { title: "Speed", width: "110px", right: true, text: (link) => rate(link.bps), sort: (link) => link.bps },
      { title: "Load →", width: "80px", right: true, text: (link) => link.loadText?.[0] ?? "0", tip: (link) => link.loadExact?.[0] ?? "0", sort: (link) => link.load[0] },
      { title: "Load ←", width: "80px", right: true, text: (link) => link.loadText?.[1] ?? "0", tip: (link) => link.loadExact?.[1] ?? "0", sort: (link) => link.load[1] },
      { title: "Traffic →", width: "110px", right: true, text: (link) => rate(link.achieved[0]), sort: (link) => link.achieved[0] },
      { title: "Traffic ←", width: "110px", right: true, text: (link) => rate(link.achieved[1]), sort: (link) => link.achieved[1] },
      { title: "Most loaded", width: "110px", right: true, text: (link) => most(link.load).toFixed(2).replace(/\.?0+$/, ""), sort: (link) => most(link.load) },
      { title: "Reason", width: "minmax(100px,1fr)", text: (link) => link.reason },
    ], { label: "Links", key: (link) => link.id, empty: "No link is like that.", onPick: (link) => app.pick("link", link) });
    const update = () => this.update();
    this.filter = h("input", { type: "search", id: "link-filter", placeholder: "Filter: link, switch, host, reason…", "aria-label": "Filter links", oninput: update });
    this.state = h("select", { id: "link-state", "aria-label": "Filter by state", onchange: update }, Object.entries(states).map(([value, text]) => h("option", { value }, text)));
    this.between = h("input", { type: "checkbox", id: "link-switches", checked: true, onchange: update });
    this.shown = h("span", { class: "muted" });
    this.element = h("div", { class: "panel" }, h("div", { class: "filter" }, this.filter, this.state, h("label", { class: "check", for: "link-switches" }, this.between, "only between switches"), this.shown), this.table.element);
  }
  get count() { return this.app.model.links.length; }

  seek({ text = "", state = "all" }) {
    this.filter.value = text;
    this.state.value = state;
    this.between.checked = false;
  }

  update() {
    const { model } = this.app;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = this.state.value;
    const isSwitch = (node) => node.tier >= 0 && !node.host;
    const rows = model.links.filter((link) => (!this.between.checked || (isSwitch(link.from) && isSwitch(link.to)))
      && (state === "all" || (state === "NOT_UP" ? link.state !== "UP" : link.state === state))
      && words.every((word) => `${link.id} ${link.a} ${link.b} ${link.reason}`.toLowerCase().includes(word)));
    this.shown.textContent = `${rows.length.toLocaleString("en")} of ${count(model.links.length, "link")}`;
    this.table.picked = this.app.picked?.kind === "link" ? this.app.picked.item.id : null;
    this.table.show(rows);
  }
}

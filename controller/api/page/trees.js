// Jobs whose collectives run on forests: the edges of their trees, in the picture and as a table.
import { count, h, rate, seconds, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

const all = -1;

export const statusTag = (status) => tag(status.toLowerCase(), { READY: "good", STUCK: "bad" }[status] ?? "warn");

// Computes the rates that the edges of a job plan add to links, in bits per second, as [a to b,
// b to a] by link. `rateOf` returns the rate of an edge.
export function plannedOn(model, edges, rateOf) {
  const byAddress = new Map(model.nodes.flatMap((node) => node.addresses.map((address) => [address, node])));
  const byDirection = new Map(model.links.flatMap((link) =>
    [[`${link.id}>${link.to.id}`, [link, 0]], [`${link.id}>${link.from.id}`, [link, 1]]]));
  const planned = new Map();
  const add = (link, direction, bps) => {
    if (!planned.has(link)) planned.set(link, [0, 0]);
    planned.get(link)[direction] += bps;
  };
  for (const edge of edges) {
    const bps = rateOf(edge);
    const source = byAddress.get(edge.source_address);
    const destination = byAddress.get(edge.destination_address);
    if (source?.uplink) add(source.uplink, source.uplink.from === source ? 0 : 1, bps);
    for (const name of edge.links) {
      if (byDirection.has(name)) add(...byDirection.get(name), bps);
    }
    if (destination?.uplink) add(destination.uplink, destination.uplink.to === destination ? 0 : 1, bps);
  }
  return planned;
}

export class TreesPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Trees", parts: [], every: 2000, forests: [], job: null, rank: all, root: all, tree: all, plan: null });
    this.table = new Table([
      { title: "From", width: "minmax(110px,1fr)", text: (edge) => this.#nameOf(edge.from) },
      { title: "To", width: "minmax(110px,1fr)", text: (edge) => this.#nameOf(edge.to) },
      { title: "Channel", width: "80px", right: true, text: (edge) => edge.channel, sort: (edge) => edge.channel },
      { title: "Over", width: "minmax(120px,1.2fr)", text: (edge) => edge.via || (edge.links.length ? "direct" : "its leaf or host") },
      { title: "Rate", width: "100px", right: true, text: (edge) => rate(this.#rateOf(edge)), sort: (edge) => this.#rateOf(edge) },
      { title: "Chunks", width: "80px", right: true, text: (edge) => edge.chunks, sort: (edge) => edge.chunks },
      { title: "Source port", width: "100px", right: true, text: (edge) => edge.source_port || "–", sort: (edge) => edge.source_port },
      { title: "Listens on", width: "100px", right: true, text: (edge) => edge.destination_port, sort: (edge) => edge.destination_port },
    ], { label: "Edges of the trees", key: (edge) => `${edge.from} ${edge.to} ${edge.channel}`, empty: "No plan is in force." });
    this.list = h("div", {});
    const choice = (id, label, name) => {
      const select = h("select", { id, onchange: () => this.#narrow(name, Number(select.value)) });
      this[`${name}s`] = select;
      return h("div", { class: "row" }, h("label", { class: "muted", for: id }, label), select);
    };
    this.side = h("div", {}, this.list, choice("tree-root", "Trees with root", "root"), choice("tree-one", "Tree", "tree"), choice("tree-rank", "Edges of", "rank"));
    this.none = h("p", { class: "none muted" }, "No job has trees. Start one with: espalier job start NAME --ranks h0,h1,…");
    this.split = h("div", { class: "split" }, this.side, h("div", {}, this.table.element));
    this.element = h("div", { class: "panel" }, this.none, this.split);
  }
  get count() { return this.forests.length || undefined; }

  async ask() {
    const { forests } = await ask("GET", "/api/v1/forests");
    this.forests = forests;
    this.none.hidden = forests.length > 0;
    this.split.hidden = forests.length === 0;
    if (!forests.some((forest) => forest.job === this.job)) {
      await this.#choose(forests[0]?.job ?? null, false);
    } else if (this.forest.plan !== this.plan.plan) {
      await this.#choose(this.job, this.app.picked?.kind === "forest");
    }
    this.#refreshPicked();
    this.#showJobs();
  }

  // Updates the selected forest, or clears the selection if its job has ended.
  #refreshPicked() {
    const { picked } = this.app;
    if (picked?.kind !== "forest") return;
    const now = this.forests.find((forest) => forest.job === picked.item.forest.job);
    if (now) picked.item.forest = now;
    else this.app.pick(null, null);
  }

  get forest() { return this.forests.find((forest) => forest.job === this.job); }
  #nameOf(rank) { return this.forest?.ranks[rank] ?? `rank ${rank}`; }
  get one() { return this.plan?.trees[this.tree]; }
  #rateOf(edge) {
    if (this.one) return 1e9 * this.forest.algbw_gbps * this.#shareOf(this.one);
    return this.plan.chunks > 0 ? (1e9 * this.forest.algbw_gbps * edge.chunks) / this.plan.chunks : 0;
  }
  // The part of the data that a tree carries: all trees of its direction share the data evenly.
  #shareOf(tree) {
    const others = this.plan.trees.filter((other) => other.towards_root === tree.towards_root);
    return tree.count / others.reduce((sum, other) => sum + other.count, 0);
  }
  #describe(tree) {
    return `${this.#nameOf(tree.root)} ${tree.towards_root ? "⇠ reduces" : "⇢ broadcasts"}, height ${tree.height}${tree.count > 1 ? `, ${tree.count} identical` : ""}`;
  }

  async #choose(job, isDrawn = true) {
    const plan = job === null ? null : await ask("GET", "/api/v1/forests/plan", { job });
    Object.assign(this, { job, plan, rank: all, root: all, tree: all });
    this.#showChoices();
    this.#showJobs();
    this.#showEdges(isDrawn);
  }

  // Narrows the choice: a root to its trees, a tree or rank to its edges.
  #narrow(name, value) {
    this[name] = value;
    if (name === "root") this.tree = all;
    this.#showChoices();
    this.#showEdges(true);
  }

  #treesOfRoot() {
    return (this.plan?.trees ?? []).filter((tree) => this.root === all || tree.root === this.root);
  }

  // Shows the edges in the table, and in the picture if isDrawn.
  #showEdges(isDrawn) {
    const inTrees = new Set(this.one ? this.one.edges : this.#treesOfRoot().flatMap((tree) => tree.edges));
    const edges = (this.plan?.edges ?? []).filter((edge, at) => inTrees.has(at) && (this.rank === all || edge.from === this.rank || edge.to === this.rank));
    this.table.show(edges);
    if (!isDrawn || !this.forest) return;
    this.app.pick("forest", {
      forest: this.forest, edges, rank: this.rank === all ? null : this.#nameOf(this.rank),
      root: this.root === all ? null : this.#nameOf(this.root), tree: this.one ? this.#describe(this.one) : null,
      planned: plannedOn(this.app.model, edges, (edge) => this.#rateOf(edge)),
    });
  }

  #showChoices() {
    const ranks = this.forest?.ranks ?? [];
    const trees = this.#treesOfRoot();
    const fill = (name, everything, entries) => {
      this[`${name}s`].replaceChildren(h("option", { value: all }, everything), ...entries.map(([value, text]) => h("option", { value }, text)));
      this[`${name}s`].value = String(this[name]);
    };
    const roots = [...new Set((this.plan?.trees ?? []).map((tree) => tree.root))].sort((a, b) => a - b);
    fill("root", "any root", roots.map((root) => [root, this.#nameOf(root)]));
    fill("tree", `all ${count(trees.length, "tree")}`, trees.map((tree) => [tree.id, this.#describe(tree)]));
    fill("rank", "all ranks", ranks.map((name, rank) => [rank, name]));
  }

  #showJobs() {
    const focused = document.activeElement?.dataset?.forest;
    this.list.replaceChildren(...this.forests.map((forest) => this.#row(forest)));
    if (focused !== undefined) [...this.list.children].find((row) => row.dataset.forest === focused)?.focus();
  }

  #row(forest) {
    const row = h("button", {
      type: "button", class: "job forest", "aria-pressed": forest.job === this.job,
      onclick: () => (forest.job === this.job ? this.#showEdges(true) : this.#choose(forest.job).catch(() => this.update())),
    },
    h("div", { class: "name" }, forest.job, " ", statusTag(forest.status)),
    h("div", { class: "label" }, `${forest.collective}, ${count(forest.rank_count, "rank")}, ${count(forest.trees_per_rank, "tree")} each, ${count(forest.edges, "edge")}`),
    h("div", { class: "label" }, rateAgainstBound(forest)),
    forest.problem ? h("div", { class: "label" }, forest.problem) : null);
    row.dataset.forest = forest.job;
    return row;
  }
}

const rateAgainstBound = (forest) => (forest.bound_gbps > 0
  ? `${rate(1e9 * forest.algbw_gbps)}, ${Math.floor((100 * forest.algbw_gbps) / forest.bound_gbps + 1e-6)} % of the throughput bound` : "no plan yet");

// The details of a forest beside the picture.
export function ofForest(app, { forest, edges, rank, root, tree, planned }) {
  const row = (name, value) => h("div", { class: "row" }, h("span", { class: "muted" }, name), h("span", {}, value));
  const busiest = [...planned].flatMap(([link, rates]) => rates.map((bps, direction) => ({ link, direction, bps }))).sort((a, b) => b.bps - a.bps)[0];
  return [
    h("h2", {}, forest.job), statusTag(forest.status), " ", forest.offload ? tag("offloaded") : null, forest.problem ? h("p", {}, forest.problem) : null,
    h("h3", {}, "Forest"), row("Collective", forest.collective), row("Ranks", String(forest.rank_count)), row("Trees per rank", String(forest.trees_per_rank)),
    row("Edges", `${forest.edges}, ${forest.edges_over_fabric} between leaves`), row("Rate", rateAgainstBound(forest)),
    forest.expected_seconds > 0 ? row("Expected time", seconds(forest.expected_seconds)) : null,
    h("h3", {}, "In the picture"), tree ? row("Tree", tree) : root ? row("Trees", `those with root ${root}`) : null, row("Edges", rank === null ? `all ${edges.length}` : `${edges.length} from and to ${rank}`),
    busiest ? row("Most loaded link", h("button", { type: "button", class: "link", onclick: () => app.pick("link", busiest.link) }, `${rate(busiest.bps)} on ${busiest.link.id}`)) : null,
    h("h3", {}, "Reported"), row("Collectives done", String(forest.collectives_done)), forest.collectives_done ? row("Last one took", seconds(forest.last_seconds)) : null,
    forest.unacknowledged_ranks.length ? row("Not acknowledged", count(forest.unacknowledged_ranks.length, "rank")) : null,
    forest.failures ? row("Failures", String(forest.failures)) : null, forest.last_failure ? h("p", {}, forest.last_failure) : null,
  ];
}

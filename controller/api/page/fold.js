// Groups of switches that the map shows as one node: pods, rails, or blocks of neighbouring leaves.
// A folded group stands for its switches, their hosts and the links among them; a bundle stands for
// the links between two nodes of the map. Both show the sum of the traffic and the worst of the
// rest. Which groups are folded is in the address of the page, so that a link shows the same.

const manyHosts = 1024;  // with more, all groups are folded at first
const ranks = { UP: 0, LOSSY: 1, DRAINED: 2, DOWN: 3 };

const worst = (links) => links.reduce((state, link) => (ranks[link.state] > ranks[state] ? link.state : state), "UP");
const offIn = (links) => links.filter((link) => link.state !== "UP").length;

// The links between two nodes of the map, of which one at least is a folded group.
class Bundle {
  constructor(from, to) {
    Object.assign(this, { from, to, links: [] });
  }
  get id() { return `${this.from.id} – ${this.to.id}`; }
  get state() { return worst(this.links); }
  get off() { return offIn(this.links); }
  // Whether only some of its links are in its state.
  get isPart() { return this.off < this.links.length; }
  get bps() { return this.#sum(({ bps }) => bps); }
  get achieved() { return [0, 1].map((side) => this.#sum((link) => link.achieved[this.sideOf(link, side)])); }
  get load() { return [0, 1].map((side) => Math.max(...this.links.map((link) => link.load[this.sideOf(link, side)]))); }
  // Of the link that has the largest part of its rate.
  get use() { return Math.max(...this.links.map((link) => Math.max(...link.achieved) / link.bps)); }
  get loadText() { return this.load.map((load) => String(Math.round(100 * load) / 100)); }

  // The side of a link that is this side of the bundle: 0 from `from` to `to`.
  sideOf(link, side) { return standsFor(this.from, link.from) ? side : 1 - side; }
  #sum(of) { return this.links.reduce((sum, link) => sum + of(link), 0); }
}

const standsFor = (node, inner) => node === inner || Boolean(node.isGroup && node.members.has(inner));

// A folded group in the place of its switches.
class Group {
  constructor({ name, nodes }) {
    const hosts = nodes.flatMap((node) => node.hosts ?? []);
    Object.assign(this, { id: name, isGroup: true, nodes, host: "", hosts: [], links: [], inside: hosts, members: new Set([...nodes, ...hosts]), tier: Math.min(...nodes.map((node) => node.tier)) });
    const own = new Set(nodes.flatMap((node) => node.links));
    this.inner = [...own].filter((link) => this.members.has(link.from) && this.members.has(link.to));
    this.cables = this.inner.filter((link) => !hosts.includes(link.from) && !hosts.includes(link.to));
  }
  get state() { return worst(this.inner); }
  get off() { return offIn(this.inner); }
  get isPart() { return this.off < this.inner.length; }
  get sent() { return this.inside.reduce((sum, host) => sum + (host.uplink ? host.uplink.achieved[host.uplink.from === host ? 0 : 1] : 0), 0); }
}

// What the map shows of an arrangement (layout.js) while these groups are folded:
// {tiers, pods, hosts, cables, bundles}, the latter by link.
export function foldMap(arrangement, groups) {
  const { cables } = arrangement;
  const standIn = new Map();
  const shown = groups.map((group) => {
    const one = new Group(group);
    for (const node of one.members) standIn.set(node, one);
    return one;
  });
  const at = (node) => standIn.get(node) ?? node;
  const tiers = arrangement.tiers.map((tier) => [...new Set(tier.map(at))]);
  // A group stands in the lowest of its tiers.
  const seen = new Set();
  for (const tier of tiers) {
    for (let i = tier.length - 1; i >= 0; --i) if (tier[i].isGroup && seen.has(tier[i])) tier.splice(i, 1);
    for (const node of tier) if (node.isGroup) seen.add(node);
  }
  const bundles = new Map();
  const byEnds = new Map();
  const plain = [];
  for (const link of cables) {
    const [from, to] = [at(link.from), at(link.to)];
    if (from === to) continue;
    if (!from.isGroup && !to.isGroup) {
      plain.push(link);
      continue;
    }
    const [first, second] = from.isGroup && !to.isGroup ? [from, to] : to.isGroup && !from.isGroup ? [to, from] : from.id < to.id ? [from, to] : [to, from];
    if (!byEnds.has(first)) byEnds.set(first, new Map());
    const others = byEnds.get(first);
    if (!others.has(second)) others.set(second, new Bundle(first, second));
    others.get(second).links.push(link);
    bundles.set(link, others.get(second));
  }
  shareWidth(arrangement, tiers, standIn, groups.length > 0);
  const made = [...new Set(bundles.values())];
  for (const bundle of made) for (const end of [bundle.from, bundle.to]) if (end.isGroup) end.links.push(bundle);
  return {
    tiers: tiers.filter((tier) => tier.length > 0),
    pods: arrangement.pods.filter((pod) => !standIn.has(pod.nodes[0])),
    hosts: arrangement.hosts.filter((host) => !standIn.has(host)),
    cables: plain.concat(made), bundles, standIn,
  };
}

// Gives each pod a part of the width, so that its tiers stay above each other while others are folded.
function shareWidth({ tiers, pods }, shownTiers, standIn, isFolded) {
  for (const node of tiers.flat().concat(shownTiers.flat())) node.span = null;
  if (pods.length === 0 || !isFolded) return;
  const shares = pods.map(({ nodes }) => {
    if (standIn.has(nodes[0])) return { rows: [[standIn.get(nodes[0])]], width: 2 };
    const rows = tiers.map((tier) => tier.filter((node) => nodes.includes(node))).filter((row) => row.length > 0);
    return { rows, width: Math.max(2, ...rows.map((row) => row.length)) };
  });
  const all = shares.reduce((sum, { width }) => sum + width, 0);
  let left = 0;
  for (const { rows, width } of shares) {
    for (const row of rows) row.forEach((node, at) => { node.span = [left / all, (left + width) / all, at, row.length]; });
    left += width;
  }
}

// The names of the folded groups by the page's address, or else by the size of the fabric.
export function foldedAtFirst(groups, hosts) {
  const query = new URLSearchParams(location.search);
  const names = new Set(query.getAll("folded"));
  const all = groups.map((group) => group.name);
  if (query.get("fold") === "none") return new Set();
  if (query.get("fold") === "all") return new Set(all);
  if (names.size > 0) return new Set(all.filter((name) => names.has(name)));
  return new Set(hosts > manyHosts ? all : []);
}

export function noteFolded(folded, groups) {
  const query = new URLSearchParams(location.search);
  query.delete("fold");
  query.delete("folded");
  if (groups.length > 0) {
    if (folded.size === 0 || folded.size === groups.length) query.set("fold", folded.size === 0 ? "none" : "all");
    else for (const name of folded) query.append("folded", name);
  }
  const text = query.toString();
  history.replaceState(null, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}

// The order of switches in the picture: by tier, pods side by side, and in a pod by rail.
import { byName } from "./dom.js";

// Returns {tiers, pods}: the switches of each tier from the leaves up, in the order of the picture,
// and the pods {name, nodes}; none if the fabric has none.
export function arrange(nodes) {
  const switches = nodes.filter((node) => node.tier >= 0 && !node.host);
  const heights = [...new Set(switches.map((node) => node.tier))].sort((a, b) => a - b);
  noteRails(nodes);
  const pods = heights.length > 2 ? podsOf(switches, heights.at(-1)) : [];
  const podOf = new Map(pods.flatMap((pod, at) => pod.nodes.map((node) => [node, at])));
  const order = (a, b) => (podOf.get(a) ?? 0) - (podOf.get(b) ?? 0) || (a.rail ?? 0) - (b.rail ?? 0) || a.index - b.index;
  return { tiers: heights.map((tier) => switches.filter((node) => node.tier === tier).sort(order)), pods };
}

// The parts into which the fabric falls without its highest tier, if they have several switches.
function podsOf(switches, top) {
  const found = [];
  const seen = new Set();
  const isBelow = (node) => node.tier >= 0 && node.tier < top && !node.host;
  for (const first of switches) {
    if (seen.has(first) || !isBelow(first)) continue;
    const nodes = [];
    const open = [first];
    seen.add(first);
    while (open.length > 0) {
      const node = open.pop();
      nodes.push(node);
      for (const link of node.links) {
        const other = link.from === node ? link.to : link.from;
        if (!isBelow(other) || seen.has(other)) continue;
        seen.add(other);
        open.push(other);
      }
    }
    found.push(nodes);
  }
  if (found.length < 2 || found.every((nodes) => nodes.length === 1)) return [];
  return found.map((nodes, at) => ({ name: `pod ${at}`, nodes }));
}

// Where hosts have several NICs on different leaves, a leaf is the rail of the NICs' number.
function noteRails(nodes) {
  const byHost = new Map();
  for (const node of nodes) {
    node.rail = undefined;
    if (node.host && node.tier < 0) byHost.set(node.host, [...(byHost.get(node.host) ?? []), node]);
  }
  const votes = new Map();
  for (const nics of byHost.values()) {
    const ends = nics.flatMap((nic, rail) => nic.links.map((link) => [link.from === nic ? link.to : link.from, rail])).filter(([leaf]) => leaf.tier === 0 && !leaf.host);
    if (new Set(ends.map(([leaf]) => leaf)).size < 2) continue;
    for (const [leaf, rail] of ends) {
      if (!votes.has(leaf)) votes.set(leaf, new Map());
      votes.get(leaf).set(rail, (votes.get(leaf).get(rail) ?? 0) + 1);
    }
  }
  for (const [leaf, rails] of votes) [leaf.rail] = [...rails].sort((a, b) => b[1] - a[1])[0];
}

// What one can go to and fold: pods, the leaves of each rail, or blocks of neighbouring leaves where
// there are many.
export function groupsOf({ tiers, pods }) {
  if (pods.length > 0) return pods;
  const leaves = tiers[0] ?? [];
  const rails = [...new Set(leaves.map((leaf) => leaf.rail))];
  if (rails.length > 1 && !rails.includes(undefined) && rails.length < leaves.length) {
    return rails.map((rail) => ({ name: `rail ${rail}`, nodes: leaves.filter((leaf) => leaf.rail === rail) }));
  }
  if (leaves.length <= 16) return [];
  const groups = [];
  for (let at = 0; at < leaves.length; at += 8) {
    const nodes = leaves.slice(at, at + 8);
    groups.push({ name: `${nodes[0].id} – ${nodes.at(-1).id}`, nodes });
  }
  return groups;
}

// The nodes and links whose name has a text; whole names first.
export function search(model, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  for (const [kind, items] of [["node", model.nodes], ["link", model.links]]) {
    for (const item of items) {
      if (item.id.toLowerCase().includes(wanted) || item.host?.toLowerCase() === wanted) found.push({ kind, item });
    }
  }
  const rank = (one) => (one.item.id.toLowerCase() === wanted ? 0 : one.kind === "node" ? 1 : 2);
  return found.sort((a, b) => rank(a) - rank(b) || byName(a.item.id, b.item.id));
}

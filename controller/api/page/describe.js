// What a switch, host, link, folded group or bundle is, in lines of text.
import { count, rate, stateWord } from "./dom.js";

function describeLink(link) {
  const lines = [link.id];
  if (link.state !== "UP") lines.push(stateWord(link.state) + (link.reason ? `: ${link.reason}` : ""));
  const directions = [[link.from, link.to, 0], [link.to, link.from, 1]];
  for (const [from, to, direction] of directions) {
    lines.push(`${from.id} → ${to.id}: ${rate(link.achieved[direction])} of ${rate(link.bps)}${link.load[direction] > 0 ? `, load ${link.loadText[direction]}` : ""}`);
  }
  return lines;
}

function describeNode(node, state) {
  const lines = [node.id];
  if (state !== "UP") lines.push(stateWord(state));
  if (node.uplink) {
    const out = node.uplink.from === node ? 0 : 1;
    lines.push(`sends ${rate(node.uplink.achieved[out])}, receives ${rate(node.uplink.achieved[1 - out])}`);
  } else {
    lines.push(`${node.role.toLowerCase() || "switch"}${node.rail === undefined ? "" : ` of rail ${node.rail}`}, ${node.links.length} links`);
  }
  return lines;
}

function describeGroup(group) {
  return [group.id, `${count(group.nodes.length, "switch", "switches")}, ${count(group.inside.length, "host")}, folded`, ...offOf(group.off, group.inner.length), `its hosts send ${rate(group.sent)}`];
}

const offOf = (off, all) => (off ? [`${off} of ${count(all, "link")} not up`] : []);

function describeBundle(bundle) {
  const line = (from, to, side) => `${from.id} → ${to.id}: ${rate(bundle.achieved[side])} of ${rate(bundle.bps)}${bundle.load[side] > 0 ? `, load up to ${bundle.loadText[side]}` : ""}`;
  return [bundle.id, count(bundle.links.length, "link"), ...offOf(bundle.off, bundle.links.length), line(bundle.from, bundle.to, 0), line(bundle.to, bundle.from, 1)];
}

// None for what is not on the picture.
export function describe(kind, item, model) {
  const lines = { node: () => describeNode(item, model.stateOf(item)), link: () => describeLink(item), group: () => describeGroup(item), bundle: () => describeBundle(item) }[kind];
  return lines ? lines() : [];
}

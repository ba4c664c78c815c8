// What a switch, host or link is, in lines of text.
import { rate, stateWord } from "./dom.js";

export function describeLink(link) {
  const lines = [link.id];
  if (link.state !== "UP") lines.push(stateWord(link.state) + (link.reason ? `: ${link.reason}` : ""));
  const directions = [[link.from, link.to, 0], [link.to, link.from, 1]];
  for (const [from, to, direction] of directions) {
    lines.push(`${from.id} → ${to.id}: ${rate(link.achieved[direction])} of ${rate(link.bps)}${link.load[direction] > 0 ? `, load ${link.loadText[direction]}` : ""}`);
  }
  return lines;
}

export function describeNode(node, state) {
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

// From what is wrong to where it is: the reasons of the fabric's health, and what may slow a job.
import { h, stateTag } from "./dom.js";

// What a reason says (controller/state/fabric_health.cc), and where it leads: the panel, and what it
// looks for, which may depend on the match. A reason that is none of these is only a text.
const leads = [
  [/no usable path/, "Flows", { state: "UNROUTABLE" }],
  [/until an operator fails/, "Events", { text: "operator" }],
  [/on a? ?drained links?/, "Links", { state: "DRAINED" }],
  [/(is|are) down$/, "Links", { state: "DOWN" }],
  [/^\d+ links? loses? packets$/, "Links", { state: "LOSSY" }],
  [/^link (\S+)>(\S+) is being tested/, "Links", ([, from, to]) => ({ text: `${from} ${to}` })],
  [/repeat packets.*most on (\S+)>(\S+)\)$/, "Links", ([, from, to]) => ({ text: `${from} ${to}` })],
  [/no path tells them apart$/, "Events", { text: "links undecided" }],
  [/^NIC (\S+) or its host/, "Links", ([, nic]) => ({ text: nic })],
  [/^switches see/, "Flows", { seen: "ELSEWHERE" }],
  [/feeds? of link loads/, "Events", { text: "feed" }],
  [/maintenance windows?|steering/, "Controls", {}],
  [/no agent$/, "Agents", {}],
  [/topology does not have/, "Flows", {}],
];

// The reasons of the health, each a button to what it names.
export const healthReasons = (app, status) => status.health_reasons.map((reason) => {
  const lead = leads.find(([says]) => says.test(reason));
  if (!lead) return h("p", {}, reason);
  const [says, panel, wanted] = lead;
  const seek = () => app.seek(panel, typeof wanted === "function" ? wanted(says.exec(reason)) : wanted);
  return h("p", {}, h("button", { type: "button", class: "link", "data-cause": panel, onclick: seek }, reason));
});

// The links that are not up, the failed ones first.
export function notUp(links) {
  const order = ["DOWN", "LOSSY", "DRAINED"];
  return links.filter((link) => link.state !== "UP").sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
}

export const linkButton = (app, link) => h("div", { class: "row" },
  h("span", {}, h("button", { type: "button", class: "link", onclick: () => app.pick("link", link) }, link.id), link.reason ? h("span", { class: "muted" }, ` ${link.reason}`) : null), stateTag(link.state));

// Links that are not up at the leaves of a job's hosts: the paths that its flows lack.
export function lostLinks(model, flows) {
  const hosts = new Set(flows.flatMap((flow) => [flow.source, flow.destination]));
  const leaves = new Set();
  for (const name of hosts) {
    const host = model.nodeById.get(name);
    for (const link of host?.links ?? []) leaves.add(link.from === host ? link.to : link.from);
  }
  return model.links.filter((link) => link.state !== "UP" && (leaves.has(link.from) || leaves.has(link.to)));
}

// The last events that name a link or node.
export function eventsOf(model, id) {
  const isPart = (letter) => letter !== undefined && /[\w\-#]/.test(letter);  // of a longer name
  const names = ({ text }) => {
    for (let at = text.indexOf(id); at >= 0; at = text.indexOf(id, at + 1)) {
      if (!isPart(text[at - 1]) && !isPart(text[at + id.length])) return true;
    }
    return false;
  };
  return model.events.filter(names).slice(-5).reverse();
}

// The dialogs of steering, maintenance windows and topologies: what they ask, and what they show first.
import { count, h } from "./dom.js";
import { open, toast, untilField } from "./actions.js";

// `after` is called when something has changed.
export const switchSteering = (on, after) => open({
  verb: on ? "Switch on" : "Switch off", danger: !on, title: `Switch steering ${on ? "on" : "off"}`,
  text: on ? "Steers flows again. What is set for hosts, jobs and a percentage holds again." : "Leaves every flow to plain ECMP with its own source port. What else is set is kept for later.",
  fields: on ? [] : [untilField()], after,
  request: (values) => [`/api/v1/steering/${on ? "on" : "off"}`, { ...values, force: "true" }],
});

export const steerPercentage = (percent, after) => open({
  verb: "Steer", title: "Steer a percentage of the hosts", after,
  text: "Steers the flows that these hosts send, and no others. A larger percentage only adds hosts. It also switches steering on.",
  fields: [{ name: "percent", label: "Percentage", type: "number", min: 0, max: 100, value: percent, first: true }],
  lacks: ({ percent: text }) => (/^(100|\d\d?)$/.test(text) ? "" : "Choose a percentage from 0 to 100."),
  request: (values) => ["/api/v1/steering/on", { ...values, force: "true" }],
});

// Names of hosts and jobs may be given, or are left to the operator.
export const steerPart = ({ host = "", job = "", on = false }, after) => open({
  verb: "Change", title: host || job ? `Steering of ${host ? "host" : "job"} ${host || job}` : "Steering of hosts or jobs", after,
  text: "Off leaves the flows that these hosts send, or those of these jobs, to plain ECMP.",
  fields: [
    { name: "state", label: "Steering", options: { off: "off", on: "on" }, value: on ? "on" : "off" },
    ...(host || job ? [] : [{ name: "host", label: "Hosts", placeholder: "h0,h1", first: true }, { name: "job", label: "Jobs", placeholder: "train" }]),
    untilField("no end, or +2h (only for off)"),
  ],
  lacks: (values) => (host || job || values.host || values.job ? "" : "Name hosts or jobs, separated by commas."),
  request: ({ state, ...values }) => [`/api/v1/steering/${state}`, { ...(host ? { host } : {}), ...(job ? { job } : {}), ...values, force: "true" }],
});

// A window that has not begun moves nothing; its dry run shows what it would move if it began now.
export const addWindow = (model, id, after) => open({
  verb: "Add window", title: id ? `Maintenance of ${id}` : "Add a maintenance window", after,
  text: "Drains a link or node while the window lasts. Below is what would move if it began now.",
  fields: [
    ...(id ? [] : [{ name: "id", label: "Link, switch or host", placeholder: "leaf0--spine0", first: true }]),
    { name: "from", label: "From", placeholder: "now, or for example +2h", first: Boolean(id) },
    untilField("for example +4h"),
    { name: "force", label: "begin even if that cuts off flows", type: "checkbox" },
  ],
  lacks: (values) => {
    const target = id || values.id;
    if (!target) return "Name what the window covers.";
    if (!model.linkById.has(target) && !model.nodeById.has(target)) return `There is no link, switch or host ${target}.`;
    return values.until ? "" : "Say when the window ends.";
  },
  request: (values) => ["/api/v1/maintenance/add", { kind: model.linkById.has(id || values.id) ? "link" : "node", ...(id ? { id } : {}), ...values }],
  done: (answer) => `The window is added, ${count(answer.moved, "flow")} moved.`,
});

export const endWindow = ({ window, id, state }, after) => open({
  verb: state === "ACTIVE" ? "End window" : "Remove window", title: `${state === "ACTIVE" ? "End" : "Remove"} window ${window} of ${id}`, after,
  text: state === "ACTIVE" ? "Takes the drain back now. Flows in progress keep their paths until a recompute." : "The window has not begun; nothing is drained for it.",
  request: (values) => ["/api/v1/maintenance/cancel", { id: window, ...values, force: "true" }],
});

// What the controller accepts in a request over TCP.
const mostBytes = 1 << 20;

export async function applyTopology(file) {
  if (!file) return;
  if (file.size > mostBytes) {
    toast(`${file.name} has more than 1 MiB: apply it with \`espalier topology apply\` on the controller's machine.`, true);
    return;
  }
  const body = await file.text();
  open({
    verb: "Apply", danger: true, title: `Apply the topology ${file.name}`,
    text: "The controller starts again with this topology: agents connect again, and flows keep their ports.",
    fields: [{ name: "force", label: "apply it even if flows or hosts are lost", type: "checkbox" }],
    request: (values) => ["/api/v1/topology/apply", values, body],
    show: showEffects, held: (would) => Boolean(would.refusal),
    carry: ({ base }) => ({ base }),  // another operator's topology would be another difference
    done: (answer) => `The topology is applied: ${count(answer.changes.length, "change")}, ${count(answer.flows_moved, "flow")} moved.`,
  });
}

const changeWords = { ADDED: "added", REMOVED: "removed", RECABLED: "re-cabled", RATE: "other rate", CHANGED: "changed" };

function showEffects(would) {
  const figure = (number, text) => h("div", {}, h("b", {}, number.toLocaleString("en")), h("span", {}, text));
  const list = (items, text, kind) => (items.length ? [h("p", {}, h("span", { class: `tag ${kind}` }, text), ` ${items.slice(0, 20).join(", ")}${items.length > 20 ? `, and ${items.length - 20} more` : ""}`)] : []);
  const most = 200;
  const parts = [
    h("div", { class: "sum" }, figure(would.changes.length, would.changes.length === 1 ? "change" : "changes"), figure(would.flows_kept, "flows keep their paths"), figure(would.flows_moved, "take others"), figure(would.flows_lost, "lose every path")),
    ...(would.refusal ? [h("p", {}, h("span", { class: "tag bad" }, "refused"), ` ${would.refusal}`)] : []),
    ...(would.question ? [h("p", { class: "tag warn" }, `${would.question}: tick the box above`)] : []),
    ...list(would.hosts_lost, "hosts lost", "bad"), ...list(would.contradictions, "probes contradict", "bad"), ...list(would.intents_dropped, "intents dropped", "warn"),
  ];
  if (would.changes.length === 0) return parts;
  parts.push(h("table", { class: "diff" },
    h("thead", {}, h("tr", {}, ["What", "Change", "Details"].map((name) => h("th", {}, name)))),
    h("tbody", {}, would.changes.slice(0, most).map((change) => h("tr", {},
      h("td", {}, `${change.what} ${change.id}`), h("td", {}, changeWords[change.change] ?? change.change), h("td", {}, change.detail))))));
  if (would.changes.length > most) parts.push(h("p", { class: "muted" }, `and ${would.changes.length - most} more`));
  return parts;
}

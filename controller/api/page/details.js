// The details of the selection beside the picture: a link, node, flow, job, forest, or the fabric.
import { breakable, clock, count, decimal, exact, h, rate, row, seconds, seenWord, stateTag, statusKind, tag, why } from "./dom.js";
import { actOn } from "./actions.js";
import { eventsOf, healthReasons, linkButton, lostLinks, notUp } from "./causes.js";
import { addWindow, steerPart } from "./operations.js";
import { drawPast } from "./history.js";
import { ask } from "./model.js";
import { ofForest } from "./trees.js";

// What an operator can do now; nothing about the past, and nothing without the role for it.
function actions(app, kind, id, state, scope = null) {
  if (app.model.past) return h("p", { class: "muted" }, "Go back to now to act on it.");
  if (!app.session.canAct) return h("p", { class: "muted" }, `Acting on it takes the role operator; ${app.session.name} has the role ${app.session.role}.`);
  const button = (action, text, kindOf = "") => h("button", { type: "button", class: kindOf, "data-action": action, onclick: () => actOn(action, kind, id) }, text);
  return h("div", { class: "actions" },
    state === "DOWN" ? button("restore", "Restore…") : button("fail", "Fail…"),
    state === "DRAINED" ? button("undrain", "Undrain…") : state === "UP" ? button("drain", "Drain…") : null,
    h("button", { type: "button", "data-action": "maintain", onclick: () => addWindow(app.model, id) }, "Maintenance…"),
    scope ? steering(app, scope) : null);
}

// Steering of the flows that a host sends, or of a job's: on again where they are off.
function steering(app, scope) {
  const own = [...app.model.flows.values()].filter((flow) => flow.status !== "LOCAL" && (scope.job ? flow.job === scope.job : flow.source === scope.nic));
  const isOff = own.length > 0 && own.every((flow) => flow.status === "UNSTEERED");
  return h("button", { type: "button", "data-action": "steer", onclick: () => steerPart({ host: scope.host, job: scope.job, on: isOff }) }, "Steering…");
}

// In the past, those of the slowest flows.
const flowsOf = (app, flows) => [h("h3", {}, app.model.past ? "Slowest flows" : "Flows"), flowList(app, flows())];

function flowList(app, flows) {
  if (flows.length === 0) return h("p", { class: "muted" }, "No flows.");
  const most = 12;
  return h("div", {}, flows.slice(0, most).map((flow) => h("div", { class: "row" },
    h("button", { type: "button", class: "link mono", onclick: () => app.pick("flow", flow) }, flow.flow), h("span", {}, `${flow.source} → ${flow.destination}`))),
  flows.length > most ? h("p", { class: "muted" }, `and ${flows.length - most} more`) : null);
}

// The past of a link or job, fetched again for another one, another span, or every ten seconds.
function past(app, kind, id) {
  const key = `${kind} ${id} ${app.time.span} ${Math.floor(Date.now() / 10000)}`;
  if (app.drawn?.key !== key) {
    const same = app.drawn?.key.startsWith(`${kind} ${id} ${app.time.span} `);
    app.drawn = { key, element: same ? app.drawn.element : h("div", {}, h("p", { class: "muted" }, "…")) };
    drawPast(app.time, kind, id, app.drawn.element);
  }
  return [h("h3", {}, "Traffic over time"), app.drawn.element];
}

function happened(app, id) {
  const events = app.model.past ? [] : eventsOf(app.model, id);
  return events.length ? [h("h3", {}, "What happened"), ...events.map((event) => h("p", {}, h("span", { class: "muted" }, clock(Date.parse(event.time))), ` ${event.kind.replaceAll("_", " ")}: ${event.text}`))] : [];
}

// Traffic that Espalier does not steer, where a feed reports some.
function background(link, at, to) {
  const told = link.background[at];
  return told && Number(told.bps) > 0 ? [row(`Other traffic → ${to.id}`, `${rate(told.bps)}, by the feed ${told.source}`)] : [];
}

function ofLink(app, link) {
  // Paths begin at the leaf, so host links have no load.
  const load = (at) => (link.from.uplink === link || link.to.uplink === link ? "" : ` · load ${link.loadText?.[at] ?? "0"}`);
  const direction = (from, to, at) => row(`${from.id} → ${to.id}`, rate(link.achieved[at]) + load(at));
  return [
    h("h2", {}, breakable(link.id)), stateTag(link.state), link.reason ? h("p", {}, link.reason) : null,
    h("h3", {}, app.model.past ? "Traffic" : "Traffic of the last 100 ms"), row("Speed", rate(link.bps)), direction(link.from, link.to, 0), direction(link.to, link.from, 1),
    ...background(link, 0, link.to), ...background(link, 1, link.from),
    actions(app, "link", link.id, link.state), ...happened(app, link.id), ...past(app, "link", link.id),
    ...flowsOf(app, () => app.model.flowsOver(link)),
  ];
}

function ofNode(app, node) {
  const state = app.model.stateOf(node);
  const down = node.links.filter((link) => link.state === "DOWN").length;
  const drained = node.links.filter((link) => link.state === "DRAINED").length;
  const agent = app.model.agents.get(node.host || node.id);
  const busiest = [...node.links].sort((a, b) => Math.max(...b.load) - Math.max(...a.load))[0];
  return [
    h("h2", {}, breakable(node.id)), stateTag(state), " ", tag((node.role || node.kind).toLowerCase()),
    h("h3", {}, "Links"), row("Total", String(node.links.length)),
    down ? row("Failed", String(down)) : null, drained ? row("Drained", String(drained)) : null,
    busiest && !node.uplink ? row("Most loaded", h("button", { type: "button", class: "link", onclick: () => app.pick("link", busiest) }, busiest.id)) : null,
    node.addresses.length ? row("Address", node.addresses.join(" ")) : null,
    node.rail === undefined ? null : row("Rail", String(node.rail)),
    agent && !app.model.past ? row("Agent", agent.connected ? "connected" : "gone") : null,
    actions(app, "node", node.id, state, node.uplink ? { host: node.host || node.id, nic: node.id } : null),
    foldButton(app, node), ...happened(app, node.id),
    ...(node.uplink ? flowsOf(app, () => app.model.flowsOf(node)) : []),
  ];
}

// A folded group: what it stands for, and the way into it.
function ofGroup(app, group) {
  const off = notUp(group.inner);
  const busiest = [...group.cables].sort((a, b) => Math.max(...b.load) - Math.max(...a.load))[0];
  return [
    h("h2", {}, group.id), stateTag(group.state), " ", tag("folded"),
    h("h3", {}, "Inside"), row("Switches", String(group.nodes.length)), row("Hosts", group.inside.length.toLocaleString("en")), row("Links", group.inner.length.toLocaleString("en")), row("Its hosts send", rate(group.sent)),
    busiest ? row("Most loaded", h("button", { type: "button", class: "link", onclick: () => app.pick("link", busiest) }, busiest.id)) : null,
    off.length ? row("Not up", String(off.length)) : null, ...off.slice(0, 10).map((link) => linkButton(app, link)), off.length > 10 ? moreLinks(app, off.length - 10) : null,
    h("div", { class: "actions" }, h("button", { type: "button", "data-action": "unfold", onclick: () => app.fabric.fold([group.id], false) }, "Unfold")),
  ];
}

// The links between folded groups or a group and a switch: the sum, and the links by their trouble.
function ofBundle(app, bundle) {
  const trouble = (link) => (link.state === "UP" ? 0 : 1e6) + Math.max(...link.load);
  const links = [...bundle.links].sort((a, b) => trouble(b) - trouble(a));
  const direction = (from, to, side) => row(`${from.id} → ${to.id}`, `${rate(bundle.achieved[side])} · load up to ${bundle.loadText[side]}`);
  return [
    h("h2", {}, bundle.id), stateTag(bundle.state), " ", tag(count(bundle.links.length, "link")),
    h("h3", {}, "Sum"), row("Speed", rate(bundle.bps)), direction(bundle.from, bundle.to, 0), direction(bundle.to, bundle.from, 1), bundle.off ? row("Not up", `${bundle.off} of ${bundle.links.length}`) : null,
    h("h3", {}, "Links, the worst first"), ...links.slice(0, 12).map((link) => linkButton(app, link)), links.length > 12 ? h("p", { class: "muted" }, `and ${links.length - 12} more`) : null,
  ];
}

// The button back to the group that a switch belongs to.
function foldButton(app, node) {
  const group = app.fabric.groups.find((one) => one.nodes.includes(node));
  return group && !app.fabric.folded.has(group.name) ? h("div", { class: "actions" }, h("button", { type: "button", "data-action": "fold", onclick: () => app.fabric.fold([group.name], true) }, `Fold ${group.name}`)) : null;
}

function ofFlow(app, told) {
  const flow = app.model.shownFlows.get(told.flow);
  if (!flow) return [h("h2", {}, told.flow), tag(app.model.past ? "not among the slowest then" : "ended")];
  if (app.model.past) return ofPastFlow(app, flow);
  // Fetches the explanation again only if the steering of the flow has changed, not its rate.
  if (app.explained?.flow !== flow) {
    app.explained = { flow, element: h("div", {}, h("p", { class: "muted" }, "…")) };
    explain(flow.flow, app.explained.element);
  }
  return [
    h("h2", {}, breakable(flow.flow)), tag(flow.status.toLowerCase(), statusKind(flow.status)), " ", flow.acknowledged ? null : tag("not acknowledged", "warn"),
    h("h3", {}, "Why"), h("p", {}, why(flow)),
    h("h3", {}, "Flow"), row("Job", flow.job), row("From", flow.source), row("To", flow.destination), row("Rate", rate(flow.rate)), row("Source port", flow.ports || "its own"),
    h("h3", {}, "Paths of its pair"), app.explained.element,
  ];
}

// What the history keeps of a flow: where it was, and how fast.
function ofPastFlow(app, flow) {
  return [
    h("h2", {}, breakable(flow.flow)), tag(flow.status.toLowerCase(), statusKind(flow.status)),
    h("h3", {}, "Then"), row("Job", flow.job), row("From", flow.source), row("To", flow.destination), row("Rate", rate(flow.rate)), row("Source port", flow.ports || "its own"),
    h("h3", {}, "Its links"), ...[...app.model.linksOf(flow)].map((link) => linkButton(app, link)),
  ];
}

// What switches saw of it, with the number of sampled packets and where.
function seenText({ state, samples, via, age_seconds: age }) {
  if (state === "NOT_SEEN") return seenWord(state);
  return `${seenWord(state)}: ${count(samples, "sampled packet")}, ${Math.round(age)} s ago, on ${via.join(", ")}`;
}

async function explain(name, into) {
  try {
    const answer = await ask("GET", "/api/v1/flows/explain", { flow: name });
    into.replaceChildren(row("Seen by switches", seenText(answer.flow.attested)), row("Port", answer.port_trust.toLowerCase()), row("Known ports", String(answer.known_ports)),
      ...answer.paths.map((path) => h("div", { class: "row" }, h("span", {}, path.via || "direct", path.chosen ? " ✓" : ""), h("span", { class: "muted" }, path.usable ? `busiest link: ${count(path.busiest_link_flows, "flow")}` : "not usable"))));
  } catch (error) {
    into.replaceChildren(h("p", { class: "muted" }, error.message));
  }
}

function ofJob(app, told) {
  const job = app.model.jobs.find((one) => one.job === told.job) ?? told;
  const flows = [...app.model.shownFlows.values()].filter((flow) => flow.job === job.job);
  return [
    h("h2", {}, breakable(job.job)), tag(job.in_round ? "communicating" : "computing", job.in_round ? "good" : ""),
    h("h3", {}, "All-reduce"), row("Median", seconds(job.allreduce_seconds)), row("Ideal", seconds(job.ideal_seconds)), row("Rounds", String(job.rounds)),
    h("h3", {}, app.model.past ? "Then" : "Now"), row(app.model.past ? "Rate" : "Rate, last 100 ms", rate(job.achieved_bps)), row("Slowest flow", rate(job.slowest_flow_bps)), app.model.past ? null : row("Flows on its busiest link", String(job.max_link_flows)),
    ...(app.model.past ? [] : lost(app, flows)),
    app.model.past || !app.session.canAct ? null : h("div", { class: "actions" }, steering(app, { job: job.job })),
    ...past(app, "job", job.job), ...flowsOf(app, () => flows),
  ];
}

function ofMoment({ fabric, resolution }) {
  const lasts = resolution === 1 ? "" : ` in ${resolution} s`;
  return [
    row("Flows", fabric.flows.toLocaleString("en")), row("Rate of all flows", rate(fabric.achieved_bps)),
    fabric.most_used_link ? row("Most used link", `${fabric.most_used_link}, ${Math.round(100 * fabric.max_use)} %`) : null,
    fabric.most_loaded_link ? row("Most loaded link", fabric.most_loaded_link) : null,
    row(`Paths pushed${lasts}`, String(fabric.moves)), fabric.failures ? row(`Failures${lasts}`, String(fabric.failures)) : null,
    fabric.actions ? row(`Actions of operators${lasts}`, String(fabric.actions)) : null,
    fabric.flows_without_path ? row("Flows without any path", String(fabric.flows_without_path)) : null,
    fabric.flows_on_dead_links ? row("Flows on links that are down", String(fabric.flows_on_dead_links)) : null,
  ];
}

const moreLinks = (app, number) => h("p", {}, h("button", { type: "button", class: "link", onclick: () => app.seek("Links", { state: "NOT_UP" }) }, `and ${number.toLocaleString("en")} more`));

// Links that its hosts cannot use, where the job may have lost its speed.
function lost(app, flows) {
  const links = notUp(lostLinks(app.model, flows));
  return links.length ? [h("h3", {}, "Not up at its leaves"), ...links.slice(0, 8).map((link) => linkButton(app, link)), links.length > 8 ? moreLinks(app, links.length - 8) : null] : [];
}

function ofAll(app) {
  const { status } = app.model;
  if (!status) return [h("p", { class: "muted" }, "Waiting for the controller…")];
  const states = Object.entries(status.flows_by_status).filter(([, number]) => number > 0);
  const off = notUp(app.model.links);
  return [
    h("h2", {}, "The whole fabric"),
    ...(app.model.past ? ofMoment(app.model.past) : []),
    status.optimal ? tag("no assignment has less load", "good") : tag(`load ${decimal(status.max_load)}, where the lower bound is ${decimal(status.lower_bound)}`, "warn"),
    h("h3", {}, "Health"), tag(status.health, { ok: "good", degraded: "warn", failing: "bad" }[status.health]), ...healthReasons(app, status),
    h("h3", {}, "Load"), row("Most loaded link", exact(status.max_load)), row("Lower bound", exact(status.lower_bound)), app.model.past ? null : row("Not acknowledged", count(status.unacknowledged_flows, "flow")),
    ...(app.model.past ? [] : [h("h3", {}, "Flows")]), ...(app.model.past ? [] : states.length ? states.map(([name, number]) => row(name.toLowerCase(), number.toLocaleString("en"))) : [h("p", { class: "muted" }, "No flow is open.")]),
    h("h3", {}, "Not up"), ...(off.length ? off.slice(0, 10).map((link) => linkButton(app, link)) : [h("p", { class: "muted" }, "All links are up.")]),
    off.length > 10 ? moreLinks(app, off.length - 10) : null,
    h("p", { class: "muted" }, h("br"), "Select a switch, a link, a flow or a job to see its details."),
  ];
}

export function showDetails(app, element) {
  const { kind, item } = app.picked ?? {};
  const parts = { link: ofLink, node: ofNode, flow: ofFlow, job: ofJob, forest: ofForest, group: ofGroup, bundle: ofBundle }[kind]?.(app, item) ?? ofAll(app);
  const isOfNow = app.model.past && kind === "forest";
  const note = isOfNow ? h("p", { class: "now-note" }, "As it is now: the history keeps no trees.") : null;
  element.replaceChildren(...[note, ...parts].filter((part) => part !== null));
}

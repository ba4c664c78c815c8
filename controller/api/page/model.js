// The state of the controller on the page, and the live feed: a snapshot, then updates.
import { decimal, ratio } from "./dom.js";

export class Model {
  constructor() {
    this.nodes = [];
    this.links = [];
    this.hosts = [];
    this.nodeById = new Map();
    this.linkById = new Map();
    this.flows = new Map();
    this.agents = new Map();
    this.liveJobs = [];
    this.events = [];
    this.liveStatus = null;
    this.change = 0;
    this.past = null;  // the moment that is shown instead of the present
  }

  get jobs() { return this.past ? this.past.jobs : this.liveJobs; }
  // In the past the slowest ones only.
  get shownFlows() { return this.past ? this.past.flows : this.flows; }
  get status() { return this.past ? this.past.status : this.liveStatus; }

  setTopology(topology) {
    this.past = null;
    this.name = topology.name;
    this.nodes = topology.nodes.map((node, index) => ({ ...node, index, links: [] }));
    this.nodeById = new Map(this.nodes.map((node) => [node.id, node]));
    this.links = topology.links.map((link, index) => ({
      ...link, index, bps: Number(link.bps), from: this.nodeById.get(link.a), to: this.nodeById.get(link.b),
      state: "UP", flows: [0, 0], load: [0, 0], achieved: [0, 0], background: [], reason: "",
    }));
    this.linkById = new Map(this.links.map((link) => [link.id, link]));
    for (const link of this.links) {
      link.from.links.push(link);
      link.to.links.push(link);
    }
    // The names of hosts with a NIC at a switch.
    const isEnd = (node) => node.tier < 0 && node.links.some((link) => [link.from, link.to].some((end) => end.tier >= 0 && !end.host));
    this.hosts = [...new Set(this.nodes.filter(isEnd).map((node) => node.host || node.id))];
  }

  // Applies a snapshot or update; returns the names of the parts that changed.
  apply(update, whole) {
    if (whole) {
      this.flows.clear();
      this.agents.clear();
      this.events = [];
    }
    this.change = Number(update.change);
    for (const name of update.ended ?? []) this.flows.delete(name);
    for (const flow of update.flows ?? []) this.flows.set(flow.flow, this.#prepare(flow));
    for (const told of update.rates ?? []) {
      const flow = this.flows.get(told.flow);
      if (flow) flow.rate = told.achieved_bps;
    }
    for (const told of update.links ?? []) this.#takeLink(told);
    for (const agent of update.agents ?? []) this.agents.set(agent.name, agent);
    if (update.jobs) this.liveJobs = update.jobs;
    if (update.status) this.liveStatus = update.status;
    if (update.events) this.events = this.events.concat(update.events).slice(-2000);
    return new Set(Object.keys(update).concat(update.ended || update.rates ? ["flows"] : []));
  }

  #prepare(flow) {
    flow.rate = Number(flow.achieved_bps);
    flow.ports = flow.paths.map((path) => path.source_port || "·").join(" ");
    flow.via = flow.paths.map((path) => this.viaOf(path)).filter(Boolean).join(" + ");
    return flow;
  }

  #pastFlow({ hops, source_port: port, ...told }) {
    const flow = `${told.source} → ${told.destination}${port ? `:${port}` : ""}`;
    return this.#prepare({ ...told, flow, reason: "", acknowledged: true, paths: [{ source_port: port, hops }] });
  }

  // The text that filters search, made on first use.
  textOf(flow) {
    flow.text ??= `${flow.flow} ${flow.job} ${flow.source} ${flow.destination} ${flow.via} ${flow.status}`.toLowerCase();
    return flow.text;
  }

  // The switches between the leaves.
  viaOf(path) {
    return path.hops.slice(0, -1).map((hop) => {
      const link = this.links[hop >> 1];
      return (hop & 1 ? link.from : link.to).id;
    }).join(",");
  }

  #takeLink(told) {
    const link = this.linkById.get(told.id);
    if (!link) return;
    // While the past is shown, the present waits in `now`.
    const into = this.past ? link.now : link;
    into.state = told.state;
    into.reason = [told.reason, told.why?.words].filter(Boolean).join("; ");
    into.flows = [told.flows_a_to_b, told.flows_b_to_a];
    into.loadExact = [told.load_a_to_b, told.load_b_to_a];
    into.loadText = into.loadExact.map(decimal);
    into.load = [ratio(told.load_a_to_b), ratio(told.load_b_to_a)];
    into.achieved = [Number(told.bps_a_to_b), Number(told.bps_b_to_a)];
    into.background = [told.background_a_to_b, told.background_b_to_a];
  }

  // Shows the fabric as it was at a moment (/api/v1/history/moment).
  showPast(moment) {
    const idle = () => ({ state: "UP", reason: "", flows: [0, 0], loadText: ["0", "0"], loadExact: ["0", "0"], load: [0, 0], achieved: [0, 0], background: [] });
    for (const link of this.links) {
      if (!this.past) {
        const { state, reason, flows, loadText, loadExact, load, achieved, background } = link;
        link.now = { state, reason, flows, loadText, loadExact, load, achieved, background };
      }
      Object.assign(link, idle());
    }
    for (const told of moment.links) {
      const link = this.links[told.link];
      if (!link) continue;
      const load = [told.load_a_to_b, told.load_b_to_a];
      Object.assign(link, { state: told.state, load, loadText: load.map(String), achieved: [Number(told.bps_a_to_b), Number(told.bps_b_to_a)] });
    }
    const { fabric } = moment;
    this.past = {
      time: Date.parse(moment.time), resolution: moment.resolution_seconds, fabric,
      status: { ...this.liveStatus, ...fabric, flows_by_status: {}, health_reasons: [], optimal: fabric.max_load <= fabric.lower_bound && fabric.flows_without_path + fabric.flows_on_dead_links === 0 },
      jobs: moment.jobs.map((job) => ({ ...job, achieved_bps: Number(job.achieved_bps), flows_routed: job.flows - job.flows_unroutable, in_round: Number(job.achieved_bps) > 0, max_link_flows: 0, history: [] })),
      flows: new Map((moment.flows ?? []).map((told) => this.#pastFlow(told)).map((flow) => [flow.flow, flow])),
    };
  }

  showNow() {
    if (!this.past) return;
    this.past = null;
    for (const link of this.links) {
      Object.assign(link, link.now);
      link.now = null;
    }
  }

  // The links of a flow, including its host links.
  linksOf(flow) {
    const links = new Set(flow.paths.flatMap((path) => path.hops.map((hop) => this.links[hop >> 1])));
    for (const end of [flow.source, flow.destination]) {
      const link = this.nodeById.get(end)?.links.find((one) => one.from.tier >= 0 || one.to.tier >= 0);
      if (link) links.add(link);
    }
    return links;
  }

  flowsOver(link) {
    const over = [];
    const host = [link.from, link.to].find((node) => node.uplink === link);
    if (host) return this.flowsOf(host);
    for (const flow of this.shownFlows.values()) {
      if (flow.paths.some((path) => path.hops.some((hop) => hop >> 1 === link.index))) over.push(flow);
    }
    return over;
  }

  flowsOf(host) {
    return [...this.shownFlows.values()].filter((flow) => flow.source === host.id || flow.destination === host.id);
  }

  // A node whose links are all in one state other than UP has that state, a folded group its worst.
  stateOf(node) {
    if (node.isGroup) return node.state;
    const links = node.links;
    if (links.length === 0) return "UP";
    const [first] = links;
    return first.state !== "UP" && links.every((link) => link.state === first.state) ? first.state : "UP";
  }
}

// Follows /api/v1/stream for ever and reports each update and the state of the connection. If the
// controller requires a login, it awaits logIn.
export async function follow(onUpdate, onConnection, logIn) {
  let wait = 500;
  for (;;) {
    try {
      const response = await fetch("/api/v1/stream", { cache: "no-store" });
      if (response.status === 401) {
        onConnection("login");  // the controller has answered
        await logIn();
        continue;
      }
      if (!response.ok) throw new Error(`the controller answered ${response.status}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let pieces = [];
      for (;;) {
        const { value, done } = await withTimeout(reader);
        if (done) throw new Error("the controller closed the stream");
        // Events end with an empty line; a large one comes in many pieces.
        pieces.push(value);
        if (!value.includes("\n\n") && !(value.startsWith("\n") && pieces.length > 1)) continue;
        const events = pieces.join("").split("\n\n");
        pieces = [events.pop()];
        for (const event of events) {
          const lines = event.split("\n");
          const data = lines.find((line) => line.startsWith("data: "));
          if (data) {
            wait = 500;
            await onUpdate(JSON.parse(data.slice(6)), lines.includes("event: snapshot"));
          }
        }
        onConnection("live");
      }
    } catch (error) {
      onConnection("lost", error.message, wait);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 5000);
  }
}

// The controller sends at least a ping every five seconds; without one the connection is dead.
async function withTimeout(reader) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reader.cancel();
      reject(new Error("the controller sends nothing"));
    }, 15000);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } finally {
    clearTimeout(timer);
  }
}

export async function ask(method, path, query = {}, body = undefined) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  const response = await fetch(text ? `${path}?${text}` : path, { method, body, cache: "no-store" });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error?.message ?? `the controller answered ${response.status}`);
  return answer;
}

// Where the fabric that agents discovered differs from the topology in force, and from what it was before.
import { count, h, row, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

// The lists of the answer, with what they mean to an operator.
const findingKinds = {
  differences: ["differs from the topology", "bad"], drift: ["changed since the last check", "warn"],
  contradictions: ["contradiction", "warn"], missing: ["not known", ""],
};

export class DiscoveryPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Discovery", parts: [], every: 10000 });
    this.table = new Table([
      { title: "What", width: "210px", text: (one) => findingKinds[one.kind][0], node: (one) => tag(...findingKinds[one.kind]) },
      { title: "Details", width: "minmax(200px,1fr)", text: (one) => one.text },
    ], { label: "Findings", key: (one) => one.key, empty: "There are no findings." });
    this.told = h("div", { id: "discovery-told" });
    this.element = h("div", { class: "split" }, this.told, h("div", {}, this.table.element));
  }
  get count() { return undefined; }

  async ask() {
    const answer = await ask("GET", "/api/v1/topology/findings");
    this.table.show(Object.keys(findingKinds).flatMap((kind) => answer[kind].map((text, at) => ({ key: `${kind} ${at}`, kind, text }))));
    this.told.replaceChildren(...this.#summary(answer).filter(Boolean));
  }

  #summary(answer) {
    const { state, differences, drift } = answer;
    if (state === "NONE") return [h("h3", {}, "Discovery"), h("p", {}, "The fabric has not been discovered since the controller started, so nobody compares it with the topology."), h("p", { class: "muted" }, "`espalier topology discover` has the agents discover it; then it is checked each hour.")];
    const isSame = state === "COMPLETE" && differences.length === 0;
    const number = (name, value) => row(name, value.toLocaleString("en"));
    return [
      h("h3", {}, "Discovery"),
      h("p", {}, state === "RUNNING" ? tag("agents probe", "warn") : isSame ? tag("as the topology says", "good") : tag(count(differences.length, "difference"), "bad")),
      number("Switches", answer.switches), answer.silent_switches ? number("Of these, silent to probes", answer.silent_switches) : null,
      number("Links between switches", answer.links), number("NICs that took part", answer.nics),
      number("Probes", answer.probes), number("Answers", answer.answers),
      row("Confidence that no next hop is missing", answer.links ? `${(100 * answer.confidence).toFixed(answer.confidence > 0.9999 ? 4 : 2)} %` : "–"),
      h("p", { class: "muted" }, drift.length ? `The last hourly check found ${count(drift.length, "change")}.` : "The fabric is checked each hour; the last check found no change."),
    ];
  }
}

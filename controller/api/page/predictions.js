// What the controller expects: the next starts of jobs, and where flows would go after a failure.
import { h, seconds, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

const percent = (part) => `${Math.round(100 * part)} %`;

const starts = (job) => job.expected_starts + job.unexpected_starts;

function nextStart(job) {
  if (!job.next_known) return "not known";
  if (job.next_in_seconds <= 0) return "due";
  return `in ${seconds(job.next_in_seconds)}${job.uncertainty_seconds > 0 ? ` ± ${seconds(job.uncertainty_seconds)}` : ""}`;
}

export class PredictionsPanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Predictions", parts: [], every: 2000 });
    this.table = new Table([
      { title: "Job", width: "minmax(140px,1.6fr)", text: (job) => job.job },
      { title: "Used", width: "70px", text: (job) => (job.on ? "on" : "off"), node: (job) => tag(job.on ? "on" : "off", job.on ? "good" : "warn") },
      { title: "Period", width: "90px", right: true, text: (job) => seconds(job.period_seconds), sort: (job) => job.period_seconds },
      { title: "Next start", width: "minmax(180px,1fr)", text: nextStart, sort: (job) => (job.next_known ? job.next_in_seconds : Infinity) },
      { title: "Confidence", width: "100px", right: true, text: (job) => (job.next_known ? percent(job.confidence) : "–"), sort: (job) => job.confidence },
      { title: "Flows then", width: "90px", right: true, text: (job) => (job.next_known ? job.next_flows : "–"), sort: (job) => job.next_flows },
      { title: "Their paths", width: "100px", text: (job) => (job.planned ? "planned" : ""), node: (job) => (job.planned ? tag("planned", "good") : h("span")) },
      { title: "Hit rate", width: "90px", right: true, text: (job) => (starts(job) ? percent(job.hit_rate) : "–"), sort: (job) => job.hit_rate },
      { title: "Expected", width: "90px", right: true, text: (job) => job.expected_starts, sort: (job) => job.expected_starts },
      { title: "Not expected", width: "110px", right: true, text: (job) => job.unexpected_starts, sort: (job) => job.unexpected_starts },
    ], { label: "Predictions", key: (job) => job.job, empty: "No job has repeated itself yet: predictions begin with its second round.", onPick: (job) => app.pick("job", job) });
    this.plans = h("div", {});
    this.element = h("div", { class: "split" }, this.plans, h("div", {}, this.table.element));
  }

  async ask() {
    const told = await ask("GET", "/api/v1/predict");
    const { loaded, fresh, entries } = told.failure_plans;
    const bar = h("span");
    bar.style.width = `${loaded ? (100 * fresh) / loaded : 0}%`;
    bar.style.background = "var(--accent)";
    const row = (name, number) => h("div", { class: "row" }, h("span", {}, name), h("b", {}, number.toLocaleString("en")));
    this.plans.replaceChildren(
      h("h3", {}, "Plans for failures"),
      h("div", { class: "meter" }, bar),
      row("Links and switches with flows", loaded), row("With a plan of the present flows", fresh), row("New paths kept ready", entries),
      h("p", { class: "muted" }, loaded === 0 ? "No flow would have to move." : fresh === loaded ? "Wherever something fails now, the flows' new paths are known." : "The others are planned while the controller has nothing else to do."));
    this.table.picked = this.app.picked?.kind === "job" ? this.app.picked.item.job : null;
    this.table.show(told.predict);
  }
}

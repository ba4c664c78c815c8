// The predicted starts of jobs, and the state of the failure plans.
import { h, seconds, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

const percent = (part) => `${Math.round(100 * part)} %`;

const error = (count, p50, p90) => (count ? `${percent(p50)}, ${percent(p90)}` : "–");

function nextStart(job) {
  if (!job.next_known) return "unknown";
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
      { title: "Flows", width: "90px", right: true, text: (job) => (job.next_known ? job.next_flows : "–"), sort: (job) => job.next_flows },
      { title: "Paths", width: "120px", text: (job) => (job.planned ? "precomputed" : ""), node: (job) => (job.planned ? tag("precomputed", "good") : h("span")) },
      { title: "Ports ready", width: "110px", right: true, text: (job) => (job.bursts ? `${percent(job.bursts_ready / job.bursts)} of ${job.bursts.toLocaleString("en")}` : "–"), sort: (job) => (job.bursts ? job.bursts_ready / job.bursts : 1) },
      { title: "Start error, p50, p90", width: "130px", right: true, text: (job) => error(job.predicted_starts, job.start_error_p50, job.start_error_p90), sort: (job) => job.start_error_p90 },
      { title: "End error, p50, p90", width: "130px", right: true, text: (job) => error(job.predicted_ends, job.end_error_p50, job.end_error_p90), sort: (job) => job.end_error_p90 },
    ], { label: "Predictions", key: (job) => job.job, empty: "No predictions yet: they begin with the second round of a job.", onPick: (job) => app.pick("job", job) });
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
      h("h3", {}, "Failure plans"),
      h("div", { class: "meter" }, bar),
      row("Links and switches with flows", loaded), row("With an up-to-date failure plan", fresh), row("Backup paths", entries),
      h("p", { class: "muted" }, loaded === 0 ? "No flow would have to move." : fresh === loaded ? "Every single failure of a link or switch has its backup paths." : "The controller computes the other plans when it has no other work."));
    this.table.picked = this.app.picked?.kind === "job" ? this.app.picked.item.job : null;
    this.table.show(told.predict);
  }
}

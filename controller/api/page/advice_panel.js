// What the bursts of each job cost, and would cost by other schemes: for the whole time and by hours.
import { count, h, minute, row, seconds, tag } from "./dom.js";
import { AskingPanel } from "./asking_panel.js";
import { ask } from "./model.js";
import { Table } from "./table.js";

// The schemes of the ledger in the order of the columns.
const schemeTitles = {
  PRESENT: "As it is", ECMP: "ECMP", ECMP_4: "4 queue pairs", ECMP_16: "16 queue pairs",
  ROUND_TRIP_WEIGHTS: "By round trips", OPTIMUM: "Espalier's paths", ECMP_ONE_MORE_SPINE: "One more spine",
};
const schemeWords = {
  PRESENT: "on the paths on which they are", ECMP: "ECMP, one queue pair a flow", ECMP_4: "ECMP, each flow evenly over 4 queue pairs",
  ECMP_16: "ECMP, each flow evenly over 16 queue pairs", ROUND_TRIP_WEIGHTS: "over queue pairs, weighted by round-trip times",
  OPTIMUM: "on the paths that Espalier assigns", ECMP_ONE_MORE_SPINE: "ECMP in a fabric with one more spine",
};
const placedShort = { ECMP: "ECMP", MIXED: "partly", STEERED: "steered" };
const placedWords = { ECMP: "on plain ECMP", MIXED: "partly steered", STEERED: "steered" };
const timeSpans = { "": "as far as it reaches", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours" };

const lasts = (value) => (value === 0 ? "0 s" : seconds(value));
// Of a value that is null nobody knows how long it would be, and `reason` says why.
const isKnown = (scheme) => Boolean(scheme) && scheme.burst_seconds !== null;
const isRange = ({ low, high }) => low !== null && high !== null && lasts(low) !== lasts(high);

// With its range in brackets; the unit once if all have the same.
function schemeText(scheme) {
  if (!isKnown(scheme)) return "unknown";
  const value = lasts(scheme.burst_seconds);
  if (!isRange(scheme)) return value;
  const [mean, low, high] = [value, lasts(scheme.low), lasts(scheme.high)].map((text) => text.split(" "));
  if (mean[1] === low[1] && low[1] === high[1]) return `${mean[0]} (${low[0]}–${high[0]}) ${mean[1]}`;
  return `${value} (${low.join(" ")}–${high.join(" ")})`;
}

const schemeTip = (scheme) => (isKnown(scheme) ? `${lasts(scheme.burst_seconds)}${isRange(scheme) ? `, between ${lasts(scheme.low)} and ${lasts(scheme.high)}` : ""}` : `unknown: ${scheme?.reason ?? "the controller does not say"}`);

// By how much a burst would be longer or shorter than it was measured.
function changeText(scheme, measured) {
  if (!isKnown(scheme) || !(measured > 0)) return "";
  const change = 100 * (scheme.burst_seconds / measured - 1);
  return `${change >= 0.05 ? "+" : change <= -0.05 ? "−" : "±"}${Math.abs(change).toFixed(1)} %`;
}

const jobName = (job) => job || "flows without a job";

export class AdvicePanel extends AskingPanel {
  constructor(app) {
    super();
    Object.assign(this, { app, title: "Advice", parts: [], every: 15000, rows: [], picked: null });
    const draw = () => this.#draw();
    const again = () => this.update();
    this.filter = h("input", { type: "search", id: "advice-filter", placeholder: "Filter: job…", "aria-label": "Filter jobs", oninput: draw });
    this.span = h("select", { id: "advice-span", "aria-label": "The time span", onchange: again }, Object.entries(timeSpans).map(([value, text]) => h("option", { value }, text)));
    this.hours = h("input", { type: "checkbox", id: "advice-hours", onchange: draw });
    this.shown = h("span", { class: "muted" });
    this.table = this.#makeTable();
    this.told = h("div", { id: "advice-told" });
    this.element = h("div", { class: "split slim" }, this.told, h("div", {},
      h("div", { class: "filter" }, this.filter, this.span, h("label", { class: "check", for: "advice-hours" }, this.hours, "by hours"), this.shown), this.table.element));
  }
  get count() { return undefined; }

  #makeTable() {
    const column = ([name, title]) => ({
      title, width: name === "ROUND_TRIP_WEIGHTS" ? "minmax(86px,.7fr)" : "minmax(112px,1fr)", right: true, text: (one) => schemeText(one.schemes.get(name)), tip: (one) => schemeTip(one.schemes.get(name)),
      sort: (one) => one.schemes.get(name)?.burst_seconds ?? Infinity,
    });
    return new Table([
      { title: "Job", width: "minmax(86px,1.2fr)", text: (one) => jobName(one.job) },
      { title: "When (UTC)", width: "96px", text: (one) => (one.begin ? minute(one.begin).slice(5, 16) : "whole time") },
      { title: "Placed", width: "68px", text: (one) => placedShort[one.placing] ?? one.placing },
      { title: "Bursts", width: "60px", right: true, text: (one) => one.bursts.toLocaleString("en"), sort: (one) => one.bursts },
      { title: "Measured", width: "80px", right: true, text: (one) => lasts(one.measured), sort: (one) => one.measured },
      ...Object.entries(schemeTitles).filter(([name]) => name !== "PRESENT").map(column),
    ], { label: "Advice", key: (one) => one.key, empty: "No burst has been observed. One counts once its job has stopped sending for 50 ms.", onPick: (one) => this.#pick(one) });
  }

  async ask() {
    this.answer = await ask("GET", "/api/v1/advise", { for: this.span.value });
    this.#draw();
  }

  #pick(one) {
    this.picked = one.key;
    const job = this.app.model.jobs.find((each) => each.job === one.job);
    if (job) this.app.pick("job", job);
    this.#draw();
  }

  #draw() {
    if (!this.answer) return;
    const byHours = this.hours.checked;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.answer.jobs
      .filter(({ job }) => words.every((word) => jobName(job).toLowerCase().includes(word)))
      .flatMap((job) => (byHours ? [...job.hours].reverse().map((hour) => this.#row(job, hour)) : [this.#row(job, null)]));
    this.shown.textContent = byHours ? count(rows.length, "hour of a job", "hours of jobs") : count(rows.length, "job");
    this.table.picked = this.picked;
    this.table.show(rows);
    const picked = rows.find((one) => one.key === this.picked);
    this.told.replaceChildren(...(picked ? this.#ofRow(picked) : this.#ofAll()));
  }

  #row(job, hour) {
    const of = hour ?? job;
    return {
      key: JSON.stringify([job.job, job.placing, hour?.begin ?? ""]), job: job.job, placing: job.placing, begin: hour?.begin, bursts: of.bursts, skipped: of.skipped,
      measured: of.measured_seconds, error: of.standard_error, schemes: new Map(of.schemes.map((scheme) => [scheme.scheme, scheme])), whole: job,
    };
  }

  // What holds for all jobs, and how to read the table.
  #ofAll() {
    const { mode, since, bursts, left_out: leftOut, draws } = this.answer;
    return [
      h("h3", {}, "What a burst takes, and would take"),
      mode === "OBSERVE" ? h("p", {}, tag("observes", "warn"), " The controller steers nothing.") : null,
      row("Observed since", since ? minute(since) : "–"), row("Bursts looked at", bursts.toLocaleString("en")),
      leftOut > 0 ? row("Left out, of too many jobs", leftOut.toLocaleString("en")) : null,
      h("p", { class: "muted" }, `Only what is called measured was measured. The model takes a burst to change by as much as its most loaded link has more or less to send. Paths that are not known are drawn ${draws} times: one draw in ten is below the range in brackets, and one above.`),
      h("p", { class: "muted" }, "Select a row for its figures in words."),
    ].filter(Boolean);
  }

  #ofRow(one) {
    const job = one.whole;
    return [
      h("b", {}, jobName(one.job)), h("p", { class: "muted" }, `${placedWords[one.placing] ?? one.placing}, ${one.begin ? `the hour from ${minute(one.begin)} on` : "the whole time"}`),
      row("Bursts looked at", one.bursts.toLocaleString("en")), one.skipped > 0 ? row("Not looked at", one.skipped.toLocaleString("en")) : null,
      row("Measured, the mean", `${lasts(one.measured)}${one.error > 0 ? `, standard error ${lasts(one.error)}` : ""}`),
      ...[...one.schemes.values()].map((scheme) => this.#ofScheme(scheme, one.measured)),
      ...this.#reservations(one), one.begin ? null : this.#gpus(job),
    ].filter(Boolean);
  }

  #ofScheme(scheme, measured) {
    const title = scheme.scheme === "PRESENT" ? "As it is, by the model" : schemeTitles[scheme.scheme] ?? scheme.scheme;
    const change = changeText(scheme, measured);
    return h("div", { class: "intent", title: schemeWords[scheme.scheme] ?? false },
      row(title, h("b", {}, isKnown(scheme) ? lasts(scheme.burst_seconds) : "unknown")),
      h("div", { class: "muted" }, isKnown(scheme) ? [change, isRange(scheme) ? `between ${lasts(scheme.low)} and ${lasts(scheme.high)}` : ""].filter(Boolean).join(", ") : scheme.reason));
  }

  // What a reader must know before he believes the figures.
  #reservations(one) {
    const job = one.whole;
    const present = one.schemes.get("PRESENT");
    const texts = [];
    if (job.crossing_flows === 0) texts.push("Its flows stay within their leaves: no path is to be chosen.");
    else if (job.known_paths < 0.995) texts.push(`The paths of ${Math.round(100 * (1 - job.known_paths))} % of its flows on ECMP are not known, and are drawn.`);
    if (one.measured > 0 && present && present.link_seconds !== null && present.link_seconds < 0.8 * one.measured) {
      texts.push(`The links explain ${Math.round((100 * present.link_seconds) / one.measured)} % of the measured time; the rest is taken to stay.`);
    }
    return texts.map((text) => h("p", { class: "muted" }, text));
  }

  #gpus(job) {
    if (job.gpus === null) return h("p", { class: "muted" }, "GPU-hours are unknown: the topology does not have the GPUs of its hosts.");
    const isGained = job.gpu_hours_gained !== null;
    return row(isGained ? "GPU-hours gained against ECMP" : "GPU-hours that could be gained", h("b", { title: `of ${count(job.gpus, "GPU")}` }, (isGained ? job.gpu_hours_gained : job.gpu_hours_to_gain).toPrecision(3)));
  }
}

// The time bar below the picture: a chart of the fabric's past, and a slider that chooses a moment.
import { byId, clock, h, rate, setText, svg } from "./dom.js";
import { ask } from "./model.js";

const spans = { 600: "10 min", 7200: "2 h", 86400: "24 h" };
const [width, height] = [1000, 54];
const refreshMs = 4000;

export class TimeBar {
  // onMoment(moment) shows the past, or with null the present; onTrouble(text).
  constructor(onMoment, onTrouble) {
    Object.assign(this, { onMoment, onTrouble, span: 600, samples: [], at: null, ahead: 0, shown: null });
    this.slider = byId("time-slider");
    this.chart = byId("time-chart");
    this.slider.addEventListener("input", () => this.#slide());
    byId("to-now").addEventListener("click", () => this.toNow());
    byId("time-spans").replaceChildren(...Object.entries(spans).map(([seconds, text]) => h("button", {
      type: "button", role: "radio", "data-span": seconds, "aria-checked": String(Number(seconds) === this.span), onclick: () => this.#setSpan(Number(seconds)),
    }, text)));
  }

  // Begins to follow the history; called when there is a picture.
  start() {
    if (this.timer) return;
    this.timer = setInterval(() => document.hidden || this.refresh(), refreshMs);
    this.refresh();
  }

  // The controller's time, in milliseconds.
  get now() { return Date.now() + this.ahead; }

  // The seconds that the bar shows: fewer than its span while the history is young.
  get length() {
    const age = this.oldest ? (this.now - this.oldest) / 1000 : 0;
    const step = { 600: 1, 7200: 10, 86400: 60 }[this.span];
    return Math.min(this.span, Math.max(60 * step, Math.ceil(age / step) * step));
  }

  async refresh() {
    if (this.asking) return;
    this.asking = true;
    try {
      await this.#take();
    } catch (error) {
      // A lost connection is told elsewhere.
    }
    this.asking = false;
  }

  // Fetches the samples that are missing.
  async #take() {
    const last = this.samples.at(-1);
    const from = last ? new Date(last.at + 1).toISOString() : `-${this.span}s`;
    const resolution = { 600: "1", 7200: "10", 86400: "60" }[this.span];
    const { span } = this;
    const told = await ask("GET", "/api/v1/history", { from, resolution });
    if (span !== this.span) return;
    this.ahead = Date.parse(told.now) - Date.now();
    this.oldest = told.oldest ? Date.parse(told.oldest) : null;
    const news = told.samples.map((sample) => ({ ...sample, at: Date.parse(sample.time), bps: Number(sample.achieved_bps) }));
    const begin = this.now - 1000 * this.span;
    this.samples = this.samples.concat(news.filter((sample) => !last || sample.at > last.at)).filter((sample) => sample.at >= begin);
    byId("time").hidden = this.samples.length === 0 && told.bytes_when_full === 0;
    this.draw();
  }

  #setSpan(seconds) {
    this.span = seconds;
    this.samples = [];
    for (const button of byId("time-spans").children) button.setAttribute("aria-checked", Number(button.dataset.span) === seconds);
    this.asking = false;
    this.refresh();
  }

  #slide() {
    const back = Number(this.slider.max) - Number(this.slider.value);
    if (back <= 0) {
      this.toNow();
      return;
    }
    this.show(this.now - back * 1000);
  }

  // Shows the moment at a time in milliseconds.
  async show(time) {
    this.at = time;
    this.shown = null;
    this.#tell();
    if (this.showing) return;  // the last wish is served when the answer is here
    this.showing = true;
    let served = null;
    while (this.at !== null && served !== this.at) {
      served = this.at;
      try {
        const moment = await ask("GET", "/api/v1/history/moment", { time: new Date(served).toISOString() });
        if (this.at === null) break;
        this.shown = Date.parse(moment.time);
        this.onMoment(moment);
        this.#tell();
      } catch (error) {
        this.onTrouble(error.message);
        if (this.at === served) this.toNow();
      }
    }
    this.showing = false;
  }

  toNow() {
    this.at = null;
    this.#tell();
    this.onMoment(null);
  }

  // Places the slider and says what it shows.
  #tell() {
    const { slider } = this;
    slider.max = this.length;
    slider.step = { 600: 1, 7200: 10, 86400: 60 }[this.span];
    slider.value = this.at === null ? this.length : this.length - (this.now - this.at) / 1000;
    const text = this.at === null ? "now" : `${clock(this.shown ?? this.at)} UTC`;
    slider.setAttribute("aria-valuetext", text);
    byId("to-now").hidden = this.at === null;
    setText(byId("time-text"), this.at === null ? "Now" : text);
  }

  draw() {
    this.#tell();
    const { length } = this;
    const begin = this.now - 1000 * length;
    const x = (sample) => (width * (sample.at - begin)) / (1000 * length);
    const parts = [];
    const { samples } = this;
    const mostBps = Math.max(1, ...samples.map((sample) => sample.bps));
    const mostLoad = Math.max(1, ...samples.map((sample) => sample.max_load));
    const mostRound = Math.max(2, ...samples.map((sample) => sample.worst_round));
    const y = (part) => height - 8 - part * (height - 12);
    if (samples.length > 1) {
      const line = samples.map((sample) => `${x(sample).toFixed(1)},${y(sample.bps / mostBps).toFixed(1)}`).join(" ");
      parts.push(svg("polygon", { points: `${x(samples[0]).toFixed(1)},${y(0)} ${line} ${x(samples.at(-1)).toFixed(1)},${y(0)}`, class: "total" }));
    }
    parts.push(...this.#loads(x, (load) => y(load / mostLoad)));
    for (const sample of samples) {
      if (sample.worst_round > 0) parts.push(svg("circle", { cx: x(sample), cy: y(Math.min(1, (sample.worst_round - 1) / (mostRound - 1))), r: 1.6, class: "rounds" }));
    }
    for (const sample of samples) {
      if (sample.actions > 0) parts.push(this.#mark(x(sample), "action", `${clock(sample.at)} UTC: ${sample.actions} by operators`));
      if (sample.failures > 0) parts.push(this.#mark(x(sample), "failure", `${clock(sample.at)} UTC: ${sample.failures} failed`));
    }
    this.chart.replaceChildren(...parts);
    this.chart.setAttribute("aria-label", this.#describe(mostBps, mostLoad));
    setText(byId("time-most"), samples.length ? `up to ${mostBps > 1 ? rate(mostBps) : "0"}, load ${Math.max(0, ...samples.map((sample) => sample.max_load))}` : "the history begins now");
  }

  // The load of the most loaded link, in the colour of what was avoidable.
  #loads(x, y) {
    const parts = [];
    let points = [];
    let kind = null;
    const end = () => {
      if (points.length > 1) parts.push(svg("polyline", { points: points.join(" "), class: kind }));
    };
    for (const sample of this.samples) {
      const next = sample.max_load <= Math.max(1, sample.lower_bound) ? "load fair" : "load unfair";
      const point = `${x(sample).toFixed(1)},${y(sample.max_load).toFixed(1)}`;
      if (next !== kind) {
        end();
        points = points.slice(-1);
        kind = next;
      }
      points.push(point);
    }
    end();
    return parts;
  }

  #mark(x, kind, text) {
    const shape = kind === "failure" ? `M${x - 4},${height} L${x + 4},${height} L${x},${height - 8} Z` : `M${x - 3.5},3 L${x},-1 L${x + 3.5},3 L${x},7 Z`;
    return svg("path", { d: shape, class: `mark ${kind}` }, svg("title", {}, text));
  }

  #describe(mostBps, mostLoad) {
    const sum = (key) => this.samples.reduce((total, sample) => total + sample[key], 0);
    return `The last ${spans[this.span]}: traffic up to ${rate(mostBps)}, most loaded link up to load ${mostLoad}, ${sum("rounds")} rounds, ${sum("failures")} failures, ${sum("actions")} actions of operators`;
  }
}

// A small chart of what a link or job did in the time span of the bar, for the details.
export async function drawPast(bar, kind, id, into) {
  try {
    const told = await ask("GET", `/api/v1/history/${kind}`, { id, from: `-${bar.span}s` });
    const values = told.samples.map((sample) => (kind === "link"
      ? { at: Date.parse(sample.time), value: Math.max(Number(sample.bps_a_to_b), Number(sample.bps_b_to_a)), off: sample.state !== "UP" }
      : { at: Date.parse(sample.time), value: Number(sample.achieved_bps), off: sample.flows_unroutable > 0 }));
    if (values.length === 0) {
      into.replaceChildren(h("p", { class: "muted" }, "Nothing is recorded yet."));
      return;
    }
    const most = Math.max(1, ...values.map((one) => one.value));
    const x = (one) => 280 - (280 * (Date.parse(told.now) - one.at)) / (1000 * bar.length);
    const picture = svg("svg", { viewBox: "0 0 280 44", class: "spark", preserveAspectRatio: "none", role: "img", "aria-label": `Traffic of the last ${spans[bar.span]}, up to ${rate(most)}` },
      svg("polyline", { points: values.map((one) => `${x(one).toFixed(1)},${(40 - (36 * one.value) / most).toFixed(1)}`).join(" "), class: "seen" }),
      ...values.filter((one) => one.off).map((one) => svg("rect", { x: x(one), y: 41, width: Math.max(1, (280 * told.resolution_seconds) / bar.length), height: 3, class: "off" })));
    into.replaceChildren(picture, h("p", { class: "muted" }, `the last ${spans[bar.span]}, up to ${most > 1 ? rate(most) : "0"}`));
  } catch (error) {
    into.replaceChildren(h("p", { class: "muted" }, error.message));
  }
}

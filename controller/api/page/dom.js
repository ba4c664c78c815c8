// Helpers for elements and texts. Text from outside enters the page as text nodes only.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
}

// A name and its value on one line.
export const row = (name, value) => h("div", { class: "row" }, h("span", { class: "muted" }, name), h("span", {}, value));

// A name that may break between its parts only: "spine1+" "spine3", "leaf0--" "spine1".
export const breakable = (name) => String(name).split(/(?<=\+|--|:|,|>|→ )/).flatMap((part, at) => (at ? [h("wbr"), part] : [part]));

export const byId = (id) => document.getElementById(id);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Converts a fraction such as "3/2" to a number.
export function ratio(text) {
  const [above, below] = String(text).split("/");
  return Number(above) / Number(below ?? 1);
}

// A fraction such as "5087/5040" as people read it: "1.01".
export const decimal = (text) => ratio(text).toFixed(2).replace(/\.?0+$/, "");
// The same with the exact fraction in its tip.
export const exact = (text) => h("span", { title: String(text).includes("/") ? `exactly ${text}` : false }, decimal(text));

export function rate(bps) {
  const value = Number(bps);
  if (value <= 0) return "0";
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${units[power]}`;
}

export function seconds(value) {
  if (!(value > 0)) return "–";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`;
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export const count = (number, one, many = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

const compare = new Intl.Collator("en", { numeric: true }).compare;
// Orders names with their numbers by value: h2 before h10.
export const byName = (a, b) => compare(a, b);

const reasons = {
  ASSIGNED: "least loaded when it started",
  PREDICTED: "path precomputed before it started",
  PATH_DEAD: "its earlier path failed",
  RECOMPUTED: "all flows were recomputed",
  REMAPPED: "its earlier port took another path",
  STANDBY: "its host moved to the standby path",
};
export function why(flow) {
  if (flow.status === "LOCAL") return "source and destination are on one switch";
  if (flow.status === "UNROUTABLE") return "no usable path: plain ECMP";
  if (flow.status === "UNSTEERED") return "steering is off for it: plain ECMP";
  if (flow.status === "LEARNING") return "a port for its path is being learned";
  if (flow.status === "ADOPTING") return "adopted: probes are finding its path";
  if (flow.status === "NEW") return "waiting for a path";
  return reasons[flow.reason] ?? flow.reason;
}

export function tag(text, kind = "") {
  return h("span", { class: `tag ${kind}` }, text);
}
export const statusKind = (status) => ({ ROUTED: "good", LOCAL: "", FIXED: "", UNROUTABLE: "failed" })[status] ?? "warn";

// What switches say of a flow by the packets that they sampled; of the past nothing is kept.
export const seenWord = (attested) => ({ AS_DECIDED: "as decided", ELSEWHERE: "elsewhere", NOT_SEEN: "not yet" })[attested] ?? "–";
export const seenKind = (attested) => ({ AS_DECIDED: "good", ELSEWHERE: "bad" })[attested] ?? "";

export const stateWord = (state) => ({ UP: "up", DOWN: "failed", DRAINED: "drained", LOSSY: "lossy" })[state] ?? state;
// A state in its colour of the picture.
export const stateTag = (state) => tag(stateWord(state), { UP: "", DOWN: "failed", DRAINED: "drained", LOSSY: "drained" }[state]);

// A time of the API to the minute: "2026-11-27 04:31 UTC".
export const minute = (text) => `${text.slice(0, 16).replace("T", " ")} UTC`;

// A time in milliseconds as "22:31:05" (UTC), with the date if it is not of today.
export function clock(time) {
  const text = new Date(time).toISOString();
  const today = new Date().toISOString().slice(0, 10);
  return text.startsWith(today) ? text.slice(11, 19) : text.slice(0, 19).replace("T", " ");
}

// Operators' actions: a dialog shows what would move and asks for confirmation before it acts.
import { breakable, byId, count, decimal, h, minute } from "./dom.js";
import { ask } from "./model.js";

const words = {
  fail: { verb: "Fail", path: "fail", danger: true, until: true, text: "Takes it out of use immediately; its flows move at once." },
  restore: { verb: "Restore", path: "restore", text: "Puts it back in use. Flows in progress keep their paths until a recompute." },
  drain: { verb: "Drain", path: "drain", until: true, text: "Takes it out of use without loss; its flows move at their next message." },
  undrain: { verb: "Undrain", path: "undrain", text: "Puts it back in use. Flows in progress keep their paths until a recompute." },
};

export const untilField = (placeholder = "no end, or for example +2h") => ({ name: "until", label: "Until", placeholder });
const confirmed = { force: "true" };  // the dialog has asked what `force` answers

export const actOn = (action, kind, id) =>
  open({ ...words[action], title: `${words[action].verb} ${kind} ${id}`, fields: words[action].until ? [untilField()] : [], request: (values) => [`/api/v1/${kind}s/${words[action].path}`, { id, ...values, ...confirmed }] });

export const recompute = () =>
  open({ verb: "Recompute", title: "Recompute all paths", text: "Assigns all flows from scratch and moves those whose path differs, if the result is better.", request: (values) => ["/api/v1/recompute", { ...values, ...confirmed }] });

export const rollBack = (revision) =>
  open({ verb: "Roll back", title: revision === undefined ? "Roll back the last change" : `Roll back to revision ${revision}`, text: "Returns to the intents of the earlier revision, as a new revision.", request: (values) => ["/api/v1/rollback", { ...(revision === undefined ? {} : { to: revision }), ...values, ...confirmed }] });

export function toast(text, bad = false) {
  const note = h("div", { class: `toast ${bad ? "bad" : ""}` }, text);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 5000);
}

// Asks for a token until the controller accepts one; the browser keeps the login as a cookie.
export function logIn() {
  const dialog = byId("dialog");
  const token = h("input", { id: "token", type: "password", autocomplete: "current-password" });
  const trouble = h("p", { role: "alert" });
  return new Promise((resolve) => {
    const send = async (event) => {
      event.preventDefault();
      const response = await fetch("/api/v1/login", { method: "POST", body: token.value.trim() }).catch(() => null);
      if (response?.ok) {
        dialog.oncancel = null;
        dialog.close();
        resolve();
      } else {
        trouble.replaceChildren(h("span", { class: "tag bad" }, response ? "the token is unknown, expired or revoked" : "the controller does not answer"));
      }
    };
    dialog.oncancel = (event) => event.preventDefault();
    dialog.replaceChildren(h("form", { class: "sheet", onsubmit: send },
      h("header", {}, h("h2", { id: "dialog-title" }, "Log in"), h("p", { class: "muted" }, "The controller requires a token. An administrator makes one with: espalier token make")),
      h("div", { class: "content" }, h("label", { for: "token" }, "Token"), token, trouble),
      h("footer", {}, h("button", { type: "submit", class: "primary" }, "Log in"))));
    dialog.showModal();
  });
}

// Opens the dialog of an action:
//   verb, title, text, danger; fields: [{name, label, ...}], whose values are those of the API
//   request(values)  [path, query, body?] of the values; a dry run has `dry_run` in addition
//   lacks(values)    what has to be filled in before anything can be shown, or ""
//   show(would)      elements for the answer of the dry run; done(answer): what the toast says
//   held(would)      whether it cannot be confirmed; carry(would): more of the query, confirmed
export function open(action) {
  const dialog = byId("dialog");
  const outcome = h("div", { class: "outcome", "aria-live": "polite" });
  const reason = { name: "reason", label: "Reason", placeholder: "for the audit log", maxlength: "200" };
  const fields = [reason, ...(action.fields ?? [])].map((field) => ({ ...field, input: inputOf(field) }));
  const values = () => Object.fromEntries(fields.map(({ name, input }) => [name, input.type === "checkbox" ? (input.checked ? "true" : "") : input.value.trim()]));
  const confirm = h("button", { type: "button", class: action.danger ? "danger" : "primary", id: "confirm", disabled: true }, action.verb);
  const cancel = h("button", { type: "button", id: "cancel", onclick: () => dialog.close() }, "Cancel");
  const view = { action, values, outcome, confirm, turn: 0, carried: {} };
  confirm.addEventListener("click", async () => {
    confirm.disabled = true;
    try {
      const [path, query, body] = action.request(values());
      const done = await ask("POST", path, { ...query, ...view.carried }, body);
      dialog.close();
      toast(action.done?.(done) ?? `${action.title}: done, ${count(done.moved, "flow")} moved, maximum load ${decimal(done.max_load)}.`);
      action.after?.();
    } catch (error) {
      confirm.disabled = false;
      outcome.prepend(h("p", { class: "tag bad" }, error.message));
    }
  });
  // The reason has no part in what moves; what was typed last counts when a short pause follows.
  for (const { input, name } of fields) {
    if (name === "reason") continue;
    input.addEventListener("input", () => {
      confirm.disabled = true;
      clearTimeout(view.typing);
      view.typing = setTimeout(() => preview(view), 250);
    });
  }
  dialog.replaceChildren(h("div", { class: "sheet" },
    h("header", {}, h("h2", { id: "dialog-title" }, action.title), h("p", { class: "muted" }, action.text)),
    h("div", { class: "content" }, h("div", { class: "fields" }, fields.map(labelled)), outcome),
    h("footer", {}, cancel, confirm)));
  dialog.showModal();
  (fields.find((field) => field.first)?.input ?? cancel).focus();
  preview(view);
}

function inputOf({ name, options, value = "", label, first, ...attributes }) {
  if (options) return h("select", { id: name }, Object.entries(options).map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("input", { id: name, autocomplete: "off", value, ...attributes });
}

const labelled = ({ name, label, input }) => (input.type === "checkbox"
  ? h("label", { for: name, class: "check" }, input, label)
  : h("div", {}, h("label", { for: name }, label), input));

async function preview(view) {
  const { action, outcome, confirm } = view;
  const turn = ++view.turn;
  confirm.disabled = true;
  const values = view.values();
  const lacks = action.lacks?.(values);
  if (lacks) {
    outcome.replaceChildren(h("p", { class: "muted" }, lacks));
    return;
  }
  outcome.replaceChildren(h("p", { class: "muted" }, "Computing what would move…"));
  try {
    const [path, query, body] = action.request(values);
    const would = await ask("POST", path, { ...query, dry_run: "true" }, body);
    if (turn !== view.turn) return;
    outcome.replaceChildren(...(action.show ?? showMoves)(would));
    view.carried = action.carry?.(would) ?? {};
    confirm.disabled = action.held?.(would) ?? false;
  } catch (error) {
    if (turn === view.turn) outcome.replaceChildren(h("p", {}, h("span", { class: "tag bad" }, "refused"), ` ${error.message}`));
  }
}

function showMoves(would) {
  const sums = h("div", { class: "sum" },
    h("div", {}, h("b", {}, String(would.moved)), h("span", {}, would.moved === 1 ? "flow would move" : "flows would move")),
    h("div", {}, h("b", {}, decimal(would.max_load_before)), h("span", {}, "load of the most loaded link now")),
    would.max_load === would.max_load_before ? null
      : h("div", {}, h("b", {}, decimal(would.max_load)), h("span", {}, would.optimal ? "afterwards (no assignment has less)" : "afterwards")));
  const question = would.question ? [h("p", { class: "tag warn" }, would.question)] : [];
  const top = [sums, ...question, ...cutOff(would), ...intents(would)];
  if (would.moves.length === 0) return top;
  const most = 200;
  const table = h("table", { class: "diff" },
    h("thead", {}, h("tr", {}, ["Flow", "Job", "From", "To"].map((name) => h("th", {}, name)))),
    h("tbody", {}, would.moves.slice(0, most).map((move) => h("tr", {},
      h("td", { class: "mono" }, breakable(move.flow)), h("td", {}, breakable(move.job)),
      h("td", {}, h("del", {}, breakable(move.from || "ECMP"))), h("td", {}, h("ins", {}, breakable(move.to || "decided at the move")))))));
  const rest = would.moves.length - most;
  return rest > 0 ? [...top, table, h("p", { class: "muted" }, `and ${rest} more`)] : [...top, table];
}

// The flows whose packets would not get through, and the forests that would be computed again.
function cutOff(would) {
  const lines = [];
  const add = (now, before, what, kind) => {
    if (now || before) lines.push(h("p", {}, h("span", { class: now > before ? `tag ${kind}` : "tag" }, `${count(now, "flow")} ${what}`), ` now: ${before}`));
  };
  add(would.without_path, would.without_path_before, "without any path", "bad");
  add(would.on_dead_links, would.on_dead_links_before, "on links that are down", "bad");
  add(would.on_drained_links, would.on_drained_links_before, "on drained links", "warn");
  if (would.forests) lines.push(h("p", {}, `${count(would.forests, "forest")} would be computed again.`));
  return lines;
}

// The value of an intent: a maintenance window is a record of the store, "TIME node waiting checked spine1".
function intentWords({ what, value }) {
  const [from, kind, , , ...id] = value.split(" ");
  if (what === "maintenance" && id.length > 0) return `: drains ${kind} ${id.join(" ")} from ${minute(from)}`;
  return value ? ` = ${value}` : "";
}

function intents(would) {
  const words = { ADDED: "adds", REMOVED: "removes", CHANGED: "changes" };
  return would.intents.map((intent) => h("p", { class: "muted" }, `${words[intent.change]}: ${intent.what} ${intent.id}${intentWords(intent)}${intent.until ? ` until ${intent.until}` : ""}`));
}

// Operators' actions: a dialog shows what would move and asks for confirmation before it acts.
import { byId, count, h } from "./dom.js";
import { ask } from "./model.js";

const words = {
  fail: { verb: "Fail", path: "fail", danger: true, until: true, text: "Takes it out of use immediately; its flows move at once." },
  restore: { verb: "Restore", path: "restore", text: "Puts it back in use. Flows in progress keep their paths until a recompute." },
  drain: { verb: "Drain", path: "drain", until: true, text: "Takes it out of use without loss; its flows move at their next message." },
  undrain: { verb: "Undrain", path: "undrain", text: "Puts it back in use. Flows in progress keep their paths until a recompute." },
};

export const actOn = (action, kind, id) =>
  open({ ...words[action], path: `/api/v1/${kind}s/${words[action].path}`, title: `${words[action].verb} ${kind} ${id}`, query: { id } });

export const recompute = () =>
  open({ verb: "Recompute", path: "/api/v1/recompute", title: "Recompute all paths", text: "Assigns all flows from scratch and moves those whose path differs, if the result is better.", query: {} });

export const rollBack = (revision) =>
  open({ verb: "Roll back", path: "/api/v1/rollback", title: revision === undefined ? "Roll back the last change" : `Roll back to revision ${revision}`, text: "Returns to the intents of the earlier revision, as a new revision.", query: revision === undefined ? {} : { to: revision } });

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

function open(action) {
  const dialog = byId("dialog");
  const outcome = h("div", { class: "outcome", "aria-live": "polite" }, h("p", { class: "muted" }, "Computing what would move…"));
  const reason = h("input", { id: "reason", maxlength: "200", placeholder: "for the audit log", autocomplete: "off" });
  const until = h("input", { id: "until", placeholder: "no end, or for example +2h", autocomplete: "off" });
  const confirm = h("button", { type: "button", class: action.danger ? "danger" : "primary", id: "confirm", disabled: true }, action.verb);
  const cancel = h("button", { type: "button", id: "cancel", onclick: () => dialog.close() }, "Cancel");
  confirm.addEventListener("click", async () => {
    confirm.disabled = true;
    try {
      const done = await ask("POST", action.path, { ...action.query, reason: reason.value, until: until.value, force: "true" });
      dialog.close();
      toast(`${action.title}: done, ${count(done.moved, "flow")} moved, maximum load ${done.max_load}.`);
    } catch (error) {
      confirm.disabled = false;
      outcome.prepend(h("p", { class: "tag bad" }, error.message));
    }
  });
  const fields = h("div", { class: "fields" },
    h("div", {}, h("label", { for: "reason" }, "Reason"), reason),
    action.until ? h("div", {}, h("label", { for: "until" }, "Until"), until) : null);
  dialog.replaceChildren(h("div", { class: "sheet" },
    h("header", {}, h("h2", { id: "dialog-title" }, action.title), h("p", { class: "muted" }, action.text)),
    h("div", { class: "content" }, outcome, fields),
    h("footer", {}, cancel, confirm)));
  dialog.showModal();
  cancel.focus();
  preview(action, outcome, confirm);
}

async function preview(action, outcome, confirm) {
  try {
    const would = await ask("POST", action.path, { ...action.query, dry_run: "true" });
    outcome.replaceChildren(...describe(would));
    confirm.disabled = false;
  } catch (error) {
    outcome.replaceChildren(h("p", {}, h("span", { class: "tag bad" }, "refused"), ` ${error.message}`));
  }
}

function describe(would) {
  const sums = h("div", { class: "sum" },
    h("div", {}, h("b", {}, String(would.moved)), h("span", {}, would.moved === 1 ? "flow would move" : "flows would move")),
    h("div", {}, h("b", {}, would.max_load_before), h("span", {}, "load of the most loaded link now")),
    would.max_load === would.max_load_before ? null
      : h("div", {}, h("b", {}, would.max_load), h("span", {}, would.optimal ? "afterwards (no assignment has less)" : "afterwards")));
  const question = would.question ? [h("p", { class: "tag warn" }, would.question)] : [];
  const top = [sums, ...question, ...cutOff(would), ...intents(would)];
  if (would.moves.length === 0) return top;
  const most = 200;
  const table = h("table", { class: "diff" },
    h("thead", {}, h("tr", {}, ["Flow", "Job", "From", "To"].map((name) => h("th", {}, name)))),
    h("tbody", {}, would.moves.slice(0, most).map((move) => h("tr", {},
      h("td", { class: "mono" }, move.flow), h("td", {}, move.job),
      h("td", {}, h("del", {}, move.from || "ECMP")), h("td", {}, h("ins", {}, move.to || "decided at the move"))))));
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

function intents(would) {
  const words = { ADDED: "adds", REMOVED: "removes", CHANGED: "changes" };
  return would.intents.map((intent) => h("p", { class: "muted" }, `${words[intent.change]}: ${intent.what} ${intent.id}${intent.value ? ` = ${intent.value}` : ""}${intent.until ? ` until ${intent.until}` : ""}`));
}

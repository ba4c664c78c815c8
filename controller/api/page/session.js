// Who is logged in, what the role allows, and the way out.
import { byId, h } from "./dom.js";
import { ask } from "./model.js";

const allows = {
  viewer: "may look at everything, but change nothing",
  feed: "may look at everything, and report states and loads of links and what switches saw",
  operator: "may look, fail, drain, restore, recompute, roll back, switch steering, plan maintenance, and set weights and policies",
  admin: "may do what operators may, apply topologies, and reload keys and configuration",
};

// Shows the session; its answer has `canAct`. Without a session everything is left to the controller.
export async function showSession() {
  const place = byId("session");
  try {
    const { name, role, by_cookie: byCookie } = await ask("GET", "/api/v1/session");
    place.replaceChildren(
      h("span", { class: "who", title: `${role}: ${allows[role] ?? ""}` }, h("b", {}, name), " ", h("span", { class: "muted" }, role)),
      byCookie ? h("button", { type: "button", id: "log-out", onclick: logOut }, "Log out") : "");
    place.setAttribute("aria-label", `Logged in as ${name}, ${role}: ${allows[role] ?? ""}`);
    place.hidden = false;
    return { name, role, canAct: role === "operator" || role === "admin", isAdmin: role === "admin", allows: allows[role] ?? "" };
  } catch (error) {
    place.hidden = true;
    return { name: "", role: "", canAct: true, isAdmin: true, allows: "" };
  }
}

async function logOut() {
  await ask("POST", "/api/v1/logout").catch(() => null);
  location.reload();
}

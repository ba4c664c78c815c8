// Checks what assistive technology needs of the visible page; the value is a list of faults.
(() => {
  const faults = [];
  const tell = (fault, element) => faults.push(`${fault}: ${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.getAttribute("class") ?? ""} ${element.textContent.trim().slice(0, 40)}`);
  const dialog = document.querySelector("dialog[open]");
  const root = dialog ?? document.body;
  const isSeen = (element) => element.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true }) && element.getClientRects().length > 0;
  const all = [...root.querySelectorAll("*")].filter(isSeen);

  // Names.
  const nameOf = (element) => {
    const by = element.getAttribute("aria-labelledby");
    if (by) return by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    return element.getAttribute("aria-label") ?? element.getAttribute("alt") ?? ([...(element.labels ?? [])].map((one) => one.textContent).join(" ") || (element.matches("input, select, textarea") ? element.getAttribute("title") : element.textContent) || element.getAttribute("title")) ?? "";
  };
  const named = "button, a[href], input, select, textarea, canvas, dialog, [role=img], [role=radiogroup], [role=tablist], [role=tab], [role=table], [role=group], [role=application], section, aside";
  for (const element of all) {
    if (element.matches(named) && !(nameOf(element) ?? "").trim() && element.id !== "panels") tell("no name", element);
    if (element.matches("img") && !element.hasAttribute("alt")) tell("no alt", element);
  }

  // References and unique ids.
  const ids = new Map();
  for (const element of document.querySelectorAll("[id]")) ids.set(element.id, [...(ids.get(element.id) ?? []), element]);
  for (const [id, elements] of ids) if (elements.length > 1) tell(`id ${id} twice`, elements[1]);
  for (const element of all) {
    for (const attribute of ["aria-labelledby", "aria-controls", "aria-describedby", "for"]) {
      for (const id of element.getAttribute(attribute)?.split(/\s+/) ?? []) if (!ids.has(id)) tell(`${attribute} of ${id}, which is nowhere`, element);
    }
  }

  // Roles, and the states and places that they need.
  const needs = { checkbox: "aria-checked", radio: "aria-checked", tab: "aria-selected", slider: "aria-valuenow", switch: "aria-checked" };
  const inside = { radio: "[role=radiogroup]", tab: "[role=tablist]", row: "[role=table], [role=rowgroup], table", cell: "[role=row]", columnheader: "[role=row]" };
  for (const element of all) {
    const role = element.getAttribute("role");
    if (!role) continue;
    const state = needs[role];
    if (state && !["true", "false"].includes(element.getAttribute(state) ?? "")) tell(`${role} without ${state}`, element);
    if (inside[role] && !element.parentElement.closest(inside[role])) tell(`${role} outside of ${inside[role]}`, element);
  }
  for (const group of root.querySelectorAll("[role=radiogroup]")) {
    if (isSeen(group) && group.querySelectorAll("[aria-checked=true]").length !== 1) tell("a choice without one chosen", group);
  }
  for (const element of all) {
    if (element.getAttribute("aria-hidden") === "true" && element.querySelector("button, a[href], input, [tabindex='0']")) tell("focus in what is hidden", element);
    if (Number(element.getAttribute("tabindex")) > 0) tell("an order of its own", element);
  }
  if (!document.documentElement.lang) tell("no language", document.documentElement);
  if (document.querySelectorAll("h1").length !== 1) tell("not one h1", document.body);

  // Contrast of texts: WCAG 2.1, 1.4.3.
  const parse = (text) => {
    const parts = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    const scale = text.startsWith("color(") ? 255 : 1;
    return { rgb: parts.slice(0, 3).map((part) => part * scale), alpha: parts[3] ?? 1 };
  };
  const over = (top, below) => top.rgb.map((part, at) => part * top.alpha + below[at] * (1 - top.alpha));
  const groundOf = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.unshift(parse(getComputedStyle(one).backgroundColor));
    return layers.reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const element of all) {
    if (element.closest("svg") || element.closest(":disabled")) continue;
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!hasText) continue;
    const style = getComputedStyle(element);
    const ground = groundOf(element);
    const [a, b] = [light(over(parse(style.color), ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) tell(`contrast ${ratio.toFixed(2)}`, element);
  }
  return [...new Set(faults)].slice(0, 20);
})()

// Draws the fabric: switches by tier, hosts below their leaf, links coloured by load or traffic; or
// its links as a matrix.
import { describeLink, describeNode } from "./describe.js";
import { arrange } from "./layout.js";
import { Lens } from "./lens.js";
import { Matrix } from "./matrix.js";
import { placeMap } from "./place.js";

const tau = 2 * Math.PI;

export class Fabric {
  // model; onPick(kind, item) with kind "node", "link" or null.
  constructor(canvas, tip, model, onPick) {
    Object.assign(this, { canvas, tip, model, onPick, mode: "load", shape: "map", fair: 1, picked: null, marked: null, planned: null, hover: null });
    this.context = canvas.getContext("2d");
    this.matrix = new Matrix();
    this.lens = new Lens(canvas, () => this.#replace(), (x, y) => this.#nearest(x, y));
    this.drawn = 0;
    this.drawMs = 0;
    new ResizeObserver(() => this.#resize()).observe(canvas);
    canvas.addEventListener("pointermove", (event) => this.#hoverAt(event));
    canvas.addEventListener("pointerleave", () => this.#setHover(null));
    canvas.addEventListener("click", (event) => this.#pickAt(event));
    canvas.addEventListener("keydown", (event) => this.#handleKey(event));
    this.readColours();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = {
      idle: read("load-idle"), one: read("load-one"), two: read("load-two"), many: read("load-many"),
      failed: read("failed"), drained: read("drained"), chosen: read("chosen"), ink: read("ink"),
      muted: read("muted"), line: read("line"), surface: read("surface"), tree: read("tree"), soft: read("soft"),
    };
    this.request();
  }

  setMode(mode) {
    this.mode = mode;
    this.request();
  }

  // "map" or "matrix".
  setShape(shape) {
    this.shape = shape;
    this.lens.reset();
  }

  // Moves the picture so that these nodes fill it.
  goTo(nodes) {
    const boxes = nodes.map((node) => this.#boxOf(node)).filter(Boolean);
    if (boxes.length === 0) return;
    const edge = (pick, key) => pick(...boxes.map(key));
    this.lens.fit({ left: edge(Math.min, (box) => box.x), right: edge(Math.max, (box) => box.x + box.w), top: edge(Math.min, (box) => box.y), bottom: edge(Math.max, (box) => box.y + box.h) });
  }

  // Moves the picture so that an item that was found is in its middle and its name can be read.
  show({ kind, item }) {
    const ends = kind === "link" ? [item.from, item.to] : [item];
    const most = Math.max(1, ...this.tiers.map((tier) => tier.length));
    const wanted = Math.max(this.lens.k, Math.min(12, (60 * most) / Math.max(1, this.width)));
    if (wanted > this.lens.k) this.lens.zoom(wanted / this.lens.k);
    const boxes = (this.shape === "matrix" ? [item] : ends).map((one) => this.#boxOf(one)).filter(Boolean);
    if (boxes.length === 0) return;
    const middle = (key, size) => boxes.reduce((sum, box) => sum + box[key] + box[size] / 2, 0) / boxes.length;
    this.lens.pan(middle("x", "w") - this.lens.x - this.width / 2, middle("y", "h") - this.lens.y - this.height / 2);
  }

  #nearest(x, y) {
    if (!this.tiers || this.shape === "matrix") return null;
    const far = (node) => Math.hypot(node.x - x, node.y - y);
    return this.tiers.flat().concat(this.hosts).reduce((best, node) => (best && far(best) <= far(node) ? best : node), null);
  }

  #boxOf(item) {
    if (this.shape === "matrix") return this.matrix.boxOf(item);
    return "x" in item ? { x: item.x - item.w / 2, y: item.y - item.h / 2, w: item.w, h: item.h } : null;
  }

  // picked: {kind, item}; marked: a set of links, or null; planned: bits per second, [a to b, b to a] by
  // link, drawn as arrows, or null.
  pick(picked, marked, planned = null) {
    this.picked = picked;
    this.marked = marked;
    this.planned = planned;
    this.request();
  }

  layOut() {
    Object.assign(this, arrange(this.model.nodes));
    const switches = new Set(this.tiers.flat());
    this.hosts = [];
    for (const leaf of this.tiers[0] ?? []) {
      leaf.hosts = [];
      for (const link of leaf.links) {
        const other = link.from === leaf ? link.to : link.from;
        if (other.tier >= 0 && !other.host) continue;
        other.uplink = link;
        leaf.hosts.push(other);
        this.hosts.push(other);
      }
    }
    this.rows = [...this.tiers].reverse().concat([this.hosts]);
    this.cables = this.model.links.filter((link) => switches.has(link.from) && switches.has(link.to));
    this.lens.reset();
    this.#resize();
  }

  #resize() {
    const box = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * scale);
    this.canvas.height = Math.round(box.height * scale);
    this.scale = scale;
    this.lens.resize(box.width, box.height);
    this.#replace();
  }

  // Lays the picture out again, for another size or zoom.
  #replace() {
    if (this.tiers) {
      const { k } = this.lens;
      if (this.shape === "matrix") this.matrix.layOut(this.tiers, this.width * k, this.height * k);
      else Object.assign(this, placeMap(this.tiers, this.width * k, this.height * k));
    }
    this.request();
  }

  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  #weight(link) {
    if (this.mode === "load") return Math.max(...link.load);
    return Math.max(...link.achieved) / link.bps;
  }

  // The colour class: 0 idle, 1 up to the lower bound (blue), 2 and 3 above it (orange and red).
  #level(weight) {
    if (weight <= 0.001) return 0;
    const [fair, much] = this.mode === "traffic" ? [0.5, 0.9] : [this.fair, 2 * this.fair];
    return weight <= fair ? 1 : weight <= much ? 2 : 3;
  }

  draw() {
    const { context } = this;
    if (!this.tiers || this.width === 0) return;
    const start = performance.now();
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.translate(-this.lens.x, -this.lens.y);
    if (this.shape === "matrix") this.#drawMatrix();
    else this.#drawMap();
    this.drawn += 1;
    this.drawMs = 0.9 * this.drawMs + 0.1 * (performance.now() - start);
    this.onDrawn?.();
  }

  #drawMap() {
    this.#drawPods();
    this.#drawLinks();
    this.#drawPlanned();
    this.#drawHosts();
    this.#drawSwitches();
  }

  #drawMatrix() {
    const { context, colours, marked } = this;
    const colours4 = [colours.idle, colours.one, colours.two, colours.many];
    const styleOf = (link) => {
      const level = this.#level(this.#weight(link));
      if (link.state === "DOWN") return { colour: colours.failed, rank: 5, mark: "✕" };
      if (link.state !== "UP") return { colour: colours.drained, rank: 4, mark: "–" };
      return { colour: colours4[level], rank: level, mark: "" };
    };
    this.matrix.draw(context, colours, styleOf, (text, width) => this.#fit(text, width), marked && ((link) => marked.has(link)));
    for (const item of [this.hover?.item, this.picked?.item]) {
      const box = item && this.matrix.boxOf(item);
      if (!box) continue;
      context.strokeStyle = colours.chosen;
      context.lineWidth = 1.8;
      context.strokeRect(box.x - 1, box.y - 1, box.w + 1, box.h + 1);
    }
  }

  #drawPods() {
    const { context, colours } = this;
    context.fillStyle = colours.muted;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "bottom";
    for (const { name, nodes } of this.pods) {
      const left = Math.min(...nodes.map((node) => node.x - node.w / 2)) - 1.5;
      const right = Math.max(...nodes.map((node) => node.x + node.w / 2)) + 1.5;
      const top = Math.min(...nodes.map((node) => node.y - node.h / 2)) - 8;
      const bottom = Math.max(...nodes.map((node) => node.y + node.h / 2)) + 8;
      context.strokeStyle = colours.line;
      context.lineWidth = 1.2;
      context.beginPath();
      context.roundRect(left, top, right - left, bottom - top, 8);
      context.stroke();
      if (right - left > 40) context.fillText(this.#fit(name, right - left - 8), left + 4, top - 2);
    }
  }

  #drawLinks() {
    const { context, colours } = this;
    // One stroke draws all links that look alike, so that thousands of links need few strokes.
    const strokes = new Map();
    const stroke = (link, style) => {
      const key = Object.values(style).join();
      if (!strokes.has(key)) strokes.set(key, { style, links: [] });
      strokes.get(key).links.push(link);
    };
    const isDense = this.cables.length > 600;
    const thin = isDense ? 0.6 : 1.1;
    const dim = this.marked ? 0.14 : 1;
    const alphas = isDense ? [0.3, 0.4, 0.75, 0.9] : [0.75, 0.9, 0.9, 0.95];
    const widths = [1, 1.5, 2.2, 2.4];
    const colours4 = [colours.idle, colours.one, colours.two, colours.many];
    for (const link of this.cables) {
      const level = this.#level(this.#weight(link));
      const isMarked = this.marked?.has(link) && !this.planned;
      if (link.state !== "UP") {
        stroke(link, { z: 4, colour: link.state === "DOWN" ? colours.failed : colours.drained, width: isMarked ? 3 : 1.8, alpha: this.marked && !isMarked ? 0.3 : 1, dash: link.state === "DOWN" ? "7 4" : "2 3" });
      } else if (isMarked) {
        stroke(link, { z: 5, colour: colours4[level], width: isDense ? 2 : 3.2, alpha: 1, dash: "" });
      } else {
        stroke(link, { z: level, colour: colours4[level], width: thin * widths[level], alpha: dim * alphas[level], dash: "" });
      }
    }
    if (this.roomy) {
      for (const host of this.hosts) {
        const weight = Math.max(...host.uplink.achieved) / host.uplink.bps;
        const isMarked = this.marked?.has(host.uplink) && !this.planned;
        const off = host.uplink.state === "DOWN" ? colours.failed : host.uplink.state === "DRAINED" ? colours.drained : null;
        stroke(host.uplink, { z: isMarked ? 5 : 0, colour: off ?? (weight > 0.001 ? colours.one : colours.idle), width: isMarked ? 3.2 : 1.2, alpha: isMarked ? 1 : dim, dash: off ? "4 3" : "" });
      }
    }
    for (const { style, links } of [...strokes.values()].sort((a, b) => a.style.z - b.style.z)) {
      context.globalAlpha = style.alpha;
      context.strokeStyle = style.colour;
      context.lineWidth = style.width;
      context.setLineDash(style.dash ? style.dash.split(" ").map(Number) : []);
      context.beginPath();
      for (const link of links) this.#trace(link);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
    for (const item of [this.hover, this.picked]) {
      if (item?.kind !== "link" || !("x" in item.item.from)) continue;
      context.strokeStyle = colours.chosen;
      context.lineWidth = 1.6;
      context.beginPath();
      this.#trace(item.item, 3);
      this.#trace(item.item, -3);
      context.stroke();
    }
  }

  #trace(link, aside = 0) {
    this.context.moveTo(link.from.x + aside, link.from.y);
    this.context.lineTo(link.to.x + aside, link.to.y);
  }

  // Draws each direction beside its link, the wider the larger its part of the link's rate.
  #drawPlanned() {
    if (!this.planned) return;
    const { context, colours } = this;
    context.strokeStyle = context.fillStyle = colours.tree;
    for (const [link, rates] of this.planned) {
      if (!("x" in link.from && "x" in link.to)) continue;
      rates.forEach((bps, direction) => {
        if (bps <= 0) return;
        const [from, to] = direction === 0 ? [link.from, link.to] : [link.to, link.from];
        this.#drawArrow(from, to, 1.2 + 2.4 * Math.min(1, bps / link.bps));
      });
    }
  }

  #drawArrow(from, to, width) {
    const { context } = this;
    const far = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const [dx, dy] = [(to.x - from.x) / far, (to.y - from.y) / far];
    const [x, y] = [from.x - 2.5 * dy, from.y + 2.5 * dx];
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + dx * far, y + dy * far);
    context.stroke();
    const tip = 0.58 * far;
    const long = Math.min(4 + 1.5 * width, 0.3 * far);
    context.beginPath();
    context.moveTo(x + dx * tip, y + dy * tip);
    context.lineTo(x + dx * (tip - long) - dy * long * 0.6, y + dy * (tip - long) + dx * long * 0.6);
    context.lineTo(x + dx * (tip - long) + dy * long * 0.6, y + dy * (tip - long) - dx * long * 0.6);
    context.fill();
  }

  #drawHosts() {
    const { context, colours } = this;
    for (const host of this.hosts) {
      const link = host.uplink;
      const busy = Math.max(...link.achieved) > 0;
      context.globalAlpha = this.marked && !this.marked.has(link) ? 0.35 : 1;
      context.fillStyle = link.state === "DOWN" ? colours.failed : link.state === "DRAINED" || link.state === "SLOW" ? colours.drained : busy ? colours.one : colours.idle;
      if (this.cell > 6) {
        context.beginPath();
        context.arc(host.x, host.y, this.cell / 2, 0, tau);
        context.fill();
      } else {
        context.fillRect(host.x - this.cell / 2, host.y - this.cell / 2, this.cell, this.cell);
      }
      if (this.#isChosen(host)) this.#ring(host, this.cell / 2 + 3);
    }
    context.globalAlpha = 1;
    if (!this.roomy) return;
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    context.textBaseline = "top";
    context.font = "10.5px system-ui, sans-serif";
    for (const host of this.hosts) context.fillText(this.#fit(host.id, this.cellGap - 4), host.x, host.y + this.cell / 2 + 4);
  }

  #drawSwitches() {
    const { context, colours } = this;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "600 11px system-ui, sans-serif";
    for (const node of this.tiers.flat()) {
      const state = this.model.stateOf(node);
      const colour = state === "DOWN" ? colours.failed : state === "DRAINED" || state === "SLOW" ? colours.drained : null;
      context.beginPath();
      context.roundRect(node.x - node.w / 2, node.y - node.h / 2, node.w, node.h, Math.min(5, node.w / 3));
      context.fillStyle = node.named || colour ? colours.surface : colours.muted;
      context.fill();
      context.lineWidth = colour ? 2 : 1.2;
      context.strokeStyle = colour ?? colours.muted;
      context.setLineDash(state === "DOWN" ? [4, 3] : state === "DRAINED" || state === "SLOW" ? [2, 2] : []);
      context.stroke();
      context.setLineDash([]);
      if (node.named) {
        context.fillStyle = colour ?? colours.ink;
        context.fillText(this.#fit((state === "DOWN" ? "✕ " : "") + node.id, node.w - 6), node.x, node.y + 0.5);
      }
      if (this.#isChosen(node)) this.#ring(node, node.w / 2 + 3);
    }
    for (const row of this.tiers) this.#drawSmallNames(row);
  }

  // Where switches are too small for their names, some of the names stand above them, and those of
  // switches that are failed or drained.
  #drawSmallNames(row) {
    if (row.length < 2 || row[0].named) return;
    const { context, colours } = this;
    const every = Math.ceil(54 / Math.max(1, row[1].x - row[0].x));
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "bottom";
    row.forEach((node, at) => {
      if (at % every !== 0 && this.model.stateOf(node) === "UP") return;
      const text = this.#fit(node.id, 50);
      const wide = context.measureText(text).width;
      context.globalAlpha = 0.85;
      context.fillStyle = colours.surface;
      context.fillRect(node.x - wide / 2 - 2, node.y - node.h / 2 - 15, wide + 4, 13);
      context.globalAlpha = 1;
      context.fillStyle = colours.muted;
      context.fillText(text, node.x, node.y - node.h / 2 - 2);
    });
  }

  #fit(text, width) {
    if (this.context.measureText(text).width <= width) return text;
    let short = text.slice(0, 40);
    while (short.length > 1 && this.context.measureText(short + "…").width > width) short = short.slice(0, -1);
    return short + "…";
  }

  #isChosen(node) {
    return this.picked?.item === node || this.hover?.item === node;
  }

  #ring(node, radius) {
    const { context } = this;
    context.strokeStyle = this.colours.chosen;
    context.lineWidth = 1.8;
    context.beginPath();
    if (node.h > 6 && node.w > node.h) {
      context.roundRect(node.x - node.w / 2 - 3, node.y - node.h / 2 - 3, node.w + 6, node.h + 6, 7);
    } else {
      context.arc(node.x, node.y, Math.max(5, radius), 0, tau);
    }
    context.stroke();
  }

  // Returns the node at a point, else the nearest link within 6 pixels.
  find(x, y) {
    if (!this.tiers) return null;
    x += this.lens.x;
    y += this.lens.y;
    if (this.shape === "matrix") return this.matrix.find(x, y);
    const within = (node) => Math.abs(x - node.x) <= Math.max(node.w / 2, 2.5) + 1.5 && Math.abs(y - node.y) <= Math.max(node.h / 2, 2.5) + 1.5;
    const node = this.tiers.flat().find(within) ?? this.hosts.find(within);
    if (node) return { kind: "node", item: node };
    let best = null;
    let least = 6;
    for (const link of this.roomy ? this.cables.concat(this.hosts.map((host) => host.uplink)) : this.cables) {
      const far = distance(x, y, link.from, link.to);
      if (far < least - (this.#weight(link) > 0 ? 0 : 1)) {
        least = far;
        best = link;
      }
    }
    return best && { kind: "link", item: best };
  }

  #hoverAt(event) {
    this.#setHover(this.find(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  }

  #setHover(found, x = 0, y = 0) {
    if (found?.item !== this.hover?.item) {
      this.hover = found;
      this.canvas.style.cursor = found ? "pointer" : "default";
      this.request();
    }
    this.tip.hidden = !found;
    if (!found) return;
    const lines = found.kind === "link" ? describeLink(found.item) : describeNode(found.item, this.model.stateOf(found.item));
    const bold = document.createElement("b");
    bold.textContent = lines[0];
    this.tip.replaceChildren(bold, ...lines.slice(1).flatMap((line) => [document.createElement("br"), line]));
    const left = x + 14 + this.tip.offsetWidth > this.width ? x - 14 - this.tip.offsetWidth : x + 14;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(y + 12, this.height - this.tip.offsetHeight - 4))}px`;
  }

  #pickAt(event) {
    if (this.lens.dragged) return;
    const found = this.find(event.offsetX, event.offsetY);
    this.canvas.focus({ preventScroll: true });
    this.onPick(found?.kind ?? null, found?.item ?? null);
  }

  #handleKey(event) {
    if (!this.rows) return;
    const zoom = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 }[event.key];
    if (zoom) return this.lens.zoom(zoom);
    if (event.key === "0") return this.lens.reset();
    const node = this.picked?.kind === "node" ? this.picked.item : null;
    if (event.key === "l" && node) {
      node.turn = ((node.turn ?? -1) + 1) % node.links.length;
      this.onPick("link", node.links[node.turn]);
    } else if (event.key === "l" && this.picked?.kind === "link") {
      this.onPick("node", this.picked.item.from);
    } else if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      if (event.shiftKey) return this.lens.pan(...{ ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key]);
      this.onPick("node", this.#neighbour(node, event.key));
    }
  }

  #neighbour(node, key) {
    const at = this.rows.findIndex((row) => row.includes(node));
    if (at < 0) return this.tiers[0][0];
    const row = this.rows[at];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (side) return row[(row.indexOf(node) + side + row.length) % row.length];
    const other = this.rows[Math.max(0, Math.min(this.rows.length - 1, at + (key === "ArrowUp" ? -1 : 1)))];
    return other.reduce((best, one) => (Math.abs(one.x - node.x) < Math.abs(best.x - node.x) ? one : best), other[0]);
  }
}

function distance(x, y, a, b) {
  if (!("x" in a) || !("x" in b)) return Infinity;
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const along = Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - a.x - along * dx, y - a.y - along * dy);
}

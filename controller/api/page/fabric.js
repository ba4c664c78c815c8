// Draws the fabric: switches by tier, hosts below their leaf, links coloured by load or traffic,
// folded groups as one node (fold.js); or its links as a matrix.
import { describe } from "./describe.js";
import { distance, drawArrow, drawPod, drawRing, drawSmallNames } from "./drawing.js";
import { foldedAtFirst, foldMap, noteFolded } from "./fold.js";
import { arrange, groupsOf } from "./layout.js";
import { Lens } from "./lens.js";
import { Matrix } from "./matrix.js";
import { placeMap } from "./place.js";

const tau = 2 * Math.PI;

export class Fabric {
  // model; onPick(kind, item) with kind "node", "link", "group", "bundle" or null.
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

  // Moves the picture so that a group fills it.
  goTo({ name, nodes }) {
    this.fold([name], false);
    const boxes = nodes.map((node) => this.#boxOf(node)).filter(Boolean);
    if (boxes.length === 0) return;
    const edge = (pick, key) => pick(...boxes.map(key));
    this.lens.fit({ left: edge(Math.min, (box) => box.x), right: edge(Math.max, (box) => box.x + box.w), top: edge(Math.min, (box) => box.y), bottom: edge(Math.max, (box) => box.y + box.h) });
  }

  // Moves the picture so that an item that was found is in its middle and its name can be read.
  show({ kind, item }) {
    const ends = kind === "link" ? [item.from, item.to] : [item];
    if (this.shape === "map") this.fold(ends.map((end) => this.standIn.get(end)?.id).filter(Boolean), false);
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
    const arrangement = arrange(this.model.nodes);
    const switches = new Set(arrangement.tiers.flat());
    const hosts = [];
    for (const leaf of arrangement.tiers[0] ?? []) {
      leaf.hosts = [];
      for (const link of leaf.links) {
        const other = link.from === leaf ? link.to : link.from;
        if (other.tier >= 0 && !other.host) continue;
        other.uplink = link;
        leaf.hosts.push(other);
        hosts.push(other);
      }
    }
    const cables = this.model.links.filter((link) => switches.has(link.from) && switches.has(link.to));
    this.whole = { ...arrangement, hosts, cables };
    this.groups = groupsOf(arrangement);
    this.folded = foldedAtFirst(this.groups, hosts.length);
    this.#applyFolds();
    this.lens.reset();
    this.#resize();
  }

  // Folds or unfolds the groups of these names.
  fold(names, on) {
    const changed = names.filter((name) => this.folded.has(name) !== on);
    if (changed.length === 0) return;
    for (const name of changed) {
      if (on) this.folded.add(name);
      else this.folded.delete(name);
    }
    noteFolded(this.folded, this.groups);
    this.#applyFolds();
    this.#replace();
    this.onFolded?.();
  }

  #applyFolds() {
    // What is not on the map has no place.
    for (const node of this.model.nodes) delete node.x;
    Object.assign(this, foldMap(this.whole, this.groups.filter(({ name }) => this.folded.has(name))));
  }

  // From the top to the bottom.
  get rows() {
    const { tiers, hosts } = this.shape === "matrix" ? this.whole : this;
    return tiers && [...tiers].reverse().concat(hosts.length ? [hosts] : []);
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
      if (this.shape === "matrix") this.matrix.layOut(this.whole.tiers, this.width * k, this.height * k);
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
    return link.use ?? Math.max(...link.achieved) / link.bps;
  }

  #isMarked(link) {
    return Boolean(this.marked) && (link.links ? link.links.some((one) => this.marked.has(one)) : this.marked.has(link));
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
    for (const { name, nodes } of this.pods) drawPod(context, colours, name, nodes, (text, width) => this.#fit(text, width));
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
      const isMarked = this.#isMarked(link) && !this.planned;
      const wide = link.links ? Math.min(3, 1 + 0.4 * Math.log2(link.links.length)) : 1;
      if (link.state !== "UP") {
        stroke(link, { z: 4, colour: link.state === "DOWN" ? colours.failed : colours.drained, width: isMarked ? 3 : 1.8 * wide, alpha: this.marked && !isMarked ? 0.3 : 1, dash: link.isPart ? "" : link.state === "DOWN" ? "7 4" : "2 3" });
      } else if (isMarked) {
        stroke(link, { z: 5, colour: colours4[level], width: isDense ? 2 : 3.2, alpha: 1, dash: "" });
      } else {
        stroke(link, { z: level, colour: colours4[level], width: thin * widths[level] * (level > 0 || isMarked ? wide : 1), alpha: dim * alphas[level], dash: "" });
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
    for (const chosen of [this.hover, this.picked]) {
      const link = this.bundles.get(chosen?.item) ?? chosen?.item;
      if (!link?.from || !("x" in link.from && "x" in link.to)) continue;
      context.strokeStyle = colours.chosen;
      context.lineWidth = 1.6;
      context.beginPath();
      this.#trace(link, 3);
      this.#trace(link, -3);
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
    const sums = new Map();
    for (const [link, rates] of this.planned) {
      const shown = this.bundles.get(link) ?? link;
      if (!sums.has(shown)) sums.set(shown, [0, 0]);
      rates.forEach((bps, side) => { sums.get(shown)[shown === link ? side : shown.sideOf(link, side)] += bps; });
    }
    for (const [link, rates] of sums) {
      if (!("x" in link.from && "x" in link.to)) continue;
      rates.forEach((bps, direction) => {
        if (bps <= 0) return;
        const [from, to] = direction === 0 ? [link.from, link.to] : [link.to, link.from];
        drawArrow(context, from, to, 1.2 + 2.4 * Math.min(1, bps / link.bps));
      });
    }
  }

  #drawHosts() {
    const { context, colours } = this;
    for (const host of this.hosts) {
      const link = host.uplink;
      const busy = Math.max(...link.achieved) > 0;
      context.globalAlpha = this.marked && !this.marked.has(link) ? 0.35 : 1;
      context.fillStyle = link.state === "DOWN" ? colours.failed : link.state === "DRAINED" || link.state === "LOSSY" ? colours.drained : busy ? colours.one : colours.idle;
      if (this.cell > 6) {
        context.beginPath();
        context.arc(host.x, host.y, this.cell / 2, 0, tau);
        context.fill();
      } else {
        context.fillRect(host.x - this.cell / 2, host.y - this.cell / 2, this.cell, this.cell);
      }
      if (this.#isChosen(host)) drawRing(context, colours, host, this.cell / 2 + 3);
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
      const colour = state === "DOWN" ? colours.failed : state === "DRAINED" || state === "LOSSY" ? colours.drained : null;
      context.beginPath();
      context.roundRect(node.x - node.w / 2, node.y - node.h / 2, node.w, node.h, Math.min(5, node.w / 3));
      context.fillStyle = node.named || colour ? colours.surface : colours.muted;
      context.fill();
      context.lineWidth = colour ? 2 : 1.2;
      context.strokeStyle = colour ?? colours.muted;
      context.setLineDash(node.isPart ? [] : state === "DOWN" ? [4, 3] : state === "DRAINED" || state === "LOSSY" ? [2, 2] : []);
      context.stroke();
      context.setLineDash([]);
      if (node.isGroup) this.#drawInner(node);
      if (node.named) {
        context.fillStyle = colour ?? colours.ink;
        context.fillText(this.#fit((state === "DOWN" ? "✕ " : "") + node.id, node.w - 6), node.x, node.y + 0.5);
      }
      if (this.#isChosen(node)) drawRing(context, colours, node, node.w / 2 + 3);
    }
    for (const row of this.tiers) drawSmallNames(context, colours, row, (text, width) => this.#fit(text, width), (node) => this.model.stateOf(node) === "UP");
  }

  // The worst load of the links in a folded group, or the traffic of its hosts, as a bar.
  #drawInner(group) {
    const { context, colours } = this;
    const levels = group.cables.map((link) => this.#level(this.#weight(link)));
    const level = levels.length ? Math.max(...levels) : group.sent > 0 ? 1 : 0;
    context.fillStyle = [colours.idle, colours.one, colours.two, colours.many][level];
    context.fillRect(group.x - group.w / 2 + 4, group.y + group.h / 2 - 5, group.w - 8, 3);
  }

  #fit(text, width) {
    if (this.context.measureText(text).width <= width) return text;
    let short = text.slice(0, 40);
    while (short.length > 1 && this.context.measureText(short + "…").width > width) short = short.slice(0, -1);
    return short + "…";
  }

  // A folded group is chosen with what it stands for.
  #isChosen(node) {
    const isFor = (item) => item === node || this.standIn.get(item) === node;
    return [this.picked?.item, this.hover?.item].some((item) => item && (isFor(item) || (item.from && isFor(item.from) && isFor(item.to))));
  }

  // Returns the node at a point, else the nearest link within 6 pixels.
  find(x, y) {
    if (!this.tiers) return null;
    x += this.lens.x;
    y += this.lens.y;
    if (this.shape === "matrix") return this.matrix.find(x, y);
    const within = (node) => Math.abs(x - node.x) <= Math.max(node.w / 2, 2.5) + 1.5 && Math.abs(y - node.y) <= Math.max(node.h / 2, 2.5) + 1.5;
    const node = this.tiers.flat().find(within) ?? this.hosts.find(within);
    if (node) return { kind: kindOf(node), item: node };
    let best = null;
    let least = 6;
    for (const link of this.roomy ? this.cables.concat(this.hosts.map((host) => host.uplink)) : this.cables) {
      const far = distance(x, y, link.from, link.to);
      if (far < least - (this.#weight(link) > 0 ? 0 : 1)) {
        least = far;
        best = link;
      }
    }
    return best && { kind: kindOf(best), item: best };
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
    const lines = describe(found.kind, found.item, this.model);
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
    const { kind, item } = this.picked ?? {};
    const node = kind === "node" || kind === "group" ? item : null;
    if (event.key === "Enter" && kind === "group") return this.fold([item.id], false);
    if (event.key === "l" && node?.links.length) {
      node.turn = ((node.turn ?? -1) + 1) % node.links.length;
      this.onPick(kindOf(node.links[node.turn]), node.links[node.turn]);
    } else if (event.key === "l" && item?.from) {
      this.onPick(kindOf(item.from), item.from);
    } else if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      if (event.shiftKey) return this.lens.pan(...{ ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key]);
      const next = this.#neighbour(this.shape === "map" ? this.standIn.get(node) ?? node : node, event.key);
      this.onPick(kindOf(next), next);
    }
  }

  #neighbour(node, key) {
    const { rows } = this;
    const at = rows.findIndex((row) => row.includes(node));
    if (at < 0) return (this.shape === "map" ? this : this.whole).tiers[0][0];
    const row = rows[at];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (side) return row[(row.indexOf(node) + side + row.length) % row.length];
    const other = rows[Math.max(0, Math.min(rows.length - 1, at + (key === "ArrowUp" ? -1 : 1)))];
    return other.reduce((best, one) => (Math.abs(one.x - node.x) < Math.abs(best.x - node.x) ? one : best), other[0]);
  }
}

const kindOf = (item) => (item.isGroup ? "group" : item.links && item.from ? "bundle" : item.from ? "link" : "node");

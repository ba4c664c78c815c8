// A table of any length, in which only the visible rows are elements.
import { byName, h } from "./dom.js";

const rowHeight = 29;

export class Table {
  // columns: {title, width, text(row), tip?(row), sort?(row), node?(row), right?}; options: {label, empty,
  // key(row), onPick?(row)}.
  constructor(columns, options) {
    this.columns = columns;
    this.options = options;
    this.rows = [];
    this.order = null;
    this.picked = null;
    this.pool = [];
    this.head = h("div", { class: "head", role: "row" }, columns.map((column, index) => this.#headOf(column, index)));
    this.spacer = h("div", { class: "spacer" });
    this.none = h("p", { class: "none", hidden: true }, options.empty);
    this.body = h("div", { class: "body", role: "rowgroup", tabindex: "0", "aria-label": options.label, onscroll: () => this.draw() }, this.spacer, this.none);
    this.element = h("div", { class: "table", role: "table", "aria-label": options.label }, this.head, this.body);
    this.element.style.setProperty("--columns", columns.map((column) => column.width).join(" "));
    // Narrower than that, the table scrolls sideways.
    const least = columns.reduce((sum, { width }) => sum + Number(width.match(/([\d.]+)px/)?.[1] ?? 60), 32);
    this.element.style.setProperty("--least", `${least}px`);
    this.body.addEventListener("keydown", (event) => this.#handleKey(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  #headOf(column, index) {
    return h("button", {
      type: "button", role: "columnheader", class: column.right ? "right" : "",
      onclick: () => this.#sortBy(index),
    }, column.title);
  }

  #sortBy(index) {
    const down = this.order?.index === index && !this.order.down;
    this.order = { index, down };
    [...this.head.children].forEach((head, at) => {
      if (at === index) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.textContent = this.columns[at].title + (at === index ? (down ? " ↓" : " ↑") : "");
    });
    this.show(this.rows);
  }

  show(rows) {
    if (this.order) {
      const column = this.columns[this.order.index];
      const key = column.sort ?? column.text;
      const keyed = rows.map((row) => [key(row), row]);
      const sign = this.order.down ? -1 : 1;
      keyed.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : byName(a, b)));
      rows = keyed.map(([, row]) => row);
    }
    this.rows = rows;
    this.element.setAttribute("aria-rowcount", rows.length);
    this.spacer.style.height = `${rows.length * rowHeight}px`;
    this.none.hidden = rows.length > 0;
    this.draw();
  }

  pick(key) {
    this.picked = key;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.body.scrollTop / rowHeight) - 4);
    const shown = Math.min(this.rows.length - first, Math.ceil(this.body.clientHeight / rowHeight) + 8);
    while (this.pool.length < shown) this.pool.push(this.#makeLine());
    this.pool.forEach((line, at) => {
      line.element.hidden = at >= shown;
      if (at < shown) this.#fill(line, this.rows[first + at], first + at);
    });
  }

  #makeLine() {
    const cells = this.columns.map((column) => h("span", { role: "cell", class: column.right ? "right" : "" }));
    const line = { cells, row: null };
    line.element = h("div", {
      class: `line ${this.options.onPick ? "pick" : ""}`, role: "row",
      onclick: () => this.options.onPick?.(line.row),
    }, cells);
    this.body.append(line.element);
    return line;
  }

  #fill(line, row, index) {
    line.row = row;
    line.element.style.top = `${index * rowHeight}px`;
    line.element.setAttribute("aria-rowindex", index + 1);
    line.element.setAttribute("aria-selected", this.options.key(row) === this.picked);
    this.columns.forEach((column, at) => {
      const cell = line.cells[at];
      if (column.node) {
        cell.replaceChildren(column.node(row));
      } else {
        const text = String(column.text(row));
        const tip = column.tip?.(row) ?? text;
        if (cell.textContent !== text) cell.textContent = text;
        if (cell.title !== tip) cell.title = tip;
      }
    });
  }

  #handleKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !this.options.onPick || this.rows.length === 0) return;
    event.preventDefault();
    const at = this.rows.findIndex((row) => this.options.key(row) === this.picked);
    const next = Math.max(0, Math.min(this.rows.length - 1, at + step));
    const top = next * rowHeight;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    if (top + rowHeight > this.body.scrollTop + this.body.clientHeight) {
      this.body.scrollTop = top + rowHeight - this.body.clientHeight;
    }
    this.options.onPick(this.rows[next]);
  }
}

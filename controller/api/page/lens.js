// Zoom and pan of the picture. The picture is laid out in a space that is `k` times as large as the
// canvas, which shows the part that begins at (x, y); texts and lines keep their size.
const mostZoom = 12;

export class Lens {
  // onChange() lays the picture out again; anchorAt(x, y) returns what is at or near a point of it,
  // {x, y}, which the layout moves along, or null.
  constructor(canvas, onChange, anchorAt) {
    Object.assign(this, { canvas, onChange, anchorAt, k: 1, x: 0, y: 0, width: 1, height: 1, dragged: false });
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#grab(event));
  }

  resize(width, height) {
    Object.assign(this, { width, height });
    this.#clamp();
  }

  // Zooms by a factor about a point of the canvas: what is there stays there, although margins and
  // rows of hosts do not grow with the picture.
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const anchor = this.anchorAt(this.x + x, this.y + y);
    const before = anchor && { x: anchor.x - this.x, y: anchor.y - this.y };
    const k = Math.max(1, Math.min(mostZoom, this.k * factor));
    const by = k / this.k;
    this.x = (this.x + x) * by - x;
    this.y = (this.y + y) * by - y;
    this.k = k;
    this.onChange();
    if (anchor) [this.x, this.y] = [anchor.x - before.x, anchor.y - before.y];
    this.#clamp();
  }

  reset() {
    Object.assign(this, { k: 1, x: 0, y: 0 });
    this.onChange();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.#clamp();
    this.onChange();
  }

  // Shows the box {left, right, top, bottom}, in coordinates of the present layout, as large as fits.
  fit(box) {
    const wide = Math.max(1, box.right - box.left);
    const [cx, cy] = [(box.left + box.right) / 2 / this.k, (box.top + box.bottom) / 2 / this.k];
    this.k = Math.max(1, Math.min(mostZoom, (0.9 * this.width * this.k) / wide));
    this.x = cx * this.k - this.width / 2;
    this.y = cy * this.k - this.height / 2;
    this.#clamp();
    this.onChange();
  }

  #clamp() {
    // A zoomed picture may leave its edges by a quarter of the canvas.
    const within = (at, size) => Math.max(this.k > 1 ? -size / 4 : 0, Math.min(at, size * (this.k - (this.k > 1 ? 0.75 : 1))));
    this.x = within(this.x, this.width);
    this.y = within(this.y, this.height);
  }

  #wheel(event) {
    // On a small screen the wheel scrolls the page.
    const scrolls = document.documentElement.scrollHeight > innerHeight && !event.ctrlKey;
    if (event.deltaY === 0 || scrolls || (this.k === 1 && event.deltaY > 0)) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }

  #grab(event) {
    this.dragged = false;
    if (this.k === 1 || event.button !== 0) return;
    let [x, y] = [event.clientX, event.clientY];
    let moved = 0;
    const move = (next) => {
      moved += Math.abs(next.clientX - x) + Math.abs(next.clientY - y);
      if (moved > 4) this.dragged = true;
      this.pan(x - next.clientX, y - next.clientY);
      [x, y] = [next.clientX, next.clientY];
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }
}

// Shapes of the picture that need nothing but a canvas.

// An arrow beside the line between two nodes.
export function drawArrow(context, from, to, width) {
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

// A box about the nodes of a pod, with its name.
export function drawPod(context, colours, name, nodes, fit) {
  const left = Math.min(...nodes.map((node) => node.x - node.w / 2)) - 1.5;
  const right = Math.max(...nodes.map((node) => node.x + node.w / 2)) + 1.5;
  const top = Math.min(...nodes.map((node) => node.y - node.h / 2)) - 8;
  const bottom = Math.max(...nodes.map((node) => node.y + node.h / 2)) + 8;
  context.strokeStyle = colours.line;
  context.lineWidth = 1.2;
  context.beginPath();
  context.roundRect(left, top, right - left, bottom - top, 8);
  context.stroke();
  if (right - left > 40) context.fillText(fit(name, right - left - 8), left + 4, top - 2);
}

// A ring about a switch or host.
export function drawRing(context, colours, node, radius) {
  context.strokeStyle = colours.chosen;
  context.lineWidth = 1.8;
  context.beginPath();
  if (node.h > 6 && node.w > node.h) {
    context.roundRect(node.x - node.w / 2 - 3, node.y - node.h / 2 - 3, node.w + 6, node.h + 6, 7);
  } else {
    context.arc(node.x, node.y, Math.max(5, radius), 0, 2 * Math.PI);
  }
  context.stroke();
}

// Where switches are too small for their names, some of the names stand above them, and those of
// switches that are not up.
export function drawSmallNames(context, colours, row, fit, isUp) {
  if (row.length < 2 || row[0].named) return;
  const every = Math.ceil(54 / Math.max(1, row[1].x - row[0].x));
  context.font = "10.5px system-ui, sans-serif";
  context.textBaseline = "bottom";
  row.forEach((node, at) => {
    if (at % every !== 0 && isUp(node)) return;
    const text = fit(node.id, 50);
    const wide = context.measureText(text).width;
    context.globalAlpha = 0.85;
    context.fillStyle = colours.surface;
    context.fillRect(node.x - wide / 2 - 2, node.y - node.h / 2 - 15, wide + 4, 13);
    context.globalAlpha = 1;
    context.fillStyle = colours.muted;
    context.fillText(text, node.x, node.y - node.h / 2 - 2);
  });
}

// How far a point is from the line between two nodes.
export function distance(x, y, a, b) {
  if (!("x" in a) || !("x" in b)) return Infinity;
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const along = Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - a.x - along * dx, y - a.y - along * dy);
}

// Places switches and hosts in a space of some size.
const side = 28;

// Sets x, y, w, h and `named` of the switches of all tiers and of their hosts; returns how hosts are
// drawn: `roomy` if their names fit, and the size of their cells.
export function placeMap(tiers, all, tall) {
  const width = all - 2 * side;
  const leaves = tiers[0] ?? [];
  const most = Math.max(1, ...leaves.map((leaf) => leaf.hosts.length));
  // What a node has for itself: its part of the row, or of the part that its pod has.
  const gapOf = (node, row) => (node.span ? (width * (node.span[1] - node.span[0])) / node.span[3] : width / row.length);
  const cells = sizeCells(Math.min(width, ...leaves.filter((leaf) => !leaf.isGroup).map((leaf) => gapOf(leaf, leaves))), most);
  const bottom = tall - 14 - cells.cellRows * cells.cellStep - (cells.roomy ? 16 : 0);
  const top = 30;
  const levels = Math.max(1, tiers.length - 1);
  tiers.forEach((row, level) => {
    const y = bottom - 20 - (level / levels) * (bottom - 20 - top);
    row.forEach((node, place) => {
      const gap = gapOf(node, row);
      const [left, , at] = node.span ?? [0, 1, place];
      node.x = side + width * left + gap * (at + 0.5);
      node.y = y;
      node.w = Math.max(5, Math.min(gap - 4, node.isGroup ? 130 : 74));
      node.h = node.isGroup ? 24 : level === 0 || gap > 26 ? 16 : 10;
      node.named = gap >= 46;
    });
  });
  for (const leaf of leaves) placeHosts(leaf, bottom, cells);
  return cells;
}

function sizeCells(column, most) {
  if (column / most >= 26) {
    return { roomy: true, cellRows: 1, cell: Math.min(14, column / most - 12), cellColumns: most, cellStep: 16, cellGap: Math.min(44, (column - 14) / most) };
  }
  // Columns are at most 70 pixels wide.
  let rows = 1;
  for (; rows < most; ++rows) {
    const step = (column - 5) / Math.ceil(most / rows);
    if (step * (rows + 1) > 70 || step >= 9) break;
  }
  const columns = Math.ceil(most / rows);
  const step = Math.min(12, (column - 5) / columns);
  return { roomy: false, cellRows: rows, cell: Math.max(1.6, step - (step > 4 ? 2 : 0.9)), cellColumns: columns, cellStep: step, cellGap: step };
}

function placeHosts(leaf, bottom, cells) {
  leaf.hosts.forEach((host, at) => {
    const columns = Math.min(cells.cellColumns, leaf.hosts.length);
    const row = Math.floor(at / cells.cellColumns);
    host.x = leaf.x + ((at % cells.cellColumns) - (columns - 1) / 2) * cells.cellGap;
    host.y = bottom + 10 + row * cells.cellStep;
    host.w = host.h = cells.cell;
  });
}

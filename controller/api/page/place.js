// Places switches and hosts in a space of some size.
const side = 28;

// Sets x, y, w, h and `named` of the switches of all tiers and of their hosts; returns how hosts are
// drawn: `roomy` if their names fit, and the size of their cells.
export function placeMap(tiers, all, tall) {
  const width = all - 2 * side;
  const leaves = tiers[0] ?? [];
  const most = Math.max(1, ...leaves.map((leaf) => leaf.hosts.length));
  const cells = sizeCells(width / Math.max(1, leaves.length), most);
  const bottom = tall - 14 - cells.cellRows * cells.cellStep - (cells.roomy ? 16 : 0);
  const top = 30;
  const levels = Math.max(1, tiers.length - 1);
  tiers.forEach((row, level) => {
    const y = bottom - 20 - (level / levels) * (bottom - 20 - top);
    const gap = width / row.length;
    row.forEach((node, at) => {
      node.x = side + gap * (at + 0.5);
      node.y = y;
      node.w = Math.max(5, Math.min(gap - 4, 74));
      node.h = level === 0 || gap > 26 ? 16 : 10;
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

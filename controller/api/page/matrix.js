// The links between two neighbouring tiers as a matrix: a column for each lower switch, a row for
// each upper one, a cell for the links between them.

const [nameWidth, nameHeight] = [86, 20];

export class Matrix {
  // Computes the cells for a space of this size.
  layOut(tiers, width, height) {
    this.blocks = [];
    const rows = tiers.slice(1).reduce((sum, tier) => sum + tier.length, 0);
    let top = 0;
    for (let level = tiers.length - 1; level > 0; --level) {
      const [lower, upper] = [tiers[level - 1], tiers[level]];
      const tall = (height * upper.length) / Math.max(1, rows);
      this.blocks.push(this.#block(lower, upper, top, width, tall));
      top += tall;
    }
  }

  #block(lower, upper, top, width, height) {
    const column = new Map(lower.map((node, at) => [node, at]));
    const cells = new Map();
    upper.forEach((node, row) => {
      for (const link of node.links) {
        const at = column.get(link.from === node ? link.to : link.from);
        if (at === undefined) continue;
        const key = row * lower.length + at;
        if (!cells.has(key)) cells.set(key, []);
        cells.get(key).push(link);
      }
    });
    return {
      lower, upper, cells, left: nameWidth, top: top + nameHeight,
      w: (width - nameWidth - 8) / Math.max(1, lower.length), h: (height - nameHeight - 6) / Math.max(1, upper.length),
    };
  }

  // styleOf(link) returns {colour, rank, mark}: of parallel links the one of the highest rank shows.
  draw(context, colours, styleOf, fit, isMarked) {
    for (const block of this.blocks) {
      this.#drawNames(context, colours, block, fit);
      const { left, top, w, h } = block;
      const [gapX, gapY] = [w > 6 ? 1 : 0, h > 6 ? 1 : 0];
      for (const [key, links] of block.cells) {
        const style = links.map(styleOf).reduce((worst, one) => (one.rank > worst.rank ? one : worst));
        const x = left + (key % block.lower.length) * w;
        const y = top + Math.floor(key / block.lower.length) * h;
        context.globalAlpha = isMarked && !links.some(isMarked) ? 0.2 : 1;
        context.fillStyle = style.colour;
        context.fillRect(x, y, w - gapX, h - gapY);
        if (style.mark && w > 7 && h > 7) {
          context.fillStyle = colours.surface;
          context.font = `700 ${Math.min(11, h - 1, w)}px system-ui, sans-serif`;
          context.textAlign = "center";
          context.textBaseline = "middle";
          context.fillText(style.mark, x + (w - gapX) / 2, y + (h - gapY) / 2 + 0.5);
        }
      }
      context.globalAlpha = 1;
    }
  }

  #drawNames(context, colours, { lower, upper, left, top, w, h }, fit) {
    context.fillStyle = colours.muted;
    context.font = "10.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const everyRow = Math.max(1, Math.ceil(11 / h));
    upper.forEach((node, row) => {
      if (row % everyRow === 0) context.fillText(fit(node.id, nameWidth - 14), left - 6, top + (row + 0.5) * h);
    });
    context.textAlign = "center";
    const everyColumn = Math.max(1, Math.ceil(46 / w));
    lower.forEach((node, at) => {
      if (at % everyColumn === 0) context.fillText(fit(node.id, w * everyColumn - 4), left + (at + 0.5) * w, top - 9);
    });
  }

  // The link or switch at a point.
  find(x, y) {
    for (const { lower, upper, cells, left, top, w, h } of this.blocks) {
      const column = Math.floor((x - left) / w);
      const row = Math.floor((y - top) / h);
      const inColumns = column >= 0 && column < lower.length;
      const inRows = row >= 0 && row < upper.length;
      if (inColumns && inRows) {
        const links = cells.get(row * lower.length + column);
        return links ? { kind: "link", item: links[0] } : null;
      }
      if (inRows && x < left) return { kind: "node", item: upper[row] };
      if (inColumns && y < top && y > top - nameHeight) return { kind: "node", item: lower[column] };
    }
    return null;
  }

  // Where a link's cell or a switch's name is.
  boxOf(item) {
    for (const { lower, upper, cells, left, top, w, h } of this.blocks) {
      for (const [key, links] of cells) {
        if (!links.includes(item)) continue;
        const x = left + (key % lower.length) * w;
        const y = top + Math.floor(key / lower.length) * h;
        return { x, y, w, h };
      }
      const row = upper.indexOf(item);
      if (row >= 0) return { x: 2, y: top + row * h, w: left - 4, h };
      const column = lower.indexOf(item);
      if (column >= 0) return { x: left + column * w, y: top - nameHeight + 2, w, h: nameHeight - 3 };
    }
    return null;
  }
}

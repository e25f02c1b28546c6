// The model's graph at several grains: modules, or single operators. Its layout was worked out by levels.py.

const BOX = [0.8, 0.66]; // shares of a cell that a node takes
const MOST_CURVES = 2000; // if more edges can be seen, they are straight and faint
const MOST_FIRST = 150; // the first drawing is the finest one with no more nodes than this

class Model extends View {
  constructor() {
    super("model", ["operator", "storage"]);
    this.drawings = new Map();
    const small = graph.drawings.filter((each) => each.x.length <= MOST_FIRST);
    this.show(Math.max(0, small.length - 1));
  }

  /** Reads a drawing when it is first shown. */
  read(number) {
    if (this.drawings.has(number)) return this.drawings.get(number);
    const raw = graph.drawings[number];
    const finest = number === graph.drawings.length - 1;
    const [node, x, y] = [sums(raw.node), sums(raw.x), sums(raw.y).map((value) => value / 4)];
    const members = Array.from(x, () => []);
    node.forEach((each, op) => members[each].push(op));
    const edges = new Map();
    for (let op = 0; op < graph.count; op++) {
      for (const before of graph.before(op)) {
        const [from, to] = [node[before], node[op]];
        if (from !== to) edges.set(from * x.length + to, [from, to]);
      }
    }
    const places = members.map((ops) => {
      const found = new Map();
      for (const op of ops) for (const device of data.devices[op] ?? []) found.set(device, (found.get(device) ?? 0) + 1);
      return [...found].sort((one, other) => other[1] - one[1]).map(([device]) => device);
    });
    const made = members.map((ops) => ops.reduce((sum, op) => sum + graph.made[op], 0));
    const names = finest ? members.map(([op]) => graph.operators[op]) : raw.names;
    const drawing = { finest, node, x, y, members, names, places, made, mostMade: most(made, 1), edges: [...edges.values()], wide: most(x) + 1, high: most(y) + 1 };
    this.drawings.set(number, drawing);
    return drawing;
  }

  show(number) {
    graph.drawings.forEach((_, k) => this.press(String(k + 1), k === number));
    this.number = number;
    this.drawing = this.read(number);
    this.fit();
  }

  tall() {
    const [wide, tall] = graph.cell;
    const { drawing } = this;
    return Math.round(clamp((this.width / (drawing.wide * wide)) * drawing.high * tall + 20, 200, 460));
  }

  fit() {
    this.fitted = false; // when it is drawn, its size is known
    this.draw();
  }

  zoom(factor, x, y) {
    const scale = clamp(this.scale * factor, 0.004, 4);
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.left += dx;
    this.top += dy;
    this.draw();
  }

  /** Brings a part of the drawing, in columns and rows, into the middle of the view. */
  focus(x1, x2, y1, y2, largest) {
    const [wide, tall] = graph.cell;
    this.scale = Math.min(largest, this.width / ((x2 - x1) * wide), this.height / ((y2 - y1) * tall));
    this.left = this.width / 2 - ((x1 + x2) / 2) * wide * this.scale;
    this.top = this.height / 2 - ((y1 + y2) / 2) * tall * this.scale;
    this.fitted = true;
    this.draw();
  }

  find(ops) {
    const { node, x, y } = this.drawing;
    const [xs, ys] = [x, y].map((places) => ops.map((op) => places[node[op]]));
    const least = (values) => -most(values.map((value) => -value), -Infinity);
    this.focus(least(xs) - 1, most(xs) + 2, least(ys) - 1, most(ys) + 2, 1.1);
  }

  /** Left, top, width and height of a node on the screen. */
  box(node) {
    const [wide, tall] = graph.cell.map((size) => size * this.scale);
    const { x, y } = this.drawing;
    return [this.left + (x[node] + (1 - BOX[0]) / 2) * wide, this.top + (y[node] + (1 - BOX[1]) / 2) * tall, wide * BOX[0], tall * BOX[1]];
  }

  /** The operator that is chosen, or that makes the tensor that is chosen. */
  chosen() {
    return state.operator < 0 && isTensor(state.storage) ? graph.producer[tensorOf(state.storage)] : state.operator;
  }

  paint(pen) {
    const { drawing } = this;
    if (!this.fitted) this.focus(0, drawing.wide, 0, drawing.high + 0.2, 1.3);
    const boxes = drawing.names.map((_, node) => this.box(node));
    const seen = boxes.map(([left, top, wide, tall]) => left + wide > 0 && left < this.width && top + tall > 0 && top < this.height);
    const chosen = this.chosen() < 0 ? -1 : drawing.node[this.chosen()];
    const edges = drawing.edges.filter(([from, to]) => seen[from] || seen[to]);
    const curved = edges.length <= MOST_CURVES;
    const trace = (list, colour, width) => {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      for (const [from, to] of list) this.edge(pen, boxes[from], boxes[to], curved);
      pen.stroke();
    };
    trace(edges, tint(hues.neutral, curved ? 0.6 : 0.3), clamp(this.scale * 2, 0.5, 1.4));
    trace(edges.filter((ends) => ends.includes(chosen)), hues.accent, 2);
    boxes.forEach((box, node) => seen[node] && this.paintNode(pen, node, box, node === chosen));
  }

  edge(pen, [x1, y1, w1, h1], [x2, y2, , h2], curved) {
    const [fromX, fromY, toY] = [x1 + w1, y1 + h1 / 2, y2 + h2 / 2];
    pen.moveTo(fromX, fromY);
    if (!curved) pen.lineTo(x2, toY);
    else if (x2 >= fromX) {
      const bend = Math.max(8 * this.scale, (x2 - fromX) / 2);
      pen.bezierCurveTo(fromX + bend, fromY, x2 - bend, toY, x2, toY);
    } else {
      const [bend, middle] = [40 * this.scale, (fromY + toY) / 2]; // to the next line, as the eye of a reader goes
      pen.bezierCurveTo(fromX + bend, fromY, fromX + bend, middle, fromX, middle);
      pen.lineTo(x2, middle);
      pen.bezierCurveTo(x2 - bend, middle, x2 - bend, toY, x2, toY);
    }
  }

  paintNode(pen, node, [left, top, wide, tall], chosen) {
    const { drawing } = this;
    const places = devices.length > 1 ? drawing.places[node] : [];
    const own = places.length ? deviceColour(places[0]) : devices.length > 1 ? hues.neutral : hues[1];
    const share = devices.length > 1 ? 0.75 : 0.12 + 0.75 * Math.sqrt(drawing.made[node] / drawing.mostMade);
    const colour = tint(own, share);
    pen.fillStyle = colour;
    pen.fillRect(left, top, wide, tall);
    places.slice(1).forEach((place, k) => {
      pen.fillStyle = deviceColour(place); // the other devices, as stripes at its foot
      pen.fillRect(left + ((k + 1) * wide) / places.length, top + tall * 0.8, wide / places.length, tall * 0.2);
    });
    if (chosen || wide > 24) outline(pen, left, top, wide, tall, chosen ? hues.ink : own, chosen ? 2.5 : 1);
    if (wide < 46) return;
    const size = clamp(tall * 0.36, 9, 13);
    const two = tall > 26;
    pen.font = FONT(size, 600);
    write(pen, fitted(pen, drawing.names[node], wide - 10), left + 5, top + tall * (two ? 0.33 : 0.5), inkOn(colour), { size, weight: 600 });
    if (two) write(pen, fitted(pen, this.about(node), wide - 8), left + 5, top + tall * 0.7, inkOn(colour), { size: size - 1.5 });
  }

  about(node) {
    const ops = this.drawing.members[node];
    return this.drawing.finest ? kindOf(ops[0]) : countText(ops.length, "operator");
  }

  at(x, y) {
    return this.drawing.names.findIndex((_, node) => {
      const [left, top, wide, tall] = this.box(node);
      return x >= left && x <= left + Math.max(3, wide) && y >= top && y <= top + Math.max(3, tall);
    });
  }

  hover(x, y) {
    const node = this.at(x, y);
    if (node < 0) return null;
    const { names, places, made } = this.drawing;
    return [names[node], this.about(node), places[node].map(placeName).join(", "), "writes " + bytesText(made[node])];
  }

  click(x, y) {
    const node = this.at(x, y);
    if (node < 0) change(NOTHING);
    else if (this.drawing.finest) selectOperator(this.drawing.members[node][0]);
    else showModule(this.drawing.names[node], this.drawing.members[node]);
  }

  /** Opens a module: shows its operators at the next finer grain. */
  open(x, y) {
    const node = this.at(x, y);
    if (node < 0 || this.drawing.finest) return this.zoom(2, x, y);
    const ops = this.drawing.members[node];
    this.show(this.number + 1);
    return this.find(ops);
  }

  key(name) {
    if (name === "f") {
      if (this.chosen() >= 0) this.find([this.chosen()]);
    } else if (graph.drawings[Number(name) - 1]) this.show(Number(name) - 1);
    else return super.key(name);
    return true;
  }
}

// The model's graph: modules that fold and unfold where they stand. levels.py worked out the columns and rows in each one.

const EDGE = [0.1, 0.17]; // space around an item, in cells
const HEAD = 0.6; // height of the name of an open module
const MOST_EDGES = 3000; // if more could be seen, only those of what is chosen are drawn
const MOST_FIRST = 80; // at first, modules are open as long as no more is shown; half of it on narrow screens

class Model extends View {
  constructor() {
    super("model", ["operator", "storage", "group"]);
    const items = Array.from(graph.inside);
    for (const name of ["x", "y", "wide", "high", "line"]) this[name] = new Float64Array(items.length); // in cells
    this.within = items.map(() => []); // what stands in a module
    this.members = items.map(() => []); // its operators, also those of modules in it
    items.forEach((module, item) => module >= 0 && this.within[module].push(item));
    for (const some of this.within) some.sort((one, other) => graph.column[one] - graph.column[other]);
    for (let op = 0; op < graph.count; op++) {
      for (let item = itemOf(op); item >= 0; item = graph.inside[item]) this.members[item].push(op);
    }
    const more = () => this.unfold([...this.open, ...this.folded]);
    Object.assign(this.keys, { "[": () => this.unfold([0]), "]": more, f: () => this.find(this.chosen()), Enter: () => this.toggle(this.chosen()) });
    this.unfold([0]);
    const count = () => this.folded.reduce((sum, item) => sum + this.within[item].length, this.leaves.length);
    while (this.folded.length && count() <= MOST_FIRST / (this.narrow ? 2 : 1)) more();
  }

  /** Unfolds some modules, and folds all others. */
  unfold(modules) {
    this.open = new Set(modules);
    this.lay();
    this.fit();
  }

  /** Gives everything in a module a place in it, and returns the module's width and height. */
  arrange(module) {
    const { x, y, wide, high } = this;
    const columns = [];
    for (const item of this.within[module]) {
      [wide[item], high[item]] = this.open.has(item) ? this.arrange(item) : [1, 1];
      (columns[graph.column[item]] ??= []).push(item);
    }
    const wides = columns.map((items) => most(items.map((item) => wide[item])));
    const area = columns.reduce((sum, items, k) => sum + wides[k] * items.reduce((total, item) => total + high[item], 2), 0);
    const [least, aspect] = this.narrow ? [4, 0.8] : [6, 2.2]; // columns of a line, width divided by height
    const longest = Math.max(least, Math.sqrt((area * aspect * graph.cell[1]) / graph.cell[0]));
    let [line, left, right, bottom] = [[], 0, 0, -1];
    columns.forEach((items, k) => {
      for (const item of items) x[item] = left;
      line.push(...items);
      left += wides[k];
      if (left + wides[k + 1] <= longest) return;
      bottom = this.stack(line, bottom + 1);
      right = Math.max(right, left);
      [line, left] = [[], 0];
    });
    return module ? [right + 2 * EDGE[0], bottom + HEAD + 2 * EDGE[1]] : [right, bottom];
  }

  /** Gives the items of a line their height in the module, and returns the line's bottom; open modules move what is below them. */
  stack(items, top) {
    const { y, high } = this;
    items.sort((one, other) => graph.row[one] - graph.row[other]);
    const shifts = [];
    let [shift, above] = [0, 0];
    for (const item of items) {
      for (; graph.row[items[above]] + 1 <= graph.row[item]; above++) shift = Math.max(shift, shifts[above] + high[items[above]] - 1);
      shifts.push(shift);
      this.line[item] = top;
      y[item] = top + graph.row[item] - graph.row[items[0]] + shift;
    }
    return most(items.map((item) => y[item] + high[item]));
  }

  /** Works out what is shown where, after modules were folded or unfolded. */
  lay() {
    [this.wide[0], this.high[0]] = this.arrange(0);
    this.shown = [];
    this.seat = new Int32Array(graph.count); // what shows an operator
    const place = (module, left, top) => {
      for (const item of this.within[module]) {
        this.x[item] += left;
        this.y[item] += top;
        this.line[item] += top;
        this.shown.push(item);
        if (this.open.has(item)) place(item, this.x[item] + EDGE[0], this.y[item] + HEAD + EDGE[1]);
        else for (const op of this.members[item]) this.seat[op] = item;
      }
    };
    place(0, 0, 0);
    this.leaves = this.shown.filter((item) => !this.open.has(item));
    this.folded = this.leaves.filter((item) => item < graph.modules.length);
    this.mostMade = most(this.leaves.map((item) => this.made(item)), 1);
    const edges = new Map();
    for (let op = 0; op < graph.count; op++) {
      for (const before of graph.before(op)) {
        const [from, to] = [this.seat[before], this.seat[op]];
        let [last, first] = [from, to];
        while (graph.inside[last] !== graph.inside[first]) {
          if (graph.inside[last] > graph.inside[first]) last = graph.inside[last];
          else first = graph.inside[first];
        }
        if (from !== to) edges.set(from * this.x.length + to, [from, to, last, first]);
      }
    }
    this.edges = [...edges.values()];
    this.draw();
  }

  /** Folds or unfolds a module, which stays where it is on the screen. */
  toggle(item) {
    if (!this.within[item]?.length) return;
    const [left, top] = this.box(item);
    if (!this.open.delete(item)) this.open.add(item);
    this.lay();
    const [nowLeft, nowTop] = this.box(item);
    this.pan(left - nowLeft, top - nowTop);
    change({ group: state.group });
  }

  tall() {
    const [wide, tall] = graph.cell;
    return Math.round(clamp((this.width / (this.wide[0] * wide)) * this.high[0] * tall + 20, 200, 500));
  }

  fit() {
    this.fitted = 0; // when it is drawn, its size is known
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

  /** Brings an item, and what is around it, into the middle of the view. */
  focus(item, space, largest) {
    const [wide, tall] = graph.cell;
    this.scale = Math.min(largest, this.width / ((this.wide[item] + 2 * space) * wide), this.height / ((this.high[item] + space) * tall));
    this.left = this.width / 2 - (this.x[item] + this.wide[item] / 2) * wide * this.scale;
    this.top = this.height / 2 - (this.y[item] + this.high[item] / 2) * tall * this.scale;
    this.fitted = this.width;
    this.draw();
  }

  /** Unfolds the modules around an item, and shows it. */
  find(item) {
    if (item < 1) return;
    for (let module = graph.inside[item]; module >= 0; module = graph.inside[module]) this.open.add(module);
    this.lay();
    this.focus(item, 1.5, 1.1);
  }

  /** Left, top, width and height of an item on the screen. */
  box(item) {
    const [wide, tall] = graph.cell.map((size) => size * this.scale);
    return [
      this.left + (this.x[item] + EDGE[0]) * wide,
      this.top + (this.y[item] + EDGE[1]) * tall,
      (this.wide[item] - 2 * EDGE[0]) * wide,
      (this.high[item] - 2 * EDGE[1]) * tall,
    ];
  }

  /** The operator that is chosen or makes the tensor that is chosen, or the module that is chosen; -1 for none. */
  chosen() {
    const op = state.operator < 0 && isTensor(state.storage) ? graph.producer[tensorOf(state.storage)] : state.operator;
    return op < 0 ? (state.group?.item ?? -1) : itemOf(op);
  }

  /** What shows an item: itself, or for an operator perhaps a module. */
  seen(item) {
    return item < graph.modules.length ? item : this.seat[item - graph.modules.length];
  }

  paint(pen) {
    if (this.fitted !== this.width) this.focus(0, 0.1, 1.3);
    const boxes = new Map();
    for (const item of this.shown) {
      const [left, top, wide, tall] = this.box(item);
      if (left + wide > 0 && left < this.width && top + tall > 0 && top < this.height) boxes.set(item, [left, top, wide, tall]);
    }
    const chosen = this.seen(this.chosen());
    for (const [item, box] of boxes) if (this.open.has(item)) this.paintNode(pen, item, box, item === chosen);
    const edges = this.edges.filter(([from, to]) => boxes.has(from) || boxes.has(to));
    const trace = (list, colour, width) => {
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      for (const edge of list) this.edge(pen, edge);
      pen.stroke();
    };
    if (edges.length <= MOST_EDGES) trace(edges, tint(hues.neutral, 0.6), clamp(this.scale * 2, 0.5, 1.4));
    trace(edges.filter(([from, to]) => from === chosen || to === chosen), hues.accent, 2);
    for (const [item, box] of boxes) if (!this.open.has(item)) this.paintNode(pen, item, box, item === chosen);
  }

  /** An edge between two items, given with what contains each of them in the module that has both. */
  edge(pen, [from, to, last, first]) {
    const [left, top, wide, tall] = this.box(from);
    const [endX, endTop, , endTall] = this.box(to);
    const [x, y, endY] = [left + wide, top + tall / 2, endTop + endTall / 2];
    if (this.line[last] === this.line[first]) return curve(pen, x, y, endX, endY, 0);
    const [lastX, , lastWide] = this.box(last); // to the next line, as the eye of a reader goes
    const [firstX] = this.box(first);
    const [right, bend, gap] = [lastX + lastWide, 40 * this.scale, this.top + (this.line[first] - 0.5) * graph.cell[1] * this.scale];
    pen.moveTo(x, y);
    pen.lineTo(right, y);
    pen.bezierCurveTo(right + bend, y, right + bend, gap, right, gap);
    pen.lineTo(firstX, gap);
    pen.bezierCurveTo(firstX - bend, gap, firstX - bend, endY, firstX, endY);
    pen.lineTo(endX, endY);
  }

  paintNode(pen, item, [left, top, wide, tall], chosen) {
    const open = this.open.has(item);
    const places = devices.length > 1 && !open ? this.places(item) : [];
    const own = places.length ? deviceColour(places[0]) : open || devices.length > 1 ? hues.neutral : hues[1];
    const share = open ? 0.08 : devices.length > 1 ? 0.75 : 0.12 + 0.75 * Math.sqrt(this.made(item) / this.mostMade);
    const colour = tint(own, share);
    this.block(colour, left, top, wide, tall, item);
    const part = wide / places.length; // the other devices are stripes at its foot
    places.forEach((place, k) => k && fill(pen, deviceColour(place), left + k * part, top + tall * 0.8, part, tall * 0.2));
    if (chosen || wide > 24) outline(pen, left, top, wide, tall, chosen ? hues.ink : tint(own, open ? 0.5 : 1), chosen ? 2.5 : 1);
    const head = open ? HEAD * graph.cell[1] * this.scale : tall;
    if (wide < 46 || head < 11) return;
    const size = clamp(head * (open ? 0.5 : 0.36), 9, 13);
    const two = !open && head > 26;
    const sign = item >= graph.modules.length ? "" : open ? "− " : "+ ";
    const text = (words, share, style) => write(pen, words, left + 5, top + head * share, inkOn(colour), style);
    pen.font = FONT(size, 600);
    text(sign + fitted(pen, this.name(item), wide - (sign ? 24 : 10)), two ? 0.33 : 0.5, { size, weight: 600 });
    if (two) text(fitted(pen, this.about(item), wide - 10), 0.7, { size: size - 1.5 });
  }

  name(item) {
    return graph.modules[item] ?? graph.operators[this.members[item][0]];
  }

  about(item) {
    const ops = this.members[item];
    return item < graph.modules.length ? countText(ops.length, "operator") : kindOf(ops[0]);
  }

  made(item) {
    return this.members[item].reduce((sum, op) => sum + graph.made[op], 0);
  }

  /** The devices of an item, the one with most of its operators first. */
  places(item) {
    const times = new Map();
    for (const op of this.members[item]) for (const device of data.devices[op]) times.set(device, (times.get(device) ?? 0) + 1);
    return [...times.keys()].sort((one, other) => times.get(other) - times.get(one));
  }

  hover(x, y) {
    const item = this.at(x, y);
    return item && [this.name(item), this.about(item), this.places(item).map(placeName).join(", "), "writes " + bytesText(this.made(item))];
  }

  click(x, y) {
    if (!(Date.now() < this.again)) this.item = this.at(x, y); // details move the drawing under a double click
    this.again = Date.now() + 500;
    this.choose(this.item);
  }

  choose(item) {
    const modules = graph.modules.length;
    if (item >= modules) selectOperator(item - modules);
    else if (item) selectGroup(graph.pathTo(item), this.members[item], item);
    else change(NOTHING);
  }

  double(x, y) {
    if (this.item < graph.modules.length) this.toggle(this.item);
    else super.double(x, y);
  }

  /** Chooses the item before or after the chosen one. */
  step(by) {
    const next = this.leaves[clamp(this.leaves.indexOf(this.seen(this.chosen())) + by, 0, this.leaves.length - 1)];
    this.choose(next);
    const [left, top] = this.box(next);
    if (clamp(left, 0, this.width) !== left || clamp(top, 0, this.height) !== top) this.pan(this.width / 2 - left, this.height / 2 - top);
  }
}

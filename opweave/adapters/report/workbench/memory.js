// Memory: what every device holds over time, storage by storage or in total; and addresses, where a plan has them.

const MOST_BLOCKS = 300; // the largest ones of what is shown; the others are one block
const COLUMN = 2; // width of a column of blocks, in pixels
const SHADES = [0.62, 0.42, 0.54, 0.34]; // neighbours differ

class Memory extends ByteView {
  constructor() {
    super("memory");
    Object.assign(this.keys, { p: () => this.goToPeak(), b: () => this.showBlocks(!this.blocks) });
    this.showBlocks(true);
  }

  tall() {
    return this.stack(data.memories.map((resource) => ({ resource, title: data.memories.length > 1 ? placeName(resource) : "" })), 300, 120);
  }

  peak(resource) {
    return most(plans.map((plan) => plan.curve(resource).peak));
  }

  /** The plan whose storages are drawn. */
  get front() {
    return shownPlans()[0];
  }

  highest({ resource }) {
    const { limit } = data.resources[resource];
    const peak = this.peak(resource) || 1;
    return Math.max(peak, data.holds, limit < 1.6 * peak ? limit : 0);
  }

  /** A step counts from its beginning; so does a moment between two steps. */
  moment(x) {
    return data.steps ? Math.floor(this.time(x)) : this.time(x);
  }

  paintPanel(pen, panel) {
    if (this.blocks) this.paintBlocks(panel);
    for (const plan of [...plans].reverse()) this.paintCurve(pen, panel, plan);
    const { limit } = data.resources[panel.resource];
    if (limit !== null && limit < panel.top) this.across(pen, panel, limit, hues.mark, 1.5, [2, 3]);
    this.paintBound(pen, panel);
  }

  /** The largest value of each column of pixels. */
  paintCurve(pen, panel, plan) {
    const front = plan === this.front;
    const { edge, value } = plan.curve(panel.resource);
    pen.beginPath();
    for (let x = this.gutter; x < this.width; x++) {
      const [from, to] = [x, x + 1].map((at) => Math.max(0, atMost(edge, this.time(at))));
      const y = this.y(panel, most(value.slice(from, to + 1)));
      pen.lineTo(x, y);
      pen.lineTo(x + 1, y);
    }
    pen.strokeStyle = front ? deviceColour(panel.resource) : hues.neutral;
    pen.lineWidth = 2;
    pen.setLineDash(front ? [] : [5, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }

  /** The largest lifetimes in the window, in the order of their begin. */
  largest(panel) {
    const { lives, livesOn } = this.front;
    const [first, last] = state.window;
    const area = (row) => lives.bytes[row] * (Math.min(lives.end[row], last) - Math.max(lives.begin[row], first));
    const there = livesOn.of(panel.resource).filter((row) => lives.begin[row] < last && lives.end[row] > first);
    const blocks = there.sort((one, other) => area(other) - area(one)).slice(0, MOST_BLOCKS);
    return blocks.sort((one, other) => lives.begin[one] - lives.begin[other] || one - other);
  }

  /** Stacks the blocks of each column of pixels; what is too small lies below them, as row -1. */
  paintBlocks(panel) {
    const { lives } = this.front;
    const blocks = this.largest(panel);
    let open = new Map(); // blocks under way: left, low, high
    for (let x = this.gutter; x < this.width + COLUMN; x += COLUMN) {
      const next = new Map();
      if (x < this.width) {
        const time = this.moment(x + COLUMN / 2);
        const here = blocks.filter((row) => lives.begin[row] <= time && lives.end[row] > time);
        let low = Math.max(0, this.front.held(panel.resource, time) - here.reduce((sum, row) => sum + lives.bytes[row], 0));
        next.set(-1, [x, 0, low]);
        for (const row of here) next.set(row, [x, low, (low += lives.bytes[row])]);
      }
      for (const [row, [left, low, high]] of open) {
        const after = next.get(row);
        if (after?.[1] === low && after[2] === high) after[0] = left;
        else this.paintBlock(panel, row, left, x, low, high);
      }
      open = next;
    }
  }

  paintBlock(panel, row, left, right, low, high) {
    const own = deviceColour(panel.resource);
    const storage = this.front.lives.storage[row];
    const colour = row < 0 ? hues.raised : storage === state.storage ? own : tint(own, SHADES[row % 4]);
    const [top, bottom] = [this.y(panel, high), this.y(panel, low)];
    const edge = bottom - top > 2.5 ? 0.8 : 0;
    this.block(colour, left, top + edge, right - left + 0.5 - edge, bottom - top - edge + 0.5, storage, row < 0 ? "" : nameOf(storage));
  }

  paintLabels(pen, panel) {
    const { peak, at, until } = this.front.curve(panel.resource);
    const [x, y] = [this.x((at + until) / 2), this.y(panel, peak)];
    if (x < this.gutter || x > this.width || !peak) return;
    pen.beginPath();
    pen.arc(x, y, 4.5, 0, 7);
    pen.fillStyle = hues.mark;
    pen.fill();
    this.label(pen, `peak ${bytesText(peak)}`, Math.max(x + 10, 62), Math.max(panel.y + 9, y - 10));
  }

  hover(x, y) {
    const panel = this.panelAt(x, y);
    this.hoverTime(panel ? x : -1);
    if (!panel) return null;
    const storage = this.at(x, y);
    const held = plans.map((plan) => `${plan.name}: ${bytesText(plan.held(panel.resource, this.moment(x)))}`);
    return [storage === undefined ? "" : nameOf(storage), momentText(this.moment(x)), ...held];
  }

  click(x, y) {
    const panel = this.panelAt(x, y);
    if (panel) selectMoment(this.front, panel.resource, this.moment(x), this.at(x, y));
    else change(NOTHING);
  }

  goToPeak() {
    const [fullest] = [...data.memories].sort((one, other) => this.peak(other) - this.peak(one));
    const { at, until } = this.front.curve(fullest);
    selectMoment(this.front, fullest, at);
    if (this.x(at) < this.gutter || this.x(at) > this.width) reveal(at, until);
  }

  step(by) {
    if (!state.moment) return this.goToPeak();
    const { plan, resource, time } = state.moment;
    const { edge } = plan.curve(resource);
    selectMoment(plan, resource, edge[clamp(atMost(edge, time) + by, 0, edge.length - 2)]);
  }

  showBlocks(blocks) {
    this.blocks = blocks;
    this.press("b", blocks);
    this.draw();
  }
}

class Addresses extends ByteView {
  constructor() {
    super("addresses");
  }

  tall() {
    const laid = shownPlans().filter((plan) => plan.lives.offset);
    const shown = laid.length ? laid : plans.slice(0, 1);
    const panels = shown.flatMap((plan) => [...plan.livesOn.keys()].sort((one, other) => one - other).map((resource) => ({ plan, resource })));
    const title = ({ plan, resource }) => (panels.length < 2 ? "" : shown.length > 1 ? plan.name : placeName(resource));
    return this.stack(panels.map((panel) => ({ ...panel, title: title(panel) })), 360, 200);
  }

  highest({ resource }) {
    const top = ({ lives, livesOn }) => most(livesOn.of(resource).map((row) => lives.offset[row] + lives.bytes[row]), 1);
    return most(this.panels.filter((panel) => panel.resource === resource).map((panel) => (panel.reserved = top(panel.plan))));
  }

  paintPanel(pen, panel) {
    const { lives, livesOn } = panel.plan;
    const own = deviceColour(panel.resource);
    const [first, last] = state.window;
    for (const row of livesOn.get(panel.resource)) {
      if (lives.begin[row] > last || lives.end[row] < first) continue;
      const picked = state.storage === lives.storage[row];
      const colour = picked ? own : tint(own, SHADES[row % 4]);
      const [left, right] = this.ends(lives.begin[row], lives.end[row]);
      const top = this.y(panel, lives.offset[row] + lives.bytes[row]);
      const [wide, tall] = [Math.max(1, right - left - 0.7), Math.max(0.7, this.y(panel, lives.offset[row]) - top - 0.7)];
      this.block(colour, left, top, wide, tall, { lives, row }, nameOf(lives.storage[row]), picked);
    }
    this.across(pen, panel, panel.reserved, own, 2);
    this.across(pen, panel, panel.plan.curve(panel.resource).peak, hues.mark, 1.5, [2, 3]);
    this.paintBound(pen, panel);
  }

  paintLabels(pen, panel) {
    const peak = bytesText(panel.plan.curve(panel.resource).peak);
    this.label(pen, `reserved ${bytesText(panel.reserved)}, live peak ${peak}`, this.width, this.y(panel, panel.reserved) - 11);
  }

  hover(x, y) {
    this.hoverTime(x);
    const found = this.at(x, y);
    return found && [nameOf(found.lives.storage[found.row]), `${bytesText(found.lives.bytes[found.row])} at ${digits(found.lives.offset[found.row])}`, lifeText(found.lives, found.row)];
  }

  click(x, y) {
    const found = this.at(x, y);
    if (found) selectStorage(found.lives.storage[found.row]);
    else change(NOTHING);
  }
}

/** From when to when a storage lives, in words. */
function lifeText(lives, row) {
  const begin = lives.begin[row] < 0 ? "the start" : momentText(lives.begin[row]);
  return `from ${begin} to ${lives.end[row] < Infinity ? momentText(lives.end[row]) : "the end"}`;
}

// Memory: what every device holds over time, storage by storage or in total; and addresses, where a plan has them.

const MOST_MEMORIES = 6; // the fullest ones are drawn
const MOST_BLOCKS = 300; // the largest ones of what is shown; the others are one block
const COLUMN = 2; // width of a column of blocks, in pixels
const SHADES = [0.62, 0.42, 0.54, 0.34]; // neighbours differ

class Memory extends ByteView {
  constructor() {
    super("memory");
    const changing = devices.filter((k) => new Set(plans[0].curve(k).value).size > 2 || data.steps);
    this.fullest = changing.sort((one, other) => this.peak(other) - this.peak(one)).slice(0, MOST_MEMORIES);
    this.blocks = true;
    this.press("b", true);
  }

  tall() {
    const shown = [...this.fullest].sort((one, other) => one - other);
    return this.stack(shown.map((resource) => ({ resource, title: shown.length > 1 ? placeName(resource) : "" })), 300, 120);
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
    return Math.max(peak, this.bounded() ? data.holds : 0, limit < 1.6 * peak ? limit : 0);
  }

  bounded() {
    return data.holds !== null && this.fullest.length === 1 && data.holds < 2 * plans[0].curve(this.fullest[0]).peak;
  }

  /** A step counts from its beginning; so does a moment between two steps. */
  moment(x) {
    return data.steps ? Math.floor(this.time(x)) : this.time(x);
  }

  paintPanel(pen, panel) {
    if (this.blocks) this.paintBlocks(pen, panel);
    for (const plan of [...plans].reverse()) this.paintCurve(pen, panel, plan);
    const { limit } = data.resources[panel.resource];
    if (limit !== null && limit < panel.top) this.across(pen, panel, limit, hues.mark, 1.5, [2, 3]);
    if (this.bounded()) this.across(pen, panel, data.holds, hues.ink, 1.5, [7, 4]);
  }

  /** The largest value of each column of pixels. */
  paintCurve(pen, panel, plan) {
    const front = plan === this.front;
    const { edge, value } = plan.curve(panel.resource);
    pen.beginPath();
    for (let x = this.gutter; x < this.width; x++) {
      let k = Math.max(0, lastAtMost(edge, this.time(x)));
      let high = value[k] ?? 0;
      for (k++; k < value.length && edge[k] < this.time(x + 1); k++) high = Math.max(high, value[k]);
      pen.lineTo(x, this.y(panel, high));
      pen.lineTo(x + 1, this.y(panel, high));
    }
    pen.strokeStyle = front ? deviceColour(panel.resource) : hues.neutral;
    pen.lineWidth = 2;
    pen.setLineDash(front ? [] : [5, 3]);
    pen.stroke();
    pen.setLineDash([]);
    if (!front || this.blocks) return;
    pen.lineTo(this.width, panel.y + panel.height);
    pen.lineTo(this.gutter, panel.y + panel.height);
    pen.fillStyle = deviceColour(panel.resource) + "33";
    pen.fill();
  }

  /** The largest lifetimes in the window, in the order of their begin. */
  largest(panel) {
    const { lives, livesOn } = this.front;
    const [first, last] = state.window;
    const area = (row) => lives.bytes[row] * (Math.min(lives.end[row], last) - Math.max(lives.begin[row], first));
    const there = (livesOn.get(panel.resource) ?? []).filter((row) => lives.begin[row] < last && lives.end[row] > first);
    const areas = new Map(there.map((row) => [row, area(row)]));
    const blocks = there.sort((one, other) => areas.get(other) - areas.get(one)).slice(0, MOST_BLOCKS);
    return blocks.sort((one, other) => lives.begin[one] - lives.begin[other] || one - other);
  }

  /** [row, low, high] of the blocks at a moment; what is too small lies below them, as row -1. */
  levels(panel, blocks, time) {
    const { lives } = this.front;
    const here = blocks.filter((row) => lives.begin[row] <= time && lives.end[row] > time);
    let base = Math.max(0, this.front.held(panel.resource, time) - here.reduce((sum, row) => sum + lives.bytes[row], 0));
    return [[-1, 0, base], ...here.map((row) => [row, base, (base += lives.bytes[row])])];
  }

  paintBlocks(pen, panel) {
    const blocks = this.largest(panel);
    const open = new Map(); // blocks under way: [left, low, high]
    for (let x = this.gutter; x < this.width + COLUMN; x += COLUMN) {
      const now = x < this.width ? this.levels(panel, blocks, this.moment(x + COLUMN / 2)) : [];
      const next = new Map(now.map(([row, low, high]) => [row, [x, low, high]]));
      for (const [row, [left, low, high]] of open) {
        const after = next.get(row);
        if (after && after[1] === low && after[2] === high) after[0] = left;
        else this.paintBlock(pen, panel, row, left, x, low, high);
      }
      open.clear();
      for (const [row, block] of next) open.set(row, block);
    }
  }

  paintBlock(pen, panel, row, left, right, low, high) {
    const own = deviceColour(panel.resource);
    const storage = row < 0 ? -2 : this.front.lives.storage[row];
    const colour = row < 0 ? hues.raised : storage === state.storage ? own : tint(own, SHADES[row % 4]);
    const [top, bottom] = [this.y(panel, high), this.y(panel, low)];
    const edge = row >= 0 && bottom - top > 2.5 ? 0.8 : 0;
    pen.fillStyle = colour;
    pen.fillRect(left, top + edge, right - left + 0.5 - edge, bottom - top - edge + 0.5);
    if (row >= 0) inside(pen, nameOf(storage), left, top, right - left, bottom - top, colour);
  }

  paintLabels(pen, panel) {
    const { peak, at, until } = this.front.curve(panel.resource);
    const [x, y] = [this.x((at + until) / 2), this.y(panel, peak)];
    if (x < this.gutter || x > this.width || !peak) return;
    pen.beginPath();
    pen.arc(x, y, 4.5, 0, 7);
    pen.fillStyle = hues.mark;
    pen.fill();
    this.label(pen, `peak ${bytesText(peak)}`, x > this.width - 110 ? x - 110 : x + 10, Math.max(panel.y + 9, y - 10));
  }

  /** The storage at a place; -1 for none. */
  blockAt(panel, x, y) {
    const bytes = this.bytes(panel, y);
    const found = this.blocks && this.levels(panel, this.largest(panel), this.moment(x)).find(([, low, high]) => bytes >= low && bytes < high);
    return found && found[0] >= 0 ? this.front.lives.storage[found[0]] : -1;
  }

  hover(x, y) {
    const panel = this.panelAt(x, y);
    this.hoverTime(panel ? x : -1);
    if (!panel) return null;
    const storage = this.blockAt(panel, x, y);
    const held = plans.map((plan) => `${plan.name}: ${bytesText(plan.held(panel.resource, this.moment(x)))}`);
    return [storage < 0 ? "" : nameOf(storage), momentText(this.moment(x)), ...held].filter(Boolean);
  }

  click(x, y) {
    const panel = this.panelAt(x, y);
    if (panel) selectMoment(this.front, panel.resource, this.moment(x), this.blockAt(panel, x, y));
    else change(NOTHING);
  }

  key(name) {
    const step = { ",": -1, ".": 1 }[name];
    if (name === "p") goToPeak(this.front, this.fullest[0]);
    else if (name === "b") {
      this.blocks = !this.blocks;
      this.press("b", this.blocks);
      this.draw();
    } else if (step && state.moment) {
      const { plan, resource, time } = state.moment;
      const { edge } = plan.curve(resource);
      selectMoment(plan, resource, edge[clamp(lastAtMost(edge, time) + step, 0, edge.length - 2)]);
    } else return super.key(name);
    return true;
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
    const top = ({ lives, livesOn }) => most((livesOn.get(resource) ?? []).map((row) => lives.offset[row] + lives.bytes[row]), 1);
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
      const [left, right] = [Math.max(this.x(lives.begin[row]), this.gutter - 2), Math.min(this.x(lives.end[row]), this.width + 2)];
      const top = this.y(panel, lives.offset[row] + lives.bytes[row]);
      const [wide, tall] = [Math.max(1, right - left - 0.7), Math.max(0.7, this.y(panel, lives.offset[row]) - top - 0.7)];
      pen.fillStyle = colour;
      pen.fillRect(left, top, wide, tall);
      if (picked) outline(pen, left, top, wide, tall);
      inside(pen, nameOf(lives.storage[row]), left, top, wide, tall, colour);
    }
    this.across(pen, panel, panel.reserved, own, 2);
    this.across(pen, panel, panel.plan.curve(panel.resource).peak, hues.mark, 1.5, [2, 3]);
    if (data.holds !== null) this.across(pen, panel, data.holds, hues.ink, 1.5, [7, 4]);
  }

  paintLabels(pen, panel) {
    const peak = bytesText(panel.plan.curve(panel.resource).peak);
    this.label(pen, `reserved ${bytesText(panel.reserved)}, live peak ${peak}`, this.width, this.y(panel, panel.reserved) - 11);
  }

  at(x, y) {
    const panel = this.panelAt(x, y);
    if (!panel) return null;
    const [time, address] = [this.time(x), this.bytes(panel, y)];
    const { lives, livesOn } = panel.plan;
    const holds = (row) => lives.begin[row] <= time && lives.end[row] > time && lives.offset[row] <= address && lives.offset[row] + lives.bytes[row] > address;
    const row = livesOn.get(panel.resource).find(holds);
    return row === undefined ? null : { lives, row };
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

// The schedule: a row for every device and for each of its ports in use, and the critical path.

const DEVICE_TALL = 30;
const PORT_TALL = 11;
const MOST_DEVICES = 48; // the busiest ones are drawn
const PORT_WORDS = { send_port: "sends", receive_port: "receives" };

class Schedule extends TimeView {
  constructor() {
    super("schedule");
    this.rowsOf = new Map();
    this.press("c", state.path);
  }

  /** The rows of a plan, each with its activities by start, in lanes where they overlap. */
  rows(plan) {
    if (this.rowsOf.has(plan)) return this.rowsOf.get(plan);
    const on = data.resources.map(() => []);
    for (let row = 0; row < plan.count; row++) on[plan.resource[row]].push(row);
    const found = [];
    const add = (resource, title, device) => {
      const items = on[resource].sort((one, other) => plan.start[one] - plan.start[other] || plan.end[one] - plan.end[other]);
      const longest = most(items.map((item) => plan.end[item] - plan.start[item]));
      const ends = [];
      const lane = items.map((item) => {
        let free = ends.findIndex((until) => until <= plan.start[item] + 1e-5 * longest); // times are rounded
        if (free < 0) free = Math.min(ends.length, 3); // at most four lanes
        ends[free] = plan.end[item];
        return free;
      });
      const starts = items.map((item) => plan.start[item]);
      found.push({ plan, resource, title, device, items, lane, lanes: ends.length || 1, longest, starts });
    };
    const busiest = new Set([...devices].sort((one, other) => on[other].length - on[one].length).slice(0, MOST_DEVICES));
    for (const device of devices.filter((each) => busiest.has(each))) {
      add(device, placeName(device), true);
      data.resources.forEach(({ kind, name }, k) => {
        if (PORT_WORDS[kind] && name === placeName(device) && on[k].length) add(k, PORT_WORDS[kind], false);
      });
    }
    data.resources.forEach(({ kind, name }, k) => {
      if ((kind === "link" || kind === "channel") && on[k].length) add(k, name, false);
    });
    this.rowsOf.set(plan, found);
    return found;
  }

  tall() {
    let y = 4;
    this.placed = shownPlans().flatMap((plan, number) => {
      if (number) y += 14;
      return this.rows(plan).map((row) => {
        if (row.device) y += this.narrow ? 20 : 6;
        const height = row.device ? DEVICE_TALL : PORT_TALL;
        y += height + 3;
        return { ...row, y: y - height - 3, height };
      });
    });
    this.bottom = y + 4;
    return this.bottom + AXIS;
  }

  paint(pen) {
    this.axis(pen, 0, this.bottom);
    for (const row of this.placed) this.paintRow(pen, row);
    this.clipped(pen, 0, this.bottom, () => {
      if (data.ends !== null) line(pen, this.x(data.ends), 0, this.x(data.ends), this.bottom, hues.ink, 1.5, [7, 4]);
      this.paintLinks(pen);
    });
  }

  paintRow(pen, row) {
    const { plan, y, height } = row;
    pen.fillStyle = hues.raised;
    pen.fillRect(this.gutter, y, this.width - this.gutter, height);
    const note = shownPlans().length > 1 ? plan.name : row.items.length ? countText(row.items.length, "run") : "not used";
    if (row.device) this.name(pen, row.title, note, y, height);
    else if (!this.narrow) write(pen, row.title.slice(0, 16), 10, y + height / 2, hues.muted, { size: 10.5 });
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, y, this.width - this.gutter, height);
    pen.clip();
    const [first, last] = state.window;
    const tall = height / row.lanes;
    let drawn = -1;
    for (let k = Math.max(0, lastAtMost(row.starts, first - row.longest)); k < row.items.length && row.starts[k] <= last; k++) {
      const item = row.items[k];
      if (plan.end[item] < first) continue;
      const [left, right] = [Math.max(this.x(row.starts[k]), this.gutter - 2), Math.min(this.x(plan.end[item]), this.width + 2)];
      const critical = state.path && plan.critical[item];
      if (right < drawn + 0.6 && !critical && !this.picked(plan, item)) continue; // what was drawn covers it
      drawn = right;
      this.paintBar(pen, row, item, left, Math.max(1, right - left - (right - left > 4)), y + row.lane[k] * tall, tall, critical);
    }
    pen.restore();
  }

  picked(plan, item) {
    if (state.activity) return state.activity.plan === plan && state.activity.row === item;
    return plan.kind[item] === RUN && state.operator === plan.what[item];
  }

  paintBar(pen, row, item, left, wide, top, tall, critical) {
    const { plan } = row;
    const batch = Math.log2(plan.inputs[item] + 1) / Math.log2(plan.mostInputs + 1);
    const share = plan.mostInputs > 1 ? 0.3 + 0.7 * batch : state.path && plan.path.length && !critical ? 0.55 : 1;
    const colour = tint(row.device ? deviceColour(row.resource) : hues.neutral, share);
    pen.fillStyle = colour;
    pen.fillRect(left, top, wide, tall);
    if (critical) {
      pen.fillStyle = hues.mark;
      pen.fillRect(left, top + tall - Math.min(4, tall / 3), wide, Math.min(4, tall / 3));
    }
    if (this.picked(plan, item)) outline(pen, left + 1, top + 1, Math.max(1, wide - 2), tall - 2);
    const inputs = plan.inputs[item] > 1 ? `×${plan.inputs[item]} ` : "";
    if (row.device) inside(pen, inputs + nameOf(plan.what[item]), left, top, wide, tall - (critical ? 3 : 0), colour);
  }

  /** Lines from what the chosen operator reads, and to what reads it. */
  paintLinks(pen) {
    if (state.operator < 0) return;
    pen.strokeStyle = hues.accent;
    pen.lineWidth = 1.5;
    for (const plan of shownPlans()) {
      const middle = new Map(this.placed.filter((row) => row.plan === plan).map((row) => [row.resource, row.y + row.height / 2]));
      const runs = (op) => (plan.runs.get(op) ?? []).slice(0, 8).filter((run) => middle.has(plan.resource[run]));
      const join = (from, to) => {
        const [x1, y1, x2, y2] = [this.x(plan.end[from]), middle.get(plan.resource[from]), this.x(plan.start[to]), middle.get(plan.resource[to])];
        const bend = Math.max(12, Math.abs(x2 - x1) / 2);
        pen.beginPath();
        pen.moveTo(x1, y1);
        pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
        pen.stroke();
      };
      for (const run of runs(state.operator)) {
        for (const other of graph.before(state.operator).flatMap(runs)) join(other, run);
        for (const other of graph.after(state.operator).flatMap(runs)) join(run, other);
      }
    }
  }

  /** The activity at a place, or one that is nearer to it than two pixels. */
  at(x, y) {
    const row = this.placed.find((each) => y >= each.y - 1 && y <= each.y + each.height + 1);
    if (!row || x < this.gutter) return null;
    const time = this.time(x);
    const near = this.time(x + 2) - time;
    const lane = Math.floor(((y - row.y) / row.height) * row.lanes);
    let best = null;
    for (let k = lastAtMost(row.starts, time + near); k >= 0 && row.starts[k] >= time - near - row.longest; k--) {
      const item = row.items[k];
      const off = Math.max(row.starts[k] - time, time - row.plan.end[item], 0);
      if (off <= near && (row.lanes === 1 || lane === row.lane[k]) && (!best || off < best.off)) best = { plan: row.plan, row: item, off };
      if (best?.off === 0) break;
    }
    return best;
  }

  hover(x, y) {
    this.hoverTime(x);
    const found = this.at(x, y);
    return found && activityWords(found.plan, found.row);
  }

  click(x, y) {
    const found = this.at(x, y);
    if (found) selectActivity(found.plan, found.row);
    else change(NOTHING);
  }

  key(name) {
    if (name === "c") {
      change({ path: !state.path });
      this.press("c", state.path);
      return true;
    }
    if (name !== "," && name !== ".") return super.key(name);
    const { plan, row } = state.activity ?? { plan: shownPlans()[0], row: -1 };
    const line = this.rows(plan).find((each) => (row < 0 ? each.items.length : each.resource === plan.resource[row]));
    const item = line?.items[clamp(line.items.indexOf(row) + (name === "." ? 1 : -1), 0, line.items.length - 1)];
    if (item === undefined) return true;
    selectActivity(plan, item);
    reveal(plan.start[item], plan.end[item]);
    return true;
  }
}

/** What a tip says of an activity. */
function activityWords(plan, row) {
  const what = plan.what[row];
  const place = placeName(plan.resource[row]);
  const other = plan.twin[row] < 0 ? "" : placeName(plan.resource[plan.twin[row]]);
  const sends = plan.kind[row] === SEND;
  const moves = `${place} ${sends ? "sends" : "receives"} ${bytesText(plan.bytes[row])} ${other && (sends ? "to " : "from ") + other}`;
  return [
    nameOf(what),
    isOperator(what) ? kindOf(what) : "",
    plan.kind[row] === RUN ? `on ${place}` : moves,
    plan.inputs[row] > 1 ? countText(plan.inputs[row], "input") : plan.period ? `input ${plan.round[row] + 1}` : "",
    `${secondsText(plan.end[row] - plan.start[row])} from ${secondsText(plan.start[row])}`,
    plan.critical[row] ? "on the critical path" : "",
  ];
}

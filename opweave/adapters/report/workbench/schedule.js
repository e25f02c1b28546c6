// The schedule: a row for every device and for each of its ports in use, and the critical path.

const DEVICE_TALL = 30;
const PORT_TALL = 11;

class Schedule extends TimeView {
  constructor() {
    super("schedule");
    this.rowsOf = new Map();
    this.keys.c = () => this.markPath(!state.path);
    this.markPath(true);
  }

  markPath(path) {
    change({ path });
    this.press("c", path);
  }

  /** The rows of a plan, each with its activities by start. */
  rows(plan) {
    if (this.rowsOf.has(plan)) return this.rowsOf.get(plan);
    const found = [];
    for (const { resource, title } of data.rows) {
      const items = plan.on.of(resource).sort((one, other) => plan.start[one] - plan.start[other]);
      const device = data.resources[resource].kind === "device";
      const longest = most(items.map((item) => plan.end[item] - plan.start[item]));
      const lanes = 1 + most(items.map((item) => plan.lane[item]));
      if (device || items.length) found.push({ plan, resource, title, device, items, longest, lanes, starts: items.map((item) => plan.start[item]) });
    }
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
    for (const row of this.placed) this.paintHead(pen, row);
    this.clipped(pen, 0, this.bottom, () => {
      for (const row of this.placed) this.paintRow(pen, row);
      if (data.ends !== null) line(pen, this.x(data.ends), 0, this.x(data.ends), this.bottom, hues.ink, 1.5, [7, 4]);
      this.paintLinks(pen);
    });
  }

  paintHead(pen, row) {
    const { plan, y, height } = row;
    fill(pen, hues.raised, this.gutter, y, this.width - this.gutter, height);
    const note = shownPlans().length > 1 ? plan.name : row.items.length ? countText(row.items.length, "run") : "not used";
    if (row.device) this.name(pen, row.title, note, y, height);
    else if (!this.narrow) write(pen, row.title.slice(0, 16), 10, y + height / 2, hues.muted, { size: 10.5 });
  }

  paintRow(pen, row) {
    const { plan, y, height } = row;
    const [first, last] = state.window;
    const tall = height / row.lanes;
    let drawn = -1;
    for (let k = Math.max(0, atMost(row.starts, first - row.longest)); k < row.items.length && row.starts[k] <= last; k++) {
      const item = row.items[k];
      if (plan.end[item] < first) continue;
      const [left, right] = this.ends(row.starts[k], plan.end[item]);
      const critical = state.path && plan.critical[item];
      if (right < drawn + 0.6 && !critical && !this.picked(plan, item)) continue; // what was drawn covers it
      drawn = right;
      this.paintBar(pen, row, item, left, Math.max(1, right - left - (right - left > 4)), y + plan.lane[item] * tall, tall, critical);
    }
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
    const inputs = plan.inputs[item] > 1 ? `×${plan.inputs[item]} ` : "";
    this.block(colour, left, top, wide, tall, { plan, row: item }, row.device ? inputs + nameOf(plan.what[item]) : "", this.picked(plan, item));
    if (critical) fill(pen, hues.mark, left, top + tall - Math.min(4, tall / 3), wide, Math.min(4, tall / 3));
  }

  /** Lines from what the chosen operator reads, and to what reads it. */
  paintLinks(pen) {
    if (state.operator < 0) return;
    pen.strokeStyle = hues.accent;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const plan of shownPlans()) {
      const middle = new Map(this.placed.filter((row) => row.plan === plan).map((row) => [row.resource, row.y + row.height / 2]));
      const runs = (op) => plan.runs.of(op).slice(0, 2).filter((run) => middle.has(plan.resource[run]));
      const join = (from, to) => curve(pen, this.x(plan.end[from]), middle.get(plan.resource[from]), this.x(plan.start[to]), middle.get(plan.resource[to]), 12);
      for (const run of runs(state.operator)) {
        for (const other of graph.before(state.operator).flatMap(runs)) join(other, run);
        for (const other of graph.after(state.operator).flatMap(runs)) join(run, other);
      }
    }
    pen.stroke();
  }

  hover(x, y) {
    this.hoverTime(x);
    const found = this.at(x, y);
    return found && wordsOf(found.plan, found.row);
  }

  click(x, y) {
    const found = this.at(x, y);
    if (found) selectRun(found.plan, found.row);
    else change(NOTHING);
  }

  step(by) {
    const { plan, row } = state.activity ?? { plan: shownPlans()[0], row: -1 };
    const line = this.rows(plan).find((each) => (row < 0 ? each.items.length : each.resource === plan.resource[row]));
    const item = line?.items[clamp(line.items.indexOf(row) + by, 0, line.items.length - 1)];
    if (item !== undefined) showRun(plan, item);
  }
}

/** What a tip says of an activity. */
function wordsOf(plan, row) {
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

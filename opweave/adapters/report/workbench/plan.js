// The data of the page as typed arrays, and what the user looks at.

let data; // the document that data.py wrote
let graph;
const devices = []; // resources that are devices, by position
const plans = []; // the plan, then what it is compared with, if anything
const RUN = 0;
const SEND = 1;

class Graph {
  constructor(raw) {
    Object.assign(this, raw);
    this.count = raw.operators.length;
    this.inside = sums(raw.inside); // of modules and operators: the module that each stands in
    this.column = sums(raw.column);
    this.row = sums(raw.row).map((quarters) => quarters / 4);
    this.storage = sums(raw.storage); // the tensor whose bytes a tensor uses
    for (const name of ["reads", "writes"]) this[name] = raw[name].map((tensors, op) => tensors.map((tensor) => tensor + op));
    this.producer = new Int32Array(raw.tensors.length).fill(-1);
    this.readers = new Lists(); // operators that read a storage, also through views of it
    for (let op = 0; op < this.count; op++) {
      for (const tensor of this.writes[op]) this.producer[tensor] = op;
      for (const tensor of new Set(this.reads[op].map((each) => this.storage[each]))) this.readers.add(tensor, op);
    }
    this.made = Array.from({ length: this.count }, (_, op) => this.writes[op].reduce((sum, each) => sum + (this.storage[each] === each ? this.bytes[each] : 0), 0));
  }

  /** The whole name of a module. */
  pathTo(module) {
    return module > 0 ? [this.pathTo(this.inside[module]), this.modules[module]].filter(Boolean).join(".") : "";
  }

  /** Operators that make what an operator reads. */
  before(op) {
    return [...new Set(this.reads[op].map((tensor) => this.producer[tensor]))].filter((other) => other >= 0);
  }

  /** Operators that read what an operator makes. */
  after(op) {
    return [...new Set(this.writes[op].flatMap((tensor) => this.readers.of(this.storage[tensor])))].filter((other) => other !== op);
  }
}

/** What happens: activities and lifetimes in columns, as the library's timelines have them. */
class Plan {
  constructor(raw, name, number) {
    const rows = raw.kind.length;
    const { kind, resource } = raw;
    Object.assign(this, { name, number, count: rows, kind, resource, period: raw.period, what: sums(raw.what), path: sums(raw.path) });
    this.twin = new Int32Array(rows).fill(-1);
    this.start = Float64Array.from(raw.start);
    this.end = Float64Array.from(raw.ends);
    this.bytes = Float64Array.from(raw.bytes);
    this.critical = new Uint8Array(rows);
    this.runs = new Lists(); // the runs of every operator
    this.on = new Lists(); // the activities of every resource
    for (let row = 0; row < rows; row++) {
      if (raw.twin[row]) this.twin[row] = row + raw.twin[row];
      this.on.add(resource[row], row);
      if (kind[row] === RUN && isOperator(this.what[row])) this.runs.add(this.what[row], row);
    }
    this.inputs = raw.count;
    this.mostInputs = most(this.inputs);
    this.round = raw.round;
    this.lane = raw.lane;
    for (const row of this.path) this.critical[row] = this.critical[this.twin[row]] = 1;
    this.readLives(raw.lives);
    this.until = Math.max(most(this.end), this.last);
  }

  readLives(raw) {
    const count = raw.storage.length;
    const { resource } = raw;
    const end = Float64Array.from(raw.end, (value) => value ?? Infinity);
    this.lives = { count, resource, end, storage: sums(raw.storage), begin: raw.begin, bytes: raw.bytes, offset: raw.offset };
    this.last = most(raw.begin, most(end.filter(Number.isFinite)));
    this.livesOf = new Lists(); // lifetimes by storage
    this.livesOn = new Lists(); // lifetimes by resource
    this.curves = new Map();
    for (let row = 0; row < count; row++) {
      this.livesOf.add(this.lives.storage[row], row);
      if (raw.bytes[row]) this.livesOn.add(resource[row], row);
    }
  }

  /** Bytes that a resource holds: value[k] from edge[k] to edge[k + 1], and where they are most. */
  curve(resource) {
    if (!this.curves.has(resource)) this.curves.set(resource, this.makeCurve(this.livesOn.of(resource)));
    return this.curves.get(resource);
  }

  makeCurve(rows) {
    const { begin, end, bytes } = this.lives;
    const whole = data.steps; // a step counts what lives when it begins
    const place = (moment) => (whole ? Math.ceil(Math.max(0, moment)) : Math.max(0, moment));
    const changes = rows.flatMap((row) => [[place(begin[row]), bytes[row]], [place(end[row]), -bytes[row]]]);
    const [edge, value] = [[0], [0]];
    for (const [time, more] of changes.sort((one, other) => one[0] - other[0])) {
      if (time === Infinity) break;
      if (time > edge.at(-1)) value[edge.push(time) - 1] = value.at(-1);
      value[edge.length - 1] += more;
    }
    edge.push(Math.max(edge.at(-1) + (whole ? 1 : 0), this.last));
    let peak = 0;
    value.forEach((held, k) => (peak = held > value[peak] && edge[k + 1] > edge[k] ? k : peak));
    return { edge, value, peak: value[peak], at: edge[peak], until: edge[peak + 1] };
  }

  /** What the runs of an operator take together. */
  lasts(op) {
    return this.runs.of(op).reduce((sum, run) => sum + this.end[run] - this.start[run], 0);
  }

  held(resource, moment) {
    const { edge, value } = this.curve(resource);
    return moment <= edge.at(-1) ? (value[Math.min(atMost(edge, moment), value.length - 1)] ?? 0) : 0;
  }

  /** Rows of the lifetimes that count at a moment, the largest first. */
  alive(resource, moment) {
    const { begin, end, bytes } = this.lives;
    const rows = this.livesOn.of(resource).filter((row) => begin[row] <= moment && end[row] > moment);
    return rows.sort((one, other) => bytes[other] - bytes[one]);
  }
}

const isOperator = (what) => what >= 0 && what < data.names.operators && what < graph.count;
const isTensor = (what) => what >= data.names.operators && what < data.names.of_graph;
const itemOf = (op) => graph.modules.length + op;
const tensorOf = (what) => what - data.names.operators;
const storageOf = (tensor) => data.names.operators + graph.storage[tensor];
const kindOf = (op) => graph.kinds[graph.kind[op]];
const placeName = (row) => data.resources[row].name;
const devicesOf = (op) => data.devices[op].map(placeName).join(", ");

function nameOf(what) {
  if (what >= data.names.of_graph) return data.names.more[what - data.names.of_graph];
  return what < graph.count ? graph.operators[what] : graph.tensors[what - graph.count];
}

/** The last index whose value is at most the one asked for; -1 if there is none. */
function atMost(values, asked) {
  let [low, high] = [-1, values.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (values[middle] <= asked) low = middle;
    else high = middle - 1;
  }
  return low;
}

// ---- what the user looks at; views subscribe, and draw again when it changes

const NOTHING = {
  operator: -1,
  storage: -1, // as a position in the timeline's names
  activity: null, // { plan, row }
  moment: null, // { plan, resource, time }
  group: null, // { name, ops, item }, of a module or a stage
};
const state = { ...NOTHING, span: [0, 1], window: [0, 1], shown: "plan", hover: null, path: true };
const listeners = [];
const changed = new Set();

/** Changes the state; all views are told together, before the browser draws. */
function change(parts) {
  Object.assign(state, parts);
  if (!changed.size) {
    requestAnimationFrame(() => {
      const names = new Set(changed);
      changed.clear();
      listeners.forEach((listener) => listener((...asked) => asked.some((name) => names.has(name))));
    });
  }
  Object.keys(parts).forEach((name) => changed.add(name));
}

const selectOperator = (operator) => change({ ...NOTHING, operator });
const selectStorage = (storage) => change({ ...NOTHING, storage });
const selectGroup = (name, ops, item = -1) => change({ ...NOTHING, group: { name, ops, item } });
const selectMoment = (plan, resource, time, storage = -1) => change({ ...NOTHING, moment: { plan, resource, time }, storage });

function selectRun(plan, row) {
  const what = plan.what[row];
  change({ ...NOTHING, activity: { plan, row }, operator: isOperator(what) ? what : -1 });
}

const shownPlans = () => (plans.length < 2 || state.shown === "plan" ? plans.slice(0, 1) : state.shown === "before" ? plans.slice(1) : plans);

/** Chooses the plan, what it is compared with, or both; the time axis follows. */
function showPlans(shown) {
  state.shown = shown;
  const span = [0, most(shownPlans().map((plan) => plan.until), data.ends ?? 0) || 1];
  change({ shown, span, window: span });
}

/** Shows a part of the time axis, within its ends. */
function showTime(first, last) {
  const [low, high] = state.span;
  const width = clamp(last - first, (high - low) * 1e-6, high - low);
  const start = clamp(first, low, high - width);
  change({ window: [start, start + width] });
}

/** Moves the time axis, if need be, so that something can be seen on it. */
function reveal(start, end) {
  const [first, last] = state.window;
  const width = clamp(40 * (end - start), state.span[1] * 1e-4, last - first);
  if (start < first || end > last || width < (last - first) / 8) showTime((start + end - width) / 2, (start + end + width) / 2);
}

/** Chooses a run and brings it into view. */
function showRun(plan, row) {
  selectRun(plan, row);
  reveal(plan.start[row], plan.end[row]);
}

// What is known of the operator, the storage or the moment that was chosen.

const MOST_LISTED = 60;

const link = (text, click) => el("button", { type: "button", class: "link", click }, text);
const opLink = (op) => link(graph.operators[op], () => selectOperator(op));
const opItem = (op) => el("li", {}, opLink(op));
const fact = (name, ...value) => (value[0] ? [el("dt", {}, name), el("dd", {}, ...value)] : []);
const facts = (...found) => el("dl", {}, found);
const item = (name, size, note = "") => el("li", {}, el("span", {}, name, note && el("small", {}, note)), el("span", { class: "size" }, size));

function listed(title, items, make) {
  const count = items.length > MOST_LISTED ? ` (${MOST_LISTED} of ${digits(items.length)})` : "";
  return items.length ? [el("h3", {}, title + count), el("ul", {}, items.slice(0, MOST_LISTED).map(make))] : [];
}

/** Notes of the problem on an activity of the plan. */
const notesOf = (plan, row) => (plan === plans[0] ? Object.entries(data.notes) : []).flatMap(([word, note]) => fact(word, note.of.get(row)));

function runFact(plan, run) {
  const when = link(momentText(plan.start[run]), () => showRun(plan, run));
  if (data.steps) return fact(plan.name, when);
  const inputs = plan.inputs[run] > 1 ? `, ${countText(plan.inputs[run], "input")}` : "";
  const lasts = `, ${secondsText(plan.end[run] - plan.start[run])} on ${placeName(plan.resource[run])}`;
  return fact(plan.name, when, lasts + inputs + (plan.critical[run] ? ", critical" : ""));
}

function aboutOperator(op) {
  const runs = plans.flatMap((plan) => plan.runs.of(op).slice(0, 6).map((run) => runFact(plan, run)));
  const run = state.activity?.row ?? plans[0]?.runs.get(op)?.[0];
  const tensor = (each) => item(link(graph.tensors[each], () => selectStorage(storageOf(each))), bytesText(graph.bytes[each]), graph.producer[each] < 0 ? "input of the model" : "");
  return [
    el("h2", {}, graph.operators[op]),
    facts(
      fact("kind", kindOf(op)),
      fact("module", graph.paths[graph.path[op]]),
      fact("on", devices.length > 1 ? devicesOf(op) : ""),
      runs,
      fact("weights", graph.weights[op] && bytesText(graph.weights[op])),
      fact("work", graph.flops[op] && digits(graph.flops[op] / 1e6, 3) + SPACE + "MFLOP"),
      notesOf(state.activity?.plan ?? plans[0], run),
    ),
    listed("Reads", graph.reads[op], tensor),
    listed("Writes", graph.writes[op], tensor),
    listed("Runs after", graph.before(op), opItem),
    listed("Read by", graph.after(op), opItem),
  ];
}

function aboutStorage(storage) {
  const lifeFact = (plan, row) => {
    const { bytes, offset, resource } = plan.lives;
    const where = (data.resources.length > 1 ? ` on ${placeName(resource[row])}` : "") + (offset ? `, at ${digits(offset[row])}` : "");
    return fact(plan.name, `${bytesText(bytes[row])}, ${lifeText(plan.lives, row)}${where}`);
  };
  const lives = plans.flatMap((plan) => plan.livesOf.of(storage).slice(0, 8).map((row) => lifeFact(plan, row)));
  const made = isTensor(storage) ? [graph.producer[tensorOf(storage)]].filter((op) => op >= 0) : [];
  return [
    el("h2", {}, nameOf(storage)),
    facts(lives),
    isOperator(storage) ? el("p", {}, "Workspace of ", opLink(storage)) : "",
    listed("Made by", made, opItem),
    listed("Read by", readersOf(storage), opItem),
  ];
}

const readersOf = (storage) => (isTensor(storage) ? graph.readers.of(graph.storage[tensorOf(storage)]) : []);

/** What lives at a moment, and why: what runs needs it, or a later reader, or it stays. */
function aboutMoment({ plan, resource, time }) {
  const { lives } = plan;
  const rows = plan.alive(resource, time);
  const total = (some) => some.reduce((sum, row) => sum + lives.bytes[row], 0);
  const running = plan.on.of(resource).filter((row) => plan.kind[row] === RUN && plan.start[row] <= time && plan.end[row] > time);
  const ops = running.map((run) => plan.what[run]).filter(isOperator);
  const needed = new Set(ops.flatMap((op) => [op, ...[...graph.reads[op], ...graph.writes[op]].map(storageOf)]));
  const reason = (row) => (needed.has(lives.storage[row]) ? 0 : lives.end[row] < Infinity ? 1 : 2);
  const groups = ["Needed by the running operator", plan.count ? "Needed by a later operator" : "Live", "Stays to the end"]
    .map((name, number) => [name, rows.filter((row) => reason(row) === number)])
    .filter(([, some]) => some.length);
  const [held, { peak }] = [total(rows), plan.curve(resource)];
  const storage = (row) => {
    const runs = readersOf(lives.storage[row]).flatMap((op) => plan.runs.of(op));
    const last = runs.sort((one, other) => plan.end[other] - plan.end[one])[0];
    const reader = last !== undefined && lives.end[row] < Infinity ? `, read last by ${nameOf(plan.what[last])}` : "";
    return item(link(nameOf(lives.storage[row]), () => change({ storage: lives.storage[row] })), bytesText(lives.bytes[row]), lifeText(lives, row) + reader);
  };
  const bar = ([name, some]) => el("div", {}, el("span", {}, name), el("b", {}, bytesText(total(some))), el("meter", { max: held || 1, value: total(some), "aria-label": name }));
  const share = held === peak ? "This is the peak. " : `${shareText(held / (peak || 1))} of the peak of ${bytesText(peak)}. `;
  return [
    el("h2", {}, `${bytesText(held)} at ${momentText(time)}`),
    el("p", {}, share + `${countText(rows.length, "storage")} on ${placeName(resource)}, ${plan.name}.`),
    el("div", { class: "why" }, groups.map(bar)),
    listed("Runs", running, (run) => el("li", {}, link(nameOf(plan.what[run]), () => selectRun(plan, run)))),
    groups.map(([name, some]) => listed(name, some, storage)),
  ];
}

function aboutActivity({ plan, row }) {
  const what = plan.what[row];
  return [
    el("h2", {}, nameOf(what)),
    wordsOf(plan, row).slice(1).map((words) => el("p", {}, words)),
    facts(notesOf(plan, row)),
    isTensor(what) ? link("More about this tensor", () => selectStorage(storageOf(tensorOf(what)))) : "",
  ];
}

/** A module, or a stage: what its operators take together. */
function aboutGroup({ name, ops, item }) {
  const sum = (value) => ops.reduce((total, op) => total + value(op), 0);
  return [
    el("h2", {}, name),
    item < 0 ? "" : link(views.model.open.has(item) ? "Fold" : "Unfold", () => views.model.toggle(item)),
    facts(
      fact("operators", digits(ops.length)),
      fact("computes", data.time === "seconds" && plans[0].runs.size && secondsText(sum((op) => plans[0].lasts(op)))),
      fact("weights", bytesText(sum((op) => graph.weights[op]))),
      fact("writes", bytesText(sum((op) => graph.made[op]))),
    ),
    listed("Operators", ops, opItem),
  ];
}

function tell(parts) {
  const place = byId("details");
  const close = el("button", { type: "button", "aria-label": "Close", click: () => change(NOTHING) }, "×");
  place.replaceChildren(close, ...parts.flat(9).filter((part) => part !== ""));
  place.hidden = !parts.length;
  place.scrollTop = 0;
  document.body.classList.toggle("open", !place.hidden);
}

function retell(has) {
  if (!has("operator", "storage", "activity", "moment", "group")) return;
  const { moment, storage, operator, activity, group } = state;
  if (moment) tell([storage >= 0 ? [aboutStorage(storage), el("hr")] : [], aboutMoment(moment)]);
  else if (operator >= 0) tell(aboutOperator(operator));
  else if (activity) tell(aboutActivity(activity));
  else if (group) tell(aboutGroup(group));
  else tell(storage >= 0 ? aboutStorage(storage) : []);
}

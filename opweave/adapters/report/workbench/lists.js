// Long lists of which only the visible rows exist: the table of operators or storages, and the parts of sliced operators.

const ROW_TALL = 30;

/** A scrolling list; make(k) returns the cells of row k, choose(k) chooses it, and chosen(k) says whether it is chosen. */
class Rows {
  constructor(body, name, { make, choose, chosen }) {
    Object.assign(this, { make, choose, chosen, count: 0 });
    this.filling = el("div", { class: "filling", role: "presentation" });
    this.box = el("div", { class: "rows", role: "rowgroup", tabindex: "0", "aria-label": name }, this.filling);
    this.box.addEventListener("scroll", () => this.draw());
    this.box.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[event.key];
      if (!step || !this.count) return;
      event.preventDefault();
      this.choose(clamp(this.at() + step, 0, this.count - 1));
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
    listeners.push((has) => has("operator", "storage") && (this.reveal(this.at()), this.draw()));
    body.append(this.box);
  }

  at() {
    for (let k = 0; k < this.count; k++) if (this.chosen(k)) return k;
    return -1;
  }

  show(count) {
    this.count = count;
    this.filling.style.height = count * ROW_TALL + "px";
    this.box.parentElement.setAttribute("aria-rowcount", count + 1);
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_TALL) - 4);
    const rows = Array.from({ length: clamp(this.count - first, 0, Math.ceil(this.box.clientHeight / ROW_TALL) + 8) }, (_, k) => first + k);
    const row = (k) => el("div", { class: "row", role: "row", "aria-rowindex": k + 2, "aria-selected": String(this.chosen(k)), style: `top: ${k * ROW_TALL}px`, click: () => this.choose(k) }, this.make(k));
    this.filling.replaceChildren(...rows.map(row));
  }

  reveal(k) {
    const { scrollTop, clientHeight } = this.box;
    if (k >= 0 && (k * ROW_TALL < scrollTop || (k + 1) * ROW_TALL > scrollTop + clientHeight)) this.box.scrollTop = k * ROW_TALL - clientHeight / 2;
  }
}

/** A column: its title, the value of an entry, how a number is written, and whether narrow screens show it. */
const column = (title, value, number = null, narrow = false) => ({ title, value, number, narrow, text: number ? (entry) => number(value(entry)) : value });

function operatorColumns() {
  const steps = data.steps;
  const found = [column("operator", (op) => graph.operators[op], null, true), column("kind", kindOf)];
  if (graph.paths.length > 1) found.push(column("module", (op) => graph.paths[graph.path[op]]));
  if (devices.length > 1) found.push(column("device", devicesOf, null, true));
  for (const plan of plans.filter((each) => each.runs.size)) {
    const start = (op) => plan.start[plan.runs.get(op)?.[0]] ?? -1;
    found.push(column((plan.number ? "before: " : "") + (steps ? "step" : "start"), start, (time) => (time < 0 ? "–" : steps ? digits(time) : secondsText(time)), !plan.number));
    if (!steps && !plan.number) found.push(column("takes", (op) => plan.lasts(op), secondsText));
  }
  found.push(column("writes", (op) => graph.made[op], bytesText, devices.length < 2));
  if (graph.weights.some(Boolean)) found.push(column("weights", (op) => graph.weights[op], bytesText));
  for (const [word, note] of Object.entries(data.notes)) found.push(column(word, (op) => note.of.get(plans[0].runs.get(op)?.[0]) ?? ""));
  return found;
}

function storageColumns() {
  const { storage, resource, bytes, begin, end, offset } = plans[0].lives;
  const found = [column("storage", (row) => nameOf(storage[row]), null, true)];
  if (devices.length > 1) found.push(column("place", (row) => placeName(resource[row])));
  found.push(column("size", (row) => bytes[row], bytesText, true));
  found.push(column("from", (row) => begin[row], (time) => (time < 0 ? "the start" : momentText(time))));
  found.push(column("to", (row) => end[row], (time) => (time < Infinity ? momentText(time) : "the end")));
  if (offset) found.push(column("address", (row) => offset[row], digits, true));
  return found;
}

/** The table of operators or storages, searched by words and sorted by a column. */
class Table {
  constructor() {
    const card = byId("table");
    this.search = byId("search");
    this.heads = card.querySelector(".heads");
    this.told = card.querySelector("[role=status]");
    const entry = (k) => (this.operators ? this.found[k] : plans[0].lives.storage[this.found[k]]);
    this.rows = new Rows(card.querySelector(".table"), "rows", {
      make: (k) => this.columns.map((each) => this.cell(each, "gridcell", each.text(this.found[k]))),
      choose: (k) => (this.operators ? selectOperator : selectStorage)(entry(k)),
      chosen: (k) => (this.operators ? state.operator : state.storage) === entry(k),
    });
    choices(card.querySelectorAll("[data-key]"), ({ key }) => this.show(key === "o"));
    this.search.addEventListener("input", () => this.update());
    this.search.addEventListener("keydown", (event) => event.key === "Enter" && this.rows.count && (this.rows.choose(0), this.rows.box.focus()));
    this.show(graph.count > 0);
  }

  /** Lists operators, or else storages. */
  show(operators) {
    this.operators = operators;
    this.columns = operators ? operatorColumns() : storageColumns();
    this.sorted = null;
    this.heads.replaceChildren(...this.columns.map((each) => this.cell(each, "columnheader", el("button", { type: "button", click: () => this.sort(each) }, each.title))));
    this.update();
  }

  cell(each, role, inner) {
    return el("div", { role, class: (each.number ? "number" : "text") + (each.narrow ? "" : " wide"), title: inner.title ?? inner }, inner);
  }

  sort(each) {
    this.down = this.sorted === each && !this.down;
    this.sorted = each;
    this.columns.forEach((one, k) => this.heads.children[k].setAttribute("aria-sort", one !== each ? "none" : this.down ? "descending" : "ascending"));
    this.update();
  }

  update() {
    const all = Array.from({ length: this.operators ? graph.count : plans[0].lives.count }, (_, k) => k);
    const texts = this.columns.filter((each) => !each.number);
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = all.filter((entry) => words.every((word) => texts.some((each) => each.text(entry).toLowerCase().includes(word))));
    if (this.sorted) {
      const keys = new Map(this.found.map((entry) => [entry, this.sorted.value(entry)]));
      const order = this.sorted.number ? (one, other) => one - other : new Intl.Collator("en", { numeric: true }).compare;
      this.found.sort((one, other) => (this.down ? -1 : 1) * order(keys.get(one), keys.get(other)) || one - other);
    }
    this.told.textContent = (words.length ? `${digits(this.found.length)} of ` : "") + countText(all.length, this.operators ? "operator" : "storage");
    this.rows.show(this.found.length);
  }
}

/** The parts of operators: who computes how much of each, and how long it waits and computes. */
function showParts(panel, body) {
  const longest = most(panel.waits.map((wait, k) => wait + panel.works[k]), 1e-12) / 45; // the rest of the width is for the numbers
  const cell = (look, ...inner) => el("div", { role: "gridcell", class: look }, ...inner);
  const bar = (look, percent, title) => (percent ? el("i", { class: look, style: `width: ${percent}%`, title }) : "");
  const rows = new Rows(body.firstElementChild, "parts", {
    make: (k) => {
      const [name, wait, work] = [graph.operators[panel.operators[k]], panel.waits[k], panel.works[k]];
      return [
        cell("", el("span", { title: name }, name)),
        cell("wide", panel.words[k]),
        cell("bar", panel.shares[k].map((share, d) => bar(`device-${(d % 12) + 1}`, 100 * share, `${placeName(d)}: ${shareText(share)}`))),
        cell("bar", bar("wait", wait / longest, `waits ${secondsText(wait)}`), bar("work", work / longest, `computes ${secondsText(work)}`), el("span", {}, secondsText(wait + work))),
      ];
    },
    choose: (k) => selectOperator(panel.operators[k]),
    chosen: (k) => state.operator === panel.operators[k],
  });
  rows.show(panel.operators.length);
}

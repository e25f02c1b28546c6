// What all drawn views share: a sharp canvas, pointers, wheel and keys; and the time axis of some of them.

const FONT = (size, weight = 400) => `${weight} ${size}px system-ui, sans-serif`;
const NARROW = 620; // narrower views write the names of rows above them
const AXIS = 26; // height of the numbers below an axis

/** A canvas that keeps its size in step with its place, and draws at most once for each picture of the screen. */
class View {
  constructor(id, concerns) {
    this.card = byId(id);
    this.canvas = this.card.querySelector("canvas");
    this.body = this.canvas.parentElement;
    this.pen = this.canvas.getContext("2d");
    this.pointers = new Map();
    this.watch();
    for (const tool of this.card.querySelectorAll("[data-key]")) tool.addEventListener("click", () => this.keys[tool.dataset.key]());
    new ResizeObserver(() => this.draw()).observe(this.body);
    listeners.push((has) => has("theme", ...concerns) && this.draw());
  }

  get narrow() {
    return this.body.clientWidth < NARROW;
  }

  /** Marks the tool that is on. */
  press(key, on) {
    this.card.querySelector(`[data-key="${key}"]`)?.setAttribute("aria-pressed", String(on));
  }

  /** Asks for a drawing. */
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      const { canvas, pen } = this;
      this.asked = false;
      this.width = Math.max(200, this.body.clientWidth);
      this.height = this.tall();
      const sharp = window.devicePixelRatio || 1;
      canvas.width = Math.round(this.width * sharp);
      canvas.height = Math.round(this.height * sharp);
      canvas.style.height = this.height + "px";
      pen.scale(sharp, sharp);
      pen.textBaseline = "middle";
      this.drawn = [];
      this.paint(pen);
    });
  }

  /** A box that stands for something, with its name in it if there is room; at() finds it again. */
  block(colour, left, top, wide, tall, thing, name = "", picked = false) {
    fill(this.pen, colour, left, top, wide, tall);
    if (picked) outline(this.pen, left + 1, top + 1, Math.max(1, wide - 2), tall - 2);
    if (name) inside(this.pen, name, left, top, wide, tall, colour);
    this.drawn.push({ left, top, wide, tall, thing });
  }

  /** What stands at a place, or not farther from it than two pixels. */
  at(x, y) {
    const near = (by) => this.drawn.findLast(({ left, top, wide, tall }) => x >= left - by && x <= left + wide + by && y >= top && y <= top + tall);
    return (near(0) ?? near(2))?.thing;
  }

  watch() {
    const { canvas, pointers } = this;
    let moved = 0;
    const on = (name, listener) => canvas.addEventListener(name, (event) => listener(event, event.offsetX, event.offsetY), { passive: false });
    on("pointerdown", (event, x, y) => {
      if (event.button) return;
      pointers.set(event.pointerId, [x, y]);
      canvas.setPointerCapture(event.pointerId);
      if (pointers.size === 1) moved = 0;
    });
    on("pointermove", (event, x, y) => {
      const before = pointers.get(event.pointerId);
      if (!before) {
        const lines = this.hover(x, y) ?? [];
        canvas.classList.toggle("pointing", lines.length > 0);
        showTip(event, lines);
        return;
      }
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      pointers.set(event.pointerId, [x, y]);
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      if (other) {
        const apart = ([ax, ay]) => Math.hypot(ax - other[0], ay - other[1]) || 1; // two fingers
        this.zoom(apart([x, y]) / apart(before), (x + other[0]) / 2, (y + other[1]) / 2);
      } else if (moved > 4) {
        showTip(event, []);
        this.pan(x - before[0], y - before[1]);
      }
    });
    on("pointerup", (event, x, y) => pointers.delete(event.pointerId) && moved <= 4 && this.click(x, y));
    on("pointercancel", (event) => pointers.delete(event.pointerId));
    on("pointerleave", (event) => (showTip(event, []), change({ hover: null })));
    on("dblclick", (event, x, y) => this.double(x, y));
    on("wheel", (event, x, y) => {
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * 0.004), x, y);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(-event.deltaX, 0);
      else return; // the page scrolls
      event.preventDefault();
    });
    on("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in this.keys)) return;
      event.preventDefault();
      this.keys[event.key]();
    });
  }

  /** What keys, and the buttons for them, stand for. */
  keys = {
    ArrowLeft: () => this.pan(60, 0),
    ArrowRight: () => this.pan(-60, 0),
    ArrowUp: () => this.pan(0, 60),
    ArrowDown: () => this.pan(0, -60),
    "+": () => this.zoom(1.5, this.width / 2, this.height / 2),
    "-": () => this.zoom(1 / 1.5, this.width / 2, this.height / 2),
    0: () => this.fit(),
    ",": () => this.step(-1),
    ".": () => this.step(1),
  };

  double(x, y) {
    this.zoom(2, x, y);
  }

  hover() {}
  click() {}
  step() {}
}

function line(pen, x1, y1, x2, y2, colour, width = 1, dashes = []) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dashes);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
  pen.setLineDash([]);
}

/** A path from left to right. */
function curve(pen, x1, y1, x2, y2, least) {
  const bend = Math.max(least, Math.abs(x2 - x1) / 2);
  pen.moveTo(x1, y1);
  pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
}

/** Writes a text so that x is its left end, or its right end if align is 1; it stays between two limits. */
function write(pen, text, x, y, colour, { size = 11.5, weight = 400, align = 0, low = -Infinity, high = Infinity } = {}) {
  pen.font = FONT(size, weight);
  pen.fillStyle = colour;
  const wide = pen.measureText(text).width;
  const left = clamp(x - align * wide, low, Math.max(low, high - wide));
  pen.fillText(text, left, y + 0.5);
  return left + wide;
}

function fill(pen, colour, left, top, wide, tall) {
  pen.fillStyle = colour;
  pen.fillRect(left, top, wide, tall);
}

/** A frame around what is chosen. */
function outline(pen, left, top, wide, tall, colour = hues.ink, width = 2) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.strokeRect(left, top, wide, tall);
}

/** The end of a name says more than its beginning, so that is what stays of a long one. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText("…" + text.slice(-middle)).width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 4 ? "" : "…" + text.slice(-low);
}

/** A text inside a box, if there is room for a part of it. */
function inside(pen, text, left, top, wide, tall, ground) {
  if (wide < 30 || tall < 13) return;
  pen.font = FONT(10.5);
  write(pen, fitted(pen, text.replace(/_output_0$/, ""), wide - 8), left + 4, top + tall / 2, inkOn(ground), { size: 10.5 });
}

function showTip(event, lines) {
  const tip = byId("tip");
  tip.hidden = !lines.length;
  if (tip.hidden) return;
  tip.replaceChildren(...lines.filter(Boolean).map((text, k) => el(k ? "span" : "b", {}, text)));
  tip.style.left = clamp(event.clientX + 14, 4, innerWidth - tip.offsetWidth - 4) + "px";
  tip.style.top = clamp(event.clientY + 18, 4, innerHeight - tip.offsetHeight - 4) + "px";
}

/** A view with time from left to right; all of these show the same part of it. */
class TimeView extends View {
  constructor(id) {
    super(id, ["window", "hover", "shown", "operator", "storage", "activity", "moment", "path"]);
  }

  get gutter() {
    return this.narrow ? 0 : 124;
  }

  x(time) {
    const [first, last] = state.window;
    return this.gutter + ((time - first) / (last - first)) * (this.width - this.gutter);
  }

  /** The ends of a bar, as far as they can be seen. */
  ends(start, end) {
    return [Math.max(this.x(start), this.gutter - 2), Math.min(this.x(end), this.width + 2)];
  }

  time(x) {
    const [first, last] = state.window;
    return first + ((x - this.gutter) / (this.width - this.gutter)) * (last - first);
  }

  zoom(factor, x) {
    const [first, last] = state.window;
    const middle = clamp(this.time(x), first, last);
    showTime(middle - (middle - first) / factor, middle + (last - middle) / factor);
  }

  pan(dx) {
    const by = this.time(this.gutter) - this.time(this.gutter + dx);
    showTime(...state.window.map((end) => end + by));
  }

  fit() {
    showTime(...state.span);
  }

  /** Grid lines and the numbers below them. */
  axis(pen, top, bottom) {
    let free = 0;
    for (const [time, text] of scaleTicks(...state.window, (this.width - this.gutter) / 110, data.time)) {
      if (data.steps && !Number.isInteger(time)) continue;
      const x = this.x(time);
      line(pen, x, top, x, bottom, hues.line);
      if (x < free) continue;
      free = 40 + write(pen, text, x, bottom + AXIS / 2, hues.muted, { align: 0.5, low: this.gutter, high: this.width - 2 });
    }
  }

  /** Paints within the part of the view that shows time, and the moments pointed at or chosen above it. */
  clipped(pen, top, bottom, paint) {
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, top, this.width - this.gutter, bottom - top);
    pen.clip();
    paint();
    if (state.hover !== null) line(pen, this.x(state.hover), top, this.x(state.hover), bottom, hues.muted);
    if (state.moment) line(pen, this.x(state.moment.time), top, this.x(state.moment.time), bottom, hues.mark, 1.5);
    pen.restore();
  }

  /** The name of a row: beside it, or above it where the view is narrow. */
  name(pen, title, note, y, height) {
    pen.font = FONT(12.5, 600);
    const text = fitted(pen, title, this.narrow ? this.width * 0.6 : this.gutter - 10);
    const [at, below] = this.narrow ? [y - 9, y - 9] : note ? [y + height / 2 - 8, y + height / 2 + 8] : [y + height / 2, 0];
    const end = write(pen, text, 0, at, hues.ink, { size: 12.5, weight: 600 });
    if (note) write(pen, note, this.narrow ? end + 10 : 0, below, hues.muted);
  }

  /** A text on a patch of the background, kept within the view. */
  label(pen, text, x, y) {
    pen.font = FONT(11.5, 600);
    const wide = pen.measureText(text).width;
    const left = clamp(x, this.gutter + 2, this.width - wide - 6);
    fill(pen, hues.surface + "dd", left - 3, y - 9, wide + 6, 18);
    write(pen, text, left, y, hues.ink, { weight: 600 });
  }

  hoverTime(x) {
    change({ hover: x >= this.gutter ? this.time(x) : null });
  }
}

/** Views of bytes over time: one panel for each resource, with a scale. */
class ByteView extends TimeView {
  /** Stands the panels one below the other; each is { plan, resource, several }. */
  stack(panels, alone, together) {
    const height = panels.length > 1 ? together : this.narrow ? alone * 0.8 : alone;
    const above = this.narrow && panels.length > 1 ? 24 : 12;
    this.panels = panels.map((panel, k) => ({ ...panel, height, y: above + k * (height + above) }));
    return panels.length * (height + above) + AXIS;
  }

  y(panel, bytes) {
    return panel.y + panel.height * (1 - bytes / panel.top);
  }

  paint(pen) {
    this.axis(pen, this.panels[0].y, this.panels.at(-1).y + this.panels.at(-1).height);
    for (const panel of this.panels) {
      panel.top = 1.12 * this.highest(panel);
      const marks = scaleTicks(0, panel.top, panel.height / 46, "bytes");
      for (const [bytes] of marks) line(pen, this.gutter, this.y(panel, bytes), this.width, this.y(panel, bytes), hues.line);
      this.clipped(pen, panel.y, panel.y + panel.height, () => this.paintPanel(pen, panel));
      if (panel.title) this.name(pen, panel.title, "", panel.y, 20);
      for (const [bytes, text] of marks) {
        const y = this.y(panel, bytes);
        if (y < panel.y + (panel.title && !this.narrow ? 26 : 8)) continue;
        if (this.narrow) bytes && this.label(pen, text, 2, y);
        else write(pen, text, this.gutter - 8, Math.min(y, panel.y + panel.height - 6), hues.muted, { align: 1 });
      }
      this.paintLabels(pen, panel);
    }
  }

  across(pen, panel, bytes, colour, width, dashes) {
    line(pen, this.gutter, this.y(panel, bytes), this.width, this.y(panel, bytes), colour, width, dashes);
  }

  /** What is proved of the bytes. */
  paintBound(pen, panel) {
    if (data.holds !== null) this.across(pen, panel, data.holds, hues.ink, 1.5, [7, 4]);
  }

  panelAt(x, y) {
    return x < this.gutter ? undefined : this.panels.find((panel) => y >= panel.y && y <= panel.y + panel.height);
  }
}

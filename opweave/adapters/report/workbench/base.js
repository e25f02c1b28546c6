// Elements, numbers as people read them, hues, and the data of the page.

/** Makes an element. Texts become text nodes, so that no name is ever read as HTML. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value);
  }
  made.append(...children.flat(9).filter((child) => child !== ""));
  return made;
}

const byId = (name) => document.getElementById(name);
const most = (values, least = 0) => values.reduce((high, value) => Math.max(high, value), least);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A list for every key. */
class Lists extends Map {
  of(key) {
    return this.get(key) ?? [];
  }

  add(key, value) {
    if (!this.has(key)) this.set(key, []);
    this.get(key).push(value);
  }
}

/** Reads the compressed JSON that stands in the page. */
async function unpack() {
  const bytes = Uint8Array.from(atob(byId("data").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Values from their differences; data.py writes them so because they compress better. */
function sums(steps) {
  let sum = 0;
  return Float64Array.from(steps, (step) => (sum += step));
}

// ---- numbers: a unit never stands on another line than its number, and digits are those of the library

const SPACE = "\u00a0";
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const TIME_UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const formats = Array.from({ length: 13 }, (_, places) => new Intl.NumberFormat("en-US", { maximumFractionDigits: places, roundingMode: "halfEven" }));

const digits = (value, places = 0) => formats[places].format(value);
const byteUnit = (size) => clamp(Math.floor(Math.log2(Math.max(1, Math.abs(size))) / 10 + 1e-12), 0, 5);
const timeUnit = (seconds) => TIME_UNITS.find(([scale]) => Math.abs(seconds) >= scale * (1 - 1e-6)) ?? TIME_UNITS[3];

function bytesText(size) {
  const unit = byteUnit(size);
  const value = size / 1024 ** unit;
  return digits(value, unit === 0 || value >= 1000 ? 0 : value >= 100 ? 1 : 2) + SPACE + BYTE_UNITS[unit];
}

function secondsText(seconds) {
  if (seconds === 0) return "0" + SPACE + "s";
  const [scale, unit] = timeUnit(seconds);
  return digits(seconds / scale, clamp(3 - Math.floor(Math.log10(Math.abs(seconds / scale))), 0, 6)) + SPACE + unit;
}

/** A moment: seconds, the number of a step, or whatever unit lifetimes have. */
const momentText = (time) =>
  data.time === "seconds" ? secondsText(time) : data.steps ? "step" + SPACE + digits(Math.floor(time)) : digits(time, 3);
const shareText = (share) => digits(100 * share, share >= 0.01 ? 1 : 3) + SPACE + "%";
const countText = (count, noun) => digits(count) + SPACE + noun + (count === 1 ? "" : "s");

/** Round values of an axis with their texts, about as many as asked for, all in the unit of the largest. */
function scaleTicks(low, high, count, unit) {
  const power = byteUnit(high);
  const [size, name] = unit === "bytes" ? [1024 ** power, BYTE_UNITS[power]] : unit === "seconds" ? timeUnit(high) : [1, ""];
  const rough = (high - low) / size / Math.max(1, count) || 1;
  const ten = Math.floor(Math.log10(rough));
  const step = 10 ** ten * ([1, 2, 5].find((each) => each * 10 ** ten >= rough) ?? 10);
  const found = [];
  for (let k = Math.ceil(low / size / step); k * step * size <= high * (1 + 1e-12); k++) {
    found.push([k * step * size, digits(k * step, clamp(-ten, 0, 12)) + (name && SPACE + name)]);
  }
  return found;
}

// ---- hues: a device has the same one in every view, and none has that of a mark

const hues = {};

/** Reads the theme's hues; canvases do not follow style sheets. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["surface", "raised", "line", "ink", "muted", "accent", "mark", "neutral"];
  for (const name of [...names, 1, 2, 3, 4, 5, 6]) {
    hues[name] = style.getPropertyValue((name > 0 ? "--device-" : "--") + name).trim();
  }
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** A mixture of a colour with the background; share 1 is the colour. */
function tint(colour, share) {
  const ground = rgb(hues.surface);
  return "#" + rgb(colour).map((part, k) => Math.round(part * share + ground[k] * (1 - share)).toString(16).padStart(2, "0")).join("");
}

const deviceColour = (row) => tint(hues[(row % 6) + 1], row % 12 < 6 ? 1 : 0.5);

/** Black or white, whichever can be read on a colour. */
function inkOn(colour) {
  const [red, green, blue] = rgb(colour);
  return 0.3 * red + 0.6 * green + 0.1 * blue > 120 ? "#101418" : "#ffffff";
}

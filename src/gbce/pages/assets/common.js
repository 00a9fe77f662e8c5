// What the pages of gbce share. Joined with a page's own file to one ES module; nothing here is fetched.
// Texts of users (names of columns, levels, models) are only ever shown as text nodes.

const SVG = "http://www.w3.org/2000/svg";
const ENOUGH_DRAWS = 100; // as gbce._numerics.ENOUGH_ESS
const MOSTLY = 0.5; // share of draws that reach the target, as gbce.metrics.MOSTLY
const CUMULATIVE_ROUNDING = 1e-12; // as in gbce._numerics.weighted_quantile

// --- data ------------------------------------------------------------------------------------------------------

function readPayload(id = "data") {
  return JSON.parse(document.getElementById(id).textContent);
}

const ARRAYS = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

// What gbce.pages.pack_array wrote, as a typed array. All machines that run browsers are little-endian.
function unpackArray(packed) {
  if (packed.apart) { // values that single precision would not keep
    const all = Float64Array.from(unpackArray({ ...packed, apart: undefined }));
    packed.apart.at.forEach((i, k) => { all[i] = packed.apart.values[k]; });
    return all;
  }
  if (packed.type === "rest") { // values that differ from the base, and a bit for each value that tells whether it does
    const rest = unpackArray(packed.values), bits = decodeBytes(packed.where);
    const all = new Float64Array(packed.n).fill(packed.values.type === "f4" ? Math.fround(packed.base) : packed.base);
    for (let i = 0, k = 0; i < packed.n; i++) if (bits[i >> 3] >> (i & 7) & 1) all[i] = rest[k++];
    return all;
  }
  if (packed.type === "one") return new Float64Array(packed.n).fill(packed.data);
  return new ARRAYS[packed.type](decodeBytes(packed.data).buffer);
}

function decodeBytes(packed) {
  const text = atob(packed), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// --- numbers as texts ------------------------------------------------------------------------------------------

function groupThousands(text) {
  const [, sign, whole, rest] = /^(-?)(\d+)(.*)$/.exec(text);
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + rest;
}

function generalText(value, digits) { // Python's "g"
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent < -4 || exponent >= digits) {
    let [mantissa, power] = value.toExponential(digits - 1).split("e");
    if (mantissa.includes(".")) mantissa = mantissa.replace(/\.?0+$/, "");
    const size = Math.abs(Number(power));
    return `${mantissa}e${Number(power) < 0 ? "-" : "+"}${size < 10 ? "0" : ""}${size}`;
  }
  const text = value.toFixed(Math.max(digits - 1 - exponent, 0));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// As gbce.explanation.number_text: at most so many digits, thousands set apart, whole numbers in full.
function numberText(value, digits = 6) {
  const size = Math.abs(value);
  if (value === 0 || !Number.isFinite(value) || size < 1e-4 || size >= 1e15) return generalText(value + 0, digits);
  if (Number.isInteger(value)) return groupThousands(value.toFixed(0));
  const before = Math.floor(Math.log10(size)) + 1;
  let text = value.toFixed(Math.max(digits - before, 0));
  if (text.includes(".")) text = text.replace(/\.?0+$/, "");
  return groupThousands(text === "-0" ? "0" : text);
}

function decimalText(value, decimals) {
  const power = 10 ** Math.max(-decimals, 0), rounded = Number((value / power).toFixed(Math.max(decimals, 0))) * power + 0;
  const text = rounded.toFixed(Math.max(decimals, 0));
  return groupThousands(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

// What follows a number: the unit after a blank, percent without one.
function unitText(unit) {
  return unit ? `${unit.startsWith("%") ? "" : " "}${unit}` : "";
}

function writtenNumber(text) {
  return Number(text.replaceAll(",", ""));
}

// As gbce.space.Space.format: a number with the decimals of its column where they are known. With `same`, which tells
// whether a written number stands for the value, as many as it takes: somebody will use this very number.
function columnNumber(value, { digits, scale }, same = null, most = 6) {
  if (digits === null || digits === undefined || !(Math.abs(value) < 1e15)) {
    let n = most;
    while (same && n < 17 && !same(writtenNumber(numberText(value, n)), value)) n++;
    return numberText(value, n);
  }
  const text = decimalText(value, digits);
  if (!same) {
    const vanishes = value !== 0 && writtenNumber(text) === 0 && Math.abs(value) > 1e-6 * scale;
    return vanishes ? numberText(value, 2) : text;
  }
  for (let n = digits; n <= 15; n++) if (same(writtenNumber(decimalText(value, n)), value)) return decimalText(value, n);
  return numberText(value, 17);
}

// As gbce.space: the fewer decimals of numbers are filled up with zeros, unless one has many or an exponent.
function withEqualDecimals(...texts) {
  const decimals = Math.max(...texts.map((text) => (text.split(".")[1] || "").length));
  if (decimals === 0 || decimals > 3 || texts.some((text) => /[en]/.test(text))) return texts;
  return texts.map((text) => text === "0" ? text : groupThousands(writtenNumber(text).toFixed(decimals)));
}

function shortNumber(value) {
  return value === null || Number.isNaN(value) ? "not known" : numberText(value, 4);
}

function percentText(share) {
  if (!Number.isFinite(share)) return "not known";
  const percent = 100 * share;
  if (percent > 0 && percent < 0.5) return "less than 1%";
  if (percent < 100 && percent > 99.5) return "more than 99%";
  return `${percent.toFixed(0)}%`;
}

// A share as a count in 100, rounded down as gbce.Share.in_hundred does: of trials never 100, of sums with a decimal.
function hundredText(share, exact = false) {
  if (exact && share > 0 && share < 0.001) return "fewer than 0.1";
  if (exact && share < 1 && share > 0.999) return "more than 99.9";
  if (exact) return String(Math.floor(1000 * share + 1e-9) / 10);
  const count = Math.floor(100 * share + 1e-9);
  return count >= 100 ? "more than 99" : String(count);
}

function ofHundred(share, exact = false) {
  return `${hundredText(share, exact)} of 100`;
}

// The same as a percentage: 98.5% is not shown as 99%.
function holdsText(share) {
  return Number.isFinite(share) ? `${hundredText(share)}%` : "not known";
}

function plural(n, word, more = `${word}s`) {
  return `${numberText(n)} ${n === 1 ? word : more}`;
}

function joinWords(parts, last = "and") {
  if (parts.length < 2) return parts.join("");
  return `${parts.slice(0, -1).join(", ")} ${last} ${parts[parts.length - 1]}`;
}

function capitalise(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function shorten(text, most) {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// --- texts for other programs ----------------------------------------------------------------------------------

function csvText(lines) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return lines.map((line) => line.map(cell).join(",")).join("\r\n");
}

// A value as Python reads it: what a person copies must mean the same there, whatever a column is called.
function pythonText(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([key, one]) => `${pythonText(key)}: ${pythonText(one)}`).join(", ")}}`;
  }
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  const written = Array.from(value, (letter) => {
    const code = letter.codePointAt(0);
    if (letter === "\\" || letter === quote) return `\\${letter}`;
    if (letter === "\n") return "\\n";
    if (letter === "\r") return "\\r";
    if (letter === "\t") return "\\t";
    if (code < 32 || code === 127) return `\\x${code.toString(16).padStart(2, "0")}`;
    if ((code >= 0xd800 && code < 0xe000) || code === 0x2028 || code === 0x2029) return `\\u${code.toString(16)}`;
    return letter;
  });
  return quote + written.join("") + quote;
}

// --- elements --------------------------------------------------------------------------------------------------

// An element with attributes and children; texts become text nodes. `on` holds listeners by event.
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

// A table: heads are texts, lines are arrays of texts or nodes; the first cell of a line is its head.
function makeTable(caption, heads, lines, attributes = {}) {
  return make(
    "table", attributes,
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, lines.map((line) => make(
      "tr", {}, line.map((cell, k) => (k === 0 ? make("th", { scope: "row" }, cell) : make("td", {}, cell))),
    ))),
  );
}

// A region that scrolls sideways where a table is wider than the page, and says so there.
function scrollBox(label, ...children) {
  const box = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, children);
  const look = () => box.toggleAttribute("data-more", box.scrollWidth > box.clientWidth + 1);
  const watch = new ResizeObserver(look);
  watch.observe(box);
  for (const child of box.children) watch.observe(child);
  return box;
}

// A button that shows a text to copy, copies it where the browser allows, and says which of the two has happened.
function offerCopy(what, text) {
  const box = byId("copy");
  setText(byId("copy-title"), what);
  const area = byId("copy-text");
  area.value = text;
  const said = byId("copy-said");
  setText(said, "Select the text and copy it.");
  if (!box.open) box.showModal();
  area.focus();
  area.select();
  if (navigator.clipboard) {
    navigator.clipboard.writeText(text).then(
      () => setText(said, "Copied."),
      () => setText(said, "Your browser does not let this page copy. The text is selected: press Ctrl+C (or ⌘C)."),
    );
  }
}

function copyDialog() {
  return make(
    "dialog", { id: "copy", "aria-labelledby": "copy-title" },
    make("h2", { id: "copy-title" }),
    make("textarea", { id: "copy-text", rows: 12, readonly: true, "aria-label": "text to copy", spellcheck: "false" }),
    make("p", { id: "copy-said", role: "status" }),
    make("form", { method: "dialog" }, make("button", {}, "Close")),
  );
}

// Light, dark, or as the system has it.
function themeButton() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"))
    === "dark";
  const button = make("button", { type: "button", id: "theme", class: "quiet" });
  const label = () => setText(button, isDark() ? "Light colours" : "Dark colours");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  label();
  return button;
}

// --- weights ---------------------------------------------------------------------------------------------------

// Weights that sum to one, and how many points of equal weight they are worth; null where every point has weight zero.
function normalise(logWeights) {
  let most = -Infinity;
  for (const one of logWeights) if (one > most) most = one;
  if (!Number.isFinite(most)) return null;
  const weights = new Float64Array(logWeights.length);
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i] = Math.exp(logWeights[i] - most);
  let squares = 0;
  for (let i = 0; i < weights.length; i++) {
    weights[i] /= total;
    squares += weights[i] * weights[i];
  }
  return { weights, effective: 1 / squares };
}

// Positions of the first n values, from the smallest value up; missing ones come last.
function sortedOrder(values, n = values.length) {
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  const rank = (value) => (value === value ? value : Infinity);
  return order.sort((a, b) => rank(values[a]) - rank(values[b]) || a - b);
}

// Smallest value with at least the share q of the weights at or below it, for each of rising qs; NaN where none weighs.
// Values that are missing (NaN) are left out.
function weightedQuantiles(values, order, weights, qs) {
  let total = 0;
  for (let i = 0; i < weights.length; i++) if (values[i] === values[i]) total += weights[i];
  const found = new Array(qs.length).fill(NaN);
  if (!(total > 0)) return found;
  let sum = 0, k = 0, last = NaN;
  for (const i of order) {
    if (values[i] !== values[i] || weights[i] === 0) continue;
    sum += weights[i];
    last = values[i];
    while (k < qs.length && sum >= qs[k] * total - CUMULATIVE_ROUNDING) found[k++] = last;
    if (k === qs.length) return found;
  }
  while (k < qs.length) found[k++] = last;
  return found;
}

function weightedMean(values, weights) {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) if (weights[i] > 0) sum += weights[i] * values[i];
  return sum;
}

// --- pictures --------------------------------------------------------------------------------------------------

function linearScale(domain, range) {
  const [a, b] = domain[0] === domain[1] ? [domain[0] - 0.5, domain[1] + 0.5] : domain;
  const scale = (value) => range[0] + (value - a) / (b - a) * (range[1] - range[0]);
  scale.domain = [a, b];
  return scale;
}

// Round numbers between two ends, about so many.
function ticksOf(low, high, about = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(k * step + 0);
  return ticks;
}

function tickText(value) {
  return generalText(Number(value.toPrecision(12)), 12).replace(/^(-?\d{5,})$/, groupThousands);
}

// An SVG of so many units that scales to the width of its place; its title is what a screen reader says of it.
function makePicture(width, height, title, attributes = {}) {
  return draw(
    "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, class: "picture", ...attributes },
  );
}

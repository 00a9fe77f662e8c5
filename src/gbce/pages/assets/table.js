// The page of a table: all rows of a run, what they are advised, and groups of them side by side.
// Joined after common.js to one ES module. Names, levels and labels are only ever shown as text nodes.

const P = readPayload();
const N = P.n;
const LINES = P.lines; // rows on display before somebody asks for more
const FEATURES_SHOWN = 12;
const MOST_WORDS = 4; // changes that a line of the list names
const ANSWER = 0; // position of the answer among the rules
const EXACT = 1e-5; // width of an interval below which a reliability was summed, not tried

const words = Object.fromEntries(
  Object.entries(P.words).map(([name, one]) => [name, { texts: one.texts, at: unpackArray(one.at) }]),
);
const figures = Object.fromEntries(Object.entries(P.figures).map(([name, one]) => [name, unpackArray(one)]));
const decisions = Object.fromEntries(Object.entries(P.decisions).map(([name, one]) => [name, unpackArray(one)]));
const features = P.features.map((one) => ({ ...one, values: unpackArray(one.values), new: unpackArray(one.new) }));
const changes = Object.fromEntries(Object.entries(P.changes).map(([name, one]) => [name, unpackArray(one)]));
const starts = new Uint32Array(changes.count.length + 1);
changes.count.forEach((count, k) => { starts[k + 1] = starts[k] + count; });
const newAt = new Uint32Array(changes.feature.length); // of each change, its place among the new values of its column
{
  const next = new Uint32Array(features.length);
  changes.feature.forEach((j, k) => { newAt[k] = next[j]++; });
}
const decisionsOf = Array.from({ length: N }, () => []);
decisions.row.forEach((row, k) => decisionsOf[row].push(k));

const wordOf = (name, row) => words[name].texts[words[name].at[row]];

// --- values and changes -----------------------------------------------------------------------------------------

// A value that a row has, or with `exact` one that somebody is told to change it to.
const isSame = (written, value) => written === value || (Math.fround(value) === value && Math.fround(written) === value);

function valueText(j, value, exact = false) {
  const feature = features[j];
  if (feature.kind === "number") return Number.isNaN(value) ? "missing" : columnNumber(value, feature, exact ? isSame : null);
  return value < 0 ? "missing" : feature.levels[value];
}

function moveText(j, from, to) {
  const texts = [valueText(j, from), valueText(j, to, true)];
  return (features[j].kind === "number" ? withEqualDecimals(...texts) : texts).join(" → ");
}

const isMissing = (j, value) => (features[j].kind === "number" ? Number.isNaN(value) : value < 0);

// How far a column moves, in units of its scale: with a sign where it has an order.
function unitsOf(j, from, to) {
  const feature = features[j];
  if (isMissing(j, from) || isMissing(j, to)) return feature.kind === "level" && !feature.ordered ? 1 / feature.scale : 1;
  if (feature.kind === "number") return (to - from) / feature.scale;
  return feature.ordered ? (feature.at[to] - feature.at[from]) / feature.scale : 1 / feature.scale;
}

const hasDirection = (j) => features[j].kind !== "level" || features[j].ordered;

// What a decision changes: columns with their values before and after.
function changesOf(decision) {
  const row = decisions.row[decision], found = [];
  for (let k = starts[decision]; k < starts[decision + 1]; k++) {
    const j = changes.feature[k], from = features[j].values[row], to = features[j].new[newAt[k]];
    found.push({ j, from, to, units: unitsOf(j, from, to) });
  }
  return found;
}

function decisionOf(row, rule) {
  const found = decisionsOf[row].find((k) => decisions.rule[k] === rule);
  return found === undefined ? -1 : found;
}

function sayChanges(decision, most = MOST_WORDS) {
  if (decision < 0) return "";
  const moved = changesOf(decision).filter((one) => !features[one.j].follows);
  if (!moved.length) return "nothing";
  const said = moved.slice(0, most)
    .map(({ j, from, to }) => `${features[j].name}: ${moveText(j, from, to)}`);
  const more = moved.length - said.length;
  return said.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

const nChanges = (decision) => changesOf(decision).filter((one) => !features[one.j].follows).length;

// --- columns: everything that can be sorted and filtered by -----------------------------------------------------

const firstRule = P.rules.findIndex((_, rule) => decisions.rule.some((one) => one === rule));
const state = {
  rule: Math.max(firstRule, 0), kinds: new Set(words.kind.texts), search: "", filters: [], changing: null, sort: "row",
  down: false, lines: LINES, open: new Set(), columns: [], allFeatures: false, grouping: 0,
};

const ofDecision = (figure) => (row) => {
  const decision = decisionOf(row, state.rule);
  return decision < 0 ? NaN : figure(decision);
};
const number = (id, name, get, text = shortNumber) => ({ id, name, kind: "number", get, text: (row) => text(get(row)) });
const level = (id, name, word) => ({
  id, name, kind: "level", levels: words[word].texts, get: (row) => words[word].at[row], text: (row) => wordOf(word, row),
});
const shareText = (value) => (Number.isNaN(value) ? "–" : holdsText(value));
const plainText = (value) => (Number.isNaN(value) ? "–" : shortNumber(value));

const COLUMNS = [
  { id: "row", name: "row", kind: "order", get: (row) => row, text: (row) => P.labels[row] },
  level("kind", "answer", "kind"),
  { id: "words", name: "what changes", kind: "none", get: () => 0, text: (row) => sayChanges(decisionOf(row, state.rule)) },
  number("n_changes", "changes", ofDecision(nChanges), plainText),
  number("cost", "cost", ofDecision((k) => decisions.cost[k]), plainText),
  number("output", "output", ofDecision((k) => decisions.output[k]), plainText),
  number("reliability", "works", (row) => figures.reliability[row], shareText),
  ...(figures.survival.some((one) => !Number.isNaN(one))
    ? [number("survival", "refits", (row) => figures.survival[row], shareText)] : []),
  level("sampling", "sampling", "sampling"),
  level("status", "status", "status"),
  ...Object.keys(P.titles).map((name) => number(name, P.titles[name], (row) => figures[name][row], plainText)),
  ...features.map((feature, j) => ({
    id: `x${j}`, name: feature.name, kind: feature.kind, levels: feature.levels, feature: j,
    get: (row) => (isMissing(j, feature.values[row]) ? NaN : feature.values[row]),
    text: (row) => valueText(j, feature.values[row]),
  })),
];
const columnOf = Object.fromEntries(COLUMNS.map((column) => [column.id, column]));
const ALWAYS = ["row", "kind", "words", "n_changes", "cost", "output", "reliability"];

// --- which rows are shown ---------------------------------------------------------------------------------------

function passes(filter, row) {
  const column = columnOf[filter.id], value = column.get(row);
  if (column.kind === "level") return filter.levels.has(Number.isNaN(value) ? -1 : value);
  if (column.kind === "moment") {
    if (!filter.low && !filter.high) return true;
    const text = Number.isNaN(value) ? "" : column.levels[value];
    return text !== "" && (!filter.low || text >= filter.low) && (!filter.high || text <= filter.high + "\uffff");
  }
  if (filter.low === "" && filter.high === "") return true;
  return (filter.low === "" || value >= Number(filter.low)) && (filter.high === "" || value <= Number(filter.high));
}

function matching() {
  const wanted = state.search.trim().toLowerCase();
  const rows = [];
  for (let row = 0; row < N; row++) {
    if (!state.kinds.has(wordOf("kind", row))) continue;
    if (!state.filters.every((filter) => passes(filter, row))) continue;
    const decision = decisionOf(row, state.rule);
    if (state.changing !== null && (decision < 0 || !changesOf(decision).some((one) => one.j === state.changing))) continue;
    if (wanted && !`${P.labels[row]} ${wordOf("sentence", row)} ${wordOf("error", row)} ${sayChanges(decision, Infinity)}`
      .toLowerCase().includes(wanted)) continue;
    rows.push(row);
  }
  const column = columnOf[state.sort], sign = state.down ? -1 : 1;
  const keys = column.kind === "level" && !(column.feature !== undefined && features[column.feature].ordered)
    ? (row) => column.text(row) : column.get;
  const key = new Map(rows.map((row) => [row, keys(row)]));
  const order = (a, b) => {
    const x = key.get(a), y = key.get(b);
    const [lost, other] = [Number.isNaN(x), Number.isNaN(y)];
    if (lost || other) return lost - other || a - b; // what is not known comes last either way
    return (x < y ? -sign : x > y ? sign : 0) || a - b;
  };
  return rows.sort(order);
}

function median(values) {
  const known = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  if (!known.length) return NaN;
  const half = known.length >> 1;
  return known.length % 2 ? known[half] : (known[half - 1] + known[half]) / 2;
}

// --- the summary ------------------------------------------------------------------------------------------------

const KIND_ORDER = [
  "reliable", "reaches", "attainable", "nothing to change", "already reached", "best seen", "not attained", "failed",
];
const KIND_WORDS = {
  reliable: "reaches the target as reliably as promised",
  reaches: "reaches the target",
  "nothing to change": "the row reaches the target as it is",
  "best seen": "no point was found that reaches the target; this is the best one",
  failed: "could not be explained; the line says why",
};
const kindClass = (kind) => `kind-${Math.max(KIND_ORDER.indexOf(kind), 0)}`;

function countKinds(rows) {
  const counts = new Map([...words.kind.texts].sort((a, b) => KIND_ORDER.indexOf(a) - KIND_ORDER.indexOf(b))
    .map((kind) => [kind, 0]));
  for (const row of rows) counts.set(wordOf("kind", row), counts.get(wordOf("kind", row)) + 1);
  return counts;
}

function makeSummary() {
  const all = Array.from({ length: N }, (_, row) => row);
  const counts = countKinds(all);
  const bar = make("div", { class: "kinds-bar", "aria-hidden": "true" });
  const chips = make("div", { class: "chips no-print", role: "group", "aria-label": "answers to show" });
  for (const [kind, count] of counts) {
    const part = make("span", { class: kindClass(kind) });
    part.style.flexGrow = String(count);
    bar.append(part);
    chips.append(make(
      "button", {
        type: "button", "data-kind": kind, "aria-pressed": "true", title: KIND_WORDS[kind] ?? "",
        on: { click: () => { toggle(state.kinds, kind); update(); } },
      },
      make("span", { class: `dot ${kindClass(kind)}`, "aria-hidden": "true" }), `${kind} `,
      make("b", {}, numberText(count)),
    ));
  }
  const said = [...counts].map(([kind, count]) => `${numberText(count)} ${kind}`);
  return make(
    "section", { id: "summary", "aria-labelledby": "summary-title" },
    make("h2", { id: "summary-title" }, `${plural(N, "row")}${P.target ? `, wanted: ${P.target}` : ""}`),
    make("p", {}, `${capitalise(joinWords(said))}.`),
    bar, chips, make("dl", { id: "tiles", class: "tiles" }),
    glossary(["target", "unit", "cost", "distance", "works", "small errors of execution", "refits", "output", "loss", "rule"],
      { target: P.target ? `Here: ${P.target}.` : "", "small errors of execution": "To simulate them, every number that "
        + "may change was shifted at random, by default by a tenth of a unit, and tested on the model." }),
  );
}

function toggle(set, value) {
  if (set.has(value)) set.delete(value);
  else set.add(value);
}

function updateSummary(rows) {
  for (const chip of document.querySelectorAll("[data-kind]")) {
    chip.setAttribute("aria-pressed", String(state.kinds.has(chip.dataset.kind)));
  }
  const chosen = rows.map((row) => decisionOf(row, state.rule)).filter((k) => k >= 0 && nChanges(k) > 0);
  const tiles = [
    ["rows shown", numberText(rows.length)],
    ["median cost, in units", plainText(median(chosen.map((k) => decisions.cost[k])))],
    ["columns to change, median", plainText(median(chosen.map(nChanges)))],
    ["reach the target", chosen.length
      ? percentText(chosen.filter((k) => decisions.reached[k] === 1).length / chosen.length) : "–"],
    ["works, median", shareText(median(rows.map((row) => figures.reliability[row])))],
  ];
  byId("tiles").replaceChildren(...tiles.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

// --- what changes: the whole table as one picture ---------------------------------------------------------------

function makeChanges() {
  const known = P.rules.map((_, rule) => rule).filter((rule) => decisions.rule.some((one) => one === rule));
  const choice = make(
    "select", { id: "rule", on: { change: (event) => { state.rule = Number(event.target.value); update(); } } },
    known.map((rule) => make("option", { value: rule, selected: rule === state.rule }, P.rules[rule])),
  );
  return make(
    "section", { id: "changes", "aria-labelledby": "changes-title" },
    make("h2", { id: "changes-title" }, "What changes"),
    make("p", { class: "soft" }, "How often and how far each column changes, in units. One dot per row (a density "
      + "curve for many rows); the line is the median; right = increase. (One unit is about as much as rows usually differ in "
      + "the column.) Press a column to see its rows only."),
    make("p", { class: "no-print" }, make("label", { for: "rule" }, "Decision "), choice),
    make("ol", { id: "moves", class: "moves" }),
    make("div", { id: "moves-axis", class: "moves moves-axis", "aria-hidden": "true" }),
    make("p", { class: "no-print" }, make("button", {
      type: "button", id: "all-features", on: { click: () => { state.allFeatures = !state.allFeatures; update(); } },
    })),
  );
}

function collectMoves(rows) {
  const moved = new Map();
  let decided = 0;
  for (const row of rows) {
    const decision = decisionOf(row, state.rule);
    if (decision < 0) continue;
    decided++;
    for (const one of changesOf(decision)) {
      if (!moved.has(one.j)) moved.set(one.j, { j: one.j, units: [], by: [], to: new Map() });
      const entry = moved.get(one.j);
      entry.units.push(one.units);
      entry.by.push(features[one.j].kind === "number" ? one.to - one.from : NaN);
      const target = valueText(one.j, one.to);
      entry.to.set(target, (entry.to.get(target) ?? 0) + 1);
    }
  }
  return { decided, moved: [...moved.values()].sort((a, b) => b.units.length - a.units.length || a.j - b.j) };
}

// How a column changes, in words.
function sayMove({ j, units, by, to }) {
  const n = units.length;
  if (!hasDirection(j)) {
    const [first, count] = [...to].sort((a, b) => b[1] - a[1])[0];
    return `to ${first}${count === n ? "" : ` in ${count} of ${n}`}`;
  }
  const up = units.filter((one) => one > 0).length;
  const way = up === n ? "raised" : up === 0 ? "lowered" : `raised in ${up}, lowered in ${n - up}`;
  const middle = median(by);
  if (Number.isNaN(middle)) return `${way}; median ${signed(median(units))} units`;
  return `${way}; median ${signed(middle)}${unitText(features[j].unit)}`;
}

const signed = (value) => (value > 0 ? `+${shortNumber(value)}` : shortNumber(value).replace("-", "−"));

const STRIP = { width: 420, height: 40, bin: 6, radius: 2.2 };

function drawStrip(units, most) {
  const { width, height, bin, radius } = STRIP, middle = height / 2;
  const scale = linearScale([-most, most], [radius + 1, width - radius - 1]);
  const bins = new Map();
  for (const value of units) {
    const at = Math.round(scale(Math.max(-most, Math.min(most, value))) / bin);
    bins.set(at, (bins.get(at) ?? 0) + 1);
  }
  const tallest = Math.max(...bins.values());
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "strip", "aria-hidden": "true" });
  picture.append(draw("line", { x1: scale(0), x2: scale(0), y1: 0, y2: height, class: "axis" }));
  if (tallest * 2 * radius <= height) {
    for (const [at, count] of bins) {
      for (let k = 0; k < count; k++) {
        picture.append(draw("circle", {
          cx: at * bin, cy: middle + (k % 2 ? 1 : -1) * Math.ceil(k / 2) * 2 * radius, r: radius, class: "mark",
        }));
      }
    }
  } else {
    for (const [at, count] of bins) {
      const half = Math.max(0.75, middle * count / tallest);
      picture.append(draw("rect", { x: at * bin - bin / 2, y: middle - half, width: bin, height: 2 * half, class: "mark" }));
    }
  }
  const typical = median(units);
  picture.append(draw("line", {
    x1: scale(Math.max(-most, Math.min(most, typical))), x2: scale(Math.max(-most, Math.min(most, typical))), y1: 2,
    y2: height - 2, class: "typical",
  }));
  return picture;
}

// Most units that the strips show: nearly all changes, so that one far out does not flatten the others.
function reachOf(moved) {
  const sizes = moved.filter((one) => hasDirection(one.j)).flatMap((one) => one.units.map(Math.abs)).sort((a, b) => a - b);
  if (!sizes.length) return 1;
  const most = sizes[Math.min(sizes.length - 1, Math.ceil(0.99 * sizes.length))];
  return most > 0 ? most * 1.05 : 1;
}

function updateChanges(rows) {
  const { decided, moved } = collectMoves(rows);
  const shown = state.allFeatures ? moved : moved.slice(0, FEATURES_SHOWN);
  const most = reachOf(shown);
  const lines = shown.map((one) => {
    const share = one.units.length / decided, bar = make("span", { class: "bar-fill" });
    bar.style.width = `${100 * share}%`;
    const pressed = state.changing === one.j;
    return make(
      "li", { "data-feature": features[one.j].name },
      make("button", {
        type: "button", class: "name quiet", "aria-pressed": String(pressed),
        on: { click: () => { state.changing = pressed ? null : one.j; update(); } },
      }, features[one.j].name),
      make("span", { class: "share" }, make("span", { class: "bar", "aria-hidden": "true" }, bar),
        make("span", { class: "share-text" }, `${percentText(share)} (${numberText(one.units.length)})`)),
      make("span", { class: "strip-place" }, hasDirection(one.j) ? drawStrip(one.units, most) : drawLevels(one)),
      make("span", { class: "said soft" }, sayMove(one)),
    );
  });
  if (!lines.length) {
    lines.push(make("li", { class: "none" }, decided ? "Nothing is changed in the rows shown." : "No row shown has a decision."));
  }
  byId("moves").replaceChildren(...lines);
  const axis = draw("svg", { viewBox: `0 0 ${STRIP.width} 16`, class: "strip strip-axis" });
  const scale = linearScale([-most, most], [STRIP.radius + 1, STRIP.width - STRIP.radius - 1]);
  for (const tick of ticksOf(-most, most, 5)) {
    const at = scale(tick), anchor = at < 30 ? "start" : at > STRIP.width - 30 ? "end" : "middle";
    axis.append(draw("text", { x: at, y: 12, "text-anchor": anchor }, signed(tick)));
  }
  byId("moves-axis").replaceChildren(
    make("span"), make("span"), make("span", { class: "strip-place" }, axis), make("span", { class: "said soft" }, "units"),
  );
  byId("moves-axis").hidden = !shown.some((one) => hasDirection(one.j));
  const button = byId("all-features");
  button.hidden = moved.length <= FEATURES_SHOWN;
  setText(button, state.allFeatures ? `Show the first ${FEATURES_SHOWN}` : `Show all ${moved.length} columns that change`);
}

// The levels that a category is changed to, as parts of one bar.
function drawLevels({ to, units }) {
  const bar = make("span", { class: "levels" });
  const sorted = [...to].sort((a, b) => b[1] - a[1]);
  const listed = sorted.slice(0, 4);
  const rest = sorted.slice(4).reduce((sum, [, count]) => sum + count, 0);
  if (rest) listed.push([`${sorted.length - 4} more`, rest]);
  for (const [text, count] of listed) {
    const part = make("span", { title: `${text}: ${count}` }, shorten(text, 18));
    part.style.flexGrow = String(count / units.length);
    bar.append(part);
  }
  return bar;
}

// --- groups side by side ----------------------------------------------------------------------------------------

function makeGroups() {
  if (!P.groups.length) return null;
  return make(
    "section", { id: "groups", "aria-labelledby": "groups-title" },
    make("h2", { id: "groups-title" }, "Groups side by side"),
    make("p", { class: "soft" }, "All rows, regardless of the filters below. 95% bootstrap intervals over rows. Do not "
      + "read a difference into intervals that overlap widely."),
    make("p", { class: "no-print" }, make("label", { for: "grouping" }, "Groups by "), make(
      "select", { id: "grouping", on: { change: (event) => { state.grouping = Number(event.target.value); updateGroups(); } } },
      P.groups.map((one, k) => make("option", { value: k }, one.name)),
    )),
    make("div", { id: "group-tables" }),
  );
}

function drawInterval(line, name, most, least = 0) {
  const [value, low, high] = [line[name], line[`${name}_low`] ?? line.low, line[`${name}_high`] ?? line.high];
  if (value === null) return "";
  return intervalMark(value, low, high, least, most);
}

const onlyRead = (text) => make("span", { class: "only-read" }, text);
const threeDigits = (value) => numberText(value, 3);
const spanText = (value, low, high, text) => {
  if (value === null) return "–";
  return low === null || low === undefined ? text(value) : `${text(value)} (${text(low)} to ${text(high)})`;
};

function updateGroups() {
  if (!P.groups.length) return;
  const chosen = P.groups[state.grouping];
  const dearest = Math.max(...chosen.lines.map((line) => line.cost_high ?? line.cost ?? 0), 1e-9);
  const costs = makeTable(
    `${chosen.name}: how many can reach the target, and the ${chosen.cost} where they can`,
    ["group", "rows", "reach the target", onlyRead("its interval"), chosen.cost, onlyRead("its interval")],
    chosen.lines.map((line, k) => [
      chosen.groups[k],
      numberText(line.rows) + (line.already ? `, ${numberText(line.already)} already there` : "")
        + (line.failed ? `, ${numberText(line.failed)} failed` : ""),
      spanText(line.attainable, line.attainable_low, line.attainable_high, percentText), drawInterval(line, "attainable", 1),
      spanText(line.cost, line.cost_low, line.cost_high, threeDigits), drawInterval(line, "cost", dearest),
    ]),
    { id: "group-costs" },
  );
  const moved = !chosen.changes.length ? null : makeTable(
    `How far columns move in the posterior of each group: mean absolute change in the column's own units (for a category, `
      + "the probability of a change), with its interval",
    ["column", ...chosen.groups],
    chosen.changes.map((one) => {
      const most = Math.max(...one.lines.map((line) => line.high ?? line.change ?? 0), 1e-9);
      return [one.feature, ...one.lines.map((line) => [
        drawInterval(line, "change", most), spanText(line.change, line.low, line.high, threeDigits),
      ])];
    }),
    { id: "group-changes" },
  );
  byId("group-tables").replaceChildren(...[costs, moved].filter(Boolean).map((table) => make(
    "div", {}, make("p", { class: "soft small", "aria-hidden": "true" }, table.caption.textContent), inScroll(table),
  )));
}

function inScroll(table) {
  table.caption.className = "only-read";
  return scrollBox(table.caption.textContent, table);
}

// --- the rows ---------------------------------------------------------------------------------------------------

function makeRows() {
  const filterable = COLUMNS.filter((column) => !["order", "none"].includes(column.kind));
  const sortable = COLUMNS.filter((column) => column.kind !== "none");
  return make(
    "section", { id: "rows", "aria-labelledby": "rows-title" },
    make("h2", { id: "rows-title" }, "Rows"),
    make(
      "div", { class: "controls no-print" },
      make("label", { class: "control" }, "Search ", make("input", {
        type: "search", id: "search", on: { input: (event) => { state.search = event.target.value; update(); } },
      })),
      make("label", { class: "control" }, "Filter by ", make(
        "select", { id: "add-filter", on: { change: addFilter } }, make("option", { value: "" }, "choose a column …"),
        filterable.map((column) => make("option", { value: column.id }, column.name)),
      )),
      make("label", { class: "control" }, "Sort by ", make(
        "select", { id: "sort", on: { change: (event) => { state.sort = event.target.value; update(); } } },
        sortable.map((column) => make("option", { value: column.id }, column.name)),
      )),
      make("button", { type: "button", id: "down", on: { click: () => { state.down = !state.down; update(); } } }),
      make("details", { id: "columns", class: "control" }, make("summary", {}, "Columns"), make(
        "div", { class: "checks" }, COLUMNS.filter((column) => !ALWAYS.includes(column.id)).map((column) => make(
          "label", {}, make("input", { type: "checkbox", value: column.id, on: { change: () => {
            state.columns = COLUMNS.map((one) => one.id)
              .filter((id) => (id === column.id ? !state.columns.includes(id) : state.columns.includes(id)));
            update();
          } } }), ` ${column.name}`,
        )),
      )),
      make("button", { type: "button", id: "csv", on: { click: () => offerCopy("Rows shown, as CSV", csvOfRows()) } }, "Copy as CSV"),
      make("button", { type: "button", id: "clear", on: { click: clearAll } }, "Clear filters"),
    ),
    make("div", { id: "filters", class: "filters no-print" }),
    make("p", { id: "matched", role: "status" }),
    scrollBox("table of rows", make("table", { id: "lines" })),
    make("p", { class: "no-print" }, make("button", {
      type: "button", id: "more", on: { click: () => { state.lines += 100; update(); } },
    })),
  );
}

function addFilter(event) {
  const column = columnOf[event.target.value];
  event.target.value = "";
  if (!column || state.filters.some((filter) => filter.id === column.id)) return;
  const filter = { id: column.id, low: "", high: "" };
  if (column.kind === "level") {
    filter.levels = new Set(column.levels.keys());
    if (Array.from({ length: N }, (_, row) => row).some((row) => Number.isNaN(column.get(row)))) filter.levels.add(-1);
  }
  state.filters.push(filter);
  byId("filters").append(makeFilter(filter));
  update();
}

function makeFilter(filter) {
  const column = columnOf[filter.id];
  const box = make("fieldset", { "data-filter": column.id }, make("legend", {}, column.name));
  if (column.kind === "level") {
    box.append(make("div", { class: "checks" }, [...filter.levels].map((code) => make(
      "label", {}, make("input", {
        type: "checkbox", checked: true, value: code, on: { change: () => { toggle(filter.levels, code); update(); } },
      }), ` ${code < 0 ? "missing" : column.levels[code] || "–"}`,
    ))));
  } else {
    const moments = column.kind === "moment";
    const known = moments ? [] : Array.from({ length: N }, (_, row) => column.get(row)).filter((one) => Number.isFinite(one));
    const ends = moments ? [column.levels[0], column.levels[column.levels.length - 1]]
      : [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)].map(shortNumber);
    for (const [end, said, k] of [["low", "from", 0], ["high", "to", 1]]) {
      box.append(make("label", {}, `${said} `, make("input", {
        type: moments ? "text" : "number", step: moments ? null : "any", placeholder: ends[k] ?? "", "data-end": end,
        on: { input: (event) => { filter[end] = event.target.value; update(); } },
      })), " ");
    }
  }
  box.append(make("button", {
    type: "button", class: "quiet", "aria-label": `remove the filter on ${column.name}`, on: { click: () => {
      state.filters = state.filters.filter((one) => one !== filter);
      box.remove();
      update();
    } },
  }, "Remove"));
  return box;
}

function clearAll() {
  Object.assign(state, { kinds: new Set(words.kind.texts), search: "", filters: [], changing: null });
  byId("search").value = "";
  byId("filters").replaceChildren();
  update();
}

const visibleColumns = () => [...ALWAYS, ...state.columns].map((id) => columnOf[id]);

function csvOfRows() {
  const columns = [...visibleColumns(), ...COLUMNS.filter((column) => column.feature !== undefined
    && !state.columns.includes(column.id))].filter((column) => column.id !== "words");
  const cell = (column, row) => {
    if (column.kind === "number") {
      const value = column.get(row);
      return Number.isNaN(value) ? "" : String(column.feature === undefined ? Number(value.toPrecision(7)) : value);
    }
    return column.text(row);
  };
  const lines = matching().map((row) => [
    ...columns.map((column) => cell(column, row)), sayChanges(decisionOf(row, state.rule), Infinity), wordOf("sentence", row),
  ]);
  return csvText([[...columns.map((column) => column.name), "what changes", "sentence"], ...lines]);
}

function updateRows(rows) {
  const columns = visibleColumns();
  const heads = columns.map((column) => {
    const sorted = state.sort === column.id;
    const head = make("th", {
      scope: "col", title: MEANINGS[column.id] ?? MEANINGS[column.name] ?? null, class: column.kind === "number" ? "number" : "", "data-column": column.id,
      "aria-sort": sorted ? (state.down ? "descending" : "ascending") : null,
    });
    if (column.kind === "none") head.append(column.name);
    else {
      head.append(make("button", { type: "button", class: "sort", on: { click: () => {
        if (sorted) state.down = !state.down;
        else Object.assign(state, { sort: column.id, down: false });
        update();
        document.querySelector(`#lines th[data-column="${column.id}"] button`).focus();
      } } }, column.name, make("span", { "aria-hidden": "true" }, sorted ? (state.down ? " ↓" : " ↑") : "")));
    }
    return head;
  });
  const listed = rows.slice(0, state.lines);
  const body = make("tbody");
  for (const row of listed) {
    body.append(makeLine(row, columns));
    if (state.open.has(row)) body.append(makeDetail(row, columns.length));
  }
  byId("lines").replaceChildren(
    make("caption", { class: "only-read" }, "One line per row; press a row's name to open it"),
    make("thead", {}, make("tr", {}, heads)), body,
  );
  const filtered = rows.length < N ? `${plural(rows.length, "row")} of ${numberText(N)} match` : `${plural(N, "row")}`;
  const part = listed.length < rows.length ? `; the first ${numberText(listed.length)} are listed` : "";
  const changing = state.changing === null ? "" : `; only those that change ${features[state.changing].name}`;
  setText(byId("matched"), rows.length ? `${filtered}${part}${changing}.` : "No row matches: change or clear the filters.");
  byId("more").hidden = listed.length >= rows.length;
  setText(byId("more"), `Show ${numberText(Math.min(100, rows.length - listed.length))} more`);
  setText(byId("down"), state.down ? "Largest first" : "Smallest first");
  byId("sort").value = state.sort;
  const narrowed = rows.length < N || state.filters.length > 0 || state.changing !== null || state.search !== "";
  byId("clear").disabled = !narrowed && state.kinds.size === words.kind.texts.length;
}

function makeLine(row, columns) {
  const open = state.open.has(row), kind = wordOf("kind", row);
  return make(
    "tr", { class: `line ${kind === "failed" ? "failed" : ""}`, "data-row": row, on: { click: (event) => {
      if (!event.target.closest("button") && getSelection().toString() === "") openRow(row);
    } } },
    columns.map((column) => {
      if (column.id === "row") {
        return make("th", { scope: "row" }, make("button", {
          type: "button", class: "open", "aria-expanded": String(open), "aria-controls": open ? `detail-${row}` : null,
          on: { click: () => openRow(row) },
        }, make("span", { "aria-hidden": "true" }, open ? "▾\u00a0" : "▸\u00a0"), shorten(P.labels[row], 40)));
      }
      if (column.id === "kind") {
        return make("td", { class: "kind" }, make("span", { class: `dot ${kindClass(kind)}`, "aria-hidden": "true" }), kind);
      }
      if (column.id === "words" && kind === "failed") return make("td", { class: "words bad" }, shorten(wordOf("error", row), 160));
      const text = column.text(row);
      const last = column.id === "reliability" && !Number.isNaN(column.get(row)) && figures.reliability_low
        ? { title: intervalText(row, shareText) } : {};
      return make("td", { class: column.kind === "number" ? "number" : column.id === "words" ? "words" : "", ...last }, text);
    }),
  );
}

function openRow(row) {
  const opened = !state.open.has(row);
  toggle(state.open, row);
  const line = document.querySelector(`tr.line[data-row="${row}"]`);
  if (!line) return;
  if (!opened && line.nextElementSibling?.classList.contains("detail")) line.nextElementSibling.remove();
  const fresh = makeLine(row, visibleColumns());
  line.replaceWith(fresh);
  if (opened) fresh.after(makeDetail(row, visibleColumns().length));
  fresh.querySelector("button.open").focus();
}

// --- one row's own section --------------------------------------------------------------------------------------

function makeDetail(row, width) {
  const kind = wordOf("kind", row), answer = decisionOf(row, ANSWER);
  const parts = [make("h3", {}, `Row ${P.labels[row]}`)];
  if (wordOf("error", row)) parts.push(make("p", { class: "answer bad" }, `This row could not be explained. ${wordOf("error", row)}`));
  if (wordOf("sentence", row)) {
    const missed = answer >= 0 && decisions.reached[answer] !== 1;
    parts.push(make("p", { class: `answer ${missed ? "bad" : ""}` }, wordOf("sentence", row)));
  } else if (!wordOf("error", row)) {
    parts.push(make("p", { class: "answer" }, `${capitalise(wordOf("status", row))}. No answer was sought for this row.`));
  }
  if (answer >= 0 && changesOf(answer).length) parts.push(beforeAndAfter(answer));
  const decided = decisionsOf[row].filter((k) => decisions.rule[k] !== ANSWER);
  if (decided.length) parts.push(decisionTable(decided));
  parts.push(keyFigures(row), wholeRow(row, answer));
  return make(
    "tr", { class: "detail", id: `detail-${row}` },
    make("td", { colspan: width }, make("div", { class: `detail-box ${kind === "failed" ? "failed" : ""}` }, parts)),
  );
}

const changeText = ({ j, units, from, to }) => {
  if (!hasDirection(j) || isMissing(j, from) || isMissing(j, to)) return "";
  const by = features[j].kind === "number" ? signed(to - from) : "";
  return `${by}${by ? " " : ""}(${signed(units)} ${Math.abs(units) === 1 ? "unit" : "units"})`;
};

function beforeAndAfter(decision) {
  return scrollBox("what changes", makeTable(
    "What changes", ["column", "now", "then", "change"],
    changesOf(decision).map((one) => [
      features[one.j].name + (features[one.j].follows ? " (follows from the others)" : ""), valueText(one.j, one.from),
      valueText(one.j, one.to, true), changeText(one),
    ]), { class: "before-after" },
  ));
}

function decisionTable(decided) {
  const names = ["output", "cost", "distance", "loss", ...Object.keys(P.meanings)
    .filter((name) => !["output", "cost", "distance", "loss"].includes(name))];
  const table = makeTable(
    "Decisions", ["rule", "target", ...names, "what changes"],
    decided.map((k) => [
      P.rules[decisions.rule[k]],
      decisions.reached[k] === 1 ? make("span", { class: "good" }, "✓ reached") : make("span", { class: "bad" }, "✗ missed"),
      ...names.map((name) => plainText(decisions[name][k])), sayChanges(k, 12),
    ]), { class: "decisions" },
  );
  return scrollBox("decisions", table,
    make("p", { class: "soft small" }, names.map((name) => `${name}: ${P.meanings[name]}`).join("; ") + "."));
}

// A figure with its error, two standard errors; of a probability, the interval that it can have.
function figureText(name, value, error) {
  if (!(error > 0)) return shortNumber(value);
  if (name !== "success_probability") return `${shortNumber(value)} ± ${numberText(error, 2)}`;
  return `${shortNumber(value)} (${threeDigits(Math.max(value - error, 0))} to ${threeDigits(Math.min(value + error, 1))})`;
}

// The interval of a reliability; trials never leave one as narrow as that of a sum.
function intervalText(row, text) {
  const { reliability_low: low, reliability_high: high } = figures;
  return high[row] - low[row] < EXACT ? "exact" : `${text(low[row])} to ${text(high[row])}`;
}

function keyFigures(row) {
  const facts = [];
  const { reliability, survival } = figures;
  if (!Number.isNaN(reliability[row])) {
    facts.push(["works under small errors of execution",
      `${shareText(reliability[row])} (${intervalText(row, shareText)})`]);
  }
  if (!Number.isNaN(survival[row])) facts.push(["works under refitted models", shareText(survival[row])]);
  for (const [name, title] of Object.entries(P.titles)) {
    if (Number.isNaN(figures[name][row])) continue;
    facts.push([title, figureText(name, figures[name][row], 2 * figures[`${name}_se`][row])]);
  }
  if (wordOf("posterior_note", row)) facts.push(["posterior", wordOf("posterior_note", row)]);
  facts.push(["status", wordOf("status", row)]);
  if (wordOf("notes", row)) facts.push(["notes", wordOf("notes", row)]);
  facts.push(["effort", `${plural(figures.n_model_calls[row], "model call")}, ${plural(figures.n_model_rows[row], "row")}`]);
  facts.push(["seed", wordOf("seed", row)]);
  const poor = !["", "trustworthy"].includes(wordOf("sampling", row)) || figures.success_probability?.[row] < MOSTLY;
  return make("dl", { class: "facts" }, facts.map(([name, fact]) => [
    make("dt", {}, name), make("dd", { class: name === "posterior" && poor ? "bad" : null }, fact),
  ]));
}

function wholeRow(row, answer) {
  const to = new Map(answer < 0 ? [] : changesOf(answer).map((one) => [one.j, one.to]));
  const box = make("details", {}, make("summary", {}, `All ${plural(features.length, "column")} of this row`));
  box.addEventListener("toggle", () => {
    if (box.open && !box.querySelector("dl")) {
      box.append(make("dl", { class: "facts" }, features.map((feature, j) => [
        make("dt", {}, feature.name + (feature.fixed ? " (stays)" : "")),
        make("dd", {}, to.has(j) ? moveText(j, feature.values[row], to.get(j)) : valueText(j, feature.values[row])),
      ])));
    }
  });
  return box;
}

// --- the page ---------------------------------------------------------------------------------------------------

function update() {
  const rows = matching();
  updateSummary(rows);
  updateChanges(rows);
  updateRows(rows);
}

function build() {
  byId("page").replaceChildren(
    make("header", {}, make("h1", {}, "Counterfactual explanations"), themeButton()),
    make("main", {}, makeSummary(), makeChanges(), makeGroups() ?? "", makePolicies(P.policies), makeRows()),
    make("footer", { class: "soft small" }, make("p", {}, `gbce ${P.version}: ${plural(P.calls, "model call")}, `
      + `${plural(P.asked, "row")}. Nothing in this file is sent anywhere.`)),
    copyDialog(),
  );
  update();
  updateGroups();
}

build();

// The explorer of one explanation: what is asked of the page, and what it shows for that.

const payload = readPayload();
const points = new Points(payload);
const saidAt = unpackArray(payload.said.at); // of each point, the place of what the model says of it
const MOST_COLUMNS = 12; // that are listed before somebody asks for all of them
const ANY = "any";
const PROSE_DIGITS = 4; // of a number in a sentence, unless more tell it from the one now; tables and copies have all

// --- what was asked of the page --------------------------------------------------------------------------------

const ownStep = payload.points.etas.indexOf(payload.points.eta);
// Columns by how much the target moves them beyond what the prior does, those that the answer changes before all.
const answerPoint = payload.answer ? payload.answer.point : -1;
const listed = [...points.movable].sort((a, b) => {
  const inAnswer = (column) => Number(answerPoint >= 0 && column.changed(answerPoint));
  return inAnswer(b) - inAnswer(a) || Number(a.computed) - Number(b.computed)
    || (b.change ?? 0) / b.scale - (a.change ?? 0) / a.scale;
});
const countable = points.columns.filter((column) => column.free && !column.computed).length;
const anyNumber = Math.max(Math.min(countable, 21), 1); // position at which any number of columns may change
const steps = payload.frontier.steps;
const positions = reliabilityPositions();
const ownPosition = positions.findIndex((one) => one.own);
const asked = { step: Math.max(ownStep, 0), wanted: ownPosition, most: ANY, conditions: new Map(), efforts: new Map() };
const bookmarks = [];
const AS_ASKED = `For the original question (eta ${generalText(payload.points.eta, 3)}): this part does not follow the `
  + "controls above.";

function currentState() {
  return { step: asked.step, conditions: [...asked.conditions], efforts: [...asked.efforts] };
}

// The question as it was asked of Python: its numbers are Python's own, not weighed again here.
function isOwn() {
  return ownEta() && asked.conditions.size === 0 && asked.efforts.size === 0;
}

// What is wanted of the reliability, beyond the answer's own: a position of the slider, or null.
function wantedPosition() {
  return asked.wanted === ownPosition ? null : positions[asked.wanted];
}

// --- points in words -------------------------------------------------------------------------------------------

function changesOf(i, fewest = 6) {
  return points.columns.filter((column) => column.changed(i)).map((column) => {
    const from = column.now === null ? NaN : column.now, to = points.value(i, column);
    const same = points.exact[i] ? (a, b) => a === b : (a, b) => column.round(a) === column.round(b);
    let then = column.text(to, fewest, same);
    // a draw may have as many digits as a computer knows: six are read, copies have all
    if (column.kind === "real" && to === to && then.length > numberText(to).length) {
      then = fewest < 6 ? column.text(to, fewest) : numberText(to);
    }
    let now = column.text(from, fewest);
    if (now === then) {
      now = column.text(from, fewest, (a, b) => a === b);
      then = column.text(to, fewest, same);
    }
    if (column.kind === "real" && from !== to) [now, then] = withEqualDecimals(now, then);
    return { column, from, to, texts: [now, to === to ? then + unitText(column.unit) : then] };
  });
}

function sayChange({ column, from, to, texts }) {
  let verb = to > from ? "raise" : "lower";
  if (from !== from || to !== to || column.unordered) verb = "change";
  else if (column.kind === "datetime") verb = "move";
  return `${verb} ${column.name} from ${texts[0]} to ${texts[1]}`;
}

// What to do and what the model then says; `whole` also how reliable the answer is.
function sayPoint(i, whole = false) {
  if (i === answerPoint) return whole ? payload.answer.sentence : payload.answer.sentence.slice(0, payload.answer.head);
  const parts = changesOf(i, PROSE_DIGITS).filter((one) => !one.column.computed).map(sayChange);
  const first = parts.length ? joinWords(parts) : "leave the row as it is";
  const model = payload.models.length === 1 ? "the model" : payload.models[0];
  return `${capitalise(first)}: ${model} then ${sayVerdict(i)}.`;
}

function sayVerdict(i) {
  return payload.said.texts[saidAt[i]];
}

// How often a point holds, where that was measured, or null: [share, sentence, count and meaning below the dots].
function reliabilityOf(i) {
  const { answer, measured } = payload, slightly = "If the values turn out slightly different, it still works";
  const tell = (share, more = "", exact = false) => [share, `${slightly} ${hundredText(share, exact)} times out of 100${
    more && ` (${more})`}.`, `${ofHundred(share, exact)} `,
    `Still works if the values turn out slightly different${more && ` (${more})`}.`];
  if (answer && i === answer.point && answer.reliability) {
    const { share, n, exact } = answer.reliability;
    return tell(share, exact ? "computed, not simulated" : `${numberText(n)} trials`, exact);
  }
  const decision = payload.decisions.find((one) => one.point === i && one.robustness !== null);
  if (decision) return tell(decision.robustness);
  const step = steps.find((one) => one.point === i);
  if (step && payload.frontier.of === "measured") {
    return [step.reliability, `Measured reliability: ${ofHundred(step.reliability)}.`, `${ofHundred(step.reliability)} `,
      "As measured."];
  }
  if (measured[i] !== undefined) return tell(measured[i]);
  if (payload.models.length > 1) {
    const share = percentText(points.agreed[i]);
    return [points.agreed[i], `${share} of the models' weight agrees with it.`, `${share} `, "Share of the models' weight that agrees."];
  }
  return null;
}

function rowOf(i) {
  return Object.fromEntries(points.columns.map((column) => [column.key, column.plain(points.value(i, column))]));
}

function describe(i) {
  const reliability = reliabilityOf(i);
  return {
    sentence: sayPoint(i, true),
    reaches: points.reached[i] === 1,
    output: Number.isFinite(points.output[i]) ? points.output[i] : null,
    cost: points.cost[i],
    reliability: reliability ? reliability[0] : null,
    changes: changesOf(i).map(({ column, from, to }) => ({ column: column.key, now: column.plain(from),
      then: column.plain(to) })),
    row: rowOf(i),
  };
}

// --- which point is suggested ----------------------------------------------------------------------------------

// The answer itself if it meets what was asked, else the cheapest known point that reaches the target, does, and is known
// to be as reliable as the slider says. With the slider at the answer's own place, a point that is not may stand in where
// none is: `met` then is false, and card, slider and line of Python say so.
function suggestion() {
  const conditions = [...asked.conditions], efforts = [...asked.efforts];
  const wanted = wantedPosition(), own = measureOf(answerPoint);
  const fits = (i) => (asked.most === ANY || points.changes[i] <= asked.most) && points.inside(conditions, i);
  const works = (i) => points.reached[i] === 1 && fits(i);
  const least = (wanted ? wanted.reliability : own) - 1e-9;
  const cheapest = () => points.cheapest((i) => works(i) && measureOf(i) >= least, efforts);
  if (wanted && fits(wanted.point) && efforts.length === 0) {
    // a point of a strategy may be as reliable for less, unless the steps were measured by Explainer.frontier
    const other = payload.frontier.of === "noise" ? cheapest() : -1;
    const cheaper = other >= 0 && points.cost[other] < points.cost[wanted.point] - 1e-6;
    return cheaper ? { point: other, from: "reliable", met: true } : { point: wanted.point, from: "frontier", met: true };
  }
  if (answerPoint >= 0 && !efforts.length && !wanted && fits(answerPoint)) {
    return { point: answerPoint, from: "answer", met: true };
  }
  const limited = wanted !== null || !Number.isNaN(own), found = limited ? cheapest() : -1;
  if (wanted || found >= 0) return { point: found, from: "reliable", met: true };
  const any = points.cheapest((i) => i < payload.points.n_suggested && works(i), efforts);
  return { point: any, from: "known", met: !limited || any < 0 };
}

// --- building blocks -------------------------------------------------------------------------------------------

const parts = [{ node: null, list: [] }]; // of the page, with their functions of the new view: the card, then what is folded
let updates = parts[0].list; // those of the part that is being made

function section(id, title, lead, ...children) {
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title),
    lead ? make("p", { class: "soft lead" }, lead) : null, children);
}

function copyButtons(name, texts) {
  return make("div", { class: "buttons no-print" }, ["text", "CSV", "JSON"].map((kind) => make("button", {
    type: "button", "data-copy": kind, on: { click: () => offerCopy(`${name} as ${kind}`, texts()[kind]) },
  }, `Copy as ${kind}`)));
}

function pointTexts(i) {
  const one = describe(i);
  const lines = one.changes.map((change) => [change.column, change.now, change.then]);
  return {
    text: [one.sentence, ...changesOf(i).map(({ column, texts }) => `${column.name}: ${texts[0]} -> ${texts[1]}`)]
      .join("\n"),
    CSV: csvText([["column", "now", "then"], ...lines]),
    JSON: JSON.stringify(one, null, 1),
  };
}

// --- on your terms ---------------------------------------------------------------------------------------------

// A slider from min to max; with a single position only its text. `set` moves it without asking anything.
function slider(id, label, help, { min = 0, max, value }, say, onInput) {
  const output = make("output", { id: `${id}-said`, for: id });
  const input = max > min ? make("input", { type: "range", id, min, max, value, step: 1,
    "aria-describedby": `${id}-help` }) : null;
  const set = (k) => {
    setText(output, say(k));
    if (!input) return;
    input.value = k;
    input.setAttribute("aria-valuetext", say(k));
  };
  input?.addEventListener("input", () => { onInput(Number(input.value)); set(Number(input.value)); refresh(); });
  set(value);
  const node = make("div", { class: "slider" }, make(input ? "label" : "span", input ? { for: id } : { class: "label" },
    label), output, input, make("p", { class: "soft small", id: `${id}-help` }, help));
  return { node, set };
}

const sliders = {};

function sliderBlock() {
  const how = { noise: "how often it works if the values turn out slightly different",
    models: "the share of the models that agree", measured: "as measured" }[payload.frontier.of];
  const texts = reliabilityTexts(positions);
  sliders.wanted = slider("wanted", "How reliable it has to be",
    steps.length && positions.length < 2 ? `Known for one tested option only: ${how}.`
      : steps.length ? `Choose among tested options, from least to most reliable (${how}). More reliable changes cost more.`
      : "Reliability was not measured. explainer.frontier(explanation, noise=0.1) measures it; pass the result to "
        + "to_html(frontier=...).",
    { max: positions.length - 1, value: ownPosition },
    (k) => sayPosition(positions, texts, k) + (view.plan?.met === false && !wantedPosition() ? "; not known of this suggestion" : ""),
    (k) => { asked.wanted = k; });
  updates.push(() => sliders.wanted.set(asked.wanted));
  sliders.most = slider("most", "How many columns may change",
    countable > 1 ? "Fewer changes are easier to remember, but often larger." : "There is no more to choose from.",
    { min: 1, max: anyNumber, value: anyNumber },
    (n) => (n < anyNumber ? plural(n, "column") : countable > 1 ? "any number" : plural(countable, "column")),
    (n) => { asked.most = n === anyNumber ? ANY : n; });
  return make("div", { class: "sliders" }, [[sliders.wanted, positions.length > 1], [sliders.most, countable > 1]]
    .filter(([, chosen]) => chosen).map(([one]) => one.node));
}

function readNumber(text) {
  const value = text.trim() === "" ? NaN : Number(text.replaceAll(",", ""));
  return Number.isFinite(value) ? value : undefined;
}

// The encoded end of a range that somebody typed: a number, a level's position, a moment's place among those known.
function readEnd(column, text, side) {
  if (text.trim() === "") return undefined;
  if (column.levels) return Number(text);
  if (!column.moments) return readNumber(text);
  const { values, texts } = column.moments;
  if (!/^\d{4}(-\d\d(-\d\d.*)?)?$/.test(text.trim())) return undefined; // texts are compared: other ways to write a date are not
  if (side === "low") {
    const k = texts.findIndex((one) => one >= text.trim());
    return k < 0 ? Infinity : values[k];
  }
  let k = texts.length - 1;
  while (k >= 0 && texts[k] > text.trim()) k--;
  return k < 0 ? -Infinity : values[k];
}

function columnControls(column) {
  const id = `column-${column.position}`;
  const keep = make("input", { type: "checkbox", id: `${id}-keep` });
  const effort = make("select", { id: `${id}-effort`, "aria-label": `${column.name}: effort of a change` },
    Object.keys(EFFORTS).map((name) => make("option", { value: name, selected: name === "usual" }, name)));
  const ends = {};
  const read = () => {
    let condition = null;
    if (keep.checked) condition = { keep: true };
    else if (column.unordered) {
      if (ends.level.value === "missing") condition = { missing: true };
      else if (ends.level.value !== "") condition = { level: Number(ends.level.value) };
    } else {
      const low = readEnd(column, ends.low.value, "low"), high = readEnd(column, ends.high.value, "high");
      const empty = low !== undefined && high !== undefined && Number.isFinite(low) && Number.isFinite(high) && low > high;
      for (const [input, value] of [[ends.low, low], [ends.high, high]]) {
        const unread = value === undefined && input.value.trim() !== "";
        input.setAttribute("aria-invalid", String(unread || empty));
        input.title = unread ? "not a date: write YYYY-MM-DD" : empty ? "from is above to: the range is empty" : "";
      }
      if (low !== undefined || high !== undefined) {
        const written = (input, value) => (column.levels ? column.written[value] : column.moments ? input.value.trim()
          : value);
        condition = { low, high, lowText: low === undefined ? undefined : written(ends.low, low),
          highText: high === undefined ? undefined : written(ends.high, high) };
      }
    }
    for (const input of Object.values(ends)) input.disabled = keep.checked;
    if (condition) asked.conditions.set(column, condition);
    else asked.conditions.delete(column);
    if (effort.value === "usual") asked.efforts.delete(column);
    else asked.efforts.set(column, effort.value);
    line.classList.toggle("asked", condition !== null || effort.value !== "usual");
    refresh();
  };
  const range = [];
  const option = (code) => make("option", { value: code }, column.levels[code]);
  if (column.unordered) {
    ends.level = make("select", { id: `${id}-level`, "aria-label": `${column.name}: has to be` },
      make("option", { value: "" }, "any value"), column.levels.map((_, code) => option(code)),
      column.missing ? make("option", { value: "missing" }, "(missing)") : null);
    range.push(make("label", { for: `${id}-level` }, "has to be "), ends.level);
  } else {
    for (const [side, word] of [["low", "from"], ["high", "to"]]) {
      const attributes = { id: `${id}-${side}`, "aria-label": `${column.name}: ${word}` };
      if (column.levels) {
        ends[side] = make("select", attributes, make("option", { value: "" }, "any"), column.levels.map((_, c) => option(c)));
      } else if (column.moments) {
        ends[side] = make("input", { ...attributes, type: "text", size: 11, placeholder: "YYYY-MM-DD" });
      } else {
        ends[side] = make("input", { ...attributes, type: "number", step: "any", placeholder: "any" });
      }
      range.push(make("label", { for: `${id}-${side}` }, word), ends[side]);
    }
  }
  const unit = unitText(column.unit);
  const step = column.unordered ? "any other level" : `a change of ${shortNumber(column.scale)}${
    column.kind === "datetime" ? " days" : column.levels ? " levels" : unit}`;
  const line = make("div", { class: "column", "data-name": column.name.toLowerCase(), role: "group",
    "aria-label": column.name },
    make("div", { class: "who" }, make("span", { class: "name", title: `one unit of cost: ${step}` }, column.name),
      make("span", { class: "soft small" }, ` now ${column.text(column.now)}${unit}`
        + (column.computed ? "; follows from others" : ""))),
    make("div", { class: "keep" }, keep, make("label", { for: `${id}-keep` }, " stays",
      make("span", { class: "only-read" }, ` (${column.name})`))),
    make("div", { class: "range" }, range),
    make("div", { class: "effort" }, column.computed ? null : [make("label", { for: `${id}-effort` }, "effort "), effort]));
  for (const input of [keep, effort, ...Object.values(ends)]) {
    input.addEventListener(input.type === "number" || input.type === "text" ? "input" : "change", read);
  }
  const reset = () => {
    keep.checked = false;
    effort.value = "usual";
    for (const input of Object.values(ends)) { input.value = ""; input.disabled = false; }
    line.classList.remove("asked");
  };
  const toggleKeep = () => { keep.checked = !keep.checked; read(); };
  return { line, reset, column, toggleKeep };
}

const controls = [];
let controlFor = () => null; // the controls of a column, which are made when they are needed

function columnBlock() {
  const box = make("div", { class: "columns" });
  const add = (column) => {
    const one = columnControls(column);
    controls.push(one);
    box.append(one.line);
    return one;
  };
  controlFor = (column) => controls.find((one) => one.column === column) ?? add(column);
  listed.slice(0, MOST_COLUMNS).forEach(add);
  const node = make("div", {});
  const tools = make("div", { class: "tools no-print" });
  if (listed.length > MOST_COLUMNS) {
    const rest = listed.slice(MOST_COLUMNS);
    const search = make("input", { type: "search", id: "find-column", placeholder: "name of a column" });
    const more = make("button", { type: "button", id: "all-columns" }, `Show all ${listed.length} columns`);
    const addRest = () => { rest.splice(0).forEach(controlFor); more.remove(); };
    more.addEventListener("click", addRest);
    search.addEventListener("input", () => {
      if (search.value) addRest();
      const wanted = search.value.toLowerCase();
      for (const one of controls) one.line.hidden = !one.line.dataset.name.includes(wanted);
    });
    tools.append(make("label", { for: "find-column" }, "Find "), search, more);
  }
  node.append(tools, box);
  return node;
}

function untouched() {
  return asked.step === Math.max(ownStep, 0) && asked.wanted === ownPosition && asked.most === ANY
    && asked.conditions.size === 0 && asked.efforts.size === 0;
}

function resetAll() {
  asked.step = Math.max(ownStep, 0);
  asked.wanted = ownPosition;
  asked.most = ANY;
  asked.conditions.clear();
  asked.efforts.clear();
  sliders.eta.set(asked.step);
  sliders.wanted.set(ownPosition);
  sliders.most.set(anyNumber);
  controls.forEach((one) => one.reset());
  refresh();
}

function termsSection() {
  return section("terms", "Column by column", "Ranges that a column has to keep to, and how hard it is to change.",
    columnBlock());
}

// The slider of eta, and how many draws are left with what was asked.
function etaSection() {
  const { etas, eta } = payload.points;
  sliders.eta = slider("eta", "How much the target counts",
    payload.points.fixed
      ? "This file has the draws only, so this cannot be changed. Save with pool=True to change it."
      : "Changes the charts of this part, not the suggestion: to the left, changes stay near the row and may miss the target; "
        + "to the right, they reach it. (This is eta: the draws are reweighted, the model is not called.)",
    { max: etas.length - 1, value: asked.step },
    (step) => {
      const ratio = etas[step] / eta;
      const words = etas[step] === eta ? "as asked" : etas[step] === 0 ? "not at all"
        : ratio < 1 ? `${numberText(Number((1 / ratio).toPrecision(2)))} times less` : `${numberText(Number(ratio.toPrecision(2)))} times more`;
      return `${words} (eta ${generalText(etas[step], 3)})`;
    },
    (step) => { asked.step = step; });
  const count = make("p", { id: "effective" });
  const meter = make("div", { class: "meter", "aria-hidden": "true" }, make("span", { class: "fill" }));
  updates.push(() => {
    const { enough, probability } = view.weighed;
    const effective = view.own ? payload.points.own_ess : view.weighed.effective;
    setText(count, `${numberText(Math.round(effective))} effective draws of ${numberText(payload.points.n_pool)} points`
      + (Number.isFinite(view.figures.success) ? `; ${percentText(view.figures.success)} of the draws reach the target` : "")
      + (asked.conditions.size ? `; ${percentText(probability)} of all draws meet your conditions.` : "."));
    meter.firstChild.style.width = `${Math.min(100 * effective / Math.max(payload.points.own_ess, 1), 100)}%`;
    meter.classList.toggle("bad", !enough);
  });
  return section("weighing", "Reweighting the draws", "", make("div", { class: "two" }, sliders.eta.node,
    make("div", {}, make("h3", {}, "Effective draws left"), count, meter)));
}

// --- other ways ------------------------------------------------------------------------------------------------

function bookmark(i) {
  if (!bookmarks.includes(i)) bookmarks.push(i);
  byId("more").open = true; // where they stand side by side
  showBookmarks();
}

let showBookmarks = () => {};

function comparison(points_, names, caption) {
  const columns = points.columns.filter((column) => points_.some((i) => column.changed(i)));
  const lines = columns.map((column) => [column.name, column.text(column.now),
    ...points_.map((i) => (column.changed(i) ? column.text(points.value(i, column)) : "stays"))]);
  lines.push(["columns changed", "", ...points_.map((i) => String(points.changes[i]))]);
  lines.push(["cost, in units", "", ...points_.map((i) => shortNumber(points.cost[i]))]);
  lines.push(["reaches the target", payload.row.reached ? "yes" : "no", ...points_.map((i) => (points.reached[i] ? "yes"
    : "no"))]);
  lines.push(["works under small errors of execution", "", ...points_.map((i) => {
    const known = reliabilityOf(i)?.[0] ?? payload.alternatives.listed.find((one) => one.point === i)?.reliability;
    return known === undefined ? "not measured" : holdsText(known);
  })]);
  return { heads: ["column", "now", ...names], lines, caption };
}

function compareTable({ heads, lines, caption }) {
  return scrollBox(caption,
    makeTable(caption, heads, lines, { class: "compare" }));
}

function waysSection() {
  const { listed: ways, other, why } = payload.alternatives;
  const cards = ways.map((one, k) => make("article", { class: "card" },
    make("h3", {}, `Way ${k + 1}: ${percentText(one.share)} of the draws that reach the target`),
    make("p", {}, sayPoint(one.point)),
    make("p", { class: "soft small" }, `Works ${holdsText(reliabilityOf(one.point)?.[0] ?? one.reliability)} of the time if values turn out slightly different. `
      + `Cost ${shortNumber(one.cost)} units.`),
    make("div", { class: "buttons no-print" }, make("button", { type: "button", "data-way": k, on: {
      click: () => bookmark(one.point) } }, "Bookmark"))));
  const box = make("div", { id: "bookmarks", "aria-live": "polite" });
  showBookmarks = () => {
    const named = bookmarks.map((_, k) => `${String.fromCharCode(65 + k % 26)}`);
    const table = () => comparison(bookmarks, named, "bookmarks side by side");
    const drop = make("div", { class: "buttons no-print" }, bookmarks.map((i, k) => make("button", { type: "button",
      on: { click: () => { bookmarks.splice(bookmarks.indexOf(i), 1); showBookmarks(); } } }, `Remove ${named[k]}`)));
    const copy = copyButtons("The bookmarks", () => {
      const changed = points.columns.filter((column) => bookmarks.some((i) => column.changed(i)));
      const known = bookmarks.map(describe);
      const lines = [["", "now", ...named], ...changed.map((column) => [column.key,
        column.plain(column.now === null ? NaN : column.now), ...bookmarks.map((i) => column.plain(points.value(i, column)))]),
      ...["cost", "reaches", "output", "reliability"].map((name) => [name, "", ...known.map((one) => one[name])])];
      return {
        text: bookmarks.map((i, k) => `${named[k]}: ${sayPoint(i, true)}`).join("\n"),
        CSV: csvText(lines),
        JSON: JSON.stringify(bookmarks.map(describe), null, 1),
      };
    });
    box.replaceChildren(make("h3", {}, "Bookmarks"), bookmarks.length ? compareTable(table())
      : make("p", { class: "soft" }, "Bookmark suggestions, ways and rules to compare them here."),
    ...(bookmarks.length ? [drop, copy] : []));
  };
  showBookmarks();
  const lead = ways.length > 1 ? "Different ways to get there, each with its smallest known change." : "";
  const few = ways.length ? "All draws that reach the target go the same way."
    : "No way that the draws go reaches the target.";
  return section("ways", "Other ways, and bookmarks", lead || why || few,
    ways.length ? make("div", { class: "cards" }, cards) : null,
    ways.length && other > 0.005 ? make("p", { class: "soft small" }, `${percentText(other)} of the draws that reach it go other ways.`)
      : null,
    ways.length > 1 ? compareTable(comparison(ways.map((one) => one.point), ways.map((_, k) => `way ${k + 1}`),
      "ways side by side")) : null,
    ways.length ? make("p", { class: "soft small as-asked" }, AS_ASKED) : null,
    box);
}

// --- which few columns would do --------------------------------------------------------------------------------

function menuSection() {
  const { sets, impossible } = payload.menu;
  if (!sets.length && !impossible.length) return null;
  const lines = sets.map((one) => [one.columns, one.sentence, shortNumber(one.cost), one.reliable_cost === null ? "none found"
    : shortNumber(one.reliable_cost), percentText(one.share)]);
  const caption = "sets of columns that would do";
  return section("menu", "Which few columns would do",
    sets.length ? "Changing just these columns reaches the target." : "No change of at most three columns was found to reach the target.",
    sets.length ? scrollBox(caption, makeTable(caption, ["columns", "smallest change found", "cost, in units",
      "cost of a reliable change", "draws that need just these"], lines, { class: "compare" })) : null,
    impossible.length ? make("p", { class: "soft small" }, `Proved to be not enough: ${impossible.join("; ")}.`) : null);
}

// --- rules -----------------------------------------------------------------------------------------------------

function rulesSection() {
  if (!payload.decisions.length) return null;
  const lines = payload.decisions.map((one) => [
    make("span", {}, make("strong", {}, one.rule), make("span", { class: "block soft small" }, one.when)),
    one.reached ? "yes" : make("span", { class: "bad" }, "no"),
    one.robustness === null ? "not measured" : holdsText(one.robustness),
    shortNumber(points.cost[one.point]),
    String(one.changed),
    make("button", { type: "button", class: "no-print", "data-rule": one.rule, "aria-label": `Bookmark ${one.rule}`,
      on: { click: () => bookmark(one.point) } }, "Bookmark"),
  ]);
  return section("rules", "Rules that choose one point",
    "Each rule chooses one point. One that misses the target is no recommendation.",
    scrollBox("rules compared",
      makeTable("rules compared", ["rule", "reaches the target", "works under small errors of execution",
        "cost, in units", "columns changed", "compare"], lines, { class: "rules" })),
    make("p", { class: "soft small as-asked" }, AS_ASKED));
}

// --- what usually changes --------------------------------------------------------------------------------------

function legend(...items) {
  return make("ul", { class: "legend", "aria-label": "what the marks mean" }, items.map(([mark, text]) => make("li", {},
    make("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text)));
}

// Which share of the draws a section rests on reaches the target, at the eta and under the conditions that are set.
function reachLine() {
  const node = make("p", { class: "soft reach" });
  updates.push(() => {
    const { success } = view.figures, few = success < MOSTLY;
    setText(node, !Number.isFinite(success) ? "" : few ? `Only ${percentText(success)} of these draws reach the target: `
      + "most of them are not counterfactuals. They show what stays near the row more than what to change."
      : `${percentText(success)} of these draws reach the target.`);
    node.classList.toggle("bad", few);
  });
  return node;
}

let ownWeights = null;

function stripDomain(column, ...others) {
  const own = (ownWeights ??= points.weigh({ step: Math.max(ownStep, 0), conditions: [], efforts: [] }));
  const ends = [...points.read(column, own.weights).ends, column.start];
  if (own.prior) ends.push(...points.read(column, own.prior).ends);
  else if (column.prior) ends.push(...column.prior.ends);
  if (answerPoint >= 0) ends.push(points.value(answerPoint, column));
  ends.push(...others);
  const known = ends.filter(Number.isFinite);
  if (!known.length) return [0, 1];
  const low = Math.min(...known), high = Math.max(...known), room = 0.15 * (high - low) || 1;
  return [low - room, high + room];
}

function changesSection() {
  const box = make("div", { class: "strips" });
  const lines = [];
  const add = (column) => {
    const picture = column.unordered ? levelBars(column) : intervalStrip(column, stripDomain(column));
    const figures = make("p", { class: "soft small figures" });
    box.append(make("div", { class: "strip-line", "data-column": column.position },
      make("div", { class: "name" }, column.name, column.unit ? make("span", { class: "soft small" }, ` ${column.unit}`)
        : null), picture.node, figures));
    lines.push({ column, picture, figures });
  };
  listed.slice(0, MOST_COLUMNS).forEach(add);
  const update = () => {
    const chosen = view.plan.point;
    for (const { column, picture, figures } of lines) {
      const [after, before] = readBoth(column);
      const value = chosen >= 0 && column.changed(chosen) ? points.value(chosen, column) : NaN;
      if (column.unordered) {
        picture.update(before ? before.shares : column.prior && column.prior.shares, after.shares, value);
        setText(figures, "");
      } else {
        picture.update(before ? before.ends : column.prior && column.prior.ends, after.ends, value);
        const [low, middle, high] = after.ends;
        setText(figures, Number.isFinite(middle)
          ? `now ${column.text(column.now, 4)}; 90% of the draws: ${column.text(low, 4)} to ${column.text(high, 4)
          }, median ${column.text(middle, 4)}` : `now ${column.text(column.now, 4)}; no draws`);
        figures.dataset.low = low;
        figures.dataset.middle = middle;
        figures.dataset.high = high;
      }
    }
  };
  updates.push(update);
  const rest = listed.slice(MOST_COLUMNS);
  const more = rest.length ? make("button", { type: "button", class: "no-print", id: "all-strips", on: { click: (event) => {
    rest.splice(0).forEach(add);
    event.target.remove();
    update();
  } } }, `Show all ${listed.length} columns`) : null;
  return section("changes", "Where the columns end up",
    "Strong colour: values found when aiming for the target. Pale: values without a target. Where they coincide, the "
    + "column hardly matters.",
    legend(["row", "now"], ["draws", "90% of the draws"], ["median", "median"], ["prior", "without the target"],
      ["plan", "the suggestion"]), reachLine(), make("div", { class: "needs-draws" }, box), more);
}

function importanceSection() {
  const shown = listed.slice(0, MOST_COLUMNS);
  const bars = shown.map((column) => ({ column, bar: changeBar(column) }));
  const figures = make("dl", { class: "facts", id: "figures" });
  const reading = make("code", { id: "reading-line" });
  const { n_pool: kept, n_evaluated: evaluated } = payload.points;
  const thinned = kept < evaluated ? make("p", { class: "soft small", id: "thinned" }, "With the controls untouched, these "
    + `are Python's numbers. Once a control is moved, they rest on ${numberText(kept)} of ${numberText(evaluated)} evaluated `
    + "points and may differ from Python's in the third digit.") : null;
  updates.push(() => {
    setText(reading, view.own || (view.weighed.enough && !payload.points.fixed) ? readingLine() : askingLine().line);
    const read = bars.map(({ column }) => readBoth(column).map((one) => (one ? one.change : NaN)));
    const most = Math.max(...read.flat().map((value, k) => value / bars[Math.floor(k / 2)].column.scale)
      .filter(Number.isFinite), 1e-12);
    bars.forEach(({ bar }, k) => bar.update(read[k][0], read[k][1], most));
    const one = view.figures;
    const facts = [
      ["success", "reach the target", percentText(one.success), one.success],
      ["cost", "mean cost, in units", shortNumber(one.cost), one.cost],
      ["changes", "columns changed on average", shortNumber(one.changes), one.changes],
      ["loss", "mean loss", shortNumber(one.loss), one.loss],
      ["tail", `loss that ${percentText(1 - payload.points.alpha)} of draws stay below`, shortNumber(one.tail), one.tail],
    ];
    if (payload.disagreement) facts.push(["differ", "models disagree about", percentText(one.differ), one.differ]);
    if (!figures.children.length) {
      figures.append(...facts.flatMap(([name, what]) => [make("dt", {}, what), make("dd", { "data-figure": name })]));
    }
    facts.forEach(([, , text, value], k) => {
      setText(figures.children[2 * k + 1], text);
      figures.children[2 * k + 1].dataset.value = value;
    });
  });
  return section("importance", "Which columns matter",
    "How far each column moves on average, in units so that columns can be compared.",
    legend(["draws", "the draws"], ["prior", "without the target"]), reachLine(), make("div", { class: "needs-draws" }, make("ul", { class: "levels wide", id: "importance-bars" },
      bars.map(({ bar }) => bar.node)), make("h3", {}, "The draws as a whole"), figures, thinned,
    make("p", { class: "soft small" }, "The same in Python: ", reading)));
}

function cloudSection() {
  if (listed.length < 2) return null;
  const detail = make("div", { id: "cloud-detail", "aria-live": "polite", class: "soft" },
    "Point at a dot, or focus the picture and press the arrow keys, to see the row behind it.");
  const tell = (i) => {
    if (i < 0) return;
    detail.replaceChildren(make("p", {}, sayPoint(i)), make("p", { class: "small" }, `Loss ${
      numberText(points.loss[i], 3)}, cost ${shortNumber(points.cost[i])} units.`),
    make("div", { class: "buttons no-print" }, make("button", { type: "button", id: "bookmark-point", on: {
      click: () => bookmark(i) } }, "Bookmark this row")));
  };
  let stale = false, inSight = true;
  const freshen = () => { if (stale) update(); };
  const counted = make("p", { class: "soft", id: "cloud-count" }, "\u00a0"); // a line high before it is known
  const picture = cloud(points, tell, (reaching, all) => setText(counted, reaching === all
    ? `All ${numberText(all)} dots reach the target.` : `${numberText(reaching)} of ${plural(all, "dot")} reach the target; `
    + "the grey ones are not counterfactuals."), freshen);
  const choose = (id, label, start) => {
    const select = make("select", { id, on: { change: () => update() } }, listed.map((column, k) => make("option",
      { value: k, selected: k === start }, shorten(column.name, 60))));
    return { select, node: make("span", { class: "choice" }, make("label", { for: id }, label), select) };
  };
  const first = choose("pair-x", "across ", 0), second = choose("pair-y", "upwards ", 1);
  const update = () => {
    stale = false;
    picture.update(listed[first.select.value], listed[second.select.value], view.weighed.weights, view.plan.point);
  };
  // out of sight it waits: hundreds of dots take longer to move than all else together
  new IntersectionObserver(([seen]) => { inSight = seen.isIntersecting; if (inSight) freshen(); },
    { rootMargin: "200px" }).observe(picture.node);
  window.addEventListener("beforeprint", freshen);
  updates.push(() => { stale = true; if (inSight) update(); });
  return section("pairs", "Two columns at once", "Each dot is one draw: strong if it reaches the target, grey if not.",
    make("div", { class: "tools" }, first.node, second.node),
    legend(["hit", "reaches the target"], ["miss", "misses it"], ["rowmark", "now"], ["plan", "the suggestion"]),
    counted, make("div", { class: "needs-draws" }, picture.node),
    make("p", { class: "only-read", id: "cloud-help" }, "Arrow keys step through the points."), detail);
}

function tradeSection() {
  const parts = [];
  const etaBox = make("div", { class: "two" });
  const curves = [
    ["success_probability", "share of draws that reach the target, by eta", "share that reaches the target", true, "success"],
    ["expected_cost", "mean cost of the draws, by eta", "mean cost, in units", false, "cost"],
  ].map(([name, title, axis, percent, own]) => [etaCurve(payload.path, name, title, axis, percent), own])
    .filter(([curve]) => curve);
  for (const [curve] of curves) etaBox.append(curve.node);
  if (curves.length) {
    parts.push(make("h3", {}, "How much the target counts: which share of the draws reaches it, and what they cost"), etaBox);
    updates.push(() => curves.forEach(([curve, own]) => curve.update(payload.points.etas[asked.step],
      asked.conditions.size || asked.efforts.size ? NaN : view.weighedFigures[own])));
  }
  if (steps.length) {
    const nameOf = (i) => joinWords([...(i === answerPoint ? ["the answer"] : []), ...payload.decisions
      .filter((one) => one.point === i).map((one) => one.rule)]);
    const onFront = new Set(steps.map((one) => one.point));
    const tried = payload.frontier.of === "measured" ? []
      : [...new Set([answerPoint, ...payload.decisions.map((one) => one.point)])];
    const others = tried.filter((i) => i >= 0 && points.reached[i] === 1 && !onFront.has(i) && !Number.isNaN(measureOf(i))).map((i) => ({
      label: nameOf(i), cost: points.cost[i], reliability: measureOf(i) }));
    const picture = frontierPicture(steps.map((one) => ({ ...one, label: nameOf(one.point) })), others, payload.frontier.by, (k) => {
      asked.wanted = positions.findIndex((one) => one.step === k);
      sliders.wanted.set(asked.wanted);
      refresh();
    });
    const what = { noise: "The cheapest for each reliability among the answer and the rules above, all tested with small "
      + "errors of execution.", models: "The cheapest known change for each share of the models that agrees.",
    measured: "The cheapest change for each measured reliability." }[payload.frontier.of];
    parts.push(make("h3", {}, "What reliability costs"), make("p", { class: "soft" }, what), picture.node,
      make("p", { class: "soft small as-asked" }, AS_ASKED));
    parts.push(make("details", {}, make("summary", {}, "The same as a table"), scrollBox("what reliability costs, as a table",
      makeTable("what reliability costs", ["reliability", `${payload.frontier.by}, in units`, "suggestion"], steps.map((one) => [holdsText(one.reliability), shortNumber(one.cost),
      sayPoint(one.point)]), { id: "frontier-table" }))));
    updates.push(() => picture.update(positions[asked.wanted].step));
  }
  return parts.length ? section("trade", "What it costs to be surer", "", parts) : null;
}

function disagreementSection() {
  const found = payload.disagreement;
  if (!found) return null;
  const pairs = found.pairs.slice(0, MOST_COLUMNS).map((one) => [one.models.join(" and "), percentText(one.differ)]);
  const where = found.where.slice(0, 6).map((one) => [one.column, shortNumber(one.difference)]);
  return section("disagreement", "Where the models disagree", `${capitalise(found.sentence)}.`,
    make("p", { class: "soft small as-asked" }, AS_ASKED),
    make("div", { class: "two" },
      scrollBox("pairs of models",
        makeTable("pairs of models: draws about which they disagree", ["models", "disagree about"], pairs)),
      where.length ? scrollBox("where they disagree",
        makeTable("draws they disagree about, against the others", ["column", "difference, in units"], where))
        : null));
}

// --- how it was made -------------------------------------------------------------------------------------------

function receiptSection() {
  const { receipt } = payload;
  const say = (value) => (value === null ? "none" : Array.isArray(value) ? value.join(", ") || "none"
    : typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name} ${one}`).join(", ") : String(value));
  const words = { row: "hash of the row (SHA-256)", answer: "hash of the answer", columns: "hash of the columns",
    model_rows: "model rows evaluated", n_perturb: "perturbed copies", identities: "identities of models" };
  return section("receipt", "Receipt", "The same settings, seed and versions reproduce this result; the hashes identify "
    + "the row.",
  make("dl", { class: "facts small", id: "receipt-list" }, Object.entries(receipt).map(([name, value]) => [
    make("dt", {}, words[name] ?? name.replaceAll("_", " ")), make("dd", {}, say(value))])),
  make("div", { class: "buttons no-print" }, make("button", { type: "button", id: "copy-receipt", on: {
    click: () => offerCopy("The receipt as JSON", JSON.stringify(receipt, null, 1)) } }, "Copy the receipt")));
}

function qualitySection() {
  const { quality, points: given } = payload;
  const thinned = given.n_pool < given.n_evaluated
    ? ` The page has ${numberText(given.n_pool)} of ${numberText(given.n_evaluated)} evaluated points.` : "";
  return make("section", { id: "quality", class: "small", "aria-labelledby": "quality-title" },
    make("h2", { id: "quality-title" }, "How good the draws are"),
    make("p", { class: quality.good ? "soft" : "bad" }, `${capitalise(quality.note)}.${thinned}`),
    make("dl", { class: "facts" }, quality.figures.map(([name, value]) => [make("dt", {}, name),
      make("dd", {}, shortNumber(value))])));
}

function wordsSection() {
  return make("section", { class: "glossary" }, glossary(["target", "change", "unit", "cost",
    ...(payload.frontier.by === "distance" ? ["distance"] : []), "draw", "effective draws", "small errors of execution",
    "works", "eta", "without the target", "loss", "rule"], { target: `Here: ${payload.target}.`,
    "small errors of execution": `To simulate them, every number that may change was shifted at random, ${
      noiseText(payload.receipt.noise)}, and tested on the model.` }));
}

function warningBanner() {
  if (payload.quality.good) return null;
  return make("div", { class: "banner", role: "alert", id: "warning" }, make("strong", {}, "Read with care. "),
    `${capitalise(payload.quality.note)}.`);
}

// --- the page --------------------------------------------------------------------------------------------------

const ownFigures = Object.fromEntries(Object.entries(payload.points.own).map(([name, value]) => [name, value ?? NaN]));
const view = { weighed: null, own: true, plan: null, figures: null, read: new Map(), before: new Map(), terms: "" };

// What the draws and the prior say of a column; the prior's part stays while only eta changes.
function readBoth(column) {
  const { weights, prior } = view.weighed;
  if (!view.read.has(column)) view.read.set(column, view.own ? points.own(column) : points.read(column, weights));
  if (prior && !view.before.has(column)) view.before.set(column, points.read(column, prior));
  return [view.read.get(column), prior ? view.before.get(column) : null];
}

function refresh() {
  const terms = JSON.stringify([...asked.conditions, ...asked.efforts].map(([column, one]) => [column.position, one]));
  if (terms !== view.terms) view.before.clear();
  view.terms = terms;
  view.read.clear();
  view.weighed = points.weigh(currentState());
  view.plan = suggestion();
  view.weighedFigures = points.figures(view.weighed.weights);
  view.own = isOwn();
  view.figures = view.own ? ownFigures : view.weighedFigures;
  for (const { node, list } of parts) if (!node || node.open) for (const update of list) update();
}

// A part of the page that is folded at first; what it shows is brought up to date when it is unfolded.
function part(id, title, lead, makers) {
  const list = [];
  const node = make("details", { id, class: "part", on: { toggle: () => { if (node.open) refresh(); } } },
    make("summary", {}, make("span", { class: "part-title" }, title), make("span", { class: "soft small block" }, lead)));
  parts.push({ node, list });
  updates = list;
  node.append(...makers.map((maker) => maker()).filter(Boolean));
  return node;
}

byId("top").append(make("div", { class: "masthead" }, make("h1", {}, payload.title),
  make("div", { class: "buttons no-print" }, make("button", { type: "button", class: "quiet", on: {
    click: () => window.print() } }, "Print"), themeButton())));
const card = cardSection();
const more = part("more", "More", "Ranges and efforts, other ways to get there, bookmarks", [termsSection, waysSection,
  menuSection, wordsSection]);
const analysts = part("analysts", "For analysts", "Rules, draws, sampling and the receipt", [etaSection, rulesSection,
  changesSection, importanceSection, cloudSection, tradeSection, disagreementSection, qualitySection, receiptSection]);
byId("page").replaceChildren(...[warningBanner(), card, more, analysts, copyDialog()].filter(Boolean));
byId("foot").append(make("p", { class: "soft small" }, `Made by gbce ${payload.receipt.versions.gbce}. One file: no `
  + "server, no network."));
if (window.self !== window.top) document.documentElement.dataset.framed = "yes";
refresh();
document.documentElement.dataset.ready = "yes";

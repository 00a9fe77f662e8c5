// The card of the explorer: one suggestion in words and as a picture, how often it works, and what may not change.

const MOST_CHIPS = 12; // columns that are named before somebody asks for all of them
const HUNDRED = { side: 10, step: 13, radius: 4.6 }; // dots of the picture of 100 cases

// --- pictures --------------------------------------------------------------------------------------------------

// A value now and then on a line of the column's usual values; an arrow where it has no order.
function movePicture(column, from, to) {
  const width = 180, height = 26, middle = height / 2;
  const node = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "picture move", "aria-hidden": "true" });
  let [a, b] = [width * 0.3, width * 0.7];
  if (!column.unordered && Number.isFinite(from) && Number.isFinite(to)) {
    const x = linearScale(stripDomain(column, to), [8, width - 8]);
    [a, b] = [x(from), x(to)];
    node.append(draw("line", { class: "track", x1: 2, x2: width - 2, y1: middle, y2: middle }));
  }
  node.append(draw("line", { class: "arrow", x1: a, x2: b, y1: middle, y2: middle }),
    draw("line", { class: "row", x1: a, x2: a, y1: 3, y2: height - 3 }),
    draw("path", { class: "plan", d: "M0,-8 L7,0 L0,8 L-7,0 Z", transform: `translate(${b},${middle})` }));
  return node;
}

// So many of a hundred dots filled.
function hundredPicture() {
  const { side, step, radius } = HUNDRED, size = side * step;
  const node = makePicture(size, size, "", { class: "picture hundred" });
  const dots = Array.from({ length: side * side }, (_, k) => draw("circle", { r: radius,
    cx: (k % side + 0.5) * step, cy: (Math.floor(k / side) + 0.5) * step }));
  node.append(...dots);
  const update = (share) => {
    const n = Math.floor(100 * share + 1e-9);
    dots.forEach((dot, k) => dot.setAttribute("class", k < n ? "works" : "fails"));
    node.setAttribute("aria-label", `${n} of 100 dots are filled`);
  };
  return { node, update };
}

// What changes, with a picture of each change, and what the model says before and after.
function changeTable(i, caption) {
  const moves = changesOf(i, points.reached[i] === 1 ? undefined : PROSE_DIGITS); // nobody acts on a miss
  if (!moves.length) return make("p", { class: "soft" }, "Nothing changes.");
  const picture = (one) => movePicture(one.column, one.from, one.to);
  const lines = moves.map((one) => [one.column.name + (one.column.computed ? " (follows from others)" : ""),
    one.texts[0], picture(one), one.texts[1]]);
  const bare = (said) => said.replace(/ \(wanted: [^()]*\)$/, ""); // the title has it
  lines.push([payload.models.length > 1 ? payload.models[0] : "the model", bare(payload.row.said[0].said), "",
    bare(sayVerdict(i))]);
  return scrollBox(caption, makeTable(caption, ["column", "now", make("span", { class: "only-read" }, "change"), "then"], lines, { class: "changes" }));
}

// --- what may not change ---------------------------------------------------------------------------------------

// A button for each column that keeps it as it is, and the columns that never change.
function chipBlock() {
  const box = make("div", { class: "chips", id: "chips" }), chips = [];
  const add = (column) => {
    const chip = make("button", { type: "button", class: "chip", "data-chip": column.position, "aria-pressed": "false",
      on: { click: () => controlFor(column).toggleKeep() } }, shorten(column.name, 80));
    chips.push({ column, chip });
    box.append(chip);
  };
  const choices = listed.filter((column) => !column.computed);
  choices.slice(0, MOST_CHIPS).forEach(add);
  const rest = choices.slice(MOST_CHIPS);
  const update = () => chips.forEach(({ column, chip }) => chip.setAttribute("aria-pressed",
    String(asked.conditions.get(column)?.keep === true)));
  const more = rest.length ? make("button", { type: "button", class: "quiet no-print", id: "all-chips", on: { click: () => {
    rest.splice(0).forEach(add);
    more.remove();
    update();
  } } }, `Show all ${choices.length} columns`) : null;
  const fixed = points.columns.filter((column) => !column.free && !column.computed).map((column) => column.name);
  const some = fixed.length > MOST_CHIPS ? [...fixed.slice(0, MOST_CHIPS), `${fixed.length - MOST_CHIPS} more`] : fixed;
  updates.push(update);
  return make("div", { class: "keeping" }, make("h3", {}, "What I cannot change"),
    make("p", { class: "soft small no-print" }, "Press what has to stay as it is."), box, more,
    some.length ? make("p", { class: "soft small" }, `Always as they are: ${joinWords(some)}.`) : null);
}

// --- the card --------------------------------------------------------------------------------------------------

function whyFacts() {
  const { answer, row } = payload;
  const said = row.said.map((one) => (payload.models.length > 1 ? `${one.model} ${one.said}` : `the model ${one.said}`));
  const facts = [["today", `${capitalise(joinWords(said))}.`], ["wanted", payload.target]];
  for (const one of payload.conditions) facts.push(["given that", one]);
  if (!answer) return [...facts, ["why this", "No decision was requested: this is the cheapest tested option."]];
  facts.push(["why this", answer.because]);
  if (answer.reliability) {
    const { share, low, high, n, exact } = answer.reliability;
    facts.push(["how sure", exact
      ? `Computed, not simulated: ${ofHundred(share, true)}, a sum over the cells of the model.`
      : `In ${numberText(n)} trials with slightly different values, it worked ${
        ofHundred(share)} times (95% interval ${ofHundred(low)} to ${ofHundred(high)}).`]);
  }
  if (answer.expected && answer.expected.exact) {
    facts.push(["on average", `In such cases the mean output is ${shortNumber(answer.expected.mean)} (exact).`]);
  }
  return facts;
}

// The sentence of a point: what to do and what the model then says, larger than the rest.
function sentenceParts(i) {
  if (i < 0) return ["None of the tested options fits.", " To search again, run the line below in Python."];
  const text = sayPoint(i, true), cut = i === answerPoint ? payload.answer.head : text.length;
  return [text.slice(0, cut), text.slice(cut)];
}

function adviceBlock() {
  const line = make("code", { id: "python-line" }), beside = make("p", { class: "soft small", id: "python-line-lacks" });
  const text = make("p", { id: "advice-text" });
  const node = make("div", { class: "advice", id: "advice", hidden: true }, text, line, beside,
    make("div", { class: "buttons no-print" }, make("button", { type: "button", on: {
      click: () => offerCopy("The Python call", line.textContent) } }, "Copy this line")));
  updates.push(() => {
    const { enough } = view.weighed;
    const { point, met } = view.plan;
    node.hidden = enough && point >= 0 && met;
    setText(text, enough ? `${point >= 0 && !met ? "To search for a reliable change" : "To search again"}, run this in Python:`
      : `Fewer than ${ENOUGH_DRAWS} effective draws are too few to be trusted: whatever rests on them is greyed out. `
        + "To search again, run this in Python:");
    const { line: words, leftOut } = askingLine();
    setText(line, words);
    setText(beside, leftOut);
    document.body.classList.toggle("too-few", !enough);
  });
  return node;
}

function cardSection() {
  const reaching = points.reached.reduce((sum, one) => sum + one, 0);
  const head = make("strong", {}), rest = make("span", { class: "rest" });
  const sentence = make("p", { class: "sentence", id: "plan-sentence" }, head, rest);
  const about = make("p", { class: "soft", id: "plan-about" });
  const missed = make("p", { class: "warning", role: "note", hidden: true },
    "This does not reach the target. It is the best option found, not a solution.");
  const unsure = make("p", { class: "warning", id: "plan-unsure", role: "note", hidden: true });
  const table = make("div", { id: "plan-table" }), dots = hundredPicture();
  const count = make("strong", { class: "count" }), meaning = make("span", { class: "soft small" });
  const works = make("figure", { class: "works", id: "plan-works" }, dots.node, make("figcaption", {}, count, meaning));
  const keep = make("button", { type: "button", id: "bookmark", on: {
    click: () => { if (view.plan.point >= 0) bookmark(view.plan.point); } } }, "Bookmark");
  const reset = make("button", { type: "button", id: "reset", on: { click: resetAll } }, "Back to the answer");
  const buttons = copyButtons("The suggestion", () => (view.plan.point >= 0 ? pointTexts(view.plan.point)
    : { text: "", CSV: "", JSON: "null" }));
  buttons.prepend(reset, keep);
  let shown = null;
  updates.push(() => {
    const { point, from, met } = view.plan, changed = !untouched();
    const [first, second] = sentenceParts(point);
    setText(head, first);
    setText(rest, second);
    const reached = point >= 0 && points.reached[point] === 1;
    sentence.classList.toggle("missed", !reached);
    missed.hidden = point < 0 || reached;
    const known = point >= 0 ? reliabilityOf(point) : null;
    // what holds less often than the answer, or nobody knows how often, must not look like it
    const held = measureOf(answerPoint);
    const weaker = point >= 0 && from !== "answer" && (known ? known[0] < held - 1e-9 : !Number.isNaN(held));
    unsure.hidden = met || point < 0;
    setText(unsure, `Not reliable as far as is known: ${known ? "this option works less often than the answer"
      : "how often this option works was not tested"}, and no tested option that fits is known to work as often as the answer.`);
    about.classList.toggle("missed", weaker);
    const source = { answer: "This is the original answer.", frontier: "This is a step of the reliability frontier.",
      reliable: "This is the cheapest tested option that fits and is known to be this reliable.",
      known: "This is the cheapest of the tested options." }[from];
    setText(about, point < 0 || (!changed && payload.answer) ? "" : `${source} ${known ? known[1]
      : "How often it works if the values turn out slightly different was not measured."}${
      weaker && known ? " That is less often than the answer." : ""}`);
    works.hidden = !known || !reached;
    if (known) {
      dots.update(known[0]);
      setText(count, known[2]);
      setText(meaning, known[3]);
    }
    if (shown !== point) {
      table.replaceChildren(...(point >= 0 ? [changeTable(point, "what changes")] : []));
      shown = point;
    }
    keep.disabled = point < 0;
    reset.disabled = !changed;
    for (const button of buttons.querySelectorAll("[data-copy]")) button.disabled = point < 0;
  });
  const whyTitle = make("summary", {}, "Why this, and how sure");
  // the facts below are the answer's, whatever the card shows by now
  updates.push(() => setText(whyTitle, view.plan.from === "answer" || !payload.answer ? "Why this, and how sure"
    : "The original answer: why, and how sure"));
  const why = make("details", { class: "small", id: "why" }, whyTitle,
    make("dl", { class: "facts" }, whyFacts().map(([name, fact]) => [make("dt", {}, name), make("dd", {}, fact)])),
    payload.notes.length ? make("ul", { class: "notes" }, payload.notes.map((note) => make("li", {}, note))) : null);
  return make("section", { id: "answer", "aria-labelledby": "answer-title" },
    make("h2", { id: "answer-title", class: "only-read" }, "The suggestion"),
    make("div", { class: "plan-card", id: "plan" }, make("div", { "aria-live": "polite" }, sentence, about), missed, unsure,
      make("div", { class: "now-then" }, table, works), adviceBlock(), why),
    make("div", { class: "work" }, chipBlock(), sliderBlock()), buttons,
    make("p", { class: "soft small" }, reaching ? `Tell us what you can and cannot change. This page picks the smallest change `
      + `that fits from ${plural(reaching, "option")} already tested on the model. Nothing leaves your browser.`
      : "None of the options tested on the model reaches the target. Nothing leaves your browser."));
}

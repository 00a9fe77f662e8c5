// What is asked of the page: the positions of the reliability slider, and the same questions as lines of Python.

// --- how reliable ----------------------------------------------------------------------------------------------

// How reliable a point is by the measure of the frontier, NaN where that is not known: the share of tries under small
// errors of execution, or of the models that agree.
function measureOf(i) {
  const { answer, decisions, frontier } = payload;
  if (frontier.of === "models") return i >= 0 ? points.agreed[i] : NaN;
  const step = frontier.steps.find((one) => one.point === i);
  if (step) return step.reliability;
  if (answer && i === answer.point && answer.reliability) return answer.reliability.share;
  return decisions.find((one) => one.point === i && one.robustness !== null)?.robustness
    ?? (frontier.of === "noise" ? payload.measured[i] : undefined) ?? NaN;
}

// Every step of the frontier and the answer at its own place, from the least reliable up. What is not known comes first.
function reliabilityPositions() {
  const found = payload.frontier.steps.map((one, step) => ({ step, point: one.point, reliability: one.reliability,
    own: false }));
  const same = answerPoint >= 0 ? found.find((one) => one.point === answerPoint) : undefined;
  if (same) same.own = true;
  else found.push({ step: -1, point: answerPoint, reliability: measureOf(answerPoint), own: true });
  const rank = (one) => (Number.isNaN(one.reliability) ? -1 : Math.round(one.reliability * 1e6)); // shares are kept as floats
  return found.sort((a, b) => rank(a) - rank(b) || Number(b.own) - Number(a.own));
}

// A reliability as people count: so many of 100 tries, or of the models; with more digits where two would read alike.
function reliabilityTexts(positions) {
  const weights = payload.receipt.weights.filter((one) => one > 0);
  const alike = weights.every((one) => Math.abs(one - weights[0]) < 1e-9);
  const write = (share, digits) => {
    if (Number.isNaN(share)) return "not measured";
    if (payload.frontier.of === "models") {
      if (share > 1 - 1e-6) return `all ${weights.length} models`;
      return alike ? `${Math.round(share * weights.length)} of ${weights.length} models`
        : `${percentText(share)} of the models' weight`;
    }
    if (share > 1 - 1e-9) return ofHundred(share);
    const power = 10 ** digits;
    return `${Math.floor(100 * power * share + 1e-7) / power} of 100`;
  };
  let texts = [];
  for (let digits = 0; digits < 3; digits++) {
    texts = positions.map((one) => write(one.reliability, digits));
    if (new Set(texts).size === texts.length) break;
  }
  return texts;
}

function sayPosition(positions, texts, k) {
  if (!positions[k].own) return positions[k].reliability > 1 - 1e-6 ? texts[k] : `at least ${texts[k]}`;
  return answerPoint < 0 ? "any" : `${texts[k]}, as the answer`;
}

// --- lines of Python -------------------------------------------------------------------------------------------

// The options of given(...) that say what was asked of the columns, as Python reads them.
function writtenOptions() {
  const options = { keep: [], at_least: {}, at_most: {}, exactly: {}, effort: {} };
  for (const [column, one] of asked.conditions) {
    if (one.keep) options.keep.push(column.key);
    else if (one.missing) options.exactly[column.key] = null;
    else if (one.level !== undefined) options.exactly[column.key] = column.written[one.level];
    else {
      if (one.low !== undefined) options.at_least[column.key] = one.lowText;
      if (one.high !== undefined) options.at_most[column.key] = one.highText;
    }
  }
  for (const [column, effort] of asked.efforts) options.effort[column.key] = EFFORTS[effort];
  return Object.entries(options)
    .filter(([, value]) => (Array.isArray(value) ? value.length : Object.keys(value).length))
    .map(([name, value]) => `${name}=${pythonText(value)}`);
}

const ownEta = () => asked.step === Math.max(ownStep, 0);
const writtenEta = () => pythonText(payload.points.etas[asked.step]);

// The line that reads the numbers of the page off the same draws, without asking a model.
function readingLine() {
  const options = writtenOptions();
  return `explanation${ownEta() ? "" : `.at(${writtenEta()})`}${options.length ? `.given(${options.join(", ")})`
    : ""}.distribution`;
}

// From trials nobody can promise certainty: a point that held in all of them is asked for with this probability.
const MOST_PROMISED = 0.99;

// The line that asks the models for what the page suggests, and what of it the line has no word for.
function askingLine() {
  const options = [...(ownEta() ? [] : [`eta=${writtenEta()}`]), ...writtenOptions()];
  const there = options.length ? `explainer.given(explanation, ${options.join(", ")})` : "explanation";
  const wanted = wantedPosition(), few = asked.most !== ANY, leftOut = [];
  if (few && view.plan?.met === false) leftOut.push("the reliability");
  if (wanted && few) leftOut.push(`at most ${plural(asked.most, "column")}`);
  if ((wanted || few) && asked.efforts.size) leftOut.push("the effort, by which this rule does not measure");
  let line = options.length ? there : "explainer.decide(explanation, gbce.Nearest())";
  if (wanted && payload.frontier.of === "models") {
    line = `${there}.frontier(levels=[${pythonText(wanted.reliability)}])`;
  } else if (wanted) {
    line = `explainer.decide(${there}, gbce.Reliable(${pythonText(Math.min(wanted.reliability, MOST_PROMISED))}))`;
  } else if (few) line = `explainer.decide(${there}, gbce.Nearest(max_changes=${asked.most}))`;
  return { line, leftOut: leftOut.length ? `It leaves out: ${joinWords(leftOut)}.` : "" };
}

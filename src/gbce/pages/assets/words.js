// Words that a page uses, each for one idea, and what it means by them.

function noiseText(noise) {
  return typeof noise === "number" ? `by about ${shortNumber(noise)} units` : "by a stated noise";
}

const MEANINGS = {
  target: "What the model is wanted to say.",
  change: "A value of a column then, where it differs from the value now.",
  unit: "What counts as one step of a column: unless somebody said otherwise, about as much as rows of the data usually "
    + "differ in it. A category has one step, to any other level.",
  cost: "All changes of a suggestion added up, each counted in units of its column.",
  distance: "Like the cost, but as the crow flies: the square root of the sum of squared changes.",
  draw: "One possible change of the row, shown to the model. Draws that stay near the row and reach the target count "
    + "more than others, and all draws together show which changes would do.",
  "effective draws": "So many draws of equal weight say as much as all of them with their weights.",
  "small errors of execution": "Also called execution noise: what is done is rarely exact.",
  holds: "Still reaches the target under small errors of execution; said as a share of such tries.",
  eta: "How much reaching the target counts against staying near the row.",
  "without the target": "Where draws would lie if only nearness to the row counted.",
  loss: "How far what the model says is from the target, as a penalty: zero is best.",
  rule: "A way to choose one of the draws, or a point near them.",
  refits: "The same kind of model, fitted again; said as the share of them that agree.",
  output: "What the first model says, as a number.",
};

// A folded list of words with their meanings.
function glossary(names, more = {}) {
  return make("details", { class: "words small", id: "words" }, make("summary", {}, "Words on this page"),
    make("dl", { class: "facts" }, names.map((name) => [make("dt", {}, name), make("dd", {}, MEANINGS[name]
      + (more[name] ? ` ${more[name]}` : ""))])));
}

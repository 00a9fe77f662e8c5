// Glossary: the terms that a page uses, each for one idea.

function noiseText(noise) {
  return typeof noise === "number" ? `by about ${shortNumber(noise)} units` : "by a stated noise";
}

const MEANINGS = {
  target: "The model output that you want.",
  change: "The difference between the current and the suggested value.",
  unit: "One step of a column: by default about as much as rows of the data usually differ in it. For a category, one "
    + "step leads to any other level.",
  cost: "All changes of a suggestion added up, each in units of its column.",
  distance: "Like the cost, but Euclidean: the square root of the sum of squared changes.",
  draw: "One possible change of the row, tested on the model. Draws that stay near the row and reach the target have more "
    + "weight than others; one that misses it is not a counterfactual.",
  "effective draws": "The number of equally weighted draws that carry the same information.",
  "small errors of execution": "Also called execution noise: changes are rarely made exactly.",
  works: "Still reaches the target under small errors of execution, as a share of trials.",
  eta: "How much reaching the target counts against staying near the row.",
  "without the target": "Where the draws would lie if only nearness to the row counted.",
  loss: "A penalty for missing the target: zero is best.",
  rule: "A way to choose one of the draws, or a point near them.",
  refits: "The same kind of model, fitted again: the share of them that agree.",
  output: "The output of the first model, as a number.",
};

// A folded list of words with their meanings.
function glossary(names, more = {}) {
  return make("details", { class: "words small", id: "words" }, make("summary", {}, "Words on this page"),
    make("dl", { class: "facts" }, names.map((name) => [make("dt", {}, name), make("dd", {}, MEANINGS[name]
      + (more[name] ? ` ${more[name]}` : ""))])));
}

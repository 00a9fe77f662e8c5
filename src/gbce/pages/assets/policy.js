// Sections of decisions about many rows: sentences, tables with drawn intervals, and plans step by step.

function intervalMark(value, low, high, least, most) {
  const scale = linearScale([least, most], [5, 155]);
  return draw(
    "svg", { viewBox: "0 0 160 18", class: "interval", "aria-hidden": "true" },
    draw("line", { x1: 5, x2: 155, y1: 9, y2: 9, class: "axis" }),
    least < 0 ? draw("line", { x1: scale(0), x2: scale(0), y1: 3, y2: 15, class: "axis" }) : null,
    low === null || low === undefined || high === null || high === undefined ? null
      : draw("line", { x1: scale(Math.max(low, least)), x2: scale(Math.min(high, most)), y1: 9, y2: 9, class: "span" }),
    draw("circle", { cx: scale(value), cy: 9, r: 4, class: "mark" }),
  );
}

const cellOf = (cell) => (typeof cell === "string" ? cell : [
  cell.value === null ? null : intervalMark(cell.value, cell.low, cell.high, cell.least, cell.most),
  make("span", {}, cell.text),
]);

function policyTable({ caption, heads, lines, more }) {
  const table = makeTable(caption, heads, lines.map((line) => line.map(cellOf)));
  // on a narrow screen each line stands as a list, whose entries need their heads; its roles stay those of a table
  table.setAttribute("role", "table");
  for (const line of table.rows) {
    line.setAttribute("role", "row");
    [...line.cells].forEach((cell, k) => {
      cell.setAttribute("data-head", heads[k]);
      cell.setAttribute("role", cell.tagName === "TD" ? "cell" : cell.scope === "col" ? "columnheader" : "rowheader");
    });
  }
  table.caption.className = "only-read";
  return make(
    "div", { class: "policy-table" }, make("p", { class: "soft small", "aria-hidden": "true" }, caption),
    scrollBox(caption, table), more ? make("p", { class: "soft small" }, more) : null,
  );
}

function makePolicies(sections) {
  return (sections ?? []).map((one) => make(
    "section", { id: one.id, class: "policy", "aria-labelledby": `${one.id}-title` },
    make("h2", { id: `${one.id}-title` }, one.title),
    one.sentences.length ? make("ul", { class: "policy-said" }, one.sentences.map((text) => make("li", {}, text))) : null,
    one.tables.map(policyTable),
    (one.plans ?? []).map((plan) => make(
      "details", { class: "plan" }, make("summary", {}, plan.name),
      make("ol", {}, plan.steps.map((text) => make("li", {}, text))),
      plan.note ? make("p", {}, plan.note) : null,
    )),
  ));
}

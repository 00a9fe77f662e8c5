// The live page: a form that asks the models in the kernel, above the explorer in a frame of its own.
// Joined after common.js; an anywidget host calls render. Names and levels are only ever shown as text nodes.

function makeLine(column, change) {
  const label = (what) => `${what} ${column.shown}`;
  const value = column.kind === "level"
    ? make("select", { "aria-label": label("set"), on: { change } }, make("option", { value: "" }, "as it is"),
      column.levels.map((text, k) => make("option", { value: k }, text)))
    : make("input", {
      type: column.kind === "moment" ? "text" : "number", step: column.whole ? 1 : "any", "aria-label": label("set"),
      placeholder: column.now, on: { input: change },
    });
  const hold = make(
    "select", { "aria-label": label("hold"), disabled: column.fixed, on: { change: () => { showEnds(); change(); } } },
    make("option", { value: "" }, column.fixed ? "stays" : "may change"), make("option", { value: "keep" }, "stays"),
    column.kind === "number" ? make("option", { value: "between" }, "in a range") : null,
  );
  const ends = ["from", "to"].map((end) => make("input", {
    type: "number", step: "any", "aria-label": label(end), placeholder: end, hidden: true, on: { input: change },
  }));
  const showEnds = () => ends.forEach((one) => { one.hidden = hold.value !== "between"; });
  const line = make(
    "tr", { "data-column": column.shown }, make("th", { scope: "row" }, column.shown), make("td", {}, column.now),
    make("td", {}, value), make("td", {}, hold, ends),
  );
  const number = (field) => (field.value === "" ? null : Number(field.value));
  const read = {
    value: () => (value.value === "" ? undefined : column.kind === "moment" ? value.value : Number(value.value)),
    kept: () => hold.value === "keep",
    range: () => (hold.value === "between" ? ends.map(number) : undefined),
  };
  return { column, line, read };
}

function render({ model, el }) {
  const said = make("p", { class: "gbce-said", role: "status" });
  const sentence = make("p", { class: "gbce-sentence" });
  const frame = make("iframe", { title: "explanation" });
  const body = make("tbody");
  let lines = [], last = 0, waiting = null;

  const buttons = {
    value: make("button", { type: "button" }, "Ask the model"),
    given: make("button", { type: "button" }, "Sample again"),
    explain: make("button", { type: "button" }, "Explain the edited row"),
    reset: make("button", { type: "button" }, "Start over"),
  };
  const what = {
    value: "evaluates the row with the values set", given: "with the columns held as chosen",
    explain: "explains the row with the values set", reset: "back to where it began",
  };

  function collect() {
    const values = {}, between = {}, keep = [];
    for (const { column, read } of lines) {
      const value = read.value(), range = read.range();
      if (value !== undefined) values[column.name] = value;
      if (read.kept()) keep.push(column.name);
      if (range && (range[0] !== null || range[1] !== null)) between[column.name] = range;
    }
    return { values, between, keep };
  }

  function enable() {
    const { values, between, keep } = collect();
    const set = Object.keys(values).length > 0, held = keep.length + Object.keys(between).length > 0;
    buttons.value.disabled = waiting !== null || !set;
    buttons.explain.disabled = waiting !== null || !set;
    buttons.given.disabled = waiting !== null || !held;
    buttons.reset.disabled = waiting !== null;
  }

  function ask(kind) {
    waiting = `${Date.now()}-${++last}`;
    said.className = "gbce-said";
    setText(said, "Asking …");
    enable();
    model.send({ id: waiting, ask: kind, ...collect() });
  }

  function hear(message) {
    if (!message || message.id !== waiting) return;
    waiting = null;
    said.className = `gbce-said${message.ok ? (message.reached ? " good" : "") : " bad"}`;
    setText(said, message.ok ? message.said : message.error);
    enable();
  }

  function showColumns() {
    lines = model.get("columns").map((column) => makeLine(column, enable));
    body.replaceChildren(...lines.map((one) => one.line));
    enable();
  }

  function showPage() {
    setText(sentence, model.get("sentence"));
    frame.srcdoc = model.get("page");
  }

  for (const [kind, button] of Object.entries(buttons)) {
    button.title = what[kind];
    button.addEventListener("click", () => ask(kind));
  }
  frame.addEventListener("load", () => {
    const inside = frame.contentDocument;
    if (!inside) return;
    const fit = () => { frame.style.height = `${inside.body.offsetHeight + 24}px`; };
    new ResizeObserver(fit).observe(inside.body);
    fit();
  });
  el.replaceChildren(make(
    "div", { class: "gbce-live" }, sentence,
    make("details", { open: true }, make("summary", {}, "Ask the model"), make(
      "div", { class: "gbce-scroll" }, make(
        "table", {}, make("caption", {}, "Set values to test, or hold columns and sample again"),
        make("thead", {}, make("tr", {}, ["column", "now", "set to", "hold"].map((head) => make("th", { scope: "col" }, head)))),
        body,
      ),
    ), make("div", { class: "gbce-buttons" }, Object.values(buttons)), said), frame,
  ));
  showColumns();
  showPage();
  const changes = { "change:page": showPage, "change:columns": showColumns, "change:sentence": showPage, "msg:custom": hear };
  for (const [event, listener] of Object.entries(changes)) model.on(event, listener);
  return () => { for (const [event, listener] of Object.entries(changes)) model.off(event, listener); };
}

export default { render };

// Pictures of the explorer, drawn by hand in SVG. Each returns its node and a function that moves it.

const STRIP = { width: window.innerWidth < 640 ? 360 : 560, height: 34, left: 6, right: 6 };
const MOST_BARS = 6; // levels of a category that are drawn; the others are counted
const MOST_DOTS = 400; // points of a cloud
// Steps of the two coordinates of Roberts' R2 sequence (2018): they fill the plane evenly, so that no pattern appears
// where both axes are spread.
const SPREAD = [0.7548776662466927, 0.5698402909980532];
// On a narrow screen pictures have fewer units, so that their texts are not smaller.
const NARROW = window.innerWidth < 640;
const LETTER = 8; // units that a wide letter takes in a picture's text
const CLOUD = { width: NARROW ? 360 : 640, height: NARROW ? 340 : 420, left: 92, right: 16, top: 12, bottom: 46 };
const CURVE = { width: NARROW ? 360 : 480, height: 250, left: 52, right: 16, top: 14, bottom: 44 };

// Where a number may end up: the prior's range pale, the draws' range strong, a dot in the middle, a line at the row.
function intervalStrip(column, domain) {
  const { width, height, left, right } = STRIP;
  const x = linearScale(domain, [left, width - right]);
  const at = (value) => Math.min(Math.max(x(value), 1), width - 1);
  const middle = height / 2;
  const prior = draw("rect", { y: middle - 9, height: 18, rx: 3, class: "prior" });
  const range = draw("rect", { y: middle - 5, height: 10, rx: 3, class: "draws" });
  const median = draw("circle", { cy: middle, r: 5, class: "median" });
  const plan = draw("path", { class: "plan", d: "M0,-9 L7,0 L0,9 L-7,0 Z" });
  const row = draw("line", { y1: 2, y2: height - 2, class: "row" });
  const node = makePicture(width, height, "", { class: "picture strip" });
  node.append(prior, range, row, median, plan);
  const span = (bar, ends) => {
    const known = ends !== null && Number.isFinite(ends[0]);
    bar.setAttribute("visibility", known ? "visible" : "hidden");
    if (known) setAttributes(bar, { x: at(ends[0]), width: Math.max(at(ends[2]) - at(ends[0]), 2) });
  };
  const update = (before, after, chosen) => {
    span(prior, before);
    span(range, after);
    const known = Number.isFinite(after[1]);
    median.setAttribute("visibility", known ? "visible" : "hidden");
    if (known) median.setAttribute("cx", at(after[1]));
    row.setAttribute("visibility", Number.isFinite(column.start) ? "visible" : "hidden");
    if (Number.isFinite(column.start)) setAttributes(row, { x1: at(column.start), x2: at(column.start) });
    plan.setAttribute("visibility", Number.isFinite(chosen) ? "visible" : "hidden");
    if (Number.isFinite(chosen)) plan.setAttribute("transform", `translate(${at(chosen)},${middle})`);
    const said = known ? `${column.text(after[0], 4)} to ${column.text(after[2], 4)}, the middle one ${
      column.text(after[1], 4)}` : "not known";
    const usual = before && Number.isFinite(before[0]) ? `; without the target ${column.text(before[0], 4)} to ${
      column.text(before[2], 4)}` : "";
    node.setAttribute("aria-label", `${column.name}: nine in ten draws lie from ${said}${usual}; now ${
      column.text(column.now, 4)}`);
  };
  return { node, update };
}

// Levels of a category: how often draws have each, over a pale bar of how often they would without the target.
function levelBars(column) {
  const lines = [];
  const node = make("ul", { class: "levels", "aria-label": `levels of ${column.name}` });
  const update = (before, after, chosen) => {
    const n = column.levels.length;
    const codes = Array.from({ length: n + (column.missing ? 1 : 0) }, (_, code) => code);
    const weight = (code) => Math.max(after[code], before ? before[code] : 0);
    codes.sort((a, b) => (b === column.now) - (a === column.now) || (b === chosen) - (a === chosen)
      || weight(b) - weight(a) || a - b);
    const shown = codes.slice(0, MOST_BARS);
    while (lines.length < shown.length) {
      const parts = { name: make("span", { class: "name" }), bar: make("span", { class: "bar" }),
        fill: make("span", { class: "fill" }), ghost: make("span", { class: "ghost" }),
        share: make("span", { class: "share" }) };
      parts.bar.append(parts.ghost, parts.fill);
      parts.node = make("li", {}, parts.name, parts.bar, parts.share);
      node.append(parts.node);
      lines.push(parts);
    }
    shown.forEach((code, k) => {
      const line = lines[k];
      const name = code === n ? "(missing)" : column.levels[code];
      const marks = [code === column.now ? "now" : "", code === chosen ? "suggested" : ""].filter(Boolean);
      setText(line.name, shorten(name, 40) + (marks.length ? ` (${marks.join(", ")})` : ""));
      line.fill.style.width = `${100 * after[code]}%`;
      Object.assign(line.node.dataset, { level: code, share: after[code] });
      line.ghost.hidden = !before;
      if (before) line.ghost.style.width = `${100 * before[code]}%`;
      setText(line.share, percentText(after[code])
        + (before ? ` (without the target ${percentText(before[code])})` : ""));
    });
    if (codes.length > shown.length) {
      node._more ??= node.appendChild(make("li", { class: "soft" }));
      const rest = codes.slice(shown.length).reduce((sum, code) => sum + after[code], 0);
      setText(node._more, `and ${plural(codes.length - shown.length, "level")} more, ${percentText(rest)} together`);
    }
  };
  return { node, update };
}

// Mean size of a column's change as a bar, over a pale one of how far it would move without the target.
function changeBar(column) {
  const bar = make("span", { class: "bar" });
  const fillOf = make("span", { class: "fill" }), ghost = make("span", { class: "ghost" });
  bar.append(ghost, fillOf);
  const share = make("span", { class: "share" });
  const node = make("li", {}, make("span", { class: "name", title: column.name }, shorten(column.name, 48)), bar, share);
  const unit = column.kind === "datetime" ? " days" : column.levels && !column.unordered ? " levels" : unitText(column.unit);
  const update = (after, before, most) => {
    fillOf.style.width = `${100 * Math.min(after / column.scale / most, 1) || 0}%`;
    ghost.hidden = !(before >= 0);
    ghost.style.width = `${100 * Math.min(before / column.scale / most, 1) || 0}%`;
    const what = column.unordered ? `changes in ${percentText(after)} of draws` : `${shortNumber(after)}${unit} on average`;
    const usual = column.unordered ? percentText(before) : shortNumber(before);
    setText(share, Number.isFinite(after) ? `${what} (without the target ${usual})` : "not known");
    Object.assign(node.dataset, { column: column.position, change: after });
  };
  return { node, update };
}

function frame(size, xTitle, yTitle, title) {
  const node = makePicture(size.width, size.height, title);
  const { left, right, top, bottom, width, height } = size;
  const fits = Math.floor((width - right) / LETTER); // letters of a title
  const axes = draw("g", {});
  const marks = draw("g", {});
  node.append(axes, marks);
  let drawn = "";
  const retitle = (xs, ys, xTicks, yTicks, xText, yText) => {
    const now = [xTitle(), yTitle(), ...xTicks.map((one) => [xs(one), xText(one)]), "", ...yTicks.map((one) => [ys(one),
      yText(one)])].join("\n");
    if (now === drawn) return;
    drawn = now;
    axes.replaceChildren(
      draw("path", { class: "axis", d: `M${left},${top} V${height - bottom} H${width - right}` }),
      ...xTicks.map((value) => draw("text", { x: xs(value), y: height - bottom + 18, "text-anchor": "middle",
        class: "soft" }, xText(value))),
      ...yTicks.map((value) => draw("text", { x: left - 6, y: ys(value) + 4, "text-anchor": "end", class: "soft" },
        yText(value))),
      draw("text", { x: width - right, y: height - 6, "text-anchor": "end" }, shorten(xTitle(), fits)),
      draw("text", { x: 0, y: top - 2, "text-anchor": "start" }, shorten(yTitle(), fits)),
    );
  };
  return { node, marks, retitle };
}

// A line over eta with its 95% band, and a line at the eta of the slider.
function etaCurve(path, name, title, yTitle, percent) {
  const lines = path.filter((one) => one.eta > 0 && one[name] !== null);
  const size = CURVE;
  const { node, marks, retitle } = frame(size, () => "how much the target counts (eta)", () => yTitle, title);
  if (lines.length < 2) return null;
  const logs = lines.map((one) => Math.log10(one.eta));
  const ends = lines.flatMap((one) => [one[name] - 1.96 * (one[`${name}_se`] ?? 0),
    one[name] + 1.96 * (one[`${name}_se`] ?? 0)]).filter(Number.isFinite);
  const domain = percent ? [0, 1] : [Math.min(0, ...ends), Math.max(...ends)];
  const x = linearScale([logs[0], logs[logs.length - 1]], [size.left, size.width - size.right]);
  const y = linearScale(domain, [size.height - size.bottom, size.top + 8]);
  const whole = ticksOf(logs[0], logs[logs.length - 1], 4).filter((one) => Number.isInteger(one));
  retitle(x, y, whole.length > 1 ? whole : [logs[0], logs[logs.length - 1]], ticksOf(...y.domain, 4),
    (value) => tickText(10 ** value), (value) => (percent ? `${Math.round(100 * value)}%` : tickText(value)));
  const up = lines.map((one, k) => `${x(logs[k])},${y(Math.min(one[name] + 1.96 * (one[`${name}_se`] ?? 0),
    y.domain[1]))}`);
  const down = lines.map((one, k) => `${x(logs[k])},${y(Math.max(one[name] - 1.96 * (one[`${name}_se`] ?? 0),
    y.domain[0]))}`);
  const cursor = draw("line", { class: "rule", y1: size.top, y2: size.height - size.bottom });
  const dot = draw("circle", { r: 5, class: "median" });
  marks.append(
    draw("path", { class: "band", d: `M${up.join(" L")} L${down.reverse().join(" L")} Z` }),
    draw("path", { class: "line", d: `M${lines.map((one, k) => `${x(logs[k])},${y(one[name])}`).join(" L")}` }),
    cursor, dot,
  );
  const update = (eta, value) => {
    const at = Math.min(Math.max(x(eta > 0 ? Math.log10(eta) : -Infinity), size.left), size.width - size.right);
    setAttributes(cursor, { x1: at, x2: at });
    const known = Number.isFinite(value);
    dot.setAttribute("visibility", known ? "visible" : "hidden");
    if (known) setAttributes(dot, { cx: at, cy: Math.min(Math.max(y(value), size.top), size.height - size.bottom) });
  };
  return { node, update };
}

// How wide a text in a picture is, in its units.
function textWidth(text) {
  textWidth.pen ??= document.createElement("canvas").getContext("2d");
  textWidth.pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return textWidth.pen.measureText(text).width;
}

// Names beside their marks, each at a height of its own where it would cover another name or a mark.
// `lines` are [x, y, x, y] that no name may cross.
function placeLabels(layer, named, size, lines = []) {
  const taken = named.map(([x, y]) => ({ left: x - 8, right: x + 8, top: y - 8, bottom: y + 8 }));
  for (const [ax, ay, bx, by] of lines) {
    taken.push({ left: Math.min(ax, bx) - 3, right: Math.max(ax, bx) + 3, top: Math.min(ay, by) - 3,
      bottom: Math.max(ay, by) + 3 });
  }
  const offsets = [4, -10, 18, -24, 32, 46, -38, 60, 74];
  for (const [x, y, label] of [...named].sort((a, b) => a[1] - b[1])) {
    if (!label) continue;
    const text = shorten(label, NARROW ? 14 : 26), width = textWidth(text) + 2;
    const lefts = [x + 12, x - 12 - width, x - width / 2, ...(x + 12 + width > size.width ? [size.width - width] : [])];
    const places = offsets.flatMap((offset) => lefts.map((left) => ({ left, right: left + width, top: y + offset - 11,
      bottom: y + offset + 3 })));
    const isFree = (one) => one.top > -4 && one.left >= size.left && one.right <= size.width
      && one.bottom < size.height - size.bottom && !taken.some((other) => one.left < other.right
      && other.left < one.right && one.top < other.bottom && other.top < one.bottom);
    const place = places.find(isFree);
    if (!place) continue; // its mark has the name as its title, and the table of rules has all of them
    taken.push(place);
    const [at, anchor] = place.right < x ? [place.right, "end"] : [place.left, "start"];
    layer.append(draw("text", { x: at, y: place.bottom - 3, class: "soft tag", "text-anchor": anchor }, text));
  }
}

// What reliability costs: a step for each point; those of other rules beside it.
function frontierPicture(steps, others, by, choose) {
  const size = { ...CURVE, width: NARROW ? 360 : 640, height: 300 };
  const { node, marks, retitle } = frame(size, () => `${by}, in units`,
    () => "how reliable", "what reliability costs: the cheapest known change for each reliability");
  node.setAttribute("role", "group");
  node.classList.add("wide-picture");
  const far = Math.max(...steps.map((one) => one.cost), ...others.map((one) => one.cost)) * 1.08 || 1;
  const x = linearScale([0, far], [size.left, size.width - size.right]);
  const y = linearScale([0, 1], [size.height - size.bottom, size.top + 10]);
  retitle(x, y, ticksOf(0, far, 5), [0, 0.25, 0.5, 0.75, 1], tickText, (value) => `${100 * value}%`);
  const lines = []; // along from one step to the cost of the next, then up to it
  steps.forEach((one, k) => {
    const next = steps[k + 1], [ax, ay] = [x(one.cost), y(one.reliability)];
    const bx = next ? x(next.cost) : size.width - size.right;
    lines.push([ax, ay, bx, ay]);
    if (next) lines.push([bx, ay, bx, y(next.reliability)]);
  });
  marks.append(draw("path", { class: "line", d: lines.map(([ax, ay, bx, by]) => `M${ax},${ay} L${bx},${by}`).join(" ") }));
  for (const one of others) {
    marks.append(draw("circle", { cx: x(one.cost), cy: y(one.reliability), r: 4.5, class: "other" },
      draw("title", {}, one.label)));
  }
  placeLabels(marks, [...steps, ...others].map((one) => [x(one.cost), y(one.reliability), one.label]), size, lines);
  const dots = steps.map((one, k) => {
    const said = `${holdsText(one.reliability)} reliable at a ${by} of ${shortNumber(one.cost)}: choose it`;
    const dot = draw("circle", { cx: x(one.cost), cy: y(one.reliability), r: 7, class: "step", tabindex: 0,
      role: "button", "aria-label": said, on: {
        click: () => choose(k),
        keydown: (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(k); }
        },
      } }, draw("title", {}, said));
    marks.append(dot);
    return dot;
  });
  const update = (chosen) => dots.forEach((dot, k) => dot.classList.toggle("chosen", k === chosen));
  return { node, update };
}

// Two columns against each other; arrow keys step through the points, and what is behind one is told below, and `count`
// is called with the number of dots that reach the target and of all.
function cloud(points, tell, count, freshen) {
  const size = CLOUD;
  const titles = { x: "", y: "" };
  const { node, marks, retitle } = frame(size, () => titles.x, () => titles.y, "draws in two columns");
  const dots = [];
  const ring = draw("circle", { r: 9, class: "ring", visibility: "hidden" });
  const row = draw("path", { class: "rowmark", d: "M-8,0 H8 M0,-8 V8" });
  const plan = draw("path", { class: "plan", d: "M0,-9 L8,0 L0,9 L-8,0 Z" });
  const layer = draw("g", {});
  marks.append(layer, row, plan, ring);
  const box = make("div", { class: "cloud", tabindex: 0, role: "group", "aria-describedby": "cloud-help",
    "aria-label": "points in two columns" }, node);
  let shown = [], places = [], at = -1;
  const show = (k) => {
    at = k;
    ring.setAttribute("visibility", k >= 0 ? "visible" : "hidden");
    if (k >= 0) setAttributes(ring, { cx: places[k][0], cy: places[k][1] });
    tell(k >= 0 ? shown[k] : -1);
  };
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    freshen();
    if (!shown.length) return;
    event.preventDefault();
    show((at + step + shown.length) % shown.length);
  });
  const nearest = (event) => {
    freshen();
    const rect = node.getBoundingClientRect();
    const k = size.width / rect.width;
    const px = (event.clientX - rect.left) * k, py = (event.clientY - rect.top) * k;
    let best = -1, least = 20 * 20;
    places.forEach(([x, y], i) => {
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < least) { least = far; best = i; }
    });
    return best;
  };
  box.addEventListener("pointermove", (event) => { const k = nearest(event); if (k >= 0 && k !== at) show(k); });
  box.addEventListener("pointerdown", (event) => show(nearest(event)));

  const axisOf = (column, domain, range) => {
    const scale = linearScale(domain, range);
    if (column.levels) {
      const codes = column.levels.map((_, code) => code);
      const every = Math.ceil(codes.length / 6);
      return { scale, ticks: codes.filter((code) => code % every === 0), text: (v) => shorten(column.levels[v], 12) };
    }
    if (column.moments) {
      const values = column.moments.values.filter((one) => one >= domain[0] && one <= domain[1]);
      if (!values.length) return { scale, ticks: [], text: String };
      const near = (q) => domain[0] + q * (domain[1] - domain[0]);
      const some = [...new Set([0, 0.25, 0.5, 0.75, 1].map((q) => values.reduce((a, b) => (Math.abs(b - near(q)) < Math.abs(a - near(q)) ? b : a))))];
      return { scale, ticks: some, text: (v) => column.text(v).slice(0, 10) };
    }
    return { scale, ticks: ticksOf(...scale.domain, 5), text: tickText };
  };
  const domainOf = (column) => {
    if (column.levels) return [-0.5, column.levels.length - 0.5];
    let low = Infinity, high = -Infinity;
    for (const i of shown) {
      const value = column.values[i];
      if (value === value) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    if (Number.isFinite(column.start)) { low = Math.min(low, column.start); high = Math.max(high, column.start); }
    if (!(high >= low)) return [0, 1];
    const room = (high - low) * 0.04 || 0.5;
    return [low - room, high + room];
  };
  const jitter = (column, i, axis) => (column.levels ? ((i * SPREAD[axis]) % 1 - 0.5) * 0.6 : 0);

  const update = (first, second, weights, chosen) => {
    shown = points.pick(weights, Math.min(MOST_DOTS, points.nPool));
    shown = shown.filter((i) => first.values[i] === first.values[i] && second.values[i] === second.values[i])
      .sort((a, b) => points.reached[a] - points.reached[b] || a - b); // those that reach lie on top
    titles.x = first.name;
    titles.y = second.name;
    const xs = axisOf(first, domainOf(first), [size.left, size.width - size.right]);
    const ys = axisOf(second, domainOf(second), [size.height - size.bottom, size.top + 12]);
    retitle(xs.scale, ys.scale, xs.ticks, ys.ticks, xs.text, ys.text);
    while (dots.length < shown.length) {
      const dot = draw("circle", { r: 3.2 });
      layer.append(dot);
      dots.push(dot);
    }
    places = shown.map((i) => [xs.scale(first.values[i] + jitter(first, i, 0)),
      ys.scale(second.values[i] + jitter(second, i, 1))]);
    dots.forEach((dot, k) => {
      if (k >= shown.length) { dot.setAttribute("visibility", "hidden"); return; }
      setAttributes(dot, { cx: places[k][0].toFixed(1), cy: places[k][1].toFixed(1), visibility: "visible",
        class: points.reached[shown[k]] ? "hit" : "miss" });
    });
    const put = (mark, a, b) => {
      const known = Number.isFinite(a) && Number.isFinite(b);
      mark.setAttribute("visibility", known ? "visible" : "hidden");
      if (known) mark.setAttribute("transform", `translate(${xs.scale(a)},${ys.scale(b)})`);
    };
    put(row, first.start, second.start);
    put(plan, chosen >= 0 ? points.value(chosen, first) : NaN, chosen >= 0 ? points.value(chosen, second) : NaN);
    const reaching = shown.reduce((sum, i) => sum + points.reached[i], 0);
    count(reaching, shown.length);
    node.setAttribute("aria-label", `${plural(shown.length, "draw")} of ${first.name} against ${second.name}, ${
      numberText(reaching)} of which reach the target`);
    if (at >= shown.length) at = -1;
    ring.setAttribute("visibility", "hidden");
  };
  return { node: box, update };
}

// The points of an explanation and their weights: what Explanation.at(eta) and Explanation.given(...) do, in the page.
// Nothing here touches the document.

const ROUNDING = 1e-12; // of a unit of scale, as gbce.space: changes below it are none
const WEIGHED = 0.999; // of Python's effective draws: log weights are kept in single precision
const MIDDLE = [0.05, 0.5, 0.95]; // ends and middle of the range that is shown: 90%
// how many times as much a unit of change counts: what Explanation.given(effort=...) takes
const EFFORTS = { easier: 0.5, usual: 1, harder: 2, "much harder": 4 };

class Column {
  constructor(described, position, nPool) {
    Object.assign(this, described);
    this.position = position;
    this.unordered = this.kind === "categorical" || this.kind === "boolean";
    this.nPool = nPool;
    const single = (described.values.values ?? described.values).type === "f4";
    this.values = unpackArray(described.values);
    this.round = single ? Math.fround : (value) => value; // bounds are compared as values are kept
    this.start = this.now === null ? NaN : this.round(this.now);
    if (this.moments) this.moments = { values: unpackArray(this.moments.values), texts: this.moments.texts };
  }

  get order() {
    return (this._order ??= sortedOrder(this.values, this.nPool));
  }

  // Size of the change in each point, in units of scale; any change of a category is one step.
  get sizes() {
    if (this._sizes) return this._sizes;
    const { values, start, scale, unordered } = this;
    const sizes = new Float64Array(values.length);
    for (let i = 0; i < sizes.length; i++) sizes[i] = this.sizeOf(values[i], start, scale, unordered);
    return (this._sizes = sizes);
  }

  sizeOf(value, start, scale, unordered) {
    const gone = value !== value, was = start !== start;
    if (gone && was) return 0;
    if (gone || was) return unordered ? 1 / scale : 1;
    const size = unordered ? Number(value !== start) : Math.abs(value - start);
    return size / scale;
  }

  changed(i) {
    return this.sizes[i] > ROUNDING;
  }

  // A value as a person reads it; texts of levels and moments come from Python.
  text(value, digits = 6, same = null) {
    if (value === null || value !== value) return "missing";
    if (this.levels) return this.levels[Math.round(value)] ?? "unknown";
    if (this.moments) {
      const at = this.moments.values.indexOf(value);
      return at >= 0 ? this.moments.texts[at] : this.nearestMoment(value);
    }
    if (this.kind === "integer") return this.grouped ? numberText(Math.round(value)) : String(Math.round(value));
    return columnNumber(value, this, same, digits);
  }

  nearestMoment(value) {
    const { values, texts } = this.moments;
    let best = 0;
    for (let k = 1; k < values.length; k++) if (Math.abs(values[k] - value) < Math.abs(values[best] - value)) best = k;
    return texts[best] ?? "unknown";
  }

  // A value for other programs: numbers as numbers, levels as the table has them, moments as texts.
  plain(value) {
    if (value === null || value !== value) return null;
    if (this.levels) return this.written[Math.round(value)];
    return this.moments ? this.text(value) : this.kind === "integer" ? Math.round(value) : value;
  }

  // Whether a point meets a condition: {keep}, {level}, {missing} or {low, high}, the latter as encoded.
  meets(i, condition) {
    const value = this.values[i];
    if (condition.keep) return !this.changed(i);
    if (condition.missing) return value !== value;
    if (condition.level !== undefined) return value === condition.level;
    const low = condition.low ?? -Infinity, high = condition.high ?? Infinity;
    return value >= this.round(low) && value <= this.round(high);
  }
}

class Points {
  constructor(payload) {
    const given = payload.points;
    this.given = given;
    this.n = given.n;
    this.nPool = given.n_pool;
    this.columns = payload.columns.map((one, j) => new Column(one, j, given.n_pool));
    this.movable = this.columns.filter((one) => one.free || one.computed);
    this.logPrior = unpackArray(given.log_prior);
    this.losses = given.losses.map(unpackArray);
    this.loss = given.loss ? unpackArray(given.loss) : this.losses[0];
    this.reached = unpackArray(given.reached);
    this.agreed = given.agreed ? unpackArray(given.agreed) : this.reached;
    this.output = unpackArray(given.output);
    this.cost = unpackArray(given.cost);
    this.exact = payload.exact;
  }

  value(i, column) {
    const row = this.exact[i];
    if (!row) return column.values[i];
    const value = row[column.position];
    return value === null ? NaN : value;
  }

  get changes() { // number of columns that somebody has to change, by point
    if (this._changes) return this._changes;
    const counts = new Uint16Array(this.n);
    for (const column of this.columns) {
      if (column.computed || !column.free) continue;
      const { sizes } = column;
      for (let i = 0; i < counts.length; i++) if (sizes[i] > ROUNDING) counts[i]++;
    }
    return (this._changes = counts);
  }

  potential(step, into) {
    const { how, shares, etas } = this.given;
    const eta = etas[step];
    if (how === "none" || eta === 0) return into.fill(0);
    if (how === "steps") {
      into.set(this.losses[step]);
    } else if (how === "one") {
      const [loss] = this.losses;
      for (let i = 0; i < into.length; i++) into[i] = eta * loss[i];
    } else {
      for (let i = 0; i < into.length; i++) {
        let least = Infinity;
        for (const loss of this.losses) if (loss[i] < least) least = loss[i];
        if (least === Infinity) { into[i] = Infinity; continue; }
        let sum = 0;
        for (let k = 0; k < shares.length; k++) sum += shares[k] * Math.exp(-eta * (this.losses[k][i] - least));
        into[i] = eta * least - Math.log(sum);
      }
    }
    return into;
  }

  inside(conditions, i) {
    for (const [column, condition] of conditions) if (!column.meets(i, condition)) return false;
    return true;
  }

  // Weights of the pool under a state {step, conditions: [[column, condition]], efforts: [[column, effort]]}.
  weigh(state) {
    const n = this.nPool;
    const potential = this.potential(state.step, (this._potential ??= new Float64Array(n)));
    const before = new Float64Array(n), after = new Float64Array(n);
    for (let i = 0; i < n; i++) before[i] = after[i] = this.logPrior[i] - potential[i];
    const prior = Float64Array.from(this.logPrior);
    for (const [column, effort] of state.efforts) {
      const tilt = EFFORTS[effort] - 1, { sizes } = column;
      for (let i = 0; i < n; i++) { after[i] -= tilt * sizes[i]; prior[i] -= tilt * sizes[i]; }
    }
    if (state.conditions.length) {
      for (let i = 0; i < n; i++) if (!this.inside(state.conditions, i)) after[i] = prior[i] = -Infinity;
    }
    const all = normalise(before), own = normalise(after), law = normalise(prior);
    const asked = state.conditions.length > 0 || state.efforts.length > 0;
    const effective = own ? own.effective * this.given.ess_factor : 0;
    let probability = 0;
    if (all && state.conditions.length) {
      for (let i = 0; i < n; i++) if (after[i] > -Infinity) probability += all.weights[i];
    } else if (all) probability = 1;
    return {
      weights: own ? own.weights : new Float64Array(n),
      prior: this.given.fixed ? null : law ? law.weights : new Float64Array(n),
      effective,
      probability,
      enough: own !== null && effective >= (asked ? ENOUGH_DRAWS : Math.min(ENOUGH_DRAWS, WEIGHED * this.given.own_ess)),
    };
  }

  // What Python says of one column for the question as it was asked, in the form of read().
  own(column) {
    const { ends, shares, change } = column.own;
    const number = (value) => (value === null ? NaN : value);
    return { change: number(change), ...(shares ? { shares } : {}), ...(ends ? { ends: ends.map(number) } : {}) };
  }

  // What the weights say of one column: quantiles of a number, shares of levels, and the mean size of its change.
  read(column, weights) {
    const { values, sizes, nPool } = column;
    let missing = 0, change = 0, total = 0;
    for (let i = 0; i < nPool; i++) {
      const w = weights[i];
      if (w === 0) continue;
      total += w;
      change += w * sizes[i];
      if (values[i] !== values[i]) missing += w;
    }
    const found = { change: total > 0 ? change * column.scale : NaN };
    if (column.levels) {
      const shares = new Float64Array(column.levels.length + 1);
      for (let i = 0; i < nPool; i++) {
        if (weights[i] > 0) shares[values[i] === values[i] ? values[i] : column.levels.length] += weights[i];
      }
      found.shares = shares;
    }
    if (!column.unordered) {
      found.ends = missing > 0.5 ? [NaN, NaN, NaN] : weightedQuantiles(values, column.order, weights, MIDDLE);
    }
    return found;
  }

  figures(weights) {
    const total = weights.some((w) => w > 0);
    if (!total) return { success: NaN, cost: NaN, loss: NaN, changes: NaN, differ: NaN, tail: NaN };
    let differ = 0;
    for (let i = 0; i < weights.length; i++) {
      if (this.agreed[i] > 1e-9 && this.agreed[i] < 1 - 1e-6) differ += weights[i];
    }
    this._lossOrder ??= sortedOrder(this.loss, this.nPool);
    return {
      success: weightedMean(this.reached, weights),
      cost: weightedMean(this.cost, weights),
      loss: weightedMean(this.loss, weights),
      changes: weightedMean(this.changes, weights),
      tail: weightedQuantiles(this.loss, this._lossOrder, weights, [1 - this.given.alpha])[0],
      differ,
    };
  }

  // So many points picked evenly by weight, in the order of the pool.
  pick(weights, n) {
    const picked = [];
    let sum = 0, next = 0.5 / n;
    for (let i = 0; i < weights.length && picked.length < n; i++) {
      sum += weights[i];
      while (sum >= next && picked.length < n) { picked.push(i); next += 1 / n; }
    }
    return picked;
  }

  // The cheapest known point that `accepts` lets through: the sum of changes, each column's times its factor.
  cheapest(accepts, efforts) {
    let cost = this.cost;
    if (efforts.length) {
      cost = Float64Array.from(this.cost);
      for (const [column, effort] of efforts) {
        const { sizes } = column, more = EFFORTS[effort] - 1;
        for (let i = 0; i < cost.length; i++) cost[i] += more * sizes[i];
      }
    }
    let best = -1;
    for (let i = 0; i < this.n; i++) {
      if ((best < 0 || cost[i] < cost[best]) && accepts(i)) best = i;
    }
    return best;
  }
}

"""Find the mode of the posterior (MAP), and the sparsity path: the best point for each number of changed features.

Under a prior with point masses, densities with different numbers of changes do not compare, so each number has its own.
"""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from gbce._numerics import first_of_least
from gbce._validation import require_counts
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._needed import undo_singly
from gbce.draws import Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search import Search, coordinates, has_gained, levels, newton, polish_mode
from gbce.space import Places
from gbce.trees import mode_on_cells, path_on_cells

# Chosen by hand: they trade model rows for the breadth of the search for the path.
_MOST_CHANGES = 6  # on the path, unless more are requested
_SUPPORTS = 3  # sets of changed features that are refined for each number of changes
_SUPPORTS_AMONG = 200  # best points of the pool that these sets are taken from
_STARTS = 2  # starting points for each set, besides the best that reaches the target
_ROUNDS = 3  # of descents
_MOST_ROWS = 40_000  # evaluated in all
_MOST_VALUES, _EXCHANGES = 12, 3  # values tried for a discrete feature of the best point, and rounds of that
_NO_SPREAD = 1e-12  # in units of scale: an axis with no more spread than rounding error has no density

# --- sparsity path ---------------------------------------------------------------------------------------------------


def sparsity_path(scene: Scene, polish: bool, requested: int | None) -> Choice:
    """Choose the best point for each number of changes; first the requested number, or the fewest that reach."""
    if not scene.query.sparse:
        raise ValueError(
            "MAP(changes=...) needs a prior under which features can stay exactly as they are: gbce.Sparse(...)"
        )
    if requested is not None and requested > len(scene.free):
        raise ValueError(f"MAP(changes={requested}): only {len(scene.free)} features can change")
    most = min(max(_MOST_CHANGES, requested or 0), len(scene.free))
    changed = scene.space.changed(scene.draws.known.x, scene.x0)[:, scene.free]
    members = _group_pool(scene, changed, most)
    on_cells = path_on_cells(scene, scene.posterior, most) if polish and scene.posterior is not None else None
    refined: dict[int, list[Points]] = {}
    if on_cells is not None:
        refined = _group_by_changes(scene, on_cells)
    elif polish and scene.posterior is not None:
        refined = _refine_path(scene, changed, members)
    found: dict[int, Points] = {}
    for k in range(most, 0, -1):
        denser = found.get(k + 1) if on_cells is None else None
        point = _find_best(scene, members[k], denser, refined.get(k, []), exchange=on_cells is None)
        if point is not None:
            found[k] = point
    if scene.row.reached[0, 0] and requested is None:
        return Choice(scene.row.x, scene.row)
    if not found:
        return Choice(scene.row.x, scene.row, "No evaluated point changes anything: the row itself was taken.")
    marked = _choose_number(scene, found, requested)
    order = [marked, *(k for k in sorted(found) if k != marked)]
    names = tuple("" if k == marked else f"with {k} change{'s' * (k > 1)}" for k in order)
    points = Points.join([found[k] for k in order])
    reached = bool(found[marked].reached[0, 0])
    why = (
        "as requested"
        if requested == marked
        else "the fewest found to reach the target"
        if reached
        else "the closest to the target"
    )
    note = f"MAP is the most probable point found with {marked} change{'s' * (marked > 1)}, {why}."
    if requested is not None and marked != requested:
        note = f"MAP: no evaluated point has {requested} changes; the best one with {marked} was taken."
    return Choice(points.x, points, note, names)


def _choose_number(scene: Scene, found: dict[int, Points], requested: int | None) -> int:
    """Return the number of changes requested, or the fewest that reach the target, or that of least loss."""
    if requested is not None:
        return requested if requested in found else min(found, key=lambda k: abs(k - requested))
    reaching = [k for k in sorted(found) if found[k].reached[0, 0]]
    if reaching:
        return reaching[0]
    return min(found, key=lambda k: float(scene.mixture.effective_loss(found[k].loss)[0]))


def _group_by_changes(scene: Scene, points: list[Points]) -> dict[int, list[Points]]:
    """Group points by how many features they change."""
    found: dict[int, list[Points]] = {}
    for point in points:
        n = int(scene.space.changed(point.x, scene.x0)[0, scene.free].sum())
        found.setdefault(n, []).append(point)
    return found


def _find_best(
    scene: Scene, own: Array, denser: Points | None, refined: list[Points], *, exchange: bool
) -> Points | None:
    """Return the best point with some number of changes; ``own`` are pool positions with as many, the best first.

    Points that reach the target come first. Candidates are pool points, points of a search, and the ``denser`` point
    with one change undone; unless leaves were searched, single values are exchanged (``exchange``).
    """
    pool = scene.draws.known
    candidates = [pool.take(own[:1]), pool.take(own[pool.reached[own, 0]][:1]), *refined]
    if scene.posterior is not None and denser is not None:
        candidates += _undo_one_change(scene, denser)
    joined = Points.join(candidates)
    if len(joined) == 0:
        return None
    best = _take_best(scene, joined)
    for _ in range(_EXCHANGES if exchange else 0):
        better = _take_best(scene, Points.join([best, *_exchange_values(scene, best)]))
        if np.array_equal(better.x, best.x):
            break
        best = better
    return best


def _take_best(scene: Scene, points: Points) -> Points:
    """Return the best of some points: among those that reach the target, if any."""
    misses = (~points.reached[:, 0]).astype(float)
    return points.take(np.array([first_of_least(misses, scene.objective(points), scene.distance(points.x))]))


def _group_pool(scene: Scene, changed: Array, most: int) -> dict[int, Array]:
    """Return pool positions for each number of changes up to ``most``, the best first."""
    pool, objective = scene.draws.known, scene.objective(scene.draws.known)
    usable = np.flatnonzero(np.isfinite(objective) & np.isfinite(pool.log_correction))
    order = usable[np.argsort(objective[usable], kind="stable")]
    count = changed[order].sum(axis=1)
    return {k: order[count == k] for k in range(1, most + 1)}


def _list_supports(changed: Array) -> list[Array]:
    """Return the first few distinct sets of changed features."""
    found: list[Array] = []
    for line in changed[:_SUPPORTS_AMONG]:
        if not any((line == other).all() for other in found):
            found.append(line)
        if len(found) == _SUPPORTS:
            break
    return found


def _undo_one_change(scene: Scene, point: Points) -> list[Points]:
    """Evaluate the points in which one change is undone, if the budget allows it."""
    changed = np.zeros(point.x.shape, dtype=bool)
    changed[:, scene.free] = scene.space.changed(point.x, scene.x0)[:, scene.free]
    x, _point, _column = undo_singly(scene.space, scene.x0, point.x, changed)
    return _evaluate_rows(scene, x, len(x) - 1)


def _exchange_values(scene: Scene, point: Points) -> list[Points]:
    """Evaluate the points in which one discrete change takes another value that occurs in the draws.

    Stepping from value to value would not get past one that is worse than both of its neighbours.
    """
    changed = scene.free[scene.space.changed(point.x, scene.x0)[0, scene.free]]
    others = []
    for j in changed[scene.space.discrete[changed]]:
        values = np.unique(scene.draws.known.x[:, j])
        values = values[np.isfinite(values)]
        if len(values) > _MOST_VALUES:
            values = values[np.linspace(0, len(values) - 1, _MOST_VALUES).astype(int)]
        x = np.repeat(point.x, len(values), axis=0)
        x[:, j] = values
        others.append(x)
    return _evaluate_rows(scene, np.concatenate(others), len(changed)) if others else []


def _evaluate_rows(scene: Scene, x: Array, n_changes: int) -> list[Points]:
    """Evaluate the admissible rows with ``n_changes`` changes, if the budget allows it."""
    posterior = scene.posterior
    x = scene.space.project(x, scene.x0)
    x = x[scene.space.changed(x, scene.x0)[:, scene.free].sum(axis=1) == n_changes]
    if posterior is None or len(x) == 0:
        return []
    try:
        evaluated = posterior.evaluate(x)
    except BudgetSpentError:
        return []
    no_latent = np.zeros((len(x), scene.draws.pool.z.shape[1]))  # never read
    return [Points(no_latent, x, *evaluated, cost=posterior.prior.cost(x), log_correction=no_latent[:, 0])]


@dataclass
class _PathSearch(Search):
    """A search that remembers the best points for each number of changes."""

    by_changes: dict[int, "_PathSearch"] = field(default_factory=dict)

    def remember(self, points: Points, value: Array) -> None:
        """Keep the best of the evaluated points for each number of changes."""
        scene = self.scene
        counts = scene.space.changed(points.x, scene.x0)[:, scene.free].sum(axis=1)
        for k in np.unique(counts):
            own = np.flatnonzero(counts == k)
            memory = self.by_changes.setdefault(int(k), replace(self, by_changes={}))
            super(_PathSearch, memory).remember(points.take(own), value[own])


def _refine_path(scene: Scene, changed: Array, members: dict[int, Array]) -> dict[int, list[Points]]:
    """Optimise the changed features for all numbers of changes at once, with one model call per step.

    Returns the best points found for each number of changes, and the best of those that reach the target.
    """
    posterior = scene.posterior
    if posterior is None or any(scene.space.features[j].missing in ("leave", "any") for j in scene.free):
        return {}  # a missing value has no coordinate
    search = _PathSearch.of(scene, posterior, _MOST_ROWS)
    v, f, may = _choose_starts(scene, search, changed, members)
    try:
        for _ in range(_ROUNDS if len(f) else 0):
            before = f.copy()
            for descent in (levels, newton, coordinates):
                v, f = descent(search, v, f, may)
            active = has_gained(before, f)
            v, f, may = v[active], f[active], may[active]
            if len(f) == 0:
                break
    except BudgetSpentError:
        pass
    return {
        k: [
            replace(point, z=np.zeros((1, scene.draws.pool.z.shape[1])))
            for point in (memory.best, memory.best_reached)
            if point is not None
        ]
        for k, memory in search.by_changes.items()
    }


def _choose_starts(
    scene: Scene, search: Search, changed: Array, members: dict[int, Array]
) -> tuple[Array, Array, Array]:
    """Return starting points ``(s, m)`` for each number of changes, their objective ``(s,)`` and what may move."""
    x0, pool = scene.x0[scene.free], scene.draws.known
    chosen, supports = [], []
    for own in members.values():
        for support in _list_supports(changed[own]):
            same = own[(changed[own] == support).all(axis=1)]
            best_ones = dict.fromkeys([*same[:_STARTS], *same[pool.reached[same, 0]][:1]])
            chosen += list(best_ones)
            supports += [support] * len(best_ones)
    where = np.array(chosen, dtype=int)
    v = (pool.x[where][:, scene.free] - x0) / search.unit
    return v, scene.objective(pool)[where], np.array(supports, dtype=bool).reshape(v.shape)


# --- mode ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MAP(Rule):
    """The most probable point.

    Parameters
    ----------
    method : {"objective", "kde", "knn"}
        ``objective`` minimises the known negative log density ``potential + d(row, x)`` over every evaluated point and
        the row itself and, with ``polish``, by descent from the best of these. ``kde`` and ``knn`` are the
        paper's approximations: the draw with the highest Gaussian kernel density (Scott's bandwidth), or with the
        highest score ``r_k**-d``, where ``r_k`` is the distance to its ``k``-th neighbour among the draws.
    k : int
        Neighbours for ``knn``.
    polish : bool
        Whether to refine the mode with a few thousand further model rows, for ``objective`` only, with different
        steps for smooth and for piecewise constant models. If the model is a readable tree ensemble and the
        prior moves columns independently, the cells of its splits are searched instead, and the model only evaluates a
        few points at the end. Without a model at hand (``explanation.decide``, ``explanation.at``) the best evaluated
        point is taken.
    changes : int, optional
        Under a :class:`gbce.Sparse` prior: the number of features that MAP changes; by default, the fewest that reach
        the target. The best points for other numbers of changes accompany it.

    Notes
    -----
    Under a prior with point masses (features that stay exactly as they are), densities of points with different numbers
    of changes do not compare. There ``objective`` gives the best point for each number.

    Ties go to the smaller objective, then to the smaller distance from the row. If the draws are degenerate (all in one
    point, or on a line), the draw with the largest weight is chosen.

    Examples
    --------
    >>> MAP(method="kde").label
    'MAP(method=kde)'
    """

    method: Literal["objective", "kde", "knn"] = "objective"
    k: int = 40
    polish: bool = True
    changes: int | None = None

    def __post_init__(self) -> None:
        if self.method not in ("objective", "kde", "knn"):
            raise ValueError(f"MAP: method must be 'objective', 'kde' or 'knn', not {self.method!r}")
        require_counts(self, "k")
        if not isinstance(self.polish, (bool, np.bool_)):
            raise ValueError(f"MAP: polish must be True or False, not {self.polish!r}")
        if self.changes is not None:
            require_counts(self, "changes")

    @property
    def seeks_mode(self) -> bool:
        """Whether the known density is maximised, not an estimate from the draws."""
        return self.method == "objective"

    @property
    def has_path(self) -> bool:
        """Whether the best points for each number of changes accompany the mode: under a prior with point masses."""
        return self.method == "objective"

    def choose(self, scene: Scene) -> Choice:
        """Choose the mode."""
        polish = self.polish and scene.draws.exact is None  # all cells have been evaluated
        if self.method == "objective" and (scene.query.sparse or self.changes is not None):
            return sparsity_path(scene, polish, self.changes)
        if self.method == "objective":
            return _choose_by_objective(scene, polish)
        where, weight = scene.draws.distinct
        score = -_kernel_density(scene, where) if self.method == "kde" else _neighbour_radius(scene, where, self.k)
        chosen = scene.draws.pool.take(where)
        return scene.pick(where[first_of_least(score, -weight, scene.objective(chosen), scene.distance(chosen.x))])


def _choose_by_objective(scene: Scene, polish: bool) -> Choice:
    """Choose the point with the lowest objective among evaluated points, refined ones and the row, which wins ties."""
    known = scene.draws.known
    objective = scene.objective(known)
    winner = first_of_least(objective, scene.distance(known.x)) if np.isfinite(objective).any() else 0
    point, least = known.take(np.array([winner])), objective[winner]
    choice = Choice(point.x, point)
    for point in _refine(scene, scene.posterior) if polish and scene.posterior is not None else []:
        if scene.objective(point)[0] < least:
            choice, least = Choice(point.x, point), scene.objective(point)[0]
    if scene.objective(scene.row)[0] <= least:
        return Choice(scene.row.x, scene.row, "The most probable point is the row itself: no change is worth its cost.")
    return choice


def _refine(scene: Scene, posterior: GibbsPosterior) -> list[Points]:
    """Return better points: from the cells of a tree ensemble, or by descent."""
    found = mode_on_cells(scene, posterior)
    return polish_mode(scene, posterior)[:1] if found is None else found


def _kernel_density(scene: Scene, where: Array) -> Array:
    """Return a kernel density estimate at the distinct draws; constant if it is degenerate."""
    from scipy.stats import gaussian_kde  # slow to import

    everything = scene.units(scene.draws.x)
    at = scene.units(scene.draws.pool.x[where])
    if len(where) <= len(scene.free):
        return np.zeros(len(where))
    if not all(scene.space.features[j].plain for j in scene.free):
        return _product_density(everything, scene.draws.weights, at)
    try:
        return gaussian_kde(everything.axes.T, weights=scene.draws.weights)(at.axes.T)
    except np.linalg.LinAlgError:
        return np.zeros(len(where))


def _product_density(u: Places, weights: Array, at: Places) -> Array:
    """Return a product-kernel density at ``at`` (Scott's bandwidth, one per axis)."""
    spread = np.sqrt(weights @ np.square(u.axes - weights @ u.axes))
    shares = u.shares(weights)
    of_levels = [offset * np.sqrt(share * (1 - share)) for offset, share in zip(u.heights, shares, strict=True)]
    used = spread > _NO_SPREAD
    n_used = used.sum() + sum(int((one > _NO_SPREAD).sum()) for one in of_levels)
    if n_used == 0:
        return np.zeros(len(at))
    n = 1.0 / float(np.square(weights).sum())
    narrowed = n ** (-1.0 / (n_used + 4))
    width = spread[used] * narrowed
    a, b = replace(at, axes=at.axes[:, used] / width), replace(u, axes=u.axes[:, used] / width)
    # contribution of leaving or entering a level to a squared distance; the last entry stands for no level
    steps = [
        np.append(np.square(offset / np.where(one > _NO_SPREAD, one * narrowed, np.inf)), 0.0)
        for one, offset in zip(of_levels, u.heights, strict=True)
    ]
    return np.concatenate([np.exp(-0.5 * _scaled_squares(some, b, steps)) @ weights for some in a.blocks(b)])


def _scaled_squares(a: Places, b: Places, steps: list[Array]) -> Array:
    """Return squared distances ``(n, m)`` on scaled axes, with the contribution of levels of large categories."""
    squares = cdist(a.axes, b.axes, "sqeuclidean") if a.axes.shape[1] else np.zeros((len(a), len(b)))
    for c, step in enumerate(steps):
        one, other = a.codes[:, c][:, None], b.codes[:, c][None, :]
        squares += np.where(one == other, 0.0, step[one] + step[other])
    return squares


def _neighbour_radius(scene: Scene, where: Array, k: int) -> Array:
    """Return the distance ``r_k`` of each distinct draw to its k-th neighbour among all draws.

    The score ``r_k**-d`` decreases in ``r_k``, so comparing radii is enough.
    """
    everything = scene.units(scene.draws.x)
    k = min(k, len(everything) - 1)
    if k == 0:
        return np.zeros(len(where))
    return everything.nearest_distances(scene.units(scene.draws.pool.x[where]), k + 1)[:, -1]

"""Search for points that reach the target by changing few columns, and prove of which columns that cannot be.

Columns are ranked by how often draws need them. Sets of one, two and three of the first are tried unless a known point
already reaches with them: on the cells of a tree ensemble, else with values that the data have.
"""

from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np

from gbce._numerics import LISTING, stream
from gbce.base import Array
from gbce.decisions._needed import Judge, find_moves
from gbce.decisions._structure import Reaching, seek_on_cells
from gbce.draws import Draws, Scene
from gbce.metrics import costs
from gbce.posterior import GibbsPosterior
from gbce.search import values_to_try
from gbce.space import Space
from gbce.trees import TreeScores, prove_unattainable

MOST_COLUMNS = 3  # of a set that is tried: nobody asks for a list of larger ones
# All of these were chosen by hand; they trade model rows and time for the number of sets.
_RANKED = (8, 5, 4)  # first columns of which all sets of one, two and three are tried: 8, 10 and 4 sets
_VALUES = (12, 6, 4)  # of each column in a set of one, two and three, where the model is asked
_KEPT = 2  # cheapest points of a set that are kept
_MOST_WORK = 50_000  # leaves over all boxes of a proof for one set: some hundredths of a second


class Explored(NamedTuple):
    """Points ``(n, d)`` that reach by few columns, sets of columns ``(t, d)`` that were missed, and their proofs."""

    x: Array
    missed: Array
    proofs: tuple[str, ...]


def explore_columns(
    judge: Judge, posterior: GibbsPosterior, draws: Draws, needs: Array, mass: Array, known: Array
) -> Explored:
    """Try sets of columns that no ``known`` point keeps to; ``needs`` ``(u, d)`` of ``mass`` ``(u,)`` rank columns."""
    explorer = _Explorer(judge, posterior, draws)
    space, x0 = judge.query.space, judge.query.x0
    free = np.array([j for j in judge.query.free.tolist() if not space.is_computed[j]], dtype=int)
    ranked = free[np.argsort(-(mass @ (needs != 0))[free], kind="stable")]
    reaching = {frozenset(np.flatnonzero(one).tolist()) for one in find_moves(space, known, x0) != 0}
    found: list[Array] = []
    missed: list[frozenset[int]] = []
    for size, most in enumerate(_RANKED, start=1):
        sets = map(frozenset, combinations(sorted(ranked[:most].tolist()), size))
        tried = [columns for columns in sets if not any(one <= columns for one in reaching)]
        points = explorer.seek(tried)
        missed += [columns for columns, x in zip(tried, points, strict=True) if len(x) == 0]
        reaching |= {columns for columns, x in zip(tried, points, strict=True) if len(x)}
        found += points
    masks = np.zeros((len(missed), len(x0)), dtype=bool)
    for i, columns in enumerate(missed):
        masks[i, sorted(columns)] = True
    x = np.vstack([np.zeros((0, len(x0))), *found])
    return Explored(x, masks, explorer.prove_all(missed))


class _Explorer:
    """Seeks points that change only some columns, and proofs that there are none."""

    def __init__(self, judge: Judge, posterior: GibbsPosterior, draws: Draws) -> None:
        self.judge, self.posterior, self.draws = judge, posterior, draws
        self.space, self.x0 = judge.query.space, judge.query.x0
        data = draws.known.x if posterior.landmarks is None else posterior.landmarks
        self.values = values_to_try(self.space, self.x0, data)

    def seek(self, sets: list[frozenset[int]]) -> list[Array]:
        """Return a few points ``(n, d)`` that reach by changing only the columns of each set, the cheapest first."""
        propose = self._try_values if self.judge.trees is None else self._search_cells
        parts = [propose(columns) for columns in sets]
        x = np.vstack([np.zeros((0, len(self.x0))), *parts])
        reached, cost = self.judge(x).reached, costs(self.space, x, self.x0, "l1")
        ends = np.cumsum([0, *map(len, parts)])
        found = []
        for first, last in pairwise(ends.tolist()):
            own = np.flatnonzero(reached[first:last]) + first
            found.append(x[own[np.argsort(cost[own], kind="stable")[:_KEPT]]])
        return found

    def _search_cells(self, columns: frozenset[int]) -> Array:
        """Return the cheapest points found on the cells of the first model."""
        query = replace(self.judge.query, space=_freeze(self.space, columns))
        scene = Scene(query, self.draws, stream(query.seed, LISTING, query.key))
        none, reaching = np.zeros((0, len(self.x0))), Reaching(self.posterior.target)
        found = seek_on_cells(scene, self.posterior, reaching, none, power=1, most_changes=None, path=0)
        return np.vstack([none, *(one.x for one in found)])

    def _try_values(self, columns: frozenset[int]) -> Array:
        """Return all combinations of some values of the columns."""
        most = _VALUES[len(columns) - 1]
        listed = [_spread(self.values.get(j, self.x0[[j]]), most).tolist() for j in sorted(columns)]
        rows = np.array(list(product(*listed))).reshape(-1, len(columns))
        x = np.repeat(self.x0[None, :], len(rows), axis=0)
        x[:, sorted(columns)] = rows
        return self.space.completed(x, self.x0)

    def prove_all(self, missed: list[frozenset[int]]) -> tuple[str, ...]:
        """Return the sentence of a proof for each set of columns, empty without one; it holds for subsets as well."""
        proofs: dict[frozenset[int], str] = {}
        for columns in sorted(missed, key=len, reverse=True):
            larger = next((proof for one, proof in proofs.items() if columns < one and proof), None)
            proofs[columns] = self._prove(columns) if larger is None else larger
        return tuple(proofs[columns] for columns in missed)

    def _prove(self, columns: frozenset[int]) -> str:
        """Return the sentence of a proof that no row reaches by changing only these columns, empty without one."""
        posterior, target, row = self.posterior, self.posterior.target, self.judge.query.row
        inside = posterior.readers[0].inside if posterior.readers else None
        if inside is None or (target.reads_classes and posterior.predictors[0].decide_always):
            return ""
        if isinstance(inside.parts, TreeScores) and self.judge.trees is None:  # under a budget
            return ""
        problem = _freeze(self.space, columns), self.x0, target, row.x, row.outputs[:, 0]
        proof = prove_unattainable(inside, *problem, self.judge.trees, most_work=_MOST_WORK)
        return "" if proof is None else proof.sentence


def _freeze(space: Space, columns: frozenset[int]) -> Space:
    """Return the space in which only these columns, and those computed from them, can change."""
    return replace(
        space,
        features=tuple(
            one if j in columns or space.is_computed[j] else replace(one, mutable=False)
            for j, one in enumerate(space.features)
        ),
    )


def _spread(values: Array, most: int) -> Array:
    """Return at most ``most`` of ``values``, evenly spaced, including both ends."""
    return values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).round().astype(int)]

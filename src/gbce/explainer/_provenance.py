"""Whether an explanation was made with these models: it knows what its own said, and these are asked again."""

import numpy as np

from gbce.base import Array, Outputs, Target
from gbce.draws import Points
from gbce.explanation import Explanation
from gbce.posterior import GibbsPosterior
from gbce.predictors import Panel, pick_rows, same_answers
from gbce.targets import Loss

__all__ = ["ADVICE", "require_own"]

_CHECK_SHARE = 10  # one part in so many of a budget may go into this check; chosen by hand
ADVICE = "Explain the row with this explainer, or use the one that the explanation was made with."


def require_own(explanation: Explanation, posterior: GibbsPosterior) -> None:
    """Refuse an explanation of other models, or of another prior, than the posterior has.

    A model is asked about a few dozen points of the explanation; one with an identity of its own, such as a remote
    one, is not asked, but compared by that.
    """
    points = _known_points(explanation)
    for k, predictor in enumerate(posterior.predictors):
        identity = explanation.query.identities[k] if k < len(explanation.query.identities) else None
        if identity is None and predictor.identity:
            continue  # a file of an earlier version does not tell
        if (identity or "") != predictor.identity:
            raise ValueError(
                f"the explanation was made with another model: {identity or explanation.models[k]}, where this "
                f"explainer has {predictor.identity or predictor.name}. {ADVICE}"
            )
        if not predictor.identity:
            panel = Panel((predictor,), posterior.budget)
            if panel.affords(1) == 0:  # a single row, without which nothing that is known can be handed over
                panel = Panel((predictor,), posterior.budget.without_deadline())
            most = max(panel.affords(_CHECK_SHARE * len(points.x)) // _CHECK_SHARE, 1)
            now = _output(panel.ask_some(points.x[:most])[0], posterior.target)
            _require_same(points.outputs[: most if now is None else len(now), k], now, predictor.name)
    if not same_answers(points.cost, posterior.prior.cost(points.x)):
        raise ValueError(f"the explanation was made with another prior than this explainer has. {ADVICE}")


def _known_points(explanation: Explanation) -> Points:
    """Return the row and some points that every model was asked about."""
    pool, row = explanation.draws.pool, explanation.row
    row = row.take(np.isfinite(row.log_correction))  # not one that breaks the conditions of a follow-up question
    asked = np.flatnonzero(np.isfinite(pool.log_correction))
    return Points.join([row, pool.take(asked[pick_rows(len(asked))])])


def _output(outputs: Outputs, target: Target) -> Array | None:
    """Return what a model says now about points, ``(n,)``, as an explanation keeps it; none where that is lost."""
    if not target.readable:  # from a file, which keeps no code; of a Loss it is known what it took for the output
        return outputs.values if isinstance(target, Loss) and outputs.values.ndim == 1 else None
    return target.read(outputs).output


def _require_same(before: Array, now: Array | None, name: str) -> None:
    if now is None or same_answers(before, now):
        return
    with np.errstate(invalid="ignore"):
        i = int(np.argmax(np.nan_to_num(np.abs(before - now))))  # infinite then and now is no difference
    raise ValueError(
        f"the explanation was made with another model: {name} says {now[i]:.4g} where it has {before[i]:.4g}, in one "
        f"of {len(before)} points that were asked about again. {ADVICE} (A model that answers differently each time "
        "cannot be asked again.)"
    )

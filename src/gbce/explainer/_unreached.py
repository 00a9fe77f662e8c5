"""What a run may spend where no limit was set, least while nothing reaches the target, and the note if that ends it."""

from typing import Any

from gbce._validation import is_count
from gbce.base import Sampler
from gbce.budget import Budget
from gbce.draws import Draws

__all__ = ["ROWS_TIMES", "sampling_budget", "unreached_note"]

# Times the rows of a usual explanation with the sampler's options that are spent while no point reaches the target.
# Measured without a limit: 250,000 to 1.6 million rows for one row of a school table whose forest cannot say what is
# asked. Ten is generous, by hand, for what is hard to find.
ROWS_TIMES = 10


def sampling_budget(budget: Budget, sampler: Sampler, n_models: int, jointly: bool) -> Budget:
    """Return what sampling may spend where nothing was said: a default limit, and a higher one once a point reaches.

    A sampler whose size its own options set (``Importance``, ``Nested``, somebody's own) is left alone, and so are many
    models that are drawn jointly.
    """
    usual: Any = getattr(sampler, "usual_rows", None)
    if budget.limited or jointly or not is_count(usual):
        return budget
    return budget.under(int(ROWS_TIMES * usual) * n_models)


def unreached_note(draws: Draws, spent: Budget, eta: float | None) -> str:
    """Say so if the default limit, or a loss that no longer fell, ended the sampling; ``eta`` is the one asked for."""
    if draws.info.complete:
        return ""
    reached, wish = draws.rungs[-1], "" if eta is None else f" of {eta:g}"
    if draws.info.ended is not None:
        return (
            f"Sampling ended at eta = {reached:g}{wish}, because {draws.info.ended}: this is the posterior there. "
            "A larger eta would draw it closer to the best seen."
        )
    if spent.met_ceiling and spent.lifted:
        return (
            f"Sampling ended after {spent.rows:,} model rows, as it does unless told otherwise: this is the posterior "
            f"at eta = {reached:g}{wish}. max_model_rows allows more."
        )
    if spent.met_ceiling:
        return (
            f"No point reached the target within {spent.rows:,} model rows, where sampling ends unless told otherwise: "
            f"this is the posterior at eta = {reached:g}{wish}. max_model_rows allows more."
        )
    return ""

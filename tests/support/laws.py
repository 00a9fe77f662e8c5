"""Laws that every sampler, prior and combination must obey, written once."""

import numpy as np
from scipy.stats import norm, t

WITHIN = 4.0  # Monte Carlo standard errors


def within(draws):
    """How many printed errors are as rare as four normal ones.

    An error that is estimated between a few islands or chains is itself uncertain: it is printed so wide that 1.96 of
    it cover 95%, and further out Student's law has the heavier tails.
    """
    freedom = 0 if draws is None or draws.groups is None else len(np.unique(draws.groups)) - 1
    if freedom < 1:
        return WITHIN
    return float(t.isf(norm.sf(WITHIN), freedom) / (t.isf(0.025, freedom) / norm.isf(0.025)))


def close(value, exact, se, what, draws=None):
    """The value agrees with the exact one up to Monte Carlo error, and the error is not vacuous."""
    value, exact, se = map(np.asarray, (value, exact, se))
    assert np.all(se > 0), f"{what}: the error must be positive, not {se}"
    many = within(draws)
    assert np.all(np.abs(value - exact) <= many * se), f"{what}: {value} is not {exact} within {many:.1f} x {se}"


def small_error(se, size, what, draws=None):
    """The error is small enough for agreement to mean something, but for what a heavy tail of the weights adds to it.

    Runs that rarely agree are to be used with care, and their errors then count what their weights have not seen: at a
    shape of 0.8 they are four times as large.
    """
    most = 0.2 if draws is None else 0.2 * draws.tail_factor
    # estimated between a few islands, an error varies by itself
    assert np.all(np.asarray(se) < most * np.maximum(np.abs(size), 0.5)), f"{what}: error {se} is too large"


def figures_agree(explanation, exact):
    """Every figure in ``exact`` (name -> value; "importance", "mean", "cov" and "log_evidence" too) is met."""
    draws, table = explanation.draws, explanation.distribution
    for what, value in exact.items():
        if what == "log_evidence":
            got, se = draws.log_evidence, draws.log_evidence_se
        elif what == "importance":
            got, se = explanation.importance["change"], explanation.importance["se"]
        elif what == "mean":
            got = draws.mean(draws.pool.x)
            se = draws.standard_error(draws.pool.x - got)
        elif what == "cov":
            offset = draws.pool.x - draws.mean(draws.pool.x)
            products = offset[:, :, None] * offset[:, None, :]
            got = draws.mean(products)
            se = draws.standard_error(products - got)
        else:
            got, se = table[what], table[f"{what}_se"]
        close(got, value, se, what, draws)
        small_error(se, value, what, draws)

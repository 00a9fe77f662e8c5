"""Laws that every sampler, prior and combination must obey, written once."""

import numpy as np

WITHIN = 4.0  # Monte Carlo standard errors


def close(value, exact, se, what):
    """The value agrees with the exact one up to Monte Carlo error, and the error is not vacuous."""
    value, exact, se = map(np.asarray, (value, exact, se))
    assert np.all(se > 0), f"{what}: the error must be positive, not {se}"
    assert np.all(np.abs(value - exact) <= WITHIN * se), f"{what}: {value} is not {exact} within {WITHIN} x {se}"


def small_error(se, size, what):
    """The error is small enough for agreement to mean something."""
    assert np.all(np.asarray(se) < 0.1 * np.maximum(np.abs(size), 0.5)), f"{what}: error {se} is too large"


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
        close(got, value, se, what)
        small_error(se, value, what)

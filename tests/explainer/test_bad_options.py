"""Whatever is wrong with an option of the explainer, the error says what, and what to do about it."""

import numpy as np
import pytest

import gbce
from support.three_columns import DATA, INF, NAN, explain, total

BAD_OPTIONS = {
    **{f"eta {eta!r}": ({"eta": eta}, rf"eta must be zero or a positive number,.* not {eta!r}")
       for eta in (-1, -1e-9, NAN, INF, "1", True, 1j)},
    "complex eta": ({"eta": np.complex128(1)}, r"eta must be zero or a positive number"),
    "negative weights": ({"weights": [-1, 2]}, r"weights must be zero or more and not all zero, not \[-1\.0, 2\.0\]"),
    "zero weights": ({"weights": [0, 0]}, r"weights must be zero or more and not all zero, not \[0\.0, 0\.0\]"),
    "NaN weights": ({"weights": [NAN, 1]}, r"weights must be zero or more and not all zero, not \[nan, 1\.0\]"),
    "infinite weights": ({"weights": [INF, 1]}, r"weights must be .*not \[inf, 1\.0\]"),
    "one weight": ({"weights": [1.0]}, r"weights must have one number per model: 2 models, but weights \[1\.0\]"),
    "three weights": ({"weights": [1, 1, 1]}, r"weights must have one number per model: 2 models"),
    "text weights": ({"weights": ["a", "b"]}, r"weights must be numbers, one per model"),
    "combine": ({"combine": "or"}, r"combine must be one of .*'any', 'all', 'average'.*not 'or'"),
    **{f"batch_rows {n!r}": ({"batch_rows": n}, rf"batch_rows must be an integer of at least 1, not {n!r}")
       for n in (0, -5, 1.5, 10.0, "all", True)},
}  # fmt: skip


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_number_of_the_explainer_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Explainer([total, total], DATA, **options)


@pytest.mark.parametrize(
    ("risk", "gamma", "word"),
    [([NAN, 1], 1, "risk"), ([], 1, "risk"), (3.0, 1, "risk"), ([1, 2], -1, "gamma"), ([1, 2], NAN, "gamma")],
)
def test_bad_risk_of_models_is_refused(risk, gamma, word):
    with pytest.raises(ValueError, match=f"{word} must be"):
        gbce.weights_from_risk(risk, gamma)


@pytest.mark.parametrize("seed", [-1, 1.5, "one", True, NAN, [1, 2]])
def test_bad_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"seed must be an integer of at least 0, a Generator"):
        explain(seed=seed)


@pytest.mark.parametrize("what", ["space", "prior", "sampler", "evaluation"])
@pytest.mark.parametrize("value", [5, "yes", type])
def test_option_of_another_kind_is_refused(what, value):
    with pytest.raises(TypeError, match=rf"{what} must be an object such as gbce\."):
        gbce.Explainer(total, DATA, **{what: value})


@pytest.mark.parametrize("value", [0, -1, 1.5, "many", True])
@pytest.mark.parametrize("name", ["n_candidates", "n_draws"])
def test_number_of_draws_is_at_least_one(name, value):
    with pytest.raises(ValueError, match=rf"Importance: {name} must be an integer of at least 1, not {value!r}"):
        gbce.Importance(**{name: value})

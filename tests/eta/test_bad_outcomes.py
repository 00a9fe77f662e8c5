"""Whatever is wrong with the outcomes or options of a noise scale, the error says what."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import gbce


@pytest.mark.parametrize(
    ("y", "error", "says"),
    [
        (np.arange(7.0), ValueError, "y has 7 outcomes, but X has 20 rows"),
        (np.r_[np.nan, np.arange(19.0)], ValueError, "y is missing in 1 of 20 rows, first in row 0"),
        (np.r_[np.inf, np.arange(19.0)], ValueError, "y is infinite in row 0"),
        (["high"] * 20, TypeError, "y holds 'high'"),
        (np.zeros((20, 2)), ValueError, "fit one outcome at a time"),
    ],
)
def test_noise_scale_says_what_is_wrong_with_the_outcomes(y, error, says):
    with pytest.raises(error, match=re.escape(says)):
        gbce.noise_scale(LinearRegression(), np.random.default_rng(0).normal(size=(20, 2)), y)


@pytest.mark.parametrize(("option", "says"), [({"cv": 21}, "number of rows, 20"), ({"seed": -1}, "seed must be")])
def test_noise_scale_says_what_is_wrong_with_its_options(option, says):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=says):
        gbce.noise_scale(LinearRegression(), X, X[:, 0], **option)


def test_noise_scale_of_a_function_says_that_it_cannot_be_refitted():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(TypeError, match="function on folds because it has no fit"):
        gbce.noise_scale(lambda x: x[:, 0], X, X[:, 0])

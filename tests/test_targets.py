"""When an output counts as reached, on the boundary itself."""

import numpy as np
import pytest

import gbce
from gbce.targets import Outputs, short


@pytest.mark.parametrize(
    ("target", "outputs"),
    [
        (gbce.Value(3.0, scale=1, tolerance=0.5), Outputs(np.array([3.5, 3.500001]))),
        (gbce.Range(1.0, 2.0, scale=1, tolerance=0.25), Outputs(np.array([2.25, 2.250001]))),
        (gbce.AtMost(1.0, scale=1, tolerance=0.0), Outputs(np.array([1.0, 1.000001]))),
        (gbce.Loss(lambda f: f, threshold=0.2), Outputs(np.array([0.2, 0.200001]))),
        (
            gbce.Class("b", probability=0.75),
            Outputs(np.array([[0.25, 0.75], [0.26, 0.74]]), ("a", "b"), np.array([1, 1])),
        ),
    ],
    ids=["value", "range", "at most", "loss", "class"],
)
def test_the_boundary_counts_as_reached(target, outputs):
    assert target.read(outputs).reached.tolist() == [True, False]


def test_numbers_in_sentences_have_no_exponent_while_they_can_be_read():
    assert [short(v) for v in (300_000.0, 12_345.6, -1e6, 60.0, 0.1234567, 1e-7, 1e20)] == [
        "300,000", "12,346", "-1,000,000", "60", "0.1235", "1e-07", "1e+20",
    ]  # fmt: skip
    assert gbce.AtLeast(300_000).describe() == "at least 300,000"

"""Colours that mean something are told apart by people with any kind of colour blindness."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from gbce.plots import _style, _table
from gbce.plots import _style as _marks

# What is seen of a linear RGB colour (Machado, Oliveira and Fernandes, 2009, severity 1).
SEEN = {
    "all colours": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
CLEAR = 15.0  # CIE76 distance; two colours of which nobody can tell which is which are about 2 apart


def lab(colour, eye):
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(eye) @ linear, 0.0, 1.0) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(colours):
    """The two names that look most alike to anybody, and how far apart they are."""
    return min(
        (float(np.linalg.norm(lab(colours[a], eye) - lab(colours[b], eye))), a, b, kind)
        for a, b in combinations(colours, 2)
        for kind, eye in SEEN.items()
    )


def test_the_measure_knows_red_from_green_only_where_they_are_seen():
    assert closest({"red": "#d62728", "green": "#7f7a00"})[3] in ("protanopia", "deuteranopia")
    assert closest({"black": "#000000", "white": "#ffffff"})[0] == pytest.approx(100.0, abs=1.0)


def test_marks_of_rules_differ_from_each_other_and_from_draws():
    marks = {name: colour for name, (colour, _) in _marks._MARKS.items()}
    around = {"draws": _style.DRAWS, "missed": _style.MISSED, "answer": _style.ANSWER}
    assert closest(marks | around)[0] > CLEAR
    shapes = [shape for _, shape in _marks._MARKS.values()]
    assert len(set(shapes)) == len(shapes)


@pytest.mark.parametrize(
    "colours",
    [
        (_style.DRAWS, _style.MISSED),
        (_style.DRAWS, _style.PRIOR),
        (_style.SAFE, _style.REACHING),
        (_style.DRAWS, _style.UNSEEN),
        (_table._LOW, _table._HIGH),
    ],
)
def test_colours_without_a_shape_differ(colours):
    assert closest(dict(enumerate(colours)))[0] > CLEAR

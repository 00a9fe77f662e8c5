"""Every picture takes the axes to draw on, and returns what it drew on."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

from gbce import plots
from gbce.plots import Plots, TablePlots

NAMES = [name for name, thing in vars(Plots).items() if callable(thing) and not name.startswith("_")]


@pytest.fixture(scope="module")
def explanation(mixed):
    return mixed


def axes_of(drawn):
    """The axes of a picture as a list; anything else than Axes or a flat array of them fails."""
    if isinstance(drawn, np.ndarray):
        assert drawn.ndim == 1
        assert len(drawn) > 1
        assert all(isinstance(ax, Axes) for ax in drawn)
        return list(drawn)
    assert isinstance(drawn, Axes)
    return [drawn]


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_draws_where_it_is_told_and_returns_that(explanation, name):
    assert {"posterior", "changes", "path", "frontier"} <= set(NAMES)
    draw = getattr(explanation.plot, name)
    assert inspect.signature(draw).parameters["ax"].default is None
    assert inspect.signature(getattr(plots, f"plot_{name}")).parameters["ax"].default is None
    found = axes_of(draw())
    assert all(ax.has_data() for ax in found)
    given = plt.subplots(1, len(found), squeeze=False)[1][0]
    open_figures = plt.get_fignums()
    again = axes_of(draw(ax=given[0] if len(found) == 1 else given))
    assert all(one is other for one, other in zip(again, given, strict=True))
    assert all(ax.has_data() for ax in given)
    assert plt.get_fignums() == open_figures  # nothing was opened beside


@pytest.mark.parametrize("accessor", [Plots, TablePlots])
def test_completion_shows_every_option_with_its_default(accessor):
    methods = [name for name, thing in vars(accessor).items() if callable(thing) and not name.startswith("_")]
    assert len(methods) >= 2
    for name in methods:
        function = getattr(plots, f"plot_{'table_' * (accessor is TablePlots)}{name}")
        own, given = (
            list(inspect.signature(one).parameters.values())[1:] for one in (getattr(accessor, name), function)
        )
        shown, wanted = ([(one.name, one.kind, one.default) for one in listed] for listed in (own, given))
        assert shown == wanted, name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ax", ["here", 5, plt.Figure()], ids=["text", "number", "figure"])
def test_what_is_no_axes_is_refused(explanation, name, ax):
    with pytest.raises(TypeError, match=r"ax must be a matplotlib Axes, such as plt\.subplots\(\)\[1\], not "):
        getattr(explanation.plot, name)(ax=ax)


def test_one_figure_of_the_path_is_one_axes_and_several_take_as_many(explanation):
    one, other, third = plt.subplots(1, 3)[1]
    for figures in ("tail", ["tail"]):
        assert explanation.plot.path(figures=figures, ax=one) is one
    both = explanation.plot.path(figures=["tail", "stability"], ax=[other, third])
    assert list(both) == [other, third]
    for wrong, n in ((one, 1), ([one, other, third], 3)):
        with pytest.raises(ValueError, match=f"ax must have one Axes for each of the 2 panels, not {n}"):
            explanation.plot.path(figures=["tail", "stability"], ax=wrong)
    with pytest.raises(ValueError, match=r"figures must be columns of explanation\.path\(\), such as 'tail', not"):
        explanation.plot.path(figures="tails")

"""Every picture of every explanation fits its figure, hides nothing behind a legend, and says why where it cannot."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.plots import Plots

NAMES = [name for name, thing in vars(Plots).items() if callable(thing) and not name.startswith("_")]
REFUSED = {
    ("single", "posterior"): "needs two features",
    ("loaded", "path"): "needs every evaluated point",
    **{("unreached", name): "None of .* reaches the target" for name in ("alternatives", "menu")},
    **{("hostile", name): "nothing to change" for name in ("alternatives", "menu")},
    **{(kind, "shares"): "no column has levels" for kind in ("wide", "single", "unreached", "hostile")},
}
# no different from those of the other kinds
ELSEWHERE = {("wide", "path"), ("hostile", "path"), ("unreached", "path"), ("wide", "pairs"), ("unreached", "pairs")}
KINDS = ["mixed", "loaded", "wide", "single", "unreached", "hostile"]
SLACK = 0.03  # inches: half a line's width and rounding to pixels


def assert_fits(figure):
    """No text, mark or legend reaches beyond the figure, no legend covers axes, and no tick's text another's."""
    figure.draw_without_rendering()
    for axis in [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]:
        texts = [text for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
        if any(text.get_rotation() for text in texts):
            continue  # texts aslant have boxes that overlap although they do not
        boxes = [text.get_window_extent() for text in texts]
        assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k]), [t.get_text() for t in texts]
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 > -SLACK, box
    assert box.y0 > -SLACK, box
    assert box.x1 < width + SLACK, (box, width)
    assert box.y1 < height + SLACK, (box, height)
    for legend in [ax.get_legend() for ax in figure.axes if ax.get_legend() is not None]:
        extent = legend.get_window_extent()
        assert extent.x1 <= figure.bbox.x1 + 2
        assert extent.y0 >= figure.bbox.y0 - 2
        for ax in figure.axes:
            inner = ax.get_window_extent()
            across = min(extent.x1, inner.x1) - max(extent.x0, inner.x0)
            up = min(extent.y1, inner.y1) - max(extent.y0, inner.y0)
            assert min(across, up) <= 2, (extent, inner)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in NAMES if (kind, name) not in ELSEWHERE]
)
def test_a_picture_fits_its_figure_or_says_why_there_is_none(kind, name, request):
    explanation = request.getfixturevalue(kind)
    draw = getattr(explanation.plot, name)
    if (kind, name) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[kind, name]):
            draw()
        return
    axes = np.ravel(draw())
    assert all(ax.has_data() or ax.texts for ax in axes)
    assert_fits(plt.gcf())


def test_ticks_of_small_panels_do_not_run_into_each_other():
    """Large numbers and long levels in panels of two inches."""
    rng = np.random.default_rng(0)
    names = ["unskilled worker", "skilled worker", "management"]
    frame = pd.DataFrame(
        {"salary": rng.uniform(1e5, 2e6, 90), "job": rng.choice(names, 90), "debt": rng.uniform(-2e6, 2e6, 90)}
    )
    explainer = gbce.Explainer(lambda f: (f["salary"] - f["debt"]) / 1e6, frame, sampler=gbce.Importance(800, 200))
    explainer.explain(frame.iloc[0], gbce.Change(1.0), rules=["Nearest"], seed=0).plot.pairs(["salary", "debt", "job"])
    assert_fits(plt.gcf())


def test_the_check_finds_what_is_clipped():
    """A check that finds nothing would also be silent."""
    _, ax = plt.subplots()
    ax.plot([0, 1], [0, 1], label="a line")
    ax.set_title("wide " * 60)
    with pytest.raises(AssertionError):
        assert_fits(ax.figure)
    ax.set_title("")
    ax.legend(loc="center")
    with pytest.raises(AssertionError):
        assert_fits(ax.figure)


def test_a_small_figure_of_many_columns_names_each_of_them_once(wide):
    ax = wide.plot.changes(max_features=30)
    labels = [text.get_text().split()[0] for text in ax.get_yticklabels()]
    assert labels == list(wide.space.names)
    assert len(wide.plot.changes().get_yticklabels()) == 15
    assert len(wide.plot.importance().get_yticklabels()) == 15


def test_names_beside_panels_do_not_run_into_each_other(hostile):
    panels = hostile.plot.pairs([*hostile.space.names[1:4]])
    figure = plt.gcf()
    figure.draw_without_rendering()
    across = [one.xaxis.label.get_window_extent() for one in panels if one.get_xlabel()]
    up = [one.yaxis.label.get_window_extent() for one in panels if one.get_ylabel()]
    assert len(across) == 3
    assert len(up) == 2
    assert not any(a.overlaps(b) for names in (across, up) for k, a in enumerate(names) for b in names[:k])
    assert_fits(figure)

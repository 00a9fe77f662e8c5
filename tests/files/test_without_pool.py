"""Files without the pool: the tables, pictures, decisions and draws of before, in a fraction of the bytes."""

import json
import tracemalloc
import warnings
from contextlib import suppress

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce
from support.files import altered, as_npy, from_npy, manifest, members, restated
from support.saved import same
from support.tables import mixed_frame, score_of

DATA = mixed_frame(300)
ROW = DATA.iloc[int(np.argmin(np.abs(score_of(DATA) + 0.5)))]
RULES = ["MAP", "Medoid", gbce.DiverseSet(2), gbce.ChanceConstrained(0.6, n_perturb=16, n_confirm=32)]


def age(frame):
    return frame["age"].to_numpy(float)


MAKES = {
    "one model": {},
    "two models": {"model": [score_of, age]},
    "sparse": {"prior": gbce.Sparse()},
    "independent draws": {"sampler": gbce.Importance(2_000, 300)},
    "chains": {"sampler": gbce.Chains(20, 40, n_draws=300)},
    "a rule for eta": {"eta": gbce.SuccessProbability(0.7)},
}


def explain(model=score_of, **options):
    return gbce.Explainer(model, DATA, **options).explain(ROW, gbce.AtLeast(1.0, scale=0.5), rules=RULES, seed=0)


@pytest.fixture(scope="module")
def made():
    found = {}

    def get(name):
        if name not in found:
            found[name] = explain(**MAKES[name])
        return found[name]

    return get


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def slim(explanation, folder):
    return gbce.load(explanation.save(folder / "slim.gbce", pool=False))


@pytest.mark.parametrize("name", MAKES)
def test_tables_draws_and_decisions_are_those_of_before(made, name, tmp_path):
    whole = made(name)
    again = slim(whole, tmp_path)
    same(whole, again)
    pd.testing.assert_frame_equal(again.importance, whole.importance, check_exact=True)
    pd.testing.assert_frame_equal(again.intervals(), whole.intervals(), check_exact=True)
    pd.testing.assert_frame_equal(again.changes(), whole.changes(), check_exact=True)
    pd.testing.assert_frame_equal(again.shares("region"), whole.shares("region"), check_exact=True)
    pd.testing.assert_frame_equal(again.frontier(), whole.frontier(), check_exact=True)
    columns = ("weight", "output", "loss", "reached")
    pd.testing.assert_frame_equal(again.draws.frame(*columns), whole.draws.frame(*columns), check_exact=True)
    assert json.dumps(again.diagnostics, default=str) == json.dumps(whole.diagnostics, default=str)
    assert again.to_json(draws=True) == whole.to_json(draws=True)
    assert str(again.answer) == str(whole.answer)
    for rule in (
        "MAP",
        "Nearest",
        gbce.Nearest(distance="changes"),
        gbce.Nearest(max_changes=2),
        "Medoid",
        "Mean",
        "GeometricMedian",
        gbce.DiverseSet(3),
        gbce.RandomDraw(5),
    ):
        pd.testing.assert_frame_equal(again.decide(rule), whole.decide(rule), check_exact=True)


@pytest.mark.parametrize("name", ["one model", "sparse"])
@pytest.mark.parametrize("mass", [0.5, 0.8, 0.9, 0.95])
def test_the_picture_of_changes_is_that_of_before(made, name, mass, tmp_path):
    whole = made(name)
    again = slim(whole, tmp_path)
    bars = [[bar.get_bbox().bounds for bar in one.plot.changes(mass=mass).patches] for one in (whole, again)]
    assert len(bars[0]) == 6  # of three columns, each with its prior
    np.testing.assert_allclose(bars[1], bars[0], rtol=1e-12, atol=1e-12)


def test_bars_of_other_masses_lie_between_those_that_were_kept(made, tmp_path):
    again = slim(made("one model"), tmp_path)
    widths = {mass: again.plot.changes(mass=mass).patches[0].get_width() for mass in (0.8, 0.87, 0.9)}
    assert widths[0.8] <= widths[0.87] <= widths[0.9]
    assert widths[0.8] < widths[0.9]


LOSSES = np.geomspace(0.01, 100.0, 60)  # some of which the draws of any seed carry


def at_a_carried_loss(one):
    for loss in LOSSES[:-1]:
        with suppress(ValueError):
            return one.at(gbce.ExpectedLoss(loss))
    return one.at(gbce.ExpectedLoss(LOSSES[-1]))


CANNOT = {
    "path": (lambda one: one.path(), r"path\(\)"),
    "at": (lambda one: one.at(0.5), r"at\(\.\.\.\)"),
    "at with a rule": (at_a_carried_loss, r"at\(\.\.\.\)"),
    "at with another combination": (lambda one: one.at(combine="all"), r"at\(\.\.\.\)"),
    "frontier": (lambda one: one.frontier(among="pool"), r'frontier\(among="pool"\)'),
    "plot.path": (lambda one: one.plot.path(), r"path\(\)"),
    "draws.z": (lambda one: one.draws.z, r"draws\.z"),
    "draws.reweigh": (lambda one: one.draws.reweigh(one.mixture), "another eta, weights or combination"),
    "draws.resample": (lambda one: one.draws.resample(np.random.default_rng(0), 5), "resampling"),
    "draws.prior_weights": (lambda one: one.draws.prior_weights, "the prior"),
}


@pytest.mark.parametrize(("ask", "what"), CANNOT.values(), ids=CANNOT)
def test_what_needs_every_point_says_so_and_how_to_keep_them(made, ask, what, tmp_path):
    whole = made("two models")
    ask(whole)  # which can be asked of the whole
    sentence = rf"^{what} needs every evaluated point.*explanation\.save\(path, pool=True\).*keep='pool'\)$"
    with pytest.raises(ValueError, match=sentence):
        ask(slim(whole, tmp_path))


def test_what_has_no_table_yet_gets_errors_of_about_the_same_size(made, tmp_path):
    whole = made("two models")
    again = slim(whole, tmp_path)
    one, other = whole.disagreement(), again.disagreement()
    assert other.overall["differ"] == one.overall["differ"]
    assert other.sentence == one.sentence
    assert 0.5 < other.overall["differ_se"] / one.overall["differ_se"] < 2.0


def test_the_model_can_be_asked_about_it(made, tmp_path):
    whole = made("one model")
    again = slim(whole, tmp_path)
    explainer = gbce.Explainer(score_of, DATA)
    for rule in ("MAP", "CVaR"):
        found = explainer.decide(again, rule)
        assert score_of(found)[0] > score_of(ROW.to_frame().T.astype(DATA.dtypes))[0]
    pd.testing.assert_frame_equal(explainer.assess(again, DATA.iloc[:2]), explainer.assess(whole, DATA.iloc[:2]))
    with pytest.raises(ValueError, match="the explanation was made with another model"):
        gbce.Explainer(age, DATA).decide(again, "CVaR")


def test_saved_again_it_stays_as_it_is(made, tmp_path):
    again = slim(made("sparse"), tmp_path)
    for pool in (True, False):  # what was let go stays gone
        third = gbce.load(again.save(tmp_path / "third.gbce", pool=pool))
        same(again, third)
        assert third.draws.record is not None
        np.testing.assert_array_equal(third.draws.pool.x, again.draws.pool.x)


def test_a_file_takes_a_fraction_of_the_bytes(made, tmp_path):
    whole = made("one model")
    before = whole.save(tmp_path / "whole.gbce").stat().st_size
    after = whole.save(tmp_path / "slim.gbce", pool=False).stat().st_size
    assert after < 0.4 * before, f"bytes per row: {before:,} with the pool, {after:,} without"


def test_a_pool_that_is_very_large_is_left_out_with_a_warning_unless_it_is_asked_for(made, tmp_path, monkeypatch):
    whole = made("one model")
    n, d = whole.draws.pool.x.shape
    size = whole.draws.pool.z.nbytes + whole.draws.pool.x.nbytes
    size += whole.draws.seen.z.nbytes + whole.draws.seen.x.nbytes if whole.draws.seen is not None else 0
    monkeypatch.setattr("gbce.files._files._MOST_POOL_BYTES", size)
    assert gbce.load(whole.save(tmp_path / "whole.gbce")).draws.record is None
    monkeypatch.setattr("gbce.files._files._MOST_POOL_BYTES", size - 1)
    with pytest.warns(UserWarning, match=rf"save: {n:,} evaluated points in {d} columns would take .* are left out"):
        again = gbce.load(whole.save(tmp_path / "slim.gbce"))
    same(whole, again)
    assert again.draws.record is not None
    again.save(tmp_path / "again.gbce")  # no warning: it has no pool that could be missed
    whole.save(tmp_path / "slim.gbce", pool=False)
    kept = gbce.load(whole.save(tmp_path / "kept.gbce", pool=True))
    np.testing.assert_array_equal(kept.draws.pool.z, whole.draws.pool.z)


@pytest.mark.parametrize("pool", [0, 1, "no"])
def test_bad_pool_is_refused(made, pool, tmp_path):
    with pytest.raises(TypeError, match=rf"save: pool must be True, False or None, not {pool!r}"):
        made("one model").save(tmp_path / "one.gbce", pool=pool)
    assert not list(tmp_path.iterdir())


# --- what a file says is checked --------------------------------------------------------------------------------------


def record(path, **changes):
    return restated(path, record=manifest(path)["record"] | changes)


def array(path, name, change):
    content = members(path)[f"{name}.npy"]
    return altered(path, **{f"{name.replace('.', '__')}__npy": as_npy(change(from_npy(content)))})


def beyond(index):
    index[0] = 10**9  # a count of so many would take 8 GB
    return index


DAMAGE = {
    "fewer points than there are": lambda path: record(path, n_evaluated=3),
    "no effective size": lambda path: record(path, ess=0.0),
    "effective size as a text": lambda path: record(path, worst_ess="many"),
    "another figure": lambda path: record(path, worst_of=-1),
    "no Pareto k": lambda path: record(path, pareto_k=None),
    "no figures": lambda path: record(path, figures=[]),
    "a figure without an error": lambda path: record(path, figures=[["success_probability", "", 0.5]]),
    "a figure that is a text": lambda path: record(path, figures=[["success_probability", "", "x", 0.1, None, None]]),
    "no record": lambda path: restated(path, record=None),
    "a record that is none": lambda path: restated(path, record=[]),
    "negative change": lambda path: array(path, "record.change", lambda a: a - 100.0),
    "negative error": lambda path: array(path, "record.change_se", lambda a: a - 100.0),
    "missing column": lambda path: array(path, "record.prior_moves", lambda a: a[:, 1:]),
    "shares that are none": lambda path: array(path, "record.prior_shares", lambda a: a * 2.0),
    "too few shares": lambda path: array(path, "record.prior_shares", lambda a: a[1:]),
    "a draw beyond all points": lambda path: array(path, "draws.index", beyond),
    "a negative draw": lambda path: array(path, "draws.index", lambda a: a - 10**6),
    "very many coordinates": lambda path: array(path, "row.z", lambda a: np.zeros((1, 10**6))),
    "lacks an array": lambda path: altered(path, record__change__npy=None),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_record_is_refused(made, damage, tmp_path):
    path = made("one model").save(tmp_path / "slim.gbce", pool=False)
    gbce.load(altered(path))  # whole again, it is read
    with pytest.raises(gbce.FileError, match=r"altered\.gbce is damaged"):
        gbce.load(damage(path))


@pytest.mark.parametrize("name", ["a draw beyond all points", "very many coordinates"])
def test_no_memory_is_taken_for_what_a_file_claims(made, name, tmp_path):
    path = DAMAGE[name](made("one model").save(tmp_path / "slim.gbce", pool=False))
    tracemalloc.start()
    try:
        with pytest.raises(gbce.FileError, match="is damaged"):
            gbce.load(path)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


# --- stores -----------------------------------------------------------------------------------------------------------


def many(store, rows=4, seed=0, keep="draws", **options):
    explainer = gbce.Explainer(score_of, DATA, sampler=gbce.SMC(precision="quick"))
    target, rules = gbce.AtLeast(1.0, scale=0.5), ["MAP", "Mean"]
    return explainer.explain_many(
        DATA.iloc[:rows], target, rules=rules, seed=seed, progress=False, store=store, keep=keep, **options
    )


def same_tables(one, other):
    for name in ("counterfactuals", "pointwise", "distribution", "importance", "diagnostics"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    pd.testing.assert_frame_equal(one.changes(), other.changes(), check_exact=True)


def sizes(store):
    return [path.stat().st_size for path in sorted((store / "draws").glob("row-*.gbce"))]


def test_a_store_keeps_the_pool_only_when_asked(tmp_path):
    table = many(tmp_path / "slim", rows=2)
    whole = many(tmp_path / "whole", rows=2, keep="pool")
    same_tables(table, whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same_tables(many(tmp_path / "slim", rows=2), table)  # read back
        same_tables(many(tmp_path / "whole", rows=2, keep="pool"), table)
    after, before = np.mean(sizes(tmp_path / "slim")), np.mean(sizes(tmp_path / "whole"))
    assert after < 0.4 * before, f"bytes per row: {before:,.0f} with the pool, {after:,.0f} without"
    assert gbce.load(tmp_path / "whole" / "draws" / "row-000000.gbce").path().shape[0] > 10
    with pytest.raises(ValueError, match=r"path\(\) needs every evaluated point"):
        gbce.load(tmp_path / "slim" / "draws" / "row-000000.gbce").path()
    with pytest.raises(ValueError, match=r"different run \(keep changed\)"):
        many(tmp_path / "slim", rows=2, keep="pool")


def test_draws_that_are_missing_are_drawn_again(tmp_path):
    table = many(tmp_path / "one").read()
    for position in (1, 3):
        (tmp_path / "one" / "draws" / f"row-{position:06d}.gbce").unlink()
    again = many(tmp_path / "one")
    assert again.n_model_rows < 0.8 * table.n_model_rows  # two of four rows, which take different numbers
    same_tables(again, table)


@pytest.mark.parametrize("keep", [True, 1, "yes"])
def test_a_bad_keep_is_refused(keep, tmp_path):
    with pytest.raises(ValueError, match=rf"keep must be 'draws', 'pool' or None, not {keep!r}"):
        many(tmp_path / "one", keep=keep)
    with pytest.raises(ValueError, match="keep applies to the files of a store"):
        many(None, keep="pool")
    assert not list(tmp_path.iterdir())

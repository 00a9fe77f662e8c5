"""Many rows: the answers of single rows, fewer model calls, the same bits in parallel, and nothing lost."""

import os

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import gbce

X, Y = load_diabetes(return_X_y=True, as_frame=True)
FOREST = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, Y)
LINE = LinearRegression().fit(X, Y)  # inside of functions, where many small calls count
QUICK = gbce.Importance(n_candidates=800, n_draws=200)
RULES = [
    gbce.MAP(),
    gbce.Mean(),
    gbce.CVaR(n_perturb=8, max_candidates=40),
    gbce.DirectOpt(n_starts=3, max_iterations=40),
]
FEW = [gbce.Mean()]  # where the rules do not matter
ROWS = X.iloc[[3, 50, 7, 200, 11]].set_axis(["a", "b", "c", "d", "e"])
TARGET = gbce.AtMost(110)


def explainer(model=FOREST, **options):
    return gbce.Explainer(model, X, sampler=QUICK, **options)


def many(rows=ROWS, seed=5, progress=False, model=FOREST, rules=RULES, **options):
    if "store" in options:
        options.setdefault("keep", "draws")  # so that a stored table has all tables
    return explainer(model).explain_many(rows, TARGET, rules=rules, seed=seed, progress=progress, **options)


@pytest.fixture(scope="module")
def table():
    """The rows explained with all rules, which no test changes."""
    return many()


@pytest.fixture(scope="module")
def alone(table):
    """Each of these rows explained by itself, with its seed of the table."""
    seeds = table.diagnostics["seed"]
    return {
        label: explainer().explain(row, TARGET, rules=RULES, seed=int(seeds[label])) for label, row in ROWS.iterrows()
    }


@pytest.fixture(scope="module")
def with_failure():
    """Five rows of which the model refuses one."""
    with pytest.warns(UserWarning, match=TOO_HEAVY):
        return many(HEAVY, model=picky, rules=[gbce.MAP()])


def same(one, other):
    for name in ("counterfactuals", "pointwise", "distribution", "importance", "diagnostics"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)


def test_rows_get_the_answers_they_get_alone(table, alone):
    for label, one in alone.items():
        exactly = {"check_exact": True, "check_index_type": False}
        pd.testing.assert_frame_equal(table.counterfactuals.loc[label], one.counterfactuals, **exactly)
        pd.testing.assert_frame_equal(table.pointwise.loc[label], one.pointwise, **exactly)
        pd.testing.assert_series_equal(table.distribution.loc[label], one.distribution, check_names=False)
        pd.testing.assert_frame_equal(table.importance.loc[label], one.importance, **exactly)
        assert table.diagnostics.loc[label, "status"] == one.status


@pytest.mark.parametrize("paid", [True, False])
def test_rows_share_model_calls_that_are_paid_for(paid):
    asked = []

    def counted(frame):
        asked.append(len(frame))
        return frame["bmi"].to_numpy() * 1000 + 150

    counted.cost_per_call = paid
    table = gbce.Explainer(counted, X, sampler=QUICK).explain_many(ROWS, TARGET, rules=RULES, seed=0, progress=False)
    assert table.n_model_calls == len(asked)
    assert (table.n_model_calls < 0.5 * table.diagnostics["n_model_calls"].sum()) == paid
    assert table.n_model_rows == sum(asked)
    if paid:  # hardly a call for a single row: decisions and answers are evaluated in one call, too
        assert asked.count(1) <= len(ROWS)


def test_same_bits_whatever_n_jobs(monkeypatch):
    monkeypatch.setattr("gbce.batch._many._ROWS_PER_GROUP", 2)
    one = many(rules=FEW)
    same(one, many(rules=FEW, n_jobs=2))
    same(one, many(rules=FEW, n_jobs=1))
    assert not many(rules=FEW, seed=6).counterfactuals.equals(one.counterfactuals)


def test_classifiers_and_several_models():
    data, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    models = [RandomForestClassifier(15, random_state=s).fit(data, labels) for s in (0, 1)]
    rows = data[models[0].predict(data) == 0].iloc[:3]
    both = gbce.Explainer(models, data, sampler=QUICK)
    table = both.explain_many(rows, gbce.Class(1), rules=[gbce.MAP()], seed=0, progress=False)
    assert list(table.distribution.index) == list(rows.index)
    decided = models[0].predict(table.counterfactuals) == 1
    np.testing.assert_array_equal(table.pointwise["reached"], decided)
    assert "success_probability[all]" in table.distribution


def test_arrays_are_numbered_and_summaries_are_readable(capsys):
    table = gbce.Explainer(LINE.predict, X, sampler=QUICK).explain_many(
        ROWS.to_numpy(), TARGET, rules=[gbce.MAP(), gbce.Mean()], seed=0
    )
    assert list(table.diagnostics.index) == [0, 1, 2, 3, 4]
    assert "5/5" in capsys.readouterr().err  # the progress bar
    text = table.summary()
    assert text.startswith("5 rows: ")
    shares = table.by_rule()[("reached", "share")]
    assert shares["MAP"] == table.pointwise.xs("MAP", level="rule")["reached"].mean()
    assert f"{shares['MAP']:.0%}" in text


class Dies:
    """A model that gives up after a number of rows, like a machine that is switched off."""

    def __init__(self, after):
        self.left = after
        self.asked = 0

    def __call__(self, frame):
        self.asked += len(frame)
        self.left -= len(frame)
        if self.left < 0:
            raise ConnectionError("gone")
        return LINE.predict(frame)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("gbce.batch._many._ROWS_PER_GROUP", 1)
    whole = many(rules=FEW, model=Dies(10**9))
    cost = whole.n_model_rows
    with pytest.raises(gbce.PredictionError, match=r"row '.': .*gone"):
        many(rules=FEW, model=Dies(int(0.7 * cost)), store=tmp_path / "run", on_error="raise")
    finished = sorted((tmp_path / "run" / "answers").iterdir())
    assert 0 < len(finished) < 5
    assert not list((tmp_path / "run").rglob(".*part"))
    second = Dies(10**9)
    resumed = many(rules=FEW, model=second, store=tmp_path / "run")
    same(resumed, whole)
    assert second.asked < 0.8 * cost
    third = Dies(100)  # everything is there: it is only asked whether it is the same model
    same(many(rules=FEW, model=third, store=tmp_path / "run", seed=None), whole)
    assert 0 < third.asked < 100
    one = gbce.load(tmp_path / "run" / "draws" / "row-000001.gbce")
    pd.testing.assert_frame_equal(one.counterfactuals, whole.counterfactuals.loc["b"], check_index_type=False)


def test_a_store_of_another_run_is_refused(tmp_path):
    many(rules=FEW, store=tmp_path / "run")
    for options, word in (
        ({"seed": 6}, "seed"),
        ({"rows": ROWS.iloc[:3]}, "rows"),
    ):
        with pytest.raises(ValueError, match=f"holds results of a different run .*{word}"):
            many(rules=FEW, store=tmp_path / "run", **options)
    with pytest.raises(ValueError, match="rules"):
        many(rules=[gbce.MAP()], store=tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="not empty"):
        many(rules=FEW, store=tmp_path / "other")
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        many(rules=FEW, store=tmp_path / "run")


def test_a_run_without_a_seed_keeps_the_one_it_began_with(tmp_path):
    first = many(seed=None, rules=FEW, store=tmp_path / "run")
    same(first, many(seed=None, rules=FEW, store=tmp_path / "run"))


def test_bad_rows_are_named_before_anything_is_asked():
    bounded = gbce.Space.infer(X, bounds={"bmi": (-0.05, None)})
    model = Dies(0)
    low = ROWS.assign(bmi=[0.0, 0.0, -0.1, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"row 'c': 'bmi' = -0\.10* lies below its bound"):
        gbce.Explainer(model, X, space=bounded).explain_many(low, TARGET, progress=False, on_error="raise")
    with pytest.raises(ValueError, match=r"rows: column 'bp' is missing in row 'b'"):
        explainer(model).explain_many(ROWS.assign(bp=[0.0, np.nan, 0.0, 0.0, 0.0]), TARGET, progress=False)
    assert model.asked == 0


def test_a_row_that_breaks_a_bound_is_a_line_with_its_error(tmp_path):
    bounded = gbce.Space.infer(X, bounds={"bmi": (-0.05, None)})
    explainer = gbce.Explainer(LinearRegression().fit(X, Y), X, space=bounded)
    low = ROWS.assign(bmi=[0.0, 0.0, -0.1, 0.0, 0.0])
    options = {"seed": 0, "posterior": False, "progress": False}
    with pytest.warns(UserWarning, match="1 of 5 rows could not be explained"):
        table = explainer.explain_many(low, TARGET, **options)
    assert list(table.errors.index) == ["c"]
    assert "'bmi' = -0.1" in table.errors["c"]
    assert table.rows.loc["c", "bmi"] == pytest.approx(-0.1)
    others = explainer.explain_many(low.drop("c"), TARGET, **options)
    pd.testing.assert_frame_equal(table.answers.drop("c"), others.answers)
    with pytest.warns(UserWarning, match="1 of 5 rows could not be explained"):
        stored = explainer.explain_many(low, TARGET, store=tmp_path / "run", **options)
    pd.testing.assert_series_equal(stored.answers["cost"], table.answers["cost"], check_names=False)


def picky(frame):
    if (frame["bmi"] > 10).any():
        raise OverflowError("too heavy")
    return LINE.predict(frame)


HEAVY = ROWS.assign(bmi=[0.0, 0.0, 100.0, 0.0, 0.0])
TOO_HEAVY = r"1 of 5 rows could not be explained, first row 'c': PredictionError: .*OverflowError: too heavy"


def test_a_row_that_fails_becomes_a_line_and_the_others_go_on(with_failure):
    table = with_failure
    assert len(table) == 5
    assert table.diagnostics["status"].tolist().count("failed") == 1
    assert list(table.errors.index) == ["c"]
    assert "too heavy" in table.diagnostics.loc["c", "error"]
    assert (table.diagnostics["error"].drop("c") == "").all()
    assert table.distribution.loc["c"].isna().all()
    assert table.importance.loc["c"].isna().all(axis=None)
    assert "c" not in table.pointwise.index.get_level_values("row")
    assert "c" not in table.counterfactuals.index.get_level_values("row")
    assert "too heavy" in table.summary()
    assert table.n_model_rows > 0
    whole = many(
        HEAVY, model=lambda frame: LINE.predict(frame), rules=[gbce.MAP()]
    )  # what the others are told does not change
    for name in ("counterfactuals", "pointwise", "distribution", "importance"):
        expected = getattr(whole, name).drop("c", level="row" if name != "distribution" else None)
        found = getattr(table, name)
        found = found[found.index.get_level_values("row") != "c"]
        pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_groups_count_rows_that_failed(with_failure):
    table = with_failure
    others = many(HEAVY.drop("c"), rules=[gbce.MAP()])
    for rule in ("posterior", "MAP"):
        costs = gbce.group_costs(table, ["a", "a", "b", "b", "b"], rule=rule)
        assert costs["rows"].tolist() == [2, 3]
        assert costs["failed"].tolist() == [0, 1]
        assert gbce.group_costs(others, ["a", "a", "b", "b"], rule=rule)["failed"].tolist() == [0, 0]
    changes = gbce.group_changes(table, ["a", "a", "b", "b", "b"])
    assert changes.loc["b", "change"].notna().all()


@pytest.fixture(scope="module")
def four():
    """Four rows, of which two have the same label each."""
    rows = ROWS[:4].set_axis([0, 1, 0, 1])
    return many(rows, rules=["Nearest"], posterior=False)


def test_rows_of_one_label_may_be_in_different_groups(four):
    groups = pd.Series(["a", "b", "c", "d"], index=[0, 1, 0, 1])
    assert gbce.group_costs(four, groups)["rows"].to_dict() == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert gbce.group_costs(four, groups[:2])["rows"].to_dict() == {"a": 2, "b": 2}
    with pytest.raises(ValueError, match="groups has different entries for row 1: list the groups in the order"):
        gbce.group_costs(four, groups.iloc[[1, 0, 2, 3]])


def test_groups_may_be_tuples_and_nothing_else_that_is_no_value(four):
    listed = [("f", 1), ("m", 1), ("f", 1), ("m", 2)]
    assert gbce.group_costs(four, listed)["rows"].to_dict() == {("f", 1): 2, ("m", 1): 1, ("m", 2): 1}
    changes = gbce.group_changes(four, listed)
    assert changes.index.get_level_values("group").unique().tolist() == [("f", 1), ("m", 1), ("m", 2)]
    for bad, sentence in (
        (None, "must have the group of each row"),
        ("abcd", "in order or"),
        ([["f"]] * 4, "not \\['f'\\]"),
    ):
        with pytest.raises(TypeError, match=sentence):
            gbce.group_costs(four, bad)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_row_that_fails_ends_the_run_if_that_is_wished(n_jobs, monkeypatch):
    monkeypatch.setattr("gbce.batch._many._ROWS_PER_GROUP", 2)
    with pytest.raises(gbce.PredictionError, match=r"row 'c': .*too heavy"):
        many(HEAVY, model=picky, rules=FEW, on_error="raise", n_jobs=n_jobs)
    with pytest.raises(ValueError, match="on_error must be 'record' or 'raise', not 'ignore'"):
        many(on_error="ignore")


def test_a_failure_of_any_kind_is_a_line():
    class Fussy(Exception):
        def __init__(self, row, why):
            super().__init__(f"{why} in {row}")

    def distance(x, row):
        if row[2] > 10:
            raise Fussy(row[0], "too far")
        return np.abs(x - row).sum(axis=1) * 20

    def run(on_error):
        fussy = explainer(prior=gbce.DistancePrior(distance))
        return fussy.explain_many(HEAVY, TARGET, rules=[gbce.MAP()], seed=0, progress=False, on_error=on_error)

    with pytest.warns(UserWarning, match="row 'c': Fussy: too far in"):
        assert run("record").diagnostics["status"].tolist().count("failed") == 1
    with pytest.raises(RuntimeError, match="row 'c': Fussy: too far in"):
        run("raise")


def test_a_run_in_which_every_row_fails_is_a_table_of_errors():
    with pytest.warns(UserWarning, match="5 of 5 rows could not be explained"):
        table = many(ROWS.assign(bmi=100.0), model=picky)
    assert (table.diagnostics["status"] == "failed").all()
    assert len(table.pointwise) == len(table.counterfactuals) == 0
    assert list(table.counterfactuals.columns) == list(X.columns)
    assert table.summary().startswith("5 rows: 5 failed")


def test_a_row_that_failed_is_tried_again(tmp_path):
    with pytest.warns(UserWarning, match=TOO_HEAVY):
        many(HEAVY, model=picky, rules=FEW, store=tmp_path / "run")
    assert gbce.load(tmp_path / "run").errors.index.tolist() == ["c"]
    assert len(list((tmp_path / "run" / "draws").glob("row-*.gbce"))) == 4
    asked = []

    def mended(frame):
        asked.append(len(frame))
        return LINE.predict(frame)

    mended.__name__ = picky.__name__
    again = many(HEAVY, model=mended, rules=FEW, store=tmp_path / "run")
    same(again, many(HEAVY, model=mended, rules=FEW))
    assert len(list((tmp_path / "run" / "draws").glob("row-*.gbce"))) == 5


# --- what a table says of itself --------------------------------------------------------------------------------------


def test_changes_are_those_of_the_rows_one_after_the_other(table, alone):
    found = table.changes()
    assert found.columns.tolist() == ["row", "rule", "feature", "from", "to", "change"]
    for label, one in alone.items():
        own = found[found["row"] == label].drop(columns="row").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, one.changes(), check_exact=True)
    counted = table.pointwise["changed"]
    assert found.groupby(["row", "rule"]).size().to_dict() == counted[counted > 0].to_dict()
    found.loc[:, "rule"] = "x"  # a copy: the table's own stay
    assert "x" not in set(table.changes()["rule"])


@pytest.mark.parametrize("labels", [[(1, "a"), (1, "b")], [7, 7], pd.to_datetime(["2024-01-01", "2024-01-02"])])
def test_changes_keep_labels_of_any_kind(labels):
    rows = ROWS.iloc[:2].copy()
    rows.index = pd.Index(labels, tupleize_cols=False)
    table = explainer().explain_many(rows, TARGET, rules="MAP", seed=5, progress=False)
    assert list(dict.fromkeys(table.changes()["row"])) == list(dict.fromkeys(labels))


def test_changes_without_any():
    table = explainer().explain_many(ROWS, TARGET, rules=[], seed=0, progress=False)
    assert len(table.changes()) == 0
    assert repr(table).startswith("<ExplanationTable: 5 rows, ")
    assert repr(table).endswith(", 0 rules; print(table.summary()) shows it>")
    assert "<table" not in table._repr_html_()


def test_a_table_shows_itself_in_one_line(table):
    status = ", ".join(f"{n} {word}" for word, n in table.diagnostics["status"].value_counts().items())
    assert repr(table) == f"<ExplanationTable: 5 rows, {status}, 4 rules; print(table.summary()) shows it>"
    html = table._repr_html_().split("<iframe")[0]  # what a viewer shows that takes frames out
    assert f"<p>5 rows, {status}, 4 rules</p>" in html
    assert html.count("<tr") == 1 + 1 + 4  # a head, the name of the index, a line for each rule
    assert len(html) < 5_000


def test_rows_that_failed_are_counted_and_change_nothing(with_failure):
    assert ", 1 failed," in repr(with_failure)
    assert set(with_failure.changes()["row"]) <= {"a", "b", "d", "e"}
    with pytest.warns(UserWarning, match="5 of 5 rows could not be explained"):
        table = many(ROWS.assign(bmi=100.0), model=picky)
    assert repr(table) == "<ExplanationTable: 5 rows, 5 failed, 0 rules; print(table.summary()) shows it>"
    assert table.changes().columns.tolist() == ["row", "rule", "feature", "from", "to", "change"]


# --- the same row and seed, the same answer --------------------------------------------------------------------------


def agree(table, label, explanation):
    """Whether a row of a table has the very answer that it has alone."""
    alone = explanation.counterfactuals.to_numpy(dtype=object)
    assert np.array_equal(table.counterfactuals.loc[label].to_numpy(dtype=object), alone)
    assert table.answers.loc[label, "sentence"] == explanation.answer.sentence
    assert table.diagnostics.loc[label, "log_evidence"] == explanation.diagnostics["log_evidence"]


@pytest.mark.parametrize("as_array", [False, True], ids=["frame", "array"])
def test_a_row_has_the_same_answer_alone_and_in_any_company(as_array):
    data, rows = (X.to_numpy(), ROWS.to_numpy()) if as_array else (X, ROWS)
    model = LinearRegression().fit(data, Y)
    many_of = gbce.Explainer(model, data, sampler=QUICK)
    alone = many_of.explain(rows[2] if as_array else rows.iloc[2], TARGET, rules=RULES, seed=11)
    options = {"rules": RULES, "seed": 11, "progress": False}
    label = 2 if as_array else rows.index[2]
    agree(many_of.explain_many(rows, TARGET, **options), label, alone)
    last = many_of.explain_many(rows[2:] if as_array else rows.iloc[2:], TARGET, **options)
    agree(last, 0 if as_array else label, alone)


def test_rows_of_a_table_have_random_numbers_of_their_own():
    explainer = gbce.Explainer(LinearRegression().fit(X, Y), X, sampler=QUICK)
    two = [explainer.explain(ROWS.iloc[i], TARGET, rules=[], seed=0) for i in (0, 1)]
    assert two[0].query.key != two[1].query.key
    assert two[0].seed == two[1].seed == 0
    again = explainer.explain(ROWS.iloc[0][::-1], TARGET, rules=[], seed=0)
    assert np.array_equal(again.draws.x, two[0].draws.x)


def test_each_row_may_have_a_seed_of_its_own(tmp_path):
    explainer = gbce.Explainer(LinearRegression().fit(X, Y), X, sampler=QUICK)
    rows, seeds = pd.concat([ROWS.iloc[:1]] * 3).set_axis([0, 1, 2]), [4, 5, 4]
    options = {"rules": FEW, "progress": False, "keep": "draws"}
    table = explainer.explain_many(rows, TARGET, seed=seeds, store=tmp_path / "s", **options)
    assert table.diagnostics["seed"].tolist() == seeds
    evidence = table.diagnostics["log_evidence"]
    assert evidence[0] == evidence[2] != evidence[1]
    agree(table, 1, explainer.explain(rows.iloc[1], TARGET, rules=FEW, seed=5))
    same(explainer.explain_many(rows, TARGET, store=tmp_path / "s", **options), table)
    with pytest.raises(ValueError, match=r"holds results of a different run \(seed"):
        explainer.explain_many(rows, TARGET, seed=4, store=tmp_path / "s", **options)
    with pytest.raises(ValueError, match="2 seeds for 3 rows"):
        explainer.explain_many(rows, TARGET, seed=[1, 2], rules=FEW, progress=False)


class Unpacked:
    """A model that writes down in which process it was unpacked."""

    def __init__(self, path):
        self.path = str(path)

    def __setstate__(self, state):
        vars(self).update(state)
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")

    def __call__(self, rows):
        return np.asarray(rows)[:, 2] * 1000 + 150


def test_a_process_unpacks_the_models_once(tmp_path, monkeypatch):
    monkeypatch.setattr("gbce.batch._many._ROWS_PER_GROUP", 1)
    explainer = gbce.Explainer(Unpacked(tmp_path / "who"), X, sampler=QUICK)
    explainer.explain_many(X.iloc[:8], TARGET, rules=[], seed=0, n_jobs=2, progress=False)
    processes = (tmp_path / "who").read_text().split()
    assert len(processes) == len(set(processes)) <= 2

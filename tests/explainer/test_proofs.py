"""Explanations with a proof: what they say, when there is none, and files."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import gbce
from gbce.trees import prove_unattainable, read_structure

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = X.sum(axis=1)
FOREST = RandomForestRegressor(10, max_depth=4, random_state=0).fit(X, Y)


def ask(y, model=FOREST, **options):
    explainer = gbce.Explainer(model, X, space=gbce.Space.infer(X, bounds="data"))
    return explainer.explain(X[0], gbce.AtLeast(y), seed=0, **options)


def test_a_proof_is_said_first_and_the_best_seen_after_it():
    explanation = ask(50, rules=[gbce.MAP()])
    proof = explanation.proof
    assert explanation.status == "not attained"
    assert explanation.status_note.startswith(proof.sentence)
    assert proof.sentence.startswith("Impossible within these bounds: no row can get above ")
    assert "(proved from all 10 trees)" in proof.sentence
    best = max(explanation.draws.known.outputs[:, 0].max(), explanation.decisions[0].outputs[0])
    assert f"The best seen is {best:.4g}, against" in explanation.status_note
    assert best <= proof.bound < 50
    assert proof.sentence in explanation.answer.proof


def test_without_a_proof_it_is_a_search():
    explanation = ask(50, model=lambda x: np.tanh(np.asarray(x).sum(axis=1)), rules=[])
    assert explanation.proof is None
    assert explanation.status_note.startswith("None of ")
    assert " evaluated points reaches the target (at least 50); the best seen is " in explanation.status_note
    assert "This is a search, not a proof" in explanation.status_note


def test_no_proof_where_there_is_nothing_to_prove():
    assert ask(1.0, rules=[]).proof is None
    assert ask(-9.0, rules=[]).proof is None


def test_a_proof_covers_rules_between_columns_and_computed_ones():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame["sum"] = frame["a"] + frame["b"]
    model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(frame, frame["sum"])
    space = gbce.Space.infer(frame, computed={"sum": "a + b"}, constraints=["a <= b + 9"], bounds={"a": (-9, 9)})
    explainer = gbce.Explainer(model, frame, space=space)
    top = model.predict(frame).max()
    assert explainer.explain(frame.iloc[0], gbce.AtLeast(top - 0.1), rules=[], seed=0).status != "not attained"
    assert explainer.explain(frame.iloc[0], gbce.AtLeast(9), rules=[], seed=0).proof.kind == "trees"


def test_a_class_out_of_reach_of_the_first_of_two_models():
    frame = pd.DataFrame(X, columns=list("abc"))
    first = LogisticRegression().fit(frame, Y > 0)
    second = LogisticRegression().fit(frame, X[:, 0] > 0)
    space = gbce.Space.infer(frame, bounds="data", immutable=["a", "b"])
    row = int(np.argmin(X[:, 0] + X[:, 1]))  # the third alone cannot make up for it
    explainer = gbce.Explainer([first, second], frame, space=space)
    proof = explainer.explain(frame.iloc[row], gbce.Class(True), rules=[], seed=0).proof
    assert proof.kind == "linear"
    assert proof.bound < 0.5


def test_a_proof_goes_into_a_file_and_back(tmp_path):
    explanation = ask(50, rules=[])
    again = gbce.load(explanation.save(tmp_path / "proved.gbce"))
    assert again.proof == explanation.proof
    assert gbce.load(ask(1.0, rules=[]).save(tmp_path / "found.gbce")).proof is None


def rewrite(path, change):
    """Write a file again with another manifest."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in parts if name.endswith(".json"))
    manifest = json.loads(parts[name])
    change(manifest)
    parts[name] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in parts.items():
            archive.writestr(key, value)
    return path


@pytest.mark.parametrize(
    "wrong", [{"kind": "guess"}, {"sentence": 3}, {"bound": "x"}, {"boxes": 0}, {"more": 1}, {"status": "attainable"}]
)
def test_a_damaged_proof_is_refused(tmp_path, wrong):
    path = ask(50, rules=[]).save(tmp_path / "damaged.gbce")

    def change(manifest):
        (manifest if "status" in wrong else manifest["proof"]).update(wrong)

    with pytest.raises(gbce.FileError, match="damaged"):
        gbce.load(rewrite(path, change))


def test_a_safe_box_keeps_to_what_a_follow_up_question_holds_on_to():
    x = np.column_stack([np.random.default_rng(1).normal(size=200), np.arange(200) % 9])
    frame = pd.DataFrame(x, columns=["a", "b"]).astype({"b": int})
    model = RandomForestRegressor(10, max_depth=4, random_state=0).fit(frame, frame["a"] + frame["b"] / 2)
    explainer = gbce.Explainer(model, frame)
    explanation = explainer.explain(frame.iloc[3], gbce.AtLeast(3.5), rules=["Nearest"], seed=0)
    free = explanation.answer.safe
    assert free is not None
    for most in (4, 6):
        given = explainer.given(explanation, at_most={"b": most}).answer
        if given.safe is not None and "b" in given.safe.table.index:
            assert given.safe.table.loc["b", "high"] <= most


def test_labels_of_a_models_own_classes_read_like_others():
    labels = np.array(["no", "yes"])
    assert gbce.Class(labels[1]).describe() == "class 'yes'"
    assert gbce.Class(np.array([1, 2])[1]).describe() == "class 2"


def make_parity(most=12, n=300):
    """A forest on two columns of whole numbers whose best leaves lie apart, and its largest output."""
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.integers(0, most + 1, size=(n, 2)), columns=["a", "b"])
    model = RandomForestRegressor(20, random_state=0).fit(x, x.sum(axis=1) % 2 + rng.normal(0, 0.1, n))
    cells = pd.DataFrame(np.stack(np.meshgrid(*2 * [np.arange(most + 1)]), axis=-1).reshape(-1, 2), columns=["a", "b"])
    return model, gbce.Space.infer(x, bounds="data"), x, float(model.predict(cells).max())


def test_what_the_box_of_all_rows_leaves_open_its_parts_decide():
    model, space, x, top = make_parity()
    explainer = gbce.Explainer(model, x, space=space, sampler=gbce.SMC(n_candidates=200, n_draws=100))
    row = int(np.argmin(model.predict(x)))
    inside, x0 = read_structure(model, space), space.encode(x.iloc[[row]])
    for gap, provable in ((1e-6, True), (0.05, True), (0.0, False), (-0.05, False)):
        wish = gbce.AtLeast(top + gap, scale=1, tolerance=0)
        assert prove_unattainable(inside, space, x0[0], wish, x0, model.predict(x.iloc[[row]]), most_work=0) is None
        proof = explainer.explain(x.iloc[row], wish, rules=[], seed=0).proof
        assert (proof is not None) == provable
        if proof is not None:
            assert proof.bound == pytest.approx(top, abs=1e-7)
            assert proof.bound >= top
            assert proof.boxes > 1
            assert proof.sentence.endswith("(proved from all 20 trees).")


def test_what_is_proved_out_of_reach_is_not_sampled(tmp_path):
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LogisticRegression().fit(frame, Y > 0)
    row = int(np.argmin(X[:, 0] + X[:, 1]))
    explainer = gbce.Explainer(model, frame, space=gbce.Space.infer(frame, bounds="data", immutable=["a", "b"]))
    found = explainer.explain(frame.iloc[row], True, seed=0)
    named = gbce.Explainer(model, frame, space=explainer.space, eta="auto").explain(frame.iloc[row], True, seed=0)
    assert named.summary() == found.summary()
    assert found.proof.kind == "linear"
    assert found.n_model_rows < 0.5 * gbce.SMC().usual_rows  # five times as many would go into seeking eta
    assert found.diagnostics["sampling_note"].endswith("no row can reach the target; widen the bounds, or ask for less")
    assert found.answer.decision.outputs[0] == pytest.approx(found.proof.bound, rel=1e-3)  # the best there is
    assert gbce.load(found.save(tmp_path / "found.gbce")).summary() == found.summary()
    assert len(found.alternatives()) == 0
    assert str(found.alternatives()) == found.status_note
    with pytest.raises(ValueError, match="to reweight: no row can reach the target"):
        found.given(at_most={"c": 1.0})
    table = explainer.explain_many(frame.iloc[[row, int(np.argmin(np.abs(X[:, 0] + X[:, 1])))]], True, seed=0)
    assert len(table.answers) == 2
    asked = explainer.explain(frame.iloc[row], True, rules=[gbce.Mean()], seed=0)  # a rule that needs draws gets them
    assert asked.draws.info.draws_posterior
    assert asked.proof is not None

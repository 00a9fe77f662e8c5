"""A certificate is confirmed by the model file alone, and whatever is forged in it is denied."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import gbce
from gbce.predictors import ModelFileError, hash_model
from gbce.words import Certificate, CertificateError, Result
from gbce.words._certificate import hash_content
from support.lending import applicants, declined, explained, explainer, forest

files = pytest.importorskip("skops.io")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "forest.skops"
    files.dump(forest(), path)
    return path


@pytest.fixture(scope="module")
def certificate(model):
    return explained().certificate(model)


def forge(certificate, change):
    """Return a certificate with a change, and with a digest that fits it."""
    content = json.loads(certificate.to_json())
    change(content)
    del content["digest"]
    return Certificate(content | {"digest": hash_content(content)})


def denied(certificate, model):
    return [one.claim for one in certificate.check(model) if one.result == Result.DENIED]


def test_an_honest_certificate_is_confirmed_throughout(certificate, model, tmp_path):
    again = Certificate.load(certificate.to_json(tmp_path / "c.json"))
    found = again.check(model)
    assert {one.result for one in found} == {Result.CONFIRMED}
    assert len(found) >= 9
    assert (tmp_path / "c.json").stat().st_size < 20_000


def put(content, *keys, value):
    *before, last = keys
    for key in before:
        content = content[key]
    content[last] = value


def shift_answer(content):
    """Move the answer to the row: it then no longer reaches."""
    content["answer"]["x"] = content["row"]["x"]


def widen(content):
    for end in ("low", "high"):  # one of them may have no end by right
        content["safe"][end] = [None] * len(content["safe"]["features"])


FORGED = {
    "answer": (shift_answer, "the answer"),
    "answer's values": (lambda c: put(c, "answer", "values", "income", value=1.0), "the values of the answer"),
    "row's values": (lambda c: put(c, "row", "values", "age", value=1.0), "the values of the row"),
    "output": (lambda c: put(c, "answer", "output", value=0.99), "the answer reaches the target"),
    "row reaches": (lambda c: put(c, "row", "reached", value=True), "the row reaches"),
    "cost": (lambda c: put(c, "answer", "cost", value=0.01), "the answer changes"),
    "number of changes": (lambda c: put(c, "answer", "n_changes", value=0), "the answer changes"),
    "reliability": (
        lambda c: c["noise"].update(share=0.3, low=0.3, high=0.3),
        "it still reaches the target with probability",
    ),
    "range": (widen, "every value of"),
    "target": (lambda c: put(c, "target", "options", "probability", value=0.999), "the answer reaches the target"),
}


@pytest.mark.parametrize("what", FORGED, ids=list(FORGED))
def test_a_forged_claim_is_denied(what, certificate, model):
    change, claim = FORGED[what]
    found = denied(forge(certificate, change), model)
    assert any(one.startswith(claim) for one in found), found


def test_a_forged_rule_is_denied(certificate, model):
    """An answer that changes what the stated rules hold fixed."""

    def hold(content):
        changed = [
            j for j, (a, b) in enumerate(zip(content["row"]["x"], content["answer"]["x"], strict=True)) if a != b
        ]
        content["space"]["features"][changed[0]]["mutable"] = False

    assert "the answer keeps to the stated bounds, directions and rules" in denied(forge(certificate, hold), model)


def test_another_model_is_denied(certificate, model, tmp_path):
    table, decision = applicants()
    from sklearn.tree import DecisionTreeClassifier

    files.dump(DecisionTreeClassifier(max_depth=2).fit(table, decision), tmp_path / "other.skops")
    (found,) = certificate.check(tmp_path / "other.skops")
    assert (found.result, found.detail) == (Result.DENIED, "its hash differs")
    claimed = forge(certificate, lambda c: put(c, "model", "sha256", value=hash_model(tmp_path / "other.skops")))
    assert denied(claimed, tmp_path / "other.skops")  # with its own hash, its outputs differ


def test_an_edit_without_a_new_digest_is_denied(certificate, model):
    content = json.loads(certificate.to_json()) | {"seed": "99"}
    assert denied(Certificate(content), model) == ["the certificate is unchanged since it was written"]


def test_none_is_written_for_another_model(tmp_path):
    table, decision = applicants()
    from sklearn.tree import DecisionTreeClassifier

    files.dump(DecisionTreeClassifier(max_depth=2).fit(table, decision), tmp_path / "other.skops")
    with pytest.raises(CertificateError, match=r"other.skops does not confirm the explanation"):
        explained().certificate(tmp_path / "other.skops")


def test_a_proof_that_nothing_reaches_is_found_again(model):
    target = gbce.Class("approved", probability=0.9999)
    proved = explainer().explain(declined(1).iloc[0], target, seed=0, posterior=False)
    assert proved.proof is not None
    made = proved.certificate(model)
    assert {one.result for one in made.check(model) if one.claim.startswith("no row within")} == {Result.CONFIRMED}
    lie = forge(explained().certificate(model), lambda c: c.update(proof={"unattainable": True, "lower": None}))
    assert "no row within the stated bounds reaches the target" in denied(lie, model)


def test_a_lower_bound_is_found_again_and_a_higher_one_denied(model):
    rules = [gbce.Nearest(prove=True)]
    proved = explainer().explain(declined(1).iloc[0], "approved", rules=rules, seed=0, posterior=False)
    made = proved.certificate(model)
    assert made.content["proof"]["lower"] > 0
    assert {one.result for one in made.check(model)} == {Result.CONFIRMED}
    lie = forge(made, lambda c: put(c, "proof", "lower", value=made.content["answer"]["cost"] * 1.5))
    assert any(one.startswith("no row within") for one in denied(lie, model))


def test_a_model_without_trees_is_checked_without_a_range(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    model = LinearRegression().fit(data, data["a"] - data["b"])
    files.dump(model, tmp_path / "line.skops")
    found = gbce.Explainer(model, data).explain(data.iloc[0], gbce.AtLeast(3), seed=0, posterior=False)
    made = found.certificate(tmp_path / "line.skops")
    assert made.content["safe"] is None
    assert {one.result for one in made.check(tmp_path / "line.skops")} == {Result.CONFIRMED}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "gbce certificate 1"}', "\x00", "[" * 5_000])
def test_what_is_no_certificate_is_refused(text, tmp_path):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "c.json")


@pytest.mark.parametrize("part", ["space", "target", "row", "answer", "model"])
def test_a_damaged_part_is_one_sentence(part, certificate, model):
    with pytest.raises(CertificateError, match="damaged"):
        forge(certificate, lambda c: c.update({part: {"sha256": c["model"]["sha256"]}})).check(model)


DAMAGED = {
    "a claim of one's own": lambda c: put(c, "answer", "approved_by", value="the court"),
    "an interval beside its share": lambda c: put(c, "noise", "low", value=0.9999),
    "exact, but not true": lambda c: put(c, "noise", "exact", value="yes"),
    "negative noise": lambda c: put(c, "noise", "sd", value=-1),
    "a cost in words": lambda c: put(c, "answer", "cost", value="1"),
    "a range without columns": lambda c: c.update(safe={"features": [], "low": [], "high": []}),
    "more ends than columns": lambda c: c["safe"]["low"].append(None),
    "a proof without a bound": lambda c: c.update(proof={"unattainable": False, "lower": None}),
    "a proof in words": lambda c: c.update(proof={"unattainable": "false", "lower": None}),
    "a number too large": lambda c: c["answer"]["x"].__setitem__(0, 10**400),
    "no numbers": lambda c: put(c, "row", "x", value=None),
}


@pytest.mark.parametrize("what", DAMAGED, ids=list(DAMAGED))
def test_what_no_certificate_can_say_is_damage(what, certificate, model):
    with pytest.raises(CertificateError, match="the certificate is damaged: "):
        forge(certificate, DAMAGED[what]).check(model)


def test_a_name_that_stands_twice_is_damage(certificate, tmp_path):
    text = certificate.to_json().replace('"seed"', '"seed": "1", "seed"')
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError, match="stands in it twice"):
        Certificate.load(tmp_path / "c.json")


@pytest.mark.parametrize(("n", "result"), [(1, Result.UNKNOWN), (500, Result.DENIED), (10_000, Result.DENIED)])
def test_few_trials_do_not_excuse_a_reliability(n, result, certificate, model):
    """A certificate cannot widen what is allowed by claiming fewer trials than are usual."""
    lie = forge(certificate, lambda c: c["noise"].update(share=0.6, low=0.5, high=0.7, n=n, exact=False))
    assert [one.result for one in lie.check(model) if "with probability" in one.claim] == [result]


def test_noise_of_nothing_is_named_as_such(certificate, model):
    """It is true that an answer without errors still works; the finding says without which."""
    sure = forge(certificate, lambda c: c["noise"].update(sd=0, share=1.0, low=1.0, high=1.0))
    assert any("probability 1.000 under noise of 0 scales" in str(one) for one in sure.check(model))


def test_a_pickle_is_not_taken_for_a_damaged_certificate(certificate, tmp_path):
    import joblib

    joblib.dump(forest(), tmp_path / "m.joblib")
    claimed = forge(certificate, lambda c: put(c, "model", "sha256", value=hash_model(tmp_path / "m.joblib")))
    with pytest.raises(ModelFileError, match="is a pickle"):
        claimed.check(tmp_path / "m.joblib")

"""Questions that come through other doors: commands, the service, MLflow, policies, letters and plans; see digest.py.

And trees asked by default, which are sampled along their own cells.
"""

import contextlib
import dataclasses
import io
import json
import os
import pickle
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from digest_questions import SMALL, ask, bend, credit, lender, numbers, refused
from digest_wide import explain_first, first_class, people, question, small_numbers, worth
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import gbce


@question("numba")
def trees_by_default() -> Any:
    data, y, label = small_numbers()
    frame, paid = credit()
    table = frame[["income", "debt", "years"]]
    forest = RandomForestRegressor(20, max_depth=5, random_state=0).fit(data, y)
    boosted = GradientBoostingRegressor(n_estimators=30, max_depth=3, random_state=0).fit(data, y)
    classes = RandomForestClassifier(15, max_depth=4, random_state=0).fit(table, paid)
    two = [RandomForestClassifier(8, max_depth=4, random_state=k).fit(data, label) for k in (0, 1)]
    sampler, plain = {"sampler": None}, {"sampler": None, "rules": ["MAP", "Mean"]}
    return {
        "forest": explain_first(forest, data, gbce.AtLeast(1.2), **plain),
        "eta": explain_first(boosted, data, gbce.Value(1.0, scale=0.2), eta=20.0, **plain),
        "goal": explain_first(boosted, data, gbce.AtLeast(1.2), eta=gbce.SuccessProbability(0.9), **plain),
        "class": explain_first(classes, table, gbce.Class(True), row=first_class(classes, table, True), **sampler),
        "models": explain_first(two, data, gbce.Class(1), row=first_class(two[0], data, 1), **plain),
        "near": explain_first(forest, data, gbce.Range(1.2, 1.3), prior=gbce.Sparse(), **plain),
    }


# --- commands ---------------------------------------------------------------------------------------------------


def _run(*words: object) -> list[str]:
    """Run a command in this process; return its exit code and what it printed."""
    from gbce.cli import main

    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            code = main([str(one) for one in words])
        except SystemExit as error:  # --help, and words that cannot be parsed
            code = error.code if isinstance(error.code, int) else 1
    return [str(code), _without_paths(out.getvalue()), _without_paths(said.getvalue())]


def _without_paths(text: str) -> str:
    return text.replace(os.getcwd(), "HERE")


@contextlib.contextmanager
def _inside_a_folder() -> Any:
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path()
        finally:
            os.chdir(before)


@question("skops", "pyarrow")
def commands() -> Any:
    files = ("model.skops", "applicants.csv", "--settings", "credit.toml")
    quick = (*files, "--no-posterior")
    with _inside_a_folder() as here:
        found = [_run("demo", ".")]
        found += [_run("explain", *quick, "--row", "A002", "-f", kind) for kind in ("summary", "text", "json")]
        table = pd.read_csv("applicants.csv")
        table.to_parquet("a.parquet")
        table.to_json("a.jsonl", orient="records", lines=True)
        rest = ("--settings", "credit.toml", "--no-posterior", "--row", "A002", "-f", "text")
        found += [_run("explain", "model.skops", name, *rest) for name in ("a.parquet", "a.jsonl")]
        found += [_run("explain", *files, "--row", "A002", "-o", name) for name in ("row.gbce", "a.html", "a.png")]
        found += [_run("explain", *quick, "--row", "debt=1"), _run("explain", "model.skops", "missing.csv")]
        found += [_run("batch", *quick, "--limit", 3, "-f", kind) for kind in ("csv", "jsonl")]
        found += [_run("batch", *quick, "--limit", 3, "--store", "store", "-f", "csv") for _ in range(2)]
        found += [_run("batch", *quick, "--limit", 2, "-o", "rows.html")]
        found += [_run("letters", "store", "--settings", "credit.toml", "-o", "letters.csv")]
        found += [_run("letters", "row.gbce", "--settings", "credit.toml", "-o", "letter.html")]
        found += [_run("frontier", *quick, "--row", "A002", "-f", "csv")]
        found += [_run("report", "row.gbce"), _run("report", "row.gbce", "-f", "text", "--language", "ja")]
        found += [_run("report", "row.gbce", "-f", "certificate", "--model", "model.skops", "-o", "c.json")]
        found += [_run("verify", "c.json", "model.skops")]
        found += [_run("init", "applicants.csv", "--model", "model.skops", "-o", "draft.toml")]
        found += [_run("review", "store", "model.skops", "-f", "csv"), _run("--help"), _run("explain", "--target")]
        written = [(here / name).read_text() for name in ("a.html", "draft.toml", "letters.csv", "applicants.csv")]
    return {"found": [line for lines in found for line in lines], "written": written}


# --- the service and MLflow -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _lending_folder() -> Any:
    """A folder with a table, a model of it and settings."""
    import skops.io
    from lending_desk import ROW, SETTINGS, make_table
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = make_table()
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["income", "debt", "years"]))
    model = make_pipeline(encoder, LogisticRegression()).fit(table[list(ROW)], table["decision"])
    with tempfile.TemporaryDirectory() as folder:
        table.to_csv(Path(folder) / "table.csv", index=False)
        skops.io.dump(model, Path(folder) / "model.skops")
        (Path(folder) / "settings.toml").write_text(SETTINGS)
        yield Path(folder)


@question("skops", "uvicorn")
def requests_to_a_desk() -> Any:
    from lending_desk import ROW, open_desk

    with _lending_folder() as folder:
        desk = open_desk(folder, "--name", "credit")
    parts = ["alternatives", "text", "page", "letter"]
    bodies: list[tuple[str, Any]] = [
        ("explain", {"row": ROW, "seed": 3}),
        ("explain", {"row": ROW, "posterior": True, "include": parts, "seed": 1}),
        ("explain", {"row": ROW | {"income": "much"}}),
        ("explain", {"row": ROW, "target": "approved>=0.8", "max_model_rows": 4_000}),
        ("explain", {"rows": [ROW]}),
        ("batch", {"rows": [ROW, ROW | {"debt": 10.0}, ROW | {"debt": 1e4}], "seed": 2}),
        ("instances", {"instances": [ROW, list(ROW.values())]}),
    ]
    asked = [{"id": str(i), "kind": kind, "body": body, "headers": {}} for i, (kind, body) in enumerate(bodies)]
    replies = [desk.answer(one) for one in asked]
    # a service limits seconds, and so how many rows its first calls take
    texts = [re.sub(r'"n_model_calls": \d+', "", content.decode()) for _, content in replies]
    return {"replies": [*texts, str([head for head, _ in replies])], "document": json.dumps(desk.document())}


@question("skops", "uvicorn", "httpx")
def a_service() -> Any:
    import httpx
    from lending_desk import ROW

    found: list[str] = []
    port = 18_473

    def ask_it() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0, trust_env=False) as client:
            for _ in range(600):
                with contextlib.suppress(httpx.TransportError):
                    if client.get("/readyz").status_code == 200:
                        break
                time.sleep(0.1)
            for body in ({"row": ROW}, {"row": 1}, {}):
                found.append(client.post("/explain", json=body, headers={"x-request-id": "a"}).text)
            found.append(client.post("/explain/batch", json={"rows": [ROW]}, headers={"x-request-id": "b"}).text)
            found.append(client.post("/explain", content=b"{", headers={"x-request-id": "c"}).text)
            paths = ("/", "/healthz", "/v2/health/live", "/v1/models", "/v1/models/credit", "/openapi.json", "/none")
            found.extend(str(client.get(path).status_code) for path in (*paths, "/metrics"))
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a signal after the service has stopped ends nothing
    try:
        with _lending_folder() as folder:
            asking = threading.Thread(target=ask_it)
            asking.start()
            words = [folder / name for name in ("model.skops", "table.csv")]
            code = _run("serve", *words, "-s", folder / "settings.toml", "--name", "credit", "--port", port)[0]
            asking.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    return {"found": [code, *found]}


@question("mlflow")
def models_of_mlflow() -> Any:
    import mlflow

    import gbce.mlflow

    model, frame = lender()
    explainer = gbce.Explainer(model, frame)
    rows = frame[~model.predict(frame)].iloc[:3]
    with tempfile.TemporaryDirectory() as folder:
        gbce.mlflow.save(explainer, Path(folder) / "model", target="True")
        return mlflow.pyfunc.load_model(str(Path(folder) / "model")).predict(rows)


@question("skops")
def model_files() -> Any:
    import skops.io

    from gbce.predictors import hash_model, load_model

    data, y, _ = small_numbers()
    model = LinearRegression().fit(data, y)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        skops.io.dump(model, Path(folder) / "a.skops")
        (Path(folder) / "b.pkl").write_bytes(pickle.dumps(model))
        for name, options in (("a.skops", {}), ("b.pkl", {"trust_pickle": True})):
            found.append(np.asarray(load_model(Path(folder) / name, **options).predict(data)))
            found.append(np.asarray([len(hash_model(Path(folder) / name))]))
    return found


# --- policies ---------------------------------------------------------------------------------------------------


@question()
def policies() -> Any:
    from policies import approve, lending, lending_rows, simulated_answers

    from gbce import policy
    from gbce.pages import policy_page

    explainer = lending()
    simulated = simulated_answers(explainer, lending_rows(40, 7), 7)
    rows = dataclasses.replace(simulated, target=gbce.AtLeast(60.0, scale=1.0, tolerance=0.0))
    table = explainer.explain_many(
        lending_rows(10, 3), gbce.AtLeast(60), rules=["Nearest"], seed=0, posterior=False, progress=False
    )
    results = {
        "actions": policy.actions(rows, 2, explainer=explainer, seed=0, max_candidates=20),
        "by job": policy.actions(rows, 1, explainer=explainer, seed=0, max_candidates=20, groups="job"),
        "money": policy.allocate(rows, 5.0, at_least=3),
        "chance": policy.allocate(rows, at_least=10, probability=0.9),
        "fairness": policy.fairness(rows, "job", refits=[approve, lambda x: approve(x) - 3], n_permutations=100),
        "review": policy.review(table, lambda x: approve(x) - 4, groups="job"),
    }
    found: dict[str, Any] = {"kept": []}
    for name, one in results.items():
        found[name] = [repr(one), str(one), json.dumps(one.to_dict(), default=str), *one.sentences]
        with tempfile.TemporaryDirectory() as folder:
            again = policy.load(one.save(Path(folder) / "result"))
            found["kept"] += [repr(again), policy_page([again])]
    actions = results["actions"]
    found["frames"] = [actions.frame(), results["money"].frame(), results["money"].rows, results["review"].frame()]
    found["applied"] = actions.apply(lending_rows(5, 9), 1)
    found["pictures"] = [actions.plot(), results["money"].plot(), results["fairness"].plot()]
    return found


# --- words, plans, other ways -----------------------------------------------------------------------------------


@question("skops")
def letters_and_certificates() -> Any:
    import skops.io
    from lending import REASONS, declined, explained, explainer, forest

    from gbce.words import Certificate

    drawn, quick = explained(posterior=True), explained()
    found: dict[str, Any] = {}
    for name, one in (("drawn", drawn), ("quick", quick)):
        ways = [one.to_text(language, audience=who) for language in ("en", "ja") for who in ("person", "analyst")]
        found[name] = ways
    found["letter"] = [drawn.letter(REASONS, date="2026-11-18", sender="Bank").text, drawn.letter(REASONS).html]
    with tempfile.TemporaryDirectory() as folder:
        skops.io.dump(forest(), Path(folder) / "forest.skops")
        certificate = quick.certificate(Path(folder) / "forest.skops")
        again = Certificate.load(certificate.to_json(Path(folder) / "c.json"))
        found["certificate"] = [str(one) for one in again.check(Path(folder) / "forest.skops")]
    table = explainer().explain_many(declined(3), "approved", seed=0, posterior=False, progress=False)
    found["letters"] = table.letters(REASONS)
    found["table letters"] = [repr(table), str(table), table[table.answers.index[0]].summary()]
    return found


@question()
def plans_and_menus() -> Any:
    data = pd.DataFrame(np.random.default_rng(0).normal(10, 3, (200, 3)).round(1), columns=["skill", "hours", "debt"])
    space = gbce.Space.infer(data, scale=dict.fromkeys(data, 3.0), constraints=["hours <= skill + 2"])

    def score(rows: Any) -> np.ndarray:
        return (rows["skill"] + 2 * rows["hours"] - rows["debt"]).to_numpy(dtype=float)

    explainer = gbce.Explainer(score, data, space=space, evaluation=gbce.Evaluation(noise=0.2))
    row = {"skill": 8.0, "hours": 9.0, "debt": 12.0}
    explanation = explainer.explain(row, gbce.AtLeast(30), rules=["Nearest"], seed=0)
    plan = explainer.plan(explanation, to="answer")
    return {
        "plan": [str(plan), plan.table, json.dumps(plan.to_dict()), *plan.sentences],
        "picture": [plan.plot()],
        "menu": [explanation.plot.changes(), str(explanation.alternatives(3))],
        "arviz": [np.asarray(explanation.to_arviz()["posterior"]["skill"])],
    }


@question()
def suggestions_and_stores() -> Any:
    frame = people()
    suggested = gbce.Space.suggest(frame)
    model, table = lender()
    explainer = gbce.Explainer(model, table, sampler=gbce.SMC(**SMALL))
    rows = table[~model.predict(table)].iloc[:4]
    options = {"rules": ["MAP"], "seed": 1, "progress": False, "keep": "draws"}
    with tempfile.TemporaryDirectory() as folder:
        stored = explainer.explain_many(rows, gbce.Class(True), store=Path(folder) / "a", **options)
        names = ("answers", "counterfactuals", "pointwise", "distribution", "importance", "rows", "errors")
        found = {name: getattr(stored, name) for name in (*names, "diagnostics")}
        found |= {"by rule": stored.by_rule(), "changes": stored.changes(), "page": stored.to_html()}
        label = rows.index[0]
        found |= {"words": [stored.summary(), stored.to_json()], "one": stored.explanation(label).summary()}
        found["pictures"] = [stored.plot.changes()]
        one = explainer.explain(rows.iloc[0], gbce.Class(True), seed=4)
        again = gbce.load(one.save(Path(folder) / "b.gbce", pool=False))
    found["no pool"] = [again.summary(), again.counterfactuals]
    found["suggested"] = [str(suggested), suggested.table]
    parts = [gbce.distributed.explain_partition(explainer, rows, gbce.Class(True), seed=3)]
    return found | {"parts": parts}


@question()
def models_that_remember() -> Any:
    data = numbers()

    def slow(x: Any) -> np.ndarray:
        return bend(x)

    slow.cost_per_call = True  # type: ignore[attr-defined]
    explainer = gbce.Explainer(slow, data, sampler=gbce.SMC(**SMALL))
    one = explainer.explain(data[0], gbce.AtLeast(1.5), seed=3)
    many = explainer.explain_many(data[:4], gbce.AtLeast(1.5), rules=["MAP"], seed=3, progress=False)
    return {"one": one, "many": many.answers, "calls": [str(one.n_model_calls), str(many.n_model_calls)]}


@question()
def texts_of_targets() -> Any:
    from gbce.targets import parse_target

    model, frame = lender()
    table = frame[["income", "debt", "years"]]
    chances = LogisticRegression(max_iter=1_000).fit(table, np.where(model.predict(frame), "yes", "no"))
    row = table.iloc[first_class(chances, table, "yes")]
    explainer = gbce.Explainer(chances, table, sampler=gbce.SMC(**SMALL))
    found: dict[str, Any] = {}
    for text in ("yes", "yes>=0.7"):
        target = parse_target(text, ("no", "yes"))
        found[text] = explainer.explain(row, target, rules=["MAP"], seed=0)
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(numbers(), bend(numbers()))
    for text in ("0.9..1.1", "1±0.2", ">=1.2", "<=-0.4", "+30%", "-0.4"):
        found[text] = ask(parse_target(text, None), rules=["MAP"])
    return found | {"wrong": refused(model, frame).index.tolist(), "tree": ask(gbce.AtLeast(1.0), model=tree),
                    "worth": [repr(explainer), np.asarray(worth(people()))]}  # fmt: skip

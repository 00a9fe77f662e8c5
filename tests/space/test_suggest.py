"""Suggested constraints: those built into a table are found, and none in noise."""

import numpy as np
import pandas as pd

import gbce


def build():
    rng = np.random.default_rng(0)
    n = 400
    income = rng.uniform(1_000, 5_000, n).round()
    job = rng.choice(["clerk", "none", "smith"], n, p=[0.5, 0.3, 0.2])
    rooms = rng.integers(1, 9, n).astype(float)
    rooms[7] = 2.5
    return pd.DataFrame(
        {
            "income": income,
            "rent": (income * rng.uniform(0.1, 0.95, n)).round(),
            "job": job,
            "union member": np.where(job == "none", "no", rng.choice(["yes", "no"], n)),
            "rooms": rooms,
            "bonus": rng.uniform(0, 900, n).round(),
        }
    ).assign(total=lambda frame: frame["income"] + frame["bonus"])


def test_what_was_built_in_is_found_and_can_be_pasted():
    frame = build()
    found = gbce.Space.suggest(frame)
    lines = {one.line for one in found}
    assert "'rent <= income'" in lines
    assert "'total': 'income + bonus'" in lines
    assert "'rooms': 'integer'" in lines
    assert any("if job == 'none' then `union member` == 'no'" in line for line in lines)
    options = {}
    for option in ("constraints", "computed"):
        own = [one.line for one in found if one.option == option and one.support == 1]
        options[option] = [eval(line) for line in own] if option == "constraints" else eval("{" + ", ".join(own) + "}")
    space = gbce.Space.infer(frame.drop(columns="rooms"), **options)
    assert space.check(frame.drop(columns="rooms")).empty
    assert "# all 400 rows" in str(found)
    assert "# 399 of 400 rows" in str(found)
    assert list(found.table.columns) == ["option", "line", "support", "n"]


def test_rows_with_missing_values_follow_a_suggested_inequality():
    frame = build()
    frame.loc[::3, "rent"] = np.nan
    line = next(one.line for one in gbce.Space.suggest(frame) if "rent" in one.line and one.option == "constraints")
    assert line == "'rent <= income or rent != rent'"
    assert gbce.Space.infer(frame, constraints=[eval(line)]).check(frame).empty


def test_noise_suggests_nothing():
    rng = np.random.default_rng(1)
    for n in (40, 400):
        frame = pd.DataFrame(rng.normal(size=(n, 25)), columns=[f"c{j}" for j in range(25)])
        frame["level"] = rng.choice(list("ab"), n)
        frame["other"] = rng.choice(list("xyz"), n)
        assert len(gbce.Space.suggest(frame)) == 0


def test_ranges_that_lie_apart_are_no_rule():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"year": rng.integers(1990, 2020, 200), "share": rng.uniform(size=200)})
    assert len(gbce.Space.suggest(frame)) == 0


def test_wide_and_short_tables_are_bounded():
    rng = np.random.default_rng(3)
    wide = gbce.Space.suggest(pd.DataFrame(rng.normal(size=(60, 400))))
    assert "first 60 columns" in str(wide)
    assert "at least 30 rows" in str(gbce.Space.suggest(pd.DataFrame({"a": [1.0, 2.0]})))

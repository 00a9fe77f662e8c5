"""Japanese sentences: particles, units, quotation marks, order, and the same numbers as in English."""

import re

import numpy as np
import pandas as pd
import pytest

import gbce
from support.lending import explained

DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"pay": rng.normal(300, 60, 200).round(), "rate": rng.uniform(1, 9, 200).round(1),
                         "job": rng.choice(["会社員", "自営業"], 200)})  # fmt: skip
    space = gbce.Space.infer(
        data, labels={"pay": "月収", "rate": "金利", "job": "職業"}, units={"pay": "千円", "rate": "%"}
    )
    model = lambda x: x["pay"] / 10 - 3 * x["rate"] + 5 * (x["job"] == "会社員")  # noqa: E731
    row = {"pay": 200.0, "rate": 8.0, "job": "自営業"}
    return gbce.Explainer(model, data, space=space).explain(row, gbce.AtLeast(25), seed=0, posterior=False)


def test_units_follow_numbers_without_a_blank(found):
    text = found.to_text("ja")
    assert re.search(r"月収が200千円ではなく[\d,.]+千円", text) or re.search(r"金利が8(\.0)?%ではなく[\d.]+%", text)
    assert not re.search(r"\d (千円|%)", text)


def test_only_wide_units_and_percent_follow_without_a_blank():
    from gbce.words._text import open_catalogue

    for unit, text in (("m²", "101 m²"), ("€", "101 €"), ("kg", "101 kg"), ("千円", "101千円"), ("%", "101%")):
        assert open_catalogue("en").value(gbce.Space.real(["a"], units={"a": unit}), 0, 101.0, "101") == text


def test_a_change_has_its_particles_and_its_order(found):
    text = found.to_text("ja")
    assert re.search(
        r"もし.+が.+ではなく.+であったなら、モデルの予測値は[\d.]+になっていました（目標：25以上）。", text
    )
    assert text.index("現状では") < text.index("もし") < text.index("可能性")


def test_several_changes_are_joined_by_de(found):
    from gbce.words._text import Facts, Narrator, open_catalogue

    narrator = Narrator(Facts.of(found), open_catalogue("ja"))
    x = found.x0 + np.array([50.0, -2.0, 0.0])
    x[2] = 0.0 if found.x0[2] else 1.0
    words = narrator.say_changes(x)
    assert words == "月収が200千円ではなく250千円で、金利が8%ではなく6%で、職業が「自営業」ではなく「会社員」"


def test_levels_stand_in_japanese_quotation_marks():
    text = explained().to_text("ja")
    assert "「approved」（確率" in text
    assert "'" not in text


def test_numbers_are_those_of_the_english_text(found):
    for explanation in (found, explained(), explained(posterior=True)):
        for audience in ("person", "analyst"):
            english = explanation.to_text("en", audience=audience)
            japanese = explanation.to_text("ja", audience=audience)
            assert sorted(DIGITS.findall(english)) == sorted(DIGITS.findall(japanese))


def test_sentences_end_with_a_full_stop_and_have_no_blank_between(found):
    text = found.to_text("ja")
    assert text.endswith("。")
    assert "。 " not in text
    assert "{" not in text


def test_a_missing_value_is_named():
    data = pd.DataFrame({"a": [1.0, 2.0, np.nan, 4.0] * 20, "b": np.arange(80.0)})
    space = gbce.Space.infer(data, missing={"a": "leave"}, labels={"a": "残高"})
    model = lambda x: x["a"].fillna(0.0)  # noqa: E731
    found = gbce.Explainer(model, data, space=space).explain({"a": np.nan, "b": 3.0}, gbce.AtLeast(2), seed=0,
                                                             posterior=False)  # fmt: skip
    assert "残高が欠損ではなく" in found.to_text("ja")
    assert "残高 had been" in found.to_text("en")
    assert "instead of missing" in found.to_text("en")


def test_a_letter_in_japanese():
    letter = explained(posterior=True).letter(
        {"income": "収入不足", "debt": "債務過多", "savings": "貯蓄不足", "years_employed": "勤続年数"}, language="ja",
        sender="例示銀行", date="2026-11-18",
    )  # fmt: skip
    assert "お申し込みは例示銀行が統計モデルを用いて審査し、結果は「approved」となりませんでした。" in letter.text
    assert "この書面は法的助言ではありません。" in letter.text
    assert 'lang="ja"' in letter.html

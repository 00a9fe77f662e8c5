"""What the command line and the service say in the place of options of Python."""

import pandas as pd
import pytest

import gbce
from gbce.words import say_in_settings

DATA = pd.DataFrame({"age": [30, 40, 50, 61] * 5, "job": ["a", "b", "a", "c"] * 5, "one": [1.0] * 20})


def test_a_level_that_the_data_do_not_have():
    with pytest.raises(ValueError, match="list all levels") as error:
        gbce.Space.infer(DATA).encode(DATA.assign(job="d"))
    assert say_in_settings(str(error.value)).endswith("list all levels in [columns.job] of the settings.")


def test_no_note_or_assumption_of_a_table_names_python():
    space = gbce.Space.infer(DATA)
    for text in (*space.notes, space.assumed.note("About three columns change. Set `prior=` to allow more or fewer.")):
        said = say_in_settings(text)
        assert said != text
        assert "[columns.age]" in said or "[columns.NAME]" in said
        assert not any(word in said for word in ("Space.infer", "={", "=`")), said


def test_other_columns_and_the_end_of_a_line():
    assert say_in_settings("Set\n      `bounds=` to") == "Set\n      bounds in [columns.NAME] of the settings to"
    assert say_in_settings("To hold them fixed: Space.infer(data, immutable=['a', 'b']).").endswith(
        "fixed: mutable = false in [columns.NAME] of the settings."
    )
    assert "--no-posterior" in say_in_settings("leave out posterior=False, or use gbce.SMC(), to have the posterior")

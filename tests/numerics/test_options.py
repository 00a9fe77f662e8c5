"""Options for all calls, their end with a block, and the log of stages."""

import logging

import numpy as np
import pytest

import gbce
from gbce._validation import current_options
from gbce.explainer._notes import is_shown
from gbce.report import format_number

DATA = np.random.default_rng(0).normal(size=(60, 2))


def test_options_hold_until_the_end_of_the_block():
    with gbce.set_options(progress=False, digits=2):
        assert not is_shown(True)
        assert format_number(1234.5678) == "1,235"
        assert format_number(0.123456) == "0.12"
        with gbce.set_options(digits=6):
            assert current_options().progress is False
            assert format_number(0.1234567) == "0.123457"
    assert is_shown(True)
    assert format_number(0.123456) == "0.1235"


def test_options_without_a_block_stay():
    gbce.set_options(digits=3)
    assert format_number(0.123456) == "0.123"
    gbce.set_options(digits=None)
    assert format_number(0.123456) == "0.1235"


@pytest.mark.parametrize("options", [{"digits": 0}, {"digits": 2.5}, {"progress": "never"}])
def test_bad_values_change_nothing(options):
    with pytest.raises(ValueError, match="set_options: "):
        gbce.set_options(**options)
    with pytest.raises(TypeError, match="there is no option 'colour'"):
        gbce.set_options(colour=True)
    assert current_options().digits is None


def test_stages_and_results_are_logged_under_gbce(caplog):
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(2))
    with caplog.at_level(logging.DEBUG, logger="gbce"):
        explainer.explain(DATA[0], gbce.AtLeast(2, scale=1), rules=[gbce.MAP()], seed=0)
    assert {record.name for record in caplog.records} == {"gbce"}
    assert any("sampling" in record.message for record in caplog.records)
    assert [record.levelname for record in caplog.records][-1] == "INFO"
    assert "at least 2: attainable" in caplog.records[-1].message

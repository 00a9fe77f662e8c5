"""The document around a page: what is data stays data, and the policy fits the script."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from gbce.pages import build_page, pack_array, write_page


def read_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_hostile_names_come_back_from_the_data_and_close_no_element():
    names = [
        "</script><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "a\u2028b\u2029c",
        "&amp;",
        "\ud800",
    ]
    page = build_page("t", {"names": names}, ["common.js"], ["page.css"], "<main></main>")
    assert read_data(page)["names"] == names
    assert page.count("</script>") == 2
    assert "<img" not in page


def test_the_policy_has_the_hashes_of_script_and_style_and_allows_nothing_else():
    page = build_page("t", {}, ["common.js"], ["page.css"], "<main></main>")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    script = re.search(r'<script type="module">(.*?)</script>', page, re.S)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    for text in (script, style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_a_number_that_json_does_not_know_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        build_page("t", {"x": float("nan")}, ["common.js"], ["page.css"], "")


def read_array(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), dtype="<" + packed["type"])


@pytest.mark.parametrize("offset", [0, 200, 40_000, 2**24 + 1, 2**40, -(2**52)])
def test_whole_numbers_are_kept_exactly_whatever_their_size(offset):
    values = offset + np.arange(5.0)
    assert (read_array(pack_array(values, precision=1.0)) == values).all()


def test_small_differences_from_the_row_are_not_rounded_away():
    values = np.array([1.0, 1.0 + 1e-12, 1.5])
    assert pack_array(values, precision=1e-6)["type"] == "f4"
    assert pack_array(values, precision=1e-6, apart_from=1.0)["type"] == "f8"


def test_missing_and_infinite_values_are_kept():
    back = read_array(pack_array(np.array([np.nan, np.inf, -np.inf, 0.5]), precision=1e-6))
    assert np.isnan(back[0])
    assert back[1:].tolist() == [np.inf, -np.inf, 0.5]


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"):
        write_page("x", tmp_path / "nowhere" / "page.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_page("x", tmp_path)

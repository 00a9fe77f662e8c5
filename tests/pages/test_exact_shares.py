"""How often an answer holds, on both pages, where it was summed and not tried."""

import numpy as np
from sklearn.tree import DecisionTreeRegressor

import gbce
from support.browser import opened


def test_pages_say_which_shares_are_exact(browser, tmp_path):
    data = np.random.default_rng(0).normal(size=(100, 2))
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(data, data.sum(axis=1))
    explainer, wish = gbce.Explainer(model, data, sampler=gbce.Importance(100)), gbce.AtLeast(0.0, scale=1.0)
    row = data[[np.argmin(data.sum(axis=1))]]
    found = explainer.explain(row[0], wish, rules=[gbce.MAP()], seed=0)
    table = explainer.explain_many(row, wish, rules=[gbce.MAP()], seed=0, progress=False)
    assert found.answer.reliability.exact
    with opened(browser, found.to_html(tmp_path / "one.html")) as page:
        text = page.locator("#answer").text_content()
        assert "a sum over the cells of the model" in text
        assert "In such cases the mean output is" in text
        assert "95% interval" not in text
        assert not page.complaints
    with opened(browser, table.to_html(tmp_path / "all.html")) as page:
        page.locator("#lines button.open").first.click()
        fact = page.locator("dt", has_text="works under small errors of execution").locator("+ dd")
        assert fact.first.text_content().endswith(" (exact)")
        assert not page.complaints

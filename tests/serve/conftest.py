"""A small table, a model of it in a file, and settings, as people keep them."""

import pytest

from support.lending_desk import ROW, SETTINGS, make_table, open_desk


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with table.csv, model.skops and settings.toml."""
    skops = pytest.importorskip("skops.io")
    pytest.importorskip("uvicorn")
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    place, table = tmp_path_factory.mktemp("service"), make_table()
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), (StandardScaler(), ["income", "debt", "years"]))
    model = make_pipeline(encoder, LogisticRegression()).fit(table[list(ROW)], table["decision"])
    table.to_csv(place / "table.csv", index=False)
    skops.dump(model, place / "model.skops")
    (place / "settings.toml").write_text(SETTINGS)
    return place


@pytest.fixture(scope="session")
def desk(folder):
    """What a worker of ``gbce serve`` opens."""
    return open_desk(folder, "--name", "credit")

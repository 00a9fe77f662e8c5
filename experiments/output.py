"""Tables as text, Markdown and CSV, written whole or not at all."""

import uuid
from pathlib import Path

import pandas as pd

__all__ = ["beside_the_paper", "markdown", "text", "write"]


def beside_the_paper(numbers: pd.DataFrame) -> pd.DataFrame:
    """Turn numbers against the paper's into words: one line each, as `experiments.numbers` makes them."""
    shown = pd.DataFrame({"paper": numbers["paper"].map("{:.3f}".format)})
    if "paper's SD" in numbers:
        shown["paper"] = _with_sd(numbers["paper"], numbers["paper's SD"])
    if "run" in numbers:
        shown["one run"] = numbers["run"].map("{:.3f}".format)
    shown["mean ± SD"] = _with_sd(numbers["mean"], numbers["SD"])
    shown["z"] = numbers["z"].map("{:+.1f}".format)
    if "z, refits" in numbers:
        shown["with refits"] = _with_sd(numbers["mean, refits"], numbers["SD, refits"])
        shown["z with refits"] = numbers["z, refits"].map("{:+.1f}".format)
        shown["fitted"] = numbers["fitted"].map({True: "yes", False: ""})
    if "prior" in numbers:
        shown["prior"] = numbers["prior"].map("{:.3f}".format)
    return shown


def _with_sd(mean: pd.Series, sd: pd.Series) -> pd.Series:
    pairs = zip(mean, sd, strict=True)
    return pd.Series([f"{m:.3f}" + ("" if pd.isna(s) else f" ± {s:.3f}") for m, s in pairs], index=mean.index)


def text(table: pd.DataFrame) -> str:
    """Return a table for the terminal."""
    return table.to_string()


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown; repeated labels of the index are left out."""
    flat = table.reset_index()
    n_labels = flat.shape[1] - table.shape[1]
    header = [str(name) for name in flat.columns]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * n_labels + "---:|" * table.shape[1]]
    before: list[str] = [""] * n_labels
    for row in flat.itertuples(index=False):
        cells = ["" if pd.isna(cell) else str(cell) for cell in row]
        labels = cells[:n_labels]
        shown = []
        for i, label in enumerate(labels):
            same = labels[: i + 1] == before[: i + 1] and i < n_labels - 1
            shown.append("" if same else label)
        before = labels
        lines.append("| " + " | ".join([*shown, *cells[n_labels:]]) + " |")
    return "\n".join(lines)


def write(path: Path, content: str) -> Path:
    """Write a text file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    partial.write_text(content, encoding="utf-8")
    return partial.replace(path)

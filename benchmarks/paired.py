"""gbce's answer beside those of DiCE, NICE, treecf and alibi on the same rows: the table of the README.

``python -m benchmarks.rivals --methods ... --folder FOLDER`` runs the methods. ``python -m benchmarks.paired --folder
FOLDER`` then writes ``docs/results/paired.csv``, and, with or without a folder, the table of the README from that file.
Each rival is compared with gbce over the rows that both were given; costs and noise over those that both have valid
answers for.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._documents import RESULTS, ROOT, current_commit, read_csv
from benchmarks.rivals._results import lines_of

CSV = "paired.csv"
README = ROOT / "README.md"
MARKS = ("<!-- paired -->", "<!-- /paired -->")
OURS = "gbce, ranges"  # priced by ranges, as the cost that is measured
RIVALS = ("DiCE random", "DiCE genetic", "NICE sparsity", "treecf genetic", "alibi prototypes")
COLUMNS = ("valid", "keeps rules", "cost", "holds under noise", "seconds")


def compare(lines: pd.DataFrame) -> pd.DataFrame:
    """Return for each rival the figures of both over their common rows; a line is a rival, columns come in pairs."""
    mine = lines[lines["name"] == OURS]
    body = []
    for rival in RIVALS:
        theirs = lines[lines["name"] == rival]
        both = mine.merge(theirs, on=["table", "model", "row"], suffixes=("", " theirs"))
        if both.empty:
            continue
        line: dict[str, object] = {"rival": rival, "rows": len(both)}
        sound = both[both["valid"] & both["valid theirs"]]
        for head, suffix in (("gbce", ""), ("rival", " theirs")):
            kept = both[f"valid{suffix}"] & (both[f"broken{suffix}"] == 0)
            figures = (both[f"valid{suffix}"].mean(), kept.mean(), sound[f"l1{suffix}"].mean(),
                       sound[f"noise{suffix}"].mean(), both[f"seconds{suffix}"].mean())  # fmt: skip
            line |= {
                f"{figure}, {head}": round(float(value), 4) for figure, value in zip(COLUMNS, figures, strict=True)
            }
        cheaper = (sound["l1 theirs"] < sound["l1"] * (1 - 1e-6)) & (sound["broken theirs"] == 0)
        line["cheaper, rival"] = round(float(cheaper.mean()), 4)
        body.append(line)
    return pd.DataFrame(body)


def table(folder: Path = RESULTS) -> str:
    """Return the README's table: in each cell gbce's figure, then the rival's, the better one in bold."""
    head = ["on the same rows as", "rows", *COLUMNS]
    body = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in read_csv(folder / CSV):
        cells = [line["rival"].removesuffix(" prototypes"), line["rows"]]
        for figure in COLUMNS:
            pair = [float(line[f"{figure}, {whose}"]) for whose in ("gbce", "rival")]
            cells.append(_pair(figure, pair))
        body.append("| " + " | ".join(cells) + " |")
    return "\n".join(body)


def _pair(figure: str, pair: list[float]) -> str:
    shown = [f"{v:.0%}" if figure in ("valid", "keeps rules", "holds under noise") else f"{v:.2f}" for v in pair]
    if shown[0] != shown[1]:
        best = int(np.argmin(pair) if figure in ("cost", "seconds") else np.argmax(pair))
        shown[best] = f"**{shown[best]}**"
    return " / ".join(shown)


def with_table(text: str, folder: Path = RESULTS) -> str:
    """Return the README with its table as the results are now."""
    before, rest = text.split(MARKS[0])
    return f"{before}{MARKS[0]}\n{table(folder)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


def main() -> None:
    """Write the results of a run, and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="of a run of benchmarks.rivals; without it the results stay")
    folder = parser.parse_args().folder
    if folder is not None:
        compare(lines_of(folder)).to_csv(RESULTS / CSV, index=False)
        print(f"wrote {CSV} of commit {current_commit()}")
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
    print("wrote README.md")


if __name__ == "__main__":
    main()

"""The table of the README: gbce beside DiCE, NICE, treecf and alibi, from the files of ``benchmarks.rivals``.

``python -m benchmarks.paired`` writes it from ``docs/results/comparison``: ``all.csv`` has the figures of each method
over the rows that it takes, ``row-by-row.csv`` compares its answers with gbce's on the same rows.
"""

from pathlib import Path

from benchmarks._documents import RESULTS, ROOT, put_between_marks, read_csv

__all__ = ["README", "main", "with_table"]

README = ROOT / "README.md"
MARK = "paired"
OURS = ("gbce", "gbce, ranges")
RIVALS = ("DiCE random", "DiCE genetic", "NICE sparsity", "treecf genetic", "alibi prototypes")
FIGURES = {"rows": "rows", "valid": "valid", "keeps rules": "keeps rules", "l1": "cost", "noise": "holds under noise",
           "seconds": "seconds"}  # fmt: skip
BETTER = {"ranges": "gbce better", "ranges beaten": "it is better"}  # in cost and survival, gbce priced by ranges


def with_table(text: str, folder: Path = RESULTS / "comparison") -> str:
    """Return the README with its table as the results are now."""
    figures = {line["method"]: line for line in read_csv(folder / "all.csv")}
    duels = {line["rival"]: line for line in read_csv(folder / "row-by-row.csv")}
    head = ["method", *FIGURES.values(), *BETTER.values()]
    body = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in (*OURS, *RIVALS):
        cells = [figures[name][column].split(" ±")[0] for column in FIGURES]
        cells += [duels[name][column] if name in duels else "" for column in BETTER]
        body.append(f"| {' | '.join([name, *cells])} |")
    return put_between_marks(text, MARK, "\n".join(body))


def main() -> None:
    """Write the table."""
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

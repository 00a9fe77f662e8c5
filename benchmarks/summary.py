"""The results of all benchmarks on one page: ``python -m benchmarks.summary`` writes docs/benchmarks.md.

Every sentence about a result on that page is put together here from the files in docs/results, and changes with them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._documents import RESULTS, ROOT, markdown, put_between_marks, read_csv

__all__ = ["PAGE", "with_results"]

PAGE = ROOT / "docs" / "benchmarks.md"
_FIGURE = re.compile(r"^[\w()]+(?: \(pooled\))? +(\d\.\d{3}) ", re.MULTILINE)  # a line of benchmarks/coverage.py


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_results(page: str, folder: Path = RESULTS) -> str:
    """Return the page with the results of a folder between its marks."""
    files = Files(folder)
    body = [[one.question, one.result(files), files.links(one.names), _code(files.command(one.names[0]))]
            for one in QUESTIONS]  # fmt: skip
    page = put_between_marks(page, "results", _table(["question", "result", "files", "command"], body))
    page = put_between_marks(page, "others win", "\n".join(f"- {sentence(files)}" for sentence in OTHERS_WIN))
    shown = {name for one in QUESTIONS for name in one.names}
    rest = [name for name in files.names if name not in shown]
    return put_between_marks(page, "further", files.links(rest))


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns are not aligned, as its cells are sentences."""
    return "\n".join(re.sub(r" {2,}", " ", re.sub(r"-{4,}", "---", line)) for line in markdown(head, body).splitlines())


def _code(command: str) -> str:
    """Return a command without its options, which are in the first line of each text."""
    return f"`{' '.join(command.split()[: 3 if command.startswith('python') else 2])}`"


class Files:
    """Result files of a folder by their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def names(self) -> list[str]:
        """All results that a command writes, in alphabetical order."""
        return sorted(path.stem for path in self._folder.glob("*.txt") if path.stem != "earlier")

    def text(self, name: str) -> str:
        """Return the text of a result."""
        return (self._folder / f"{name}.txt").read_text(encoding="utf-8")

    def table(self, name: str) -> list[dict[str, str]]:
        """Return the lines of a table."""
        return read_csv(self._folder / f"{name}.csv")

    def line(self, name: str, label: str) -> dict[str, str]:
        """Return the line of a table whose first cell begins with a label."""
        return next(line for line in self.table(name) if next(iter(line.values())).startswith(label))

    def command(self, name: str) -> str:
        """Return the command that wrote a result."""
        return self.text(name).splitlines()[0]

    def links(self, names: Sequence[str]) -> str:
        """Return links to results: the table of each where there is one, else the text, which names its tables."""
        kinds = ["csv" if self.text(name).count("(table: ") == 1 else "txt" for name in names]
        return ", ".join(f"[{name}](results/{name}.{kind})" for name, kind in zip(names, kinds, strict=True))


@dataclass(frozen=True)
class Question:
    """One line of the page."""

    question: str
    names: tuple[str, ...]
    result: Callable[[Files], str]


def _false_trust(files: Files) -> str:
    fresh, used = files.line("unseen-fresh", "all"), files.line("unseen", "all")
    raised = re.search(r"cases that raised: (\d+)", files.text("unseen-fresh"))
    return (
        f"{fresh['trustworthy']} of {fresh['number']} fresh cases were called trustworthy; of these "
        f"{fresh['false trust']} were wrong; {raised[1] if raised else 0} raised. On the cases used to improve gbce: "
        f"{used['false trust']}."
    )


def _coordinate_draws(files: Files) -> str:
    line, text = files.line("coordinate", "all"), files.text("coordinate")
    covered = [
        float(share) for share in re.findall(r" (\d\.\d{3})", text.split("covered by 1.96 errors")[1].split("\n")[0])
    ]
    raised = re.search(r"cases that raised: (\d+)", text)
    return (
        f"{line['trustworthy']} of {line['number']} fresh cases were called trustworthy; of these "
        f"{line['false trust']} were wrong; {raised[1] if raised else 0} raised. "
        f"Stated 95% intervals covered {min(covered):.1%} to {max(covered):.1%}, figure by figure."
    )


def _known_cases(files: Files) -> str:
    found = [files.line(name, "all") for name in ("trust", "fresh-trust")]
    runs = [int(re.findall(r"\d+", line["case"])[0]) for line in found]
    wrong = sum(int(line["false trust"]) for line in found)
    least = min(
        float(line[f"{figure} covered"]) for line in found for figure in ("SP", "log Z", "stability", "importance")
    )
    return (
        f"{wrong} of {sum(runs):,} runs were trusted and wrong; stated 95% intervals covered at least "
        f"{least:.0%} in each figure."
    )


def _coverage(files: Files) -> str:
    shares = [float(share) for share in _FIGURE.findall(files.text("coverage-smc"))]
    return (
        f"The default sampler's 95% intervals covered {min(shares):.1%} to {max(shares):.1%} ({len(shares)} figures, "
        f"mean {np.mean(shares):.1%})."
    )


def _promise(files: Files) -> str:
    line, printed = files.line("promise-0", "said to be reliable"), files.line("printed", "all")
    n, whole = zip(*((int(one["answers"]), float(one["whole"])) for one in files.table("printed-2")), strict=True)
    return (
        f"Of {line['answers']} answers called reliable (0.9), {line['below']} held less often; stated "
        f"{line['stated']}, realised {line['realised']}. As printed, "
        f"{float(printed['reached']):.1%} of {printed['answers']} reach the target; of {sum(n)} ranges "
        f"{np.average(whole, weights=n):.1%} are whole."
    )


def _promise_refits(files: Files) -> str:
    line = files.line("promise-25-2", "said to be reliable")
    return (
        f"{line['answers']} of {files.line('promise-25-2', 'all')['answers']} answers were called "
        f"reliable; {line['below']} of them held for less than 0.9 of unseen refits; stated {line['stated']}, "
        f"realised {line['realised']}."
    )


def _answers(files: Files) -> str:
    lines = {line["method"]: line for line in files.table("answers-2")}
    peers = ", ".join(f"{name} {line['valid']}" for name, line in lines.items() if not name.startswith("gbce"))
    cost = files.line("answers-3", "all")
    return (
        f"Valid: gbce {lines['gbce answer']['valid']}, {peers}. The nearest point by ranges is no dearer "
        f"than the cheapest peer's on {cost['no dearer']} of {cost['rows']} rows, and costs {cost['median']} times "
        "as much in the median."
    )


def _trees(files: Files) -> str:
    lines = files.table("trees")
    rows, dearer = (sum(int(line[name]) for line in lines) for name in ("rows", "dearer"))
    ratios, times = ([float(line[name]) for line in lines] for name in ("ratio", "ms ratio"))
    return (
        f"Dearer than treecf's on {dearer} of {rows:,} rows, under three prices; median cost "
        f"{min(ratios):.2f} to {max(ratios):.2f} of treecf's, "
        f"time {min(times):.2f} to {max(times):.2f}."
    )


def _proofs(files: Files) -> str:
    lines = files.table("tree-proofs")
    rows = sum(int(line["rows"]) for line in lines)
    proved = sum(int(line["rows"]) * _percent(line["in 5 s"]) for line in lines)
    whole = sum(line["in 5 s"] == "100%" for line in lines)
    return f"{proved:.0f} of {rows} optima proved within 5 s; all of them for {whole} of {len(lines)} models."


def _percent(cell: str) -> float:
    return float(cell.removesuffix("%")) / 100


def _overhead(files: Files) -> str:
    found = re.findall(r"^ (n_jobs=.+)\n.* ratio (\d\.\d\d) \(", files.text("overhead"), re.MULTILINE)
    each = ", ".join(f"{ratio} ({label})" for label, ratio in found)
    return f"`explain` over the bare model on the same rows, in time: {each}."


def _rows(files: Files) -> str:
    lines = files.table("rows")
    spans = {name: [float(line[name]) for line in lines] for name in ("rows", "answer alone rows")}
    rows, alone = (f"{min(span):,.0f} to {max(span):,.0f}" for span in spans.values())
    return f"{rows} model rows; {alone} with `posterior=False`."


def _target(files: Files) -> str:
    line, plain = ([*files.table(name)][-1] for name in ("target-auto", "target-1"))
    trees = [one for one in files.table("target-auto") if one["model"] in ("forest", "boosting")]
    asked = [float(one["rows"]) for one in files.table("target-auto") if one["model"] in ("linear", "network")]
    most, seconds = max(float(one["most"]) for one in trees), np.median([float(one["s"]) for one in trees])
    others = [float(one["most"]) for one in files.table("target-auto") if one["model"] in ("linear", "network")]
    return (
        f"Success probability {line['SP']} in the median (with `eta=1`: {plain['SP']}), below 0.88 for "
        f"{float(line['SP low']):.0%} of {line['n']} rows; {float(line['trusted']):.0%} trustworthy. Trees take at "
        f"most {most:,.0f} model rows and {seconds:.1f} CPU s in the median of the tables, other models "
        f"{np.median(asked):,.0f} rows, at most {max(others):,.0f}. The model confirms {line['confirmed']} of "
        f"{line['alternatives']} alternatives; {line['reliable']} are reliable."
    )


def _rules(files: Files) -> str:
    lines = re.findall(r"^(?:Gaussian|Sparse|NearData) +\d+ +([\d,]{4,}) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) ",
                       files.text("tables"), re.MULTILINE)  # fmt: skip
    counts = np.array([[int(cell.replace(",", "")) for cell in line] for line in lines])
    draws, decisions, *broken = counts.sum(axis=0)
    return (
        f"{sum(broken)} of {draws:,} draws and {decisions:,} decisions broke a constraint, a dtype or "
        f"the model's own decision."
    )


def _regret(files: Files) -> str:
    found = re.search(r"all: (0\.\d+) of (\d+) answers within 2%", files.text("regret"))
    assert found is not None
    return f"{float(found[1]):.1%} of {found[2]} answers are within 2% of the best, without reading the model."


def _machines(files: Files) -> str:
    lines = files.table("machines")
    run = [line for line in lines if line["failed"]]
    failed = sum(int(line["failed"]) for line in run)
    return f"{len(run)} variations, {failed} failed tests; {len(lines) - len(run)} not run here."


def _policy(files: Files) -> str:
    lines = files.table("policy")
    served = {
        name: "/".join(f"{float(line['coverage']):.1%}" for line in lines if line["method"] == name)
        for name in ("gbce", "C-GLANCE")
    }
    kept = re.search(r"Promises kept: (\d+) of (\d+)", files.text("policy"))
    assert kept is not None
    return (
        f"1/3/5 actions serve {served['gbce']} of other rows (C-GLANCE {served['C-GLANCE']}); {kept[1]} of {kept[2]} "
        "promises kept."
    )


COVERAGE = ("coverage-smc", "coverage-importance", "coverage-chains", "coverage-nested")
QUESTIONS = (
    Question("Is \"trustworthy\" right on unseen cases?", ("unseen-fresh", "unseen"), _false_trust),
    Question("And where every figure is known exactly?", ("trust", "fresh-trust"), _known_cases),
    Question("Do stated errors cover?", COVERAGE, _coverage),
    Question("Are coordinate draws right where sums are exact?", ("coordinate",), _coordinate_draws),
    Question("Is the posterior about the target?", ("target-auto", "target-1", "target-c92b4bd"), _target),
    Question("Do answers keep their reliability under noise?", ("promise-0", "printed"), _promise),
    Question("And when the model is refitted?", ("promise-25",), _promise_refits),
    Question("Answers beside DiCE, NICE and treecf", ("answers",), _answers),
    Question("Group actions beside C-GLANCE", ("policy", "policy-intervals"), _policy),
    Question("Nearest points of trees beside treecf", ("trees",), _trees),
    Question("Proofs that nothing is cheaper", ("tree-proofs",), _proofs),
    Question("How far from the best, if a model cannot be read?", ("regret",), _regret),
    Question("Are constraints kept on real tables?", ("tables",), _rules),
    Question("Cost beside the bare model", ("overhead",), _overhead),
    Question("Model rows of a default explanation", ("rows",), _rows),
    Question("Other machines, other seeds", ("machines",), _machines),
)  # fmt: skip


def _slower(files: Files) -> str:
    said = dict(re.findall(r"- gbce answer takes ([\d.]+) times as long as (.+?) \(", files.text("answers")))
    each = ", ".join(f"{ratio} ({peer})" for ratio, peer in said.items())
    alone = re.findall(r"- gbce answer alone takes ([\d.]+) times as long as (.+?) \(", files.text("answers"))
    without = ", ".join(f"{ratio} ({peer})" for ratio, peer in alone)
    return f"Time of a default explanation over a peer's: {each}. Without a posterior: {without}."


def _more_rows(files: Files) -> str:
    lines = {line["method"]: int(line["model rows"]) for line in files.table("answers-2")}
    peers = ", ".join(f"{name} {n:,}" for name, n in lines.items() if not name.startswith("gbce"))
    return f"Model rows: {lines['gbce answer']:,} in the median (answer alone {lines['gbce answer alone']:,}); {peers}."


def _cheaper(files: Files) -> str:
    found = re.findall(r"^- (.+?) on (.+?): (\d+) of \d+ rows, where gbce pays ([\d.]+) times",
                       files.text("answers").split("any valid answer:")[1].split("any valid answer that")[0],
                       re.MULTILINE)  # fmt: skip
    by = {
        peer: sum(int(n) for one, _, n, _ in found if one == peer) for peer in dict.fromkeys(one for one, *_ in found)
    }
    worst = max(float(ratio) for *_, ratio in found)
    each = ", ".join(f"{peer} on {n} {'row' if n == 1 else 'rows'}" for peer, n in by.items())
    return (
        f"Cost: a peer's point is cheaper than the nearest one by ranges: {each}, where gbce pays up to "
        f"{worst:.2f} times as much."
    )


def _open_proofs(files: Files) -> str:
    worst = min(files.table("tree-proofs"), key=lambda line: _percent(line["in 5 s"]))
    return (
        f"Proofs: of {worst['table']} ({worst['model']}, {worst['columns']} columns) {worst['in 5 s']} "
        f"of the optima are proved "
        f"within 5 s; the largest gap left is {worst['largest gap']}."
    )


def _missed(files: Files) -> str:
    lines = re.findall(r"^(\w+) +(Nearest l1|Nearest l2|Nearest changes|MAP) +\d+ +([\d.]+) +\d+ +([\d.]+)",
                       files.text("regret"), re.MULTILINE)  # fmt: skip
    model, rule, share, _ = min(lines, key=lambda line: float(line[2]))
    far = max(lines, key=lambda line: float(line[3]))
    return (
        f"Models that cannot be read: {rule} is within 2% of the best on {float(share):.0%} of {model} "
        f"questions; the worst case "
        f"({far[0]}, {far[1]}) exceeds it by {float(far[3]):.0%}."
    )


def _beaten(files: Files) -> str:
    worse: dict[str, list[str]] = {}
    for line in files.table("policy-2"):
        worse.setdefault(f"{line['beside'].split(',')[0]}, {line['cases']} cases", []).append(line["worse"])
    cases = "; ".join(f"{'/'.join(own)} ({name})" for name, own in worse.items())
    return f"1/3/5 group actions: others serve as many rows for less, or more for no more, in {cases}."


OTHERS_WIN = (_slower, _more_rows, _cheaper, _open_proofs, _missed, _beaten)


if __name__ == "__main__":
    main()

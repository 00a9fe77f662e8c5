"""Draw what ``make demo`` prints first as it looks in a terminal: ``docs/img/demo.png``."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from demo import explain_patient

PAPER, INK, BRIGHT = "#16191d", "#b9c2cc", "#ffffff"
LINE, SIZE, WIDTH = 0.205, 9.5, 9.2  # inches between lines, points, inches
FIRST_UNSHOWN = "\n\nDecisions"  # where the capture ends


def main() -> None:
    """Explain, print, draw the first lines."""
    text = explain_patient().summary().split(FIRST_UNSHOWN)[0]
    lines = ["$ make demo", *text.splitlines()]
    height = LINE * (len(lines) + 1)
    figure = plt.figure(figsize=(WIDTH, height), facecolor=PAPER)
    answer = lines.index("")  # the answer's sentence ends at the first empty line
    for number, line in enumerate(lines):
        colour = BRIGHT if 0 < number < answer else INK
        y = 1.0 - LINE * (number + 0.75) / height
        figure.text(0.02, y, line, family="DejaVu Sans Mono", size=SIZE, color=colour, va="center")
    path = ROOT / "docs" / "img" / "demo.png"
    figure.savefig(path, dpi=110, facecolor=PAPER)
    print(f"saved {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""The paper's real-data regime: squared loss on a 0 to 100 scale, eta = 1, a prior of 8 to 10 units.

Every observation below the target is a base point. Importance sampling at the paper's size keeps a handful of distinct
candidates there; the table shows what SMC makes of the same points. Data are the synthetic stand-in for the paper's
series and hand-chosen models, so that nothing has to be downloaded or tuned.

*distinct* is the number of distinct candidates among the draws, *ess* the effective sample size.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import gbce
from benchmarks._documents import add_docs_option, print_into
from experiments.models import fixed
from experiments.real import RealCase, real_case
from experiments.standin import write_exports
from experiments.trends import read_trends


def cases() -> dict[str, RealCase]:
    """Return both of the paper's real cases on the stand-in."""
    found = {}
    with TemporaryDirectory() as folder:
        paths = write_exports(Path(folder))["en"]
        trends = read_trends(paths, target="One Piece", lag=1, below_one=0.5)
    for d in (2, 10):
        X = trends.X.iloc[:, :d] if d == 2 else trends.X
        board = fixed(X.to_numpy(float), trends.y.to_numpy(float))
        found[f"{d}-D"] = real_case(X, trends.y, board, label="stand-in")
    return found


def compare_samplers(every: int) -> None:
    """Print one line for each case and sampler, with notes where draws are not trusted."""
    print(f"{'case':<7}{'sampler':<12}{'points':>7}{'distinct: least':>17}{'median':>8}{'ess: least':>12}{'median':>8}"
          f"{'rows per point':>16}{'trustworthy':>13}{'seconds':>9}")  # fmt: skip
    for name, case in cases().items():
        target = case.setting.target(case.y_star)
        rows = case.base_points.iloc[::every].to_numpy()
        for sampler in (case.setting.sampler, gbce.SMC(case.setting.n_candidates, case.setting.n_draws)):
            explainer = gbce.Explainer(
                case.board.best.model,
                case.X.to_numpy(),
                space=gbce.Space.real(case.X.shape[1]),
                prior=gbce.Gaussian(case.setting.sigma),
                sampler=sampler,
            )
            start = time.perf_counter()
            table = explainer.explain_many(rows, target, rules=[], seed=0, progress=False).diagnostics
            seconds = time.perf_counter() - start
            clean = table["sampling_note"].str.startswith("trustworthy")
            print(
                f"{name:<7}{type(sampler).__name__:<12}{len(table):>7}{table['n_distinct'].min():>17,.0f}"
                f"{table['n_distinct'].median():>8,.0f}{table['ess'].min():>12,.0f}{table['ess'].median():>8,.0f}"
                f"{table['n_model_rows'].mean():>16,.0f}{f'{clean.sum()} of {len(clean)}':>13}{seconds:>9.0f}",
                flush=True,
            )
            for sentence in pd.unique(table["sampling_note"][~clean].str.split(";").str[0])[:3]:
                print(f"       {sentence}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--every", type=int, default=1, help="take only every so many base points")
    add_docs_option(parser)
    options = parser.parse_args()
    with print_into("real-regime", options.docs, __doc__):
        compare_samplers(options.every)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()

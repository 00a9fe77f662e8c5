"""Make ``loans.csv``: 2,000 SYNTHETIC loan applications with the lender's past decisions.

Nobody's data: incomes, debts and decisions are drawn from the distributions below, with a fixed seed. The decision
follows what a lender might look at (how much of the income the instalments take, debt, savings, late payments, work
and home), plus noise. ``python examples/loans.py`` writes the file again; a test compares.
"""

from pathlib import Path

import numpy as np
import pandas as pd

PATH = Path(__file__).with_name("loans.csv")
N_APPLICATIONS, SEED = 2_000, 7

JOBS = {"clerical": 0.3, "manual": 0.3, "professional": 0.25, "self-employed": 0.15}
HOMES = {"rent": 0.5, "mortgage": 0.3, "own": 0.2}
INCOME = {"clerical": 2_900, "manual": 2_600, "professional": 4_600, "self-employed": 3_400}  # medians, per month
UNDISCLOSED = 0.08  # share of applications that do not state their savings


def make_loans(n: int = N_APPLICATIONS, seed: int = SEED) -> pd.DataFrame:
    """Return applications and decisions, one line each."""
    rng = np.random.default_rng(seed)
    age = rng.integers(21, 70, n)
    job = rng.choice(list(JOBS), n, p=list(JOBS.values()))
    home = rng.choice(list(HOMES), n, p=list(HOMES.values()))
    income = np.array([INCOME[one] for one in job]) * np.exp(rng.normal(0.0, 0.3, n)) * (0.8 + age / 200)
    years = np.minimum(rng.geometric(0.14, n) - 1, age - 18)
    debt = income * rng.gamma(1.2, 1.6, n)
    savings = income * rng.gamma(0.9, 2.2, n)
    late = rng.poisson(0.5 * (1 + (debt > 3 * income)))
    amount = income * rng.uniform(0.8, 7.0, n)
    term = rng.integers(1, 6, n)
    share = amount * (1 + 0.04 * term) / (12 * term) / income
    score = 2.6 - 9.0 * share - 0.35 * debt / income + 0.22 * np.minimum(savings / income, 6) - 0.75 * late
    score += 0.09 * np.minimum(years, 12) + 0.5 * (home == "own") + 0.25 * (home == "mortgage")
    score += 0.4 * (job == "professional") - 0.3 * (job == "self-employed")
    approved = score + rng.logistic(0.0, 0.35, n) > 0.0
    savings = np.where(rng.random(n) < UNDISCLOSED, np.nan, savings.round(-2))
    return pd.DataFrame(
        {
            "age": age,
            "job": job,
            "years_employed": years,
            "monthly_income": income.round(-1).astype(int),
            "savings": pd.array(savings, dtype="Int64"),
            "debt": debt.round(-2).astype(int),
            "late_payments": late,
            "home": home,
            "loan_amount": amount.round(-2).astype(int),
            "loan_years": term,
            "decision": np.where(approved, "approved", "refused"),
        }
    )


if __name__ == "__main__":
    make_loans().to_csv(PATH, index=False)
    print(f"wrote {PATH.name}")

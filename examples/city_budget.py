"""
A city with 50,000 to spend
===========================

A lender refused some hundred applicants of a city. The city has 50,000 to spend on them: it pays off debt, tops up
savings, and pays for courses that lead to better wages. Whom should it help, and should it offer everybody the same?

The applications are **synthetic**: ``examples/loans.py`` makes them.
"""

# %%
# The refused applicants
# ----------------------

import gbce
import pandas as pd
from loans import PATH
from sklearn.ensemble import HistGradientBoostingClassifier

loans = pd.read_csv(PATH, dtype={"job": "category", "home": "category"})
X, y = loans.drop(columns="decision"), loans["decision"]
better = {"monthly_income": -1, "savings": -1, "debt": 1, "late_payments": 1, "loan_amount": 1}  # effect on "refused"
model = HistGradientBoostingClassifier(max_iter=80, min_samples_leaf=40, monotonic_cst=better, random_state=0).fit(X, y)
space = gbce.Space.infer(
    X,
    immutable=["age", "job", "home", "years_employed", "late_payments", "loan_amount", "loan_years"],
    increase=["monthly_income", "savings"],
    decrease=["debt"],
    bounds={"debt": (0, None)},
)
explainer = gbce.Explainer(model, X, space=space)
refused = X[model.predict(X) == "refused"].iloc[:300]
print(len(refused), "refused applicants")

# %%
# An answer for each of them
# --------------------------
#
# The applicants' wishes stay as they are; only what the city can pay for may change. Each answer is confirmed by the
# model, and comes with its reliability: how often it still holds when the values turn out slightly different.

table = explainer.explain_many(refused, "approved", seed=0, posterior=False, progress=False)
print(table.summary())

# %%
# What it costs
# -------------
#
# A unit of debt that is paid off costs the city 0.8, because the bank waives the rest; a unit of savings costs 1, and
# a monthly income that is higher by one takes courses for 6.

prices = {"debt": 0.8, "savings": 1.0, "monthly_income": 6.0}

# %%
# Whom to help first
# ------------------
#
# The best expected number of approvals for the money: a knapsack, solved exactly. No model is called.

spent = gbce.policy.allocate(table, 50_000, prices=prices)
print(spent)
spent.rows.head()

# %%
# Each budget has its best choice. The band holds the number of approvals in 95 of 100 cases.

spent.plot()

# %%
# "We promised a number."
# -----------------------
#
# The council wants at least 60 approvals, and to be 90% sure of them.

promised = gbce.policy.allocate(table, at_least=60, probability=0.9, prices=prices)
print(promised)

# %%
# The same for everybody
# ----------------------
#
# Three hundred different grants are hard to run, and hard to explain. A few offers, the same for everybody who takes
# them, are neither. Half of the applicants choose the offers; the other half say what they are worth.

offers = gbce.policy.actions(table, 3, explainer=explainer, prices=prices, worth=6_000, seed=0)
print(offers)

# %%
offers.plot()

# %%
# What simplicity costs: the mean grant of the offers, and that of the answers of the same applicants.

taken = offers.rows[offers.rows["action"] > 0]
own = spent.rows["cost"].reindex(taken.index)
print(f"{len(taken)} applicants: {taken['cost'].mean():,.0f} by an offer, {own.mean():,.0f} by an answer of their own")

# %%
# The same budget, spent on offers only: each applicant costs what the cheapest offer costs. An offer was confirmed by
# the model, but its reliability under small errors was not measured: the number below is that of exact values.

costs = offers.rows["cost"].dropna().sort_values()
print(f"50,000 buys offers for {(costs.cumsum() <= 50_000).sum()} applicants")

# %%
# Two groups
# ----------
#
# Do tenants and owners get the same? With ``share="equal"`` each offer is chosen for the group that is served least so
# far; with ``share="own"`` each group gets offers of its own.

fair = gbce.policy.actions(
    table, 3, explainer=explainer, prices=prices, worth=6_000, groups="home", share="equal", seed=0
)
for home, shares in fair.group_coverage.items():
    print(f"{home}: {shares[-1].share:.0%} (95%: {shares[-1].low:.0%} to {shares[-1].high:.0%})")

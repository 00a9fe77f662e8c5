"""
A loan officer's desk
=====================

A lender's model has refused some applications. The officer wants to tell each applicant what would have led to another
decision: something the applicant can do, that the lender's rules allow, and that will still hold next month.

The applications are **synthetic**: ``examples/loans.py`` makes them.
"""

# %%
# The model and the rules of the house
# ------------------------------------
#
# Lenders often fit models that may not reward late payments or a lower income. gbce takes any fitted model as it is.

import gbce
import numpy as np
import pandas as pd
from loans import PATH
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

loans = pd.read_csv(PATH, dtype={"job": "category", "home": "category"})
X, y = loans.drop(columns="decision"), loans["decision"]
better = {"monthly_income": -1, "savings": -1, "debt": 1, "late_payments": 1, "loan_amount": 1}  # effect on "refused"
model = HistGradientBoostingClassifier(max_iter=80, min_samples_leaf=40, monotonic_cst=better, random_state=0).fit(X, y)

# %%
# What applicants can change, and what the lender allows: at most five years, at least 1,000, and never more than
# seven months' income.

space = gbce.Space.infer(
    X,
    immutable=["age", "job", "home", "years_employed", "late_payments"],
    decrease=["debt"],
    bounds={"loan_amount": (1_000, None), "loan_years": (1, 5)},
    constraints=["loan_amount <= 7 * monthly_income"],
)
print(space)

# %%
# One applicant
# -------------

explainer = gbce.Explainer(model, X, space=space)
applicant = X.loc[11]
explanation = explainer.explain(applicant, "approved", seed=0)
print(explanation.answer)

# %%
# The picture for the conversation: what the model says now and then, and each changed value with the range in which
# the change still works.

explanation.plot.before_after()

# %%
# "I need the whole amount."
# --------------------------
#
# The applicant objects. Conditions on the draws answer without calling the model again:

print(explanation.given(keep=["loan_amount"]).answer)

# %%
# Distinct strategies, each with its share of all plausible changes and a point that the model has confirmed:

print(explanation.alternatives())

# %%
explanation.plot.alternatives(3)

# %%
# Will it hold next month?
# ------------------------
#
# The model will be refitted. Twenty-four refits on resampled applications stand in for next month's model. Half of
# them take part in the choice; the other half must confirm it.

rng = np.random.default_rng(0)
picks = [rng.integers(len(X), size=len(X)) for _ in range(24)]
refits = [clone(model).fit(X.iloc[pick], y.iloc[pick]) for pick in picks]
today = explainer.survival(explanation, refits)
print(today.round(2))

# %%
careful = gbce.Explainer(model, X, space=space, refits=refits).explain(applicant, "approved", seed=0, posterior=False)
print(careful.answer)

# %%
# The whole morning
# -----------------
#
# All refused applications of a morning, answers only. ``table.to_html("morning.html")`` puts them on one page.

refused = X[model.predict(X) == "refused"].iloc[:20]
table = explainer.explain_many(refused, "approved", rules=["Nearest"], seed=0, posterior=False, progress=False)
table.answers[["kind", "cost", "sentence"]].head()

# %%
# What is changed how often, and how far:

table.plot.changes()

# %%
# What to say, and what not
# -------------------------
#
# The sentence is about the *model*: with these values it would have said "approved". It is no promise that the lender
# will, and no claim that a smaller loan makes anybody more trustworthy. :doc:`/concepts/limits` has the rest.

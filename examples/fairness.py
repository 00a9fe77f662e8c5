"""
Fairness of a table: who finds it easy to change a decision?
============================================================

Two groups can have the same share of refusals, and yet one of them may need far larger changes to be accepted. This
tutorial compares the *cost of recourse* between groups, and shows how far such a comparison carries. The data are from
the US census of 1994 (Adult), as the package *shapiq* carries them: who earns more than 50,000 dollars?
"""

# %%
from importlib.metadata import files

import gbce
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

path = next(file for file in files("shapiq") or [] if file.name == "adult_census.csv").locate()
census = pd.read_csv(path).dropna().sample(6_000, random_state=0).reset_index(drop=True)
columns = ["age", "workclass", "education-num", "marital-status", "occupation", "sex", "hours-per-week", "capital-gain"]
X = census[columns].astype({name: "category" for name in ("workclass", "marital-status", "occupation", "sex")})
y = census["class"]

# %%
# A model that is not shown the sex
# ---------------------------------
#
# Leaving out a protected column does not make a model fair: other columns stand in for it.

blind = X.drop(columns="sex")
model = HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=40, random_state=0).fit(blind, y)
predicted = pd.Series(model.predict(blind), index=X.index)
print(predicted.eq(">50K").groupby(X["sex"], observed=True).mean().round(3).to_string())

# %%
# What people can change
# ----------------------
#
# Age, marital status and past gains stay. Education can only rise. Nobody works more than 60 hours.

space = gbce.Space.infer(
    blind,
    immutable=["age", "marital-status", "capital-gain"],
    increase=["education-num"],
    bounds={"hours-per-week": (1, 60)},
)
explainer = gbce.Explainer(model, blind, space=space)

# %%
# Thirty of each
# --------------

below = X[(predicted == "<=50K") & (X["hours-per-week"] <= 60)]  # bounds hold for the row, too
rows = pd.concat([below[below["sex"] == sex].sample(30, random_state=0) for sex in ("Female", "Male")])
table = explainer.explain_many(rows[blind.columns], ">50K", rules=["Nearest"], seed=0, posterior=False, progress=False)
table.answers["kind"].groupby(rows["sex"], observed=True).value_counts().unstack(fill_value=0)

# %%
# The cost of the recommended change by group, how often there is one, and how often it works. The means are pooled: as
# far as the groups are alike, small ones are drawn to the common mean. The intervals are over rows.

fair = gbce.policy.fairness(table, rows["sex"], reference="Male")
print(fair)

# %%
fair.plot("cost")

# %%
# Could the difference be chance? Groups are exchanged between rows ten thousand times; ``p`` is the share of exchanges
# with a difference as large.

fair.tests.round(3)

# %%
# And is it the model's chance? Refitted on other samples of the same people, it would accept some of these answers and
# not others. The error from the model stands beside that from the rows.

refits = []
for seed in range(5):
    some = blind.sample(len(blind), replace=True, random_state=seed).index
    refits.append(HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=40).fit(blind.loc[some], y.loc[some]))
gbce.policy.fairness(table, rows["sex"], refits=refits).refits.round(3)

# %%
# What the groups are told to change:

changes = (
    table.answers["changes"]
    .str.replace(r" from .*?(?=,| and |$)", "", regex=True)
    .groupby(rows["sex"], observed=True)
    .value_counts()
    .groupby(level=0)
    .head(4)
)
print(changes.to_string())

# %%
# Why they differ
# ---------------
#
# The model does not know the sex, but it knows who is married, and that stays. Within a marital status the comparison
# is another one:

married = rows["marital-status"].eq("Married-civ-spouse").map({True: "married", False: "not married"})
gbce.group_costs(table, rows["sex"].astype(str) + ", " + married).round(2)

# %%
# What would the same person pay?
# -------------------------------
#
# A model that is shown the sex can be asked directly: each row is explained again as the other sex. That is a question
# about the model, and not about a person; ask it only where you may. What the cost changes by is the model's part of
# the gap, the rest is that of the rows: who they are in all other columns.

seeing = HistGradientBoostingClassifier(
    max_iter=60, min_samples_leaf=40, categorical_features="from_dtype", random_state=0
).fit(X, y)
whole = gbce.Space.infer(
    X,
    immutable=["age", "marital-status", "capital-gain", "sex"],
    increase=["education-num"],
    bounds={"hours-per-week": (1, 60)},
)
asked = gbce.Explainer(seeing, X, space=whole)
refused = rows[pd.Series(seeing.predict(rows[columns]), index=rows.index) == "<=50K"]
answers = asked.explain_many(refused[columns], ">50K", rules=["Nearest"], seed=0, posterior=False, progress=False)
gbce.policy.fairness(answers, "sex", reference="Male", explainer=asked, protected="sex").parts.round(2).T

# %%
# How far this carries
# --------------------
#
# - The cost is in units of each column's spread. Whether ten hours a week equal three years of school is your
#   judgement, not the data's: set ``scale``, and see whether the comparison survives.
# - Rows without an answer are left out of the costs, so look at their share first.
# - A difference in cost is a fact about this model and these bounds. Whether it is unfair depends on what caused it.

"""
Several models that disagree
============================

Three models predict the progression of diabetes about equally well, and yet they do not agree on what would have to
change for one patient. Which advice is safe? The data ship with scikit-learn.
"""

# %%
import gbce
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
learners = [
    RandomForestRegressor(60, min_samples_leaf=5, random_state=0),
    ExtraTreesRegressor(60, min_samples_leaf=3, random_state=0),
    LinearRegression(),
]
risk = gbce.cross_val_risk(learners, X, y)
print("mean squared errors:", risk.round(0))

# %%
# Their errors are alike. Explain all three at once; ``combine="any"`` samples changes that satisfy at least one of
# them.

models = [learner.fit(X, y) for learner in learners]
space = gbce.Space.infer(X, immutable=["age", "sex"], bounds={"bmi": (18, None)})
explainer = gbce.Explainer(models, X, space=space, combine="any")
explanation = explainer.explain(X.iloc[9], gbce.AtMost(140), rules=["Nearest", "MAP"], seed=0)
print(explanation.answer)

# %%
# Where they disagree
# -------------------

print(explanation.disagreement().sentence)
explanation.plot.disagreement()

# %%
# From any to all
# ---------------
#
# The same draws, reweighted: no model is called again. The more models must agree, the farther one has to go.

for combine in ("any", "average", "all"):
    figures = explanation.at(combine=combine).distribution
    print(f"{combine:8} all agree: {figures['success_probability[all]']:.2f}   cost: {figures['expected_cost']:.2f}")

# %%
# The price of agreement
# ----------------------
#
# The cheapest point for each probability that a model accepts it, under small errors of execution and across the
# models:

steps = explainer.frontier(explanation, noise=0.1, levels=[0.5, 0.8, 0.9, 0.95])
explanation.plot.frontier(steps)

# %%
# One recommendation for all of them:

explainer.decide(explanation, gbce.ChanceConstrained(0.9, across="models"))

# %%
# What if the models are only three of many?
# ------------------------------------------
#
# ``gbce.model_posterior`` draws models from a posterior given the data; the explanation then averages over them. Here
# the forest is refitted with random weights of rows (the Bayesian bootstrap).

posterior = gbce.model_posterior(learners[0], X, y, gbce.BayesianBootstrap(), n_models=8, seed=0)
averaged = gbce.Explainer(posterior, X, space=space).explain(X.iloc[9], gbce.AtMost(140), rules=["MAP"], seed=0)
print(averaged.distribution.filter(like="success_probability[").round(2).to_string())

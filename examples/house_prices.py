"""
House prices: a regression
==========================

A district's houses are valued by a model. What would have to be different for the value to rise by a quarter? The data
are the 20,640 California districts of the census of 1990, as the package *shapiq* carries them;
``sklearn.datasets.fetch_california_housing`` downloads the same table.
"""

# %%
from importlib.metadata import files

import gbce
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

path = next(file for file in files("shapiq") or [] if file.name == "california_housing.csv").locate()
houses = pd.read_csv(path).sample(3_000, random_state=0).reset_index(drop=True)
X, y = houses.drop(columns="MedHouseVal"), houses["MedHouseVal"]  # in units of 100,000 dollars
model = RandomForestRegressor(60, min_samples_leaf=5, random_state=0).fit(X, y)

# %%
# What can be changed
# -------------------
#
# A district does not move, and houses do not get younger. Rooms can be added, so there are never fewer than now;
# there are always at least as many rooms as bedrooms.

space = gbce.Space.infer(
    X,
    immutable=["Latitude", "Longitude", "HouseAge", "Population"],
    increase=["AveRooms"],
    constraints=["AveBedrms <= AveRooms"],
)

# %%
# A target that depends on the row
# --------------------------------
#
# ``Change(0.25, relative=True)`` asks for a quarter more than the model says now.

row = X.loc[8]
explainer = gbce.Explainer(model, X, space=space)
explanation = explainer.explain(row, gbce.Change(0.25, relative=True), seed=0)
print(explanation.answer)

# %%
explanation.plot.before_after()

# %%
# Where the plausible changes lie
# -------------------------------
#
# Each bar is the interval that holds 90% of the draws, in units of the column; the pale bar is what the prior alone
# would give. Where both agree, the target makes no difference to the column.

explanation.plot.changes()

# %%
# The posterior over two columns, with the region that the model accepts:

explanation.plot.posterior(("MedInc", "AveOccup"), explainer=explainer)

# %%
# What a higher goal costs
# ------------------------
#
# With one model, the frontier shows the best output for each cost.

explanation.plot.frontier()

# %%
# Is it a cause?
# --------------
#
# No. The model has learned that rich districts have expensive houses. It cannot know whether raising incomes would
# raise prices there. A counterfactual of this model describes the model's map of California, which is useful for
# checking the model, and useless for planning a district.

"""An explanation in Streamlit: ``streamlit run examples/apps/streamlit_app.py``."""

import streamlit as st
from sklearn.ensemble import RandomForestClassifier

import gbce
from gbce.cli._demo import simulate_applicants


@st.cache_resource
def open_explainer() -> gbce.Explainer:
    """Fit a model once for all visitors."""
    table, decision = simulate_applicants(500)
    numbers = table.drop(columns="purpose")
    model = RandomForestClassifier(40, max_depth=6, random_state=0).fit(numbers, decision)
    return gbce.Explainer(model, numbers, space=gbce.Space.infer(numbers, immutable=["age"]))


st.title("What would have led to another decision?")
income = st.number_input("monthly income", 0, 10_000, 2_000, step=100)
debt = st.number_input("debt", 0, 10_000, 3_000, step=100)
row = {"age": 40, "income": float(income), "debt": float(debt), "savings": 1_000.0, "years_employed": 3}
explanation = open_explainer().explain(row, "approved", seed=0, posterior=False, progress=False)
if explanation.answer is not None and explanation.answer.reached:
    st.write(explanation.to_text())
    st.dataframe(explanation.answer.changes)
else:
    st.warning(explanation.status_note)

"""An explanation in Gradio: ``python examples/apps/gradio_app.py``."""

import gradio as gr
from sklearn.ensemble import RandomForestClassifier

import gbce
from gbce.cli._demo import simulate_applicants

table, decision = simulate_applicants(500)
numbers = table.drop(columns="purpose")
model = RandomForestClassifier(40, max_depth=6, random_state=0).fit(numbers, decision)
explainer = gbce.Explainer(model, numbers, space=gbce.Space.infer(numbers, immutable=["age"]))


def explain(income: float, debt: float, language: str) -> str:
    """Return the answer in words, or why there is none."""
    row = {"age": 40, "income": income, "debt": debt, "savings": 1_000.0, "years_employed": 3}
    explanation = explainer.explain(row, "approved", seed=0, posterior=False, progress=False)
    if explanation.answer is None or not explanation.answer.reached:
        return explanation.status_note
    return explanation.to_text(language)


app = gr.Interface(
    explain,
    [gr.Number(2_000, label="monthly income"), gr.Number(3_000, label="debt"), gr.Dropdown(["en", "ja"], value="en")],
    gr.Textbox(label="what would have led to another decision"),
    title="gbce",
)

if __name__ == "__main__":
    app.launch()

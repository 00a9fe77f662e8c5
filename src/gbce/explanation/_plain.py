"""An explanation as plain data, for readers that know neither Python nor gbce."""

from typing import TYPE_CHECKING, Any

from gbce.space import plain_records, plain_value

if TYPE_CHECKING:
    from gbce.explanation._explanation import Explanation

__all__ = ["as_dict"]


def as_dict(explanation: "Explanation", *, draws: bool = False) -> dict[str, Any]:
    """Return what :meth:`gbce.Explanation.to_dict` returns."""
    if not isinstance(draws, bool):
        raise TypeError(f"to_dict: draws must be True or False, not {draws!r}")
    row, space = explanation.row, explanation.space
    answer = explanation.answer
    said = {"output": row.outputs[0], "loss": row.loss[0], "reached": row.reached[0]}
    found = {
        "target": explanation.target.describe(),
        "status": explanation.status,
        "models": explanation.models,
        "row": {
            "values": plain_records(space.frame(row.x))[0],
            "said": [
                {"model": name, **{key: said[key][k] for key in said}} for k, name in enumerate(explanation.models)
            ],
        },
        "answer": None if answer is None else answer.to_dict(),
        "rules": [rule.label for rule in explanation.rules],
        "counterfactuals": plain_records(explanation.counterfactuals, values="values"),
        "changes": plain_records(explanation.changes()),
        "pointwise": plain_records(explanation.pointwise),
        "distribution": explanation.distribution.to_dict(),
        "importance": plain_records(explanation.importance),
        "intervals": plain_records(explanation.intervals()),
        "diagnostics": {name: one for name, one in explanation.diagnostics.items() if name != "verdict"},
        "eta": explanation.eta,
        "seed": explanation.seed,
    }
    if draws:
        drawn = explanation.draws
        figures = zip(drawn.weights, drawn.outputs[:, 0], drawn.loss[:, 0], drawn.reached[:, 0], strict=True)
        found["draws"] = [
            {"weight": weight, "output": output, "loss": loss, "reached": reached, "values": values}
            for values, (weight, output, loss, reached) in zip(plain_records(drawn.frame()), figures, strict=True)
        ]
    plain: dict[str, Any] = plain_value(found)
    return plain

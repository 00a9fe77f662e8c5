"""Torch modules as functions of rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gbce.base import Array
from gbce.predictors._columns import as_numbers
from gbce.predictors._predictor import Predictor
from gbce.space import Space

__all__ = ["from_torch"]


def from_torch(module: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``torch.nn.Module`` that takes one tensor of rows ``(n, columns)`` and returns one.

    Rows go in as its parameters are, usually float32, on its device, in evaluation mode and without gradients; the
    module is left in the mode it was in. It does not say whether it classifies; :func:`gbce.classifier` does.
    """
    import torch

    numbers = as_numbers(space, name)

    def ask(x: Array) -> Array:
        like = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), torch.empty(0))
        rows = torch.from_numpy(numbers(x)).to(device=like.device, dtype=like.dtype)
        with _evaluating(module), torch.no_grad():
            out = module(rows)
        if not isinstance(out, torch.Tensor):
            raise TypeError(
                f"the module must return one tensor, but returned {type(out).__name__}: explain a function of rows "
                "that picks the tensor, or a module around this one"
            )
        return out.cpu().double().numpy()

    return Predictor(name, ask, plain=True)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module and its parts into evaluation mode; afterwards each part is as it was."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True

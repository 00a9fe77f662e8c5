"""Layers with exact derivatives, for many parameter vectors at once; a linear model is a net of one layer."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gbce.base import Array

__all__ = ["Net"]

_ACTIVATIONS = {
    "identity": (lambda a: a, lambda h: np.ones_like(h)),
    "relu": (lambda a: np.maximum(a, 0.0), lambda h: (h > 0).astype(float)),
    "tanh": (np.tanh, lambda h: 1.0 - h * h),
    "logistic": (expit, lambda h: h * (1.0 - h)),
}  # each with its slope as a function of its own value

Layers = list[tuple[Array, Array]]


@dataclass(frozen=True)
class Net:
    """Layers of ``sizes[0]`` inputs to ``sizes[-1]`` outputs; parameters are ``(c, p)``, outputs ``(c, n, o)``."""

    sizes: tuple[int, ...]
    activation: str = "identity"
    bias: bool = True

    @property
    def n_parameters(self) -> int:
        """Number of parameters p."""
        return sum((i + self.bias) * o for i, o in self._shapes)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def layers(self, theta: Array) -> Layers:
        """Return weights ``(..., i, o)`` and biases ``(..., o)`` of each layer out of ``theta (..., p)``."""
        found, at = [], 0
        for i, o in self._shapes:
            weights = theta[..., at : at + i * o].reshape(*theta.shape[:-1], i, o)
            at += i * o
            biases = theta[..., at : at + o] if self.bias else np.zeros((*theta.shape[:-1], o))
            at += o if self.bias else 0
            found.append((weights, biases))
        return found

    @property
    def scalings(self) -> Array:
        """What enters each hidden unit, ``+1``, and what leaves it, ``-1``: ``(units, p)``, zero elsewhere."""
        rows = []
        for number, width in enumerate(self.sizes[1:-1]):
            for unit in range(width):
                layers = [(np.zeros((i, o)), np.zeros(o)) for i, o in self._shapes]
                layers[number][0][:, unit] = layers[number][1][unit] = 1.0
                layers[number + 1][0][unit] = -1.0
                rows.append(self.pack(layers))
        return np.array(rows)

    def pack(self, layers: Layers) -> Array:
        """Return the vector ``(p,)`` of weights ``(i, o)`` and biases ``(o,)``."""
        return np.concatenate([np.concatenate([w.ravel(), b] if self.bias else [w.ravel()]) for w, b in layers])

    def forward(self, theta: Array, X: Array) -> list[Array]:
        """Return what comes into each layer, and the outputs last, each ``(c, n, width)``."""
        value = _ACTIVATIONS[self.activation][0]
        passed = [X]
        for number, (w, b) in enumerate(self.layers(theta)):
            a = passed[-1] @ w + b[..., None, :]
            passed.append(a if number == len(self.sizes) - 2 else value(a))
        return passed

    def outputs(self, theta: Array, X: Array) -> Array:
        """Return outputs ``(c, n, o)``."""
        return self.forward(theta, X)[-1]

    def gradient(self, theta: Array, passed: list[Array], slope: Array) -> Array:
        """Return the gradient ``(c, p)`` of a sum over rows, given its slope in the outputs ``(c, n, o)``."""
        parts: list[Array] = []
        for number, (w, _) in reversed(list(enumerate(self.layers(theta)))):
            gw = np.swapaxes(passed[number], -1, -2) @ slope
            gw = gw.reshape(*gw.shape[:-2], -1)
            parts.insert(0, np.concatenate([gw, slope.sum(axis=-2)], axis=-1) if self.bias else gw)
            if number:
                slope = (slope @ np.swapaxes(w, -1, -2)) * _ACTIVATIONS[self.activation][1](passed[number])
        return np.concatenate(parts, axis=-1)

    def jacobian(self, theta: Array, X: Array) -> Array:
        """Return the derivatives ``(n, o, p)`` of outputs in one parameter vector ``(p,)``."""
        passed = self.forward(theta, X)
        n, o = passed[-1].shape
        found = np.empty((n, o, self.n_parameters))
        for k in range(o):
            slope = np.zeros((n, o))
            slope[:, k] = 1.0
            parts: list[Array] = []
            for number, (w, _) in reversed(list(enumerate(self.layers(theta)))):
                gw = (passed[number][:, :, None] * slope[:, None, :]).reshape(n, w.size)
                parts.insert(0, np.concatenate([gw, slope], axis=1) if self.bias else gw)
                if number:
                    slope = (slope @ w.T) * _ACTIVATIONS[self.activation][1](passed[number])
            found[:, k] = np.concatenate(parts, axis=1)
        return found

    def outputs_linearised(self, theta: Array, step: Array, X: Array) -> Array:
        """Return outputs ``(n, o)`` at ``theta`` plus their linear change for a ``step`` in the parameters."""
        passed = self.forward(theta, X)
        change = np.zeros_like(X)
        for number, ((w, _), (dw, db)) in enumerate(zip(self.layers(theta), self.layers(step), strict=True)):
            change = change @ w + passed[number] @ dw + db
            if number < len(self.sizes) - 2:
                change = change * _ACTIVATIONS[self.activation][1](passed[number + 1])
        return passed[-1] + change

"""Randomness: one number per explanation, one independent stream per purpose, no global state."""

from typing import Any

import numpy as np

__all__ = ["DECIDING", "JUDGING", "REWEIGHTING", "SAMPLING", "seed_number", "stream"]

SAMPLING, DECIDING, JUDGING, REWEIGHTING = 0, 1, 2, 3


def seed_number(seed: Any) -> int:
    """Turn what a user may give as a seed into one whole number; ``None`` asks the operating system."""
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    if isinstance(seed, np.random.SeedSequence):
        return int.from_bytes(seed.generate_state(4).tobytes(), "little")
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return int(seed)
    raise ValueError(f"seed must be a whole number of at least 0, a Generator, a SeedSequence or None, not {seed!r}")


def stream(seed: int, purpose: int) -> np.random.Generator:
    """Return the generator for one purpose; what one purpose consumes does not shift another."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))

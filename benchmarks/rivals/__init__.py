"""The methods that the paper argues with, beside gbce on the same rows: ``python -m benchmarks.rivals``."""

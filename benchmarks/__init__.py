"""Measurements of gbce beside what else there is; each is a command, ``python -m benchmarks.NAME``."""

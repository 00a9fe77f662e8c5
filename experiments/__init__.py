"""The experiments of the paper, recomputed with gbce: imports gbce, never the reverse."""

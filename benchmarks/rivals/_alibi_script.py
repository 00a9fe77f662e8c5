"""What runs in alibi's own environment: it knows neither gbce nor the model, and asks for predictions."""

import json
import os
import sys
import time
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Read the table and the options from the first line, and answer a row with each line that follows."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print goes elsewhere

    def say(message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    try:
        _answer(say)
    except Exception as error:
        say({"failed": f"{type(error).__name__}: {error}"})


def _answer(say: Any) -> None:
    import numpy as np

    given = json.loads(sys.stdin.readline())
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()  # alibi is written for the first version
    tf.get_logger().setLevel("ERROR")
    # one thread: it updates two variables at once that depend on each other, so that more threads race
    single = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=single))
    from alibi.explainers import CounterfactualProto

    def predict(x: Any) -> Any:
        say({"ask": np.asarray(x, dtype=float).tolist()})
        return np.array(json.loads(sys.stdin.readline()))

    rows = np.array(given["rows"], dtype=np.float32)
    categories = {int(first): n for first, n in given["categories"].items()}
    width = (1, rows.shape[1] - sum(categories.values()) + len(categories))
    explainer = CounterfactualProto(
        predict,
        (1, rows.shape[1]),
        feature_range=(-np.ones(width), np.ones(width)),
        cat_vars=categories or None,
        ohe=bool(categories),
        use_kdtree=True,
        **given["options"],
    )
    explainer.fit(rows)
    # its first answer differs from all later ones to the same row, so that one goes nowhere
    explainer.explain(rows[:1])
    say({"done": None, "seconds": time.process_time()})
    for line in sys.stdin:
        asked = json.loads(line)
        found = explainer.explain(np.array([asked["row"]], dtype=np.float32), target_class=[asked["wanted"]])
        answer = None if not found.cf else np.asarray(found.cf["X"], dtype=float)[0].tolist()
        say({"done": answer, "seconds": time.process_time()})


if __name__ == "__main__":
    main()

"""Load fitted models from files: native boosters, ONNX, skops, MLflow folders, and pickles if they are trusted.

Nothing but a pickle can run code when it is loaded. The list of types that a skops file may hold is this module's own;
one that lies beside a file is not read.
"""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20  # bytes that are hashed at a time: one MiB, by convention
_HEAD = 64  # bytes that tell formats apart where the name does not

# Types that skops does not trust by itself, without which it loads little more than linear models. All of them only
# hold arrays and parameters of a fitted model.
_TRUSTED = (
    "collections.OrderedDict",
    "functools.partial",  # only of functions that are trusted themselves, which skops checks by name
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
)
_SUFFIXES = {
    ".lgb": "lightgbm", ".txt": "lightgbm",
    ".json": "xgboost", ".ubj": "xgboost", ".xgb": "xgboost",
    ".cbm": "catboost", ".cb": "catboost",
    ".onnx": "onnx",
    ".skops": "skops",
    ".pkl": "pickle", ".pickle": "pickle", ".joblib": "pickle",
}  # fmt: skip
_INSTALL = {
    "lightgbm": "gbce[boosting]", "xgboost": "gbce[boosting]", "catboost": "catboost", "onnxruntime": "gbce[onnx]",
    "skops": "gbce[skops]",
}  # fmt: skip
_NAMES = {
    "lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost", "onnx": "ONNX", "skops": "skops",
    "pickle": "joblib",
}  # fmt: skip
_FOLDER_FILE = "MLmodel"
_CATBOOST_JSON = re.compile(rb'\s*\{\s*"(ctr_data|features_info|model_info|oblivious_trees|scale_and_bias|trees)"')


class ModelFileError(ValueError):
    """A model file cannot be read, is of an unknown kind, or would run code."""


def load_model(path: str | Path, *, trust_pickle: bool = False) -> Any:
    """Load a fitted model from a file, or from the folder that MLflow wrote.

    Parameters
    ----------
    path : str or Path
        A LightGBM (``.txt``, ``.lgb``), XGBoost (``.json``, ``.ubj``, ``.xgb``), CatBoost (``.cbm``, ``.json``), ONNX
        (``.onnx``) or skops (``.skops``) file, or an MLflow model folder whose flavour is one of these. Files of other
        names are recognised by their first bytes.
    trust_pickle : bool
        Whether to load pickle and joblib files. Loading one runs any code that is in it.

    Returns
    -------
    model
        A booster, session or estimator, as :class:`gbce.Explainer` takes it.

    Raises
    ------
    ModelFileError
        If the file is not a model of a known kind, is damaged, holds types that are not trusted, or is a pickle and
        ``trust_pickle`` is not set; a ``ValueError``.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> load_model("forest.pkl")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no model file forest.pkl
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no model file {path}")
    path, kind = _find_flavour(path) if path.is_dir() else (path, _find_kind(path))
    if kind == "pickle" and not trust_pickle:
        raise ModelFileError(
            f"{path} is a pickle, and loading one runs any code that is in it: save the model in its own format or "
            "with skops, or, if you made the file yourself, allow it by trust_pickle (--trust-pickle)"
        )
    try:
        return _LOADERS[kind](path)
    except (ModelFileError, OSError, ImportError, MemoryError):
        raise
    except Exception as error:  # every framework raises its own errors for a damaged file
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        reason = re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", reason)  # XGBoost's time and line
        raise ModelFileError(f"{path} could not be read as a model of {_NAMES[kind]}: {reason:.300}") from error


def hash_model(path: str | Path) -> str:
    """Return the SHA-256 of a model file, or of all files of a folder with their names, in order.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "model.txt").write_text("tree")
    ...     hash_model(Path(folder, "model.txt"))[:12]
    'dc9c5edb8b2d'
    """
    path, total = Path(path), sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if one.is_file():
            if path.is_dir():
                total.update(one.relative_to(path).as_posix().encode() + b"\0")
            with one.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    total.update(chunk)
    return total.hexdigest()


# --- kinds of files --------------------------------------------------------------------------------------------------


def _find_kind(path: Path) -> str:
    """Return the kind of a file by its first bytes, else by its name."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"tree\n") or head.startswith(b"tree\r"):
        return "lightgbm"
    if head.startswith(b"CBM1") or _CATBOOST_JSON.match(head):
        return "catboost"
    if head.startswith(b"\x80") and path.suffix != ".onnx":
        return "pickle"
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind == "lightgbm":
        raise ModelFileError(f"{path} is not a LightGBM model: its first line is not 'tree'")
    if kind is None:
        raise ModelFileError(
            f"{path} is not a model file of a known kind: name it by its format, one of {', '.join(sorted(_SUFFIXES))}"
        )
    return kind


def _find_flavour(folder: Path) -> tuple[Path, str]:
    """Return the model file of an MLflow folder and its kind."""
    if not (folder / _FOLDER_FILE).is_file():
        raise ModelFileError(f"{folder} is a folder without a file {_FOLDER_FILE}, so it is not an MLflow model")
    flavours = _read_flavours((folder / _FOLDER_FILE).read_text(encoding="utf-8", errors="replace"))
    for name, key in (
        ("lightgbm", "data"), ("xgboost", "data"), ("catboost", "data"), ("onnx", "data"), ("sklearn", "pickled_model"),
    ):  # fmt: skip
        if name not in flavours:
            continue
        file = folder / flavours[name].get(key, "")
        if folder.resolve() not in file.resolve().parents or not file.is_file():
            raise ModelFileError(f"{folder} has the flavour {name}, but no file of it")
        if name == "sklearn":
            return file, "skops" if flavours[name].get("serialization_format") == "skops" else "pickle"
        return file, {".pkl": "pickle", ".skops": "skops"}.get(file.suffix, name)  # of boosters' estimators
    known = "lightgbm, xgboost, catboost, onnx, sklearn"
    raise ModelFileError(f"{folder} has the flavours {sorted(flavours)}, none of which can be read: {known}")


def _read_flavours(text: str) -> dict[str, dict[str, str]]:
    """Return the entries of each flavour in an MLmodel file, which is YAML of nested mappings with plain values."""
    found: dict[str, dict[str, str]] = {}
    inside, name = False, ""
    for line in text.splitlines():
        depth, (key, _, value) = len(line) - len(line.lstrip(" ")), line.strip().partition(":")
        if not line.strip():
            continue
        if depth == 0:
            inside = key == "flavors"
        elif inside and depth == 2:
            name = key
            found[name] = {}
        elif inside and depth == 4 and name:
            found[name][key] = value.strip().strip("'\"")
    return found


# --- loading one kind ------------------------------------------------------------------------------------------------


def _import(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        root = package.split(".")[0]
        raise ImportError(f"this model file needs {root}: pip install '{_INSTALL[root]}'") from None


def _load_lightgbm(path: Path) -> Any:
    head, begin, trees = path.read_bytes().replace(b"\r\n", b"\n").partition(b"\nTree=0\n")
    sizes = re.search(rb"^tree_sizes=([\d ]*)$", head, re.MULTILINE)
    # the library ends the whole process where trees are cut off
    whole = sizes is not None and (begin + trees)[1:].find(b"end of trees") == sum(map(int, sizes[1].split()))
    if not whole:
        raise ModelFileError(f"{path} could not be read as a model of LightGBM: its trees are not complete")
    return _import("lightgbm").Booster(model_file=str(path))


def _load_xgboost(path: Path) -> Any:
    return _import("xgboost").Booster(model_file=str(path))


def _load_catboost(path: Path) -> Any:
    with path.open("rb") as file:
        is_json = _CATBOOST_JSON.match(file.read(_HEAD)) is not None
    if is_json:
        json.loads(path.read_bytes())  # the library takes what is cut off for a model without trees
    return _import("catboost").CatBoost().load_model(str(path), format="json" if is_json else "cbm")


def _load_onnx(path: Path) -> Any:
    runtime = _import("onnxruntime")
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _load_skops(path: Path) -> Any:
    files = _import("skops.io")
    others = sorted(set(files.get_untrusted_types(file=path)) - set(_TRUSTED))
    if others:
        raise ModelFileError(
            f"{path} contains types that are not trusted: {', '.join(others)}. Save the model without "
            "them, or in another format"
        )
    return files.load(path, trusted=list(_TRUSTED))


def _load_pickle(path: Path) -> Any:
    import joblib

    return joblib.load(path)


_LOADERS: dict[str, Callable[[Path], Any]] = {
    "lightgbm": _load_lightgbm,
    "xgboost": _load_xgboost,
    "catboost": _load_catboost,
    "onnx": _load_onnx,
    "skops": _load_skops,
    "pickle": _load_pickle,
}

"""Open a question from files: read settings, model and tables, and build the explainer."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gbce.cli._input import STDIN, Picked, Settings, read_parts, read_settings, read_table
from gbce.cli._parser import Messages, UsageError
from gbce.decisions import Reliable
from gbce.explainer import Explainer
from gbce.predictors import classifier, fitted_columns, load_model, made_by
from gbce.space import Space
from gbce.targets import parse_target

_NAMED = 5  # columns that a message lists; by hand


@dataclass(frozen=True)
class Question:
    """An explainer, the rows to explain, the target and the settings."""

    explainer: Explainer
    rows: Any  # a frame of them, or an iterator of frames
    target: Any
    settings: Settings

    def options(self, given: Namespace, quiet: bool) -> dict[str, Any]:
        """Return the options that all questions share."""
        own = self.settings.options
        return {
            "seed": given.seed,
            "rules": own.get("rules"),
            "max_model_rows": own.get("max_model_rows"),
            "time_budget": given.time,
            "posterior": not given.no_posterior,
            "progress": False if quiet else "auto",
        }


def open_question(options: Namespace, messages: Messages, many: bool = False) -> Question:
    """Read settings, model and tables, and build the explainer."""
    if [options.data, options.rows, None if many else options.row].count(STDIN) > 1:
        raise UsageError("only one of DATA, --rows and --row can come from standard input")
    settings = read_settings(options.settings)
    text = options.target or settings.target
    if text is None:
        raise UsageError("there is no target: give it with --target, or in the settings")
    index = options.index or settings.data.get("index")
    picked = None if many else Picked.parse(options.row, index)
    model = load_named_model(options, settings)
    data, found = read_table(
        options.data, options.input, most=options.max_rows, picked=picked if options.rows is None else None
    )
    streamed = many and options.store is not None and (options.rows or options.data) != STDIN
    if options.rows is not None and not streamed:
        all_rows, found = read_table(options.rows, options.input, most=None if many else 0, picked=picked)
    columns = choose_columns(model, data, index, settings, messages)
    if streamed:
        explainer = build_explainer(model, convert(data[columns], model, settings), settings)
        target = read_target(text, explainer)
        return Question(explainer, _stream_rows(options, data, columns, index, model, settings), target, settings)
    rows = (data if options.rows is None else all_rows) if many else _require_one(found, picked)
    if many and index is not None:
        _require_in(rows, [index], "--index")
        rows = rows.set_index(index, drop=index not in columns)
    if picked is None or picked.values is None:
        _require_in(rows, columns, "the table of rows to explain")
    if set(columns) <= set(rows.columns):  # what JSON lacks, the explainer names
        rows = convert(rows[columns], model, settings)
    explainer = build_explainer(model, convert(data[columns], model, settings), settings)
    return Question(explainer, rows, read_target(text, explainer), settings)


def read_target(text: str, explainer: Explainer) -> Any:
    """Return the target that a person wrote for an explainer's model."""
    try:
        return parse_target(text, explainer._session.predictors[0].classes)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _stream_rows(
    options: Namespace, data: pd.DataFrame, columns: list[str], index: str | None, model: Any, settings: Settings
) -> Iterator[pd.DataFrame]:
    """Yield the rows to explain in parts, at most as many as the limit."""
    strings = [name for name in columns if not pd.api.types.is_numeric_dtype(data[name].dtype)]
    left = float("inf") if options.limit is None else options.limit
    for part in read_parts(options.rows or options.data, options.input, strings):
        rows = part.iloc[: int(min(left, len(part)))]
        _require_in(rows, [*columns, *([] if index is None else [index])], "the table of rows to explain")
        if index is not None:
            rows = rows.set_index(index, drop=index not in columns)
        yield convert(rows[columns], model, settings)
        left -= len(rows)
        if left <= 0:
            return


def build_explainer(model: Any, data: pd.DataFrame, settings: Settings) -> Explainer:
    """Return the explainer of a model and its converted data, as the settings have it."""
    space = Space.infer(data, **settings.space_options())
    eta = settings.options.get("eta")
    # a table of reasons means letters, which should not advise anybody against the grain of the model
    policy = Reliable(sensible=settings.options.get("sensible", bool(settings.reasons)))
    return Explainer(model, data, space=space, policy=policy, **({} if eta is None else {"eta": eta}))


def load_named_model(options: Namespace, settings: Settings) -> Any:
    """Load the model, with the names of its classes if they are given."""
    model = load_model(options.model, trust_pickle=options.trust_pickle)
    names = options.classes.split(",") if options.classes else settings.model.get("classes")
    return model if names is None else classifier(model, classes=[one.strip() if isinstance(one, str) else one
                                                                  for one in names])  # fmt: skip


def _require_one(found: pd.DataFrame, picked: Picked | None) -> pd.DataFrame:
    """Return the row that was picked, as a frame of one line."""
    if picked is not None and picked.values is not None:
        return pd.DataFrame([picked.values])
    text = "" if picked is None else picked.text
    if picked is not None and (named := picked.is_named(found)).any():
        found = found[named]
    if len(found) == 0:
        raise ValueError(f"there is no row {text!r} in the table")
    if len(found) > 1:
        raise ValueError(f"{len(found)} rows of the table are {text!r}; name one by its position")
    return found


def _require_in(table: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    missing = [name for name in columns if name not in table.columns]
    if missing:
        have = ", ".join(map(str, table.columns))
        raise ValueError(f"{what} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; it has {have}")


def choose_columns(
    model: Any, data: pd.DataFrame, index: str | None, settings: Settings, messages: Messages
) -> list[str]:
    """Return the columns of the model: those that it names, else all but those that the settings leave out."""
    drop = settings.data.get("drop", [])
    if not isinstance(drop, list):
        raise ValueError(f"settings: drop must be a list of columns, not {drop!r}")
    left = [*drop, *([] if index is None else [index])]
    inner = getattr(model, "model", model)
    wanted = fitted_columns(inner)
    by_position = wanted == [f"Column_{j}" for j in range(len(wanted))] or wanted == list(map(str, range(len(wanted))))
    if not wanted or (by_position and not set(wanted) <= set(map(str, data.columns))):
        _require_in(data, left, "the table")
        return [name for name in data.columns if name not in left]
    have = {str(name): name for name in data.columns}
    have |= {str(name).replace(" ", "_"): name for name in data.columns if str(name) not in wanted}  # by LightGBM
    missing = [name for name in wanted if name not in have]
    if missing:
        raise ValueError(
            f"the table lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)} that the model was fitted on; "
            f"it has {', '.join(map(str, data.columns))}"
        )
    columns = [have[name] for name in wanted]
    unused = [str(name) for name in data.columns if name not in columns and name not in left]
    if unused:
        more = f" and {len(unused) - _NAMED} more" if len(unused) > _NAMED else ""
        messages.say(f"columns that the model does not use are left out: {', '.join(unused[:_NAMED])}{more}")
    return columns


def convert(table: pd.DataFrame, model: Any, settings: Settings) -> pd.DataFrame:
    """Return a table with dates as dates, and with strings and missing categories as boosters take them."""
    table = table.copy()
    for name, kind in settings.of_columns("kind").items():
        if kind == "datetime" and name in table.columns:
            table[name] = pd.to_datetime(table[name])
    inner = getattr(model, "model", model)
    if made_by(inner, "lightgbm") or made_by(inner, "xgboost"):
        for name in table.columns[[not pd.api.types.is_numeric_dtype(one) for one in table.dtypes]]:
            if not pd.api.types.is_datetime64_any_dtype(table[name]):
                table[name] = table[name].astype("category")
    if made_by(inner, "catboost"):  # to which the code 3 is the string 3
        for name in table.columns[inner.get_cat_feature_indices()]:
            table[name] = _name_levels(table[name], settings)
    return table


def _name_levels(column: pd.Series, settings: Settings) -> pd.Series:
    """Return categories as strings, missing ones as the string that a CatBoost model was fitted with."""
    word, known = settings.model.get("missing"), column.notna()
    if not (known.all() or isinstance(word, str)):
        raise ValueError(
            f"the column {column.name!r} has missing values, for which CatBoost is fitted with a string: give that "
            'string in [model] of the settings, such as missing = "nan"'
        )
    # missing values make floats of codes
    codes = column.astype("Int64") if pd.api.types.is_float_dtype(column.dtype) else column
    return codes.astype(str).astype(object).where(known, word)

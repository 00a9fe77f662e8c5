"""Notes: what a reader of results should know about how the data came to be, in sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from experiments.trends._calendar import UNIT, count, several, written
from experiments.trends._cells import BELOW_ONE
from experiments.trends._exports import Export

__all__ = ["listed", "notes_on_partial", "notes_on_reading", "notes_on_rows", "notes_on_values"]

_PEAK = 100  # what Google Trends gives to the highest value of all that was asked for together


def notes_on_reading(exports: Sequence[Export], place: str | None) -> Iterator[str]:
    """Tell where dates could be read in two ways, and where a place was taken for granted."""
    yield from (f"{export.name}: {export.note}" for export in exports if export.note)
    silent = [export for export in exports if export.geo is None]
    if place is not None and silent:
        yield f"taken to be for {place}, though it does not say so: {listed(silent)}."


def notes_on_partial(
    before: Sequence[Export], after: Sequence[Export], partial: bool | datetime | None
) -> Iterator[str]:
    """Tell which periods were dropped because they were not over, and where nothing tells whether they were."""
    frequency = before[0].frequency
    cut = [(old, set(old.periods) - set(new.periods)) for old, new in zip(before, after, strict=True)]
    dropped = sorted({period for _, periods in cut for period in periods})
    if dropped:
        yield (
            f"not over at the download, and dropped: {', '.join(written(period, frequency) for period in dropped)} "
            f"in {listed(export for export, periods in cut if periods)}."
        )
    silent = [export for export in before if export.over is None]
    if partial is None and silent:
        yield (
            f"nothing says whether the last {UNIT[frequency]} was over at the download, and it was kept: "
            f"{listed(silent)}. Give the day of the download, or True to drop it, as drop_partial."
        )


def notes_on_values(read: Mapping[str, Sequence[float]], below_one: float) -> Iterator[str]:
    """Tell what became of values below one, and which terms have scales of their own."""
    below = {term: list(values).count(BELOW_ONE) for term, values in read.items() if BELOW_ONE in values}
    if below:
        yield f"values below one, read as {below_one:g}: {', '.join(f'{n} of {term}' for term, n in below.items())}."
    peaks = [term for term, values in read.items() if max(values) == _PEAK]
    if len(peaks) > 1:
        yield (
            f"each on a scale of its own, with a peak of {_PEAK}: {', '.join(peaks)}. That is fine for the features of "
            "a model, but their levels cannot be compared."
        )


def notes_on_rows(exports: Sequence[Export], target: Export, rows: Sequence[datetime], lag: int) -> Iterator[str]:
    """Tell where periods are missing, and how many rows the join has cost beside the lag."""
    for export in exports:
        missing = count(min(export.periods), max(export.periods), export.frequency) - len(export.periods)
        if missing > 0:
            yield f"{export.name} lacks {several(missing, export.frequency)} between its first and its last."
    lost = len(target.periods) - len(rows) - lag
    if lost > 0:
        ends = " to ".join(written(period, target.frequency) for period in (rows[0], rows[-1]))
        yield (
            f"the terms have {several(len(rows), target.frequency)} in common, {ends}; {lost} more of the target have "
            "no row, because a feature has no value for them."
        )


def listed(exports: Iterable[Export]) -> str:
    """Write the names of exports: each once, and all of them if they are few."""
    names = list(dict.fromkeys(export.name for export in exports))
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

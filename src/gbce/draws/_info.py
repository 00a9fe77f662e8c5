"""What a sampler reports beside its draws."""

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["SamplerInfo"]


@dataclass(frozen=True)
class SamplerInfo:
    """What a sampler reports beside its draws; ``None`` where it has nothing to report.

    A sampler that reports more has a subclass with more fields, plain numbers and text: they appear among the
    diagnostics and in files.

    Parameters
    ----------
    sampler : str
        Its name.
    complete : bool
        Whether it finished; if not, the budget ran out.
    goal_met : bool, optional
        Whether the eta that was found achieves what was asked for.
    r_hat : float, optional
        The largest, where there are chains.
    doubt : str, optional
        Why the draws may be incomplete though their weights look well, as a part of a sentence.
    joint : bool, optional
        Whether each point was shown to one of many models.
    model_evidence : tuple of K float, optional
        Log evidence of each of these models by itself.
    ended : str, optional
        Why it did not finish, as a part of a sentence, where it was not the budget.
    seen_once : float, optional
        Share of the mass that only one of several independent runs found: what none of them found is estimated by it.
    """

    sampler: str = "a sampler"
    complete: bool = True
    goal_met: bool | None = None
    r_hat: float | None = None
    doubt: str | None = None
    joint: bool | None = None
    model_evidence: tuple[float, ...] | None = None
    ended: str | None = None
    seen_once: float | None = None

    @property
    def draws_posterior(self) -> bool:
        """Whether draws of the posterior were wanted at all."""
        return True

    @property
    def advice(self) -> str:
        """What to do where the draws do not suffice, as the end of a sentence."""
        return "let it draw more, or use gbce.SMC()"

    @property
    def runs(self) -> str:
        """How many independent runs there were, as a text such as ``"200 chains"``; empty for a pool of points."""
        return ""

    @property
    def kind_of_run(self) -> str:
        """What several of these runs are called."""
        return "runs"

    @property
    def scope(self) -> str:
        """What a good verdict is confined to, as a part of a sentence; empty where known points were compared too."""
        return ""

    @property
    def tempered(self) -> bool:
        """Whether the draws came up from the prior on rungs, so that the error of the evidence tells how well."""
        return False

    def entries(self) -> dict[str, Any]:
        """Return what was reported, as plain data by name."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in said.items() if value is not None}

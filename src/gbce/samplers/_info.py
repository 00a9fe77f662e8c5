"""What SMC reports beside its draws."""

from dataclasses import dataclass

from gbce.draws import SamplerInfo

__all__ = ["SMCInfo"]


@dataclass(frozen=True)
class SMCInfo(SamplerInfo):
    """What SMC reports; where draws from the prior or around sites were enough, there were no islands.

    Parameters
    ----------
    sites, looks : int, optional
        Distinct places of low objective that all searches found, and how many independent looks were taken at them.
    islands, rounds, guides : int, optional
        Populations that went up by themselves, how often more of them were sent, and how often from a fitted start.
    sweeps, acceptance, memory : tuple, optional
        Of each rung: moves of all points, the share that was accepted, and the correlation with the start that is left.
    climbed : tuple of float, optional
        All rungs, where a goal was missed and eta went back below the last of them.
    """

    sampler: str = "SMC"
    sites: int | None = None
    looks: int | None = None
    islands: int | None = None
    rounds: int | None = None
    sweeps: tuple[int, ...] | None = None
    acceptance: tuple[float, ...] | None = None
    memory: tuple[float, ...] | None = None
    guides: int | None = None
    climbed: tuple[float, ...] | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_draws of the sampler, widen the prior, lower eta, or ask for less"

    @property
    def runs(self) -> str:
        """Islands and rungs."""
        if self.islands is None:
            return ""
        rungs = len(self.sweeps or ())
        return f"{self.islands} islands over {rungs} rung{'s' if rungs != 1 else ''}"

    @property
    def kind_of_run(self) -> str:
        """What several runs are called."""
        return "islands"

    @property
    def tempered(self) -> bool:
        """Whether there were islands."""
        return self.islands is not None

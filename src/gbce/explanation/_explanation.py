"""The Explanation of one row: plain data with tables, follow-up questions and exports. It contains no model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from gbce._numerics import ENOUGH_ESS, REWEIGHTING, stream
from gbce._validation import printable
from gbce.base import Rule
from gbce.decisions import answers_among, apply_known_rules, apply_rule, require_rule
from gbce.eta import Calibration, EtaRule, ModelError, as_etas, solve_eta
from gbce.explanation._alternatives import Alternatives, Menu, alternatives, make_menu
from gbce.explanation._findings import Findings
from gbce.explanation._given import Event, condition
from gbce.explanation._tables import choice_table, draws_frontier
from gbce.explanation._words import Status
from gbce.metrics import Disagreement, disagreement, eta_path, unknown_figures
from gbce.posterior import Combine, Mixture, as_weights

if TYPE_CHECKING:
    from gbce.plots import Plots
    from gbce.words import Certificate, Letter


@dataclass(frozen=True, eq=False)
class Explanation(Findings):
    """Changes to a row that make the models reach the target, as a posterior distribution and as decisions.

    Made by :meth:`gbce.Explainer.explain`; read through its tables.

    Parameters
    ----------
    query : Query
        The question: the features, the target with its numbers resolved, the models' names, eta with weights and
        combination, the settings of the figures, the rules, the seed, and the evaluated row. Each is also an attribute
        of the explanation.
    draws : Draws
        The posterior: ``.z (n, m)``, ``.x (n, d)``, ``.weights (n,)``, ``.outputs (n, K)``, ``.loss (n, K)``.
    decisions : tuple of Decision
        Choices of the rules.
    status : Status
        ``"attainable"``, ``"already reached"`` or ``"not attained"``: whether the row needs a change, and whether any
        evaluated point reaches the target.
    status_note : str
        The status as a sentence, unless the target is attainable; the first of the notes.
    notes : tuple of str
        Sentences the user should read.
    n_model_calls, n_model_rows : int
        Number of model calls, and of rows in them.
    calibration : Calibration, optional
        How eta was found, if a rule found it.
    answer : Answer, optional
        The recommended decision, by the explainer's policy; ``None`` without decisions.
    proof : Proof, optional
        Proof that the target cannot be reached within the bounds, if there is one; ``status`` is then
        ``"not attained"``. Without a proof that status only reports a search.
    strategies : Strategies, optional
        What draws need, and points that make these changes, for :meth:`alternatives` and :meth:`menu`; ``None`` if
        they were not looked for.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = gbce.Explainer(lambda x: x[:, 0] + x[:, 1], data, space=gbce.Space.real(2))
    >>> explanation = explainer.explain([0.0, 0.0], gbce.Value(1.0, scale=1, tolerance=0.5), seed=1)
    >>> explanation.status, explanation.draws.x.shape
    ('attainable', (2000, 2))
    >>> explanation.importance.loc["x1", "change"] < 1.0
    np.True_
    """

    # --- follow-up questions --------------------------------------------------------------------------------

    def path(self, etas: Sequence[float] | None = None) -> pd.DataFrame:
        """Return figures of the posterior as functions of eta, without model calls.

        Every rung of a tempered run is the posterior at a smaller eta; between rungs the points are reweighted.

        Parameters
        ----------
        etas : sequence of float, optional
            By default from zero, the prior, to the explanation's own eta. Not far beyond it too few effective draws are
            left.

        Returns
        -------
        DataFrame
            One line per eta: ``success_probability``, ``tail``, ``stability``, ``expected_loss``, ``expected_cost``,
            ``expected_distance`` and ``log_evidence``, each again as ``*_se``, ``tail_low`` and ``tail_high``, and
            ``ess``. Below 100 effective draws the figures are NaN.
        """
        self.draws.require_pool("path()")
        wanted = None if etas is None else as_etas(etas)
        return eta_path(self.draws, self.mixture, self.space, self.x0, self.evaluation.alpha, wanted)

    def disagreement(self) -> Disagreement:
        """Return how often and where the models disagree about the draws: tables and a sentence."""
        return disagreement(self.draws, self.space, self.free, self.models, self.mixture.weights)

    def frontier(
        self, *, distance: str = "l1", levels: Sequence[float] | None = None, among: str = "draws"
    ) -> pd.DataFrame:
        """Return the cheapest draw or decision for every reliability, without model calls.

        Only evaluated points are considered, so that reliability is the share of the explanation's own models: with
        one model, 1 for whatever reaches the target exactly. :meth:`gbce.Explainer.frontier` calls models, and handles
        noise, other models and points beyond the draws.

        Parameters
        ----------
        distance : {"l1", "l2"}
            Cost in units of each feature's scale: the sum of changes, or the Euclidean distance from the row.
        levels : sequence of float, optional
            Reliabilities to report, by default every step of the frontier. One that no point attains has no line.
        among : {"draws", "pool"}
            The draws, or all evaluated points, including those of posterior weight zero.

        Returns
        -------
        DataFrame
            By ``reliability``, the weighted share of models that reach the target: ``cost``, ``distance`` (always
            Euclidean), ``se`` (the error of the reliability, zero here), and the row in the user's columns.
        """
        return draws_frontier(self, distance=distance, levels=levels, among=among)

    def at(
        self,
        eta: float | EtaRule | None = None,
        *,
        weights: Sequence[float] | None = None,
        combine: Combine | None = None,
    ) -> "Explanation":
        """Reweight the draws to another eta, other model weights or another combination.

        Rules that choose among evaluated points are applied again; figures that need the model are NaN.

        Parameters
        ----------
        eta : float, SuccessProbability or ExpectedLoss, optional
            The new eta, or the goal that it has to meet.
        weights : sequence of K numbers, optional
            New weights of the models.
        combine : {"any", "all", "average"} or Entropic, optional
            New combination.

        Raises
        ------
        ValueError
            If fewer than 100 effective draws would be left, too few for an answer.
        """
        self.draws.require_pool("at(...)")
        mixture = Mixture(
            self.eta if eta is None or isinstance(eta, EtaRule) else eta,
            self.mixture.weights if weights is None else as_weights(weights, len(self.models)),
            self.mixture.combine if combine is None else combine,
        )
        calibration = self.calibration if eta is None else None  # it belongs to the old eta
        if isinstance(eta, EtaRule):
            mixture, calibration = replace(mixture, eta=self._solve_eta(eta, mixture)), Calibration(eta.label)
        weighted = self.draws.reweigh(mixture)
        if weighted.ess < min(ENOUGH_ESS, self.draws.ess):
            raise ValueError(
                f"the draws cannot be reweighted to eta = {mixture.eta:g}, combine = {mixture.combine!r}: only "
                f"{weighted.ess:.0f} effective draws of {len(weighted.pool)} would be left. Explain the row with these "
                "settings and more candidates."
            )
        picked = weighted.resample(stream(self.seed, REWEIGHTING, self.query.key), len(self.draws))
        draws = replace(picked, reweighted=True)
        query = replace(self.query, mixture=mixture)
        decisions, undecided = apply_known_rules(query, draws)
        *others, last = unknown_figures()
        note = f"Reweighted from eta = {self.eta:g}: {', '.join(others)} and {last} were not computed again."
        if undecided:
            note += (
                f" {', '.join(undecided)} can only be applied with the model: use explainer.decide(explanation, rule)."
            )
        kept = (self.status_note,) if self.status != Status.ATTAINABLE else ()
        return replace(
            self,
            query=query,
            draws=draws,
            decisions=tuple(decisions),
            notes=(*kept, note),
            calibration=calibration,
            strategies=None if self.strategies is None else self.strategies.reweigh(self.draws, draws),
        )

    def given(
        self,
        *,
        keep: Iterable[str] | str = (),
        at_least: Mapping[str, Any] | None = None,
        at_most: Mapping[str, Any] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        exactly: Mapping[str, Any] | None = None,
        effort: Mapping[str, float] | None = None,
    ) -> "Explanation":
        """Return the posterior given that columns stay, lie in a range or are harder to change, from the draws.

        It answers "what if I cannot change that?". Draws that violate the conditions are dropped and the others
        reweighted; no model is called. Rules that choose among evaluated points are applied again; figures that need
        the model are NaN. ``diagnostics["log_evidence"]`` is then relative to the prior under the same conditions.

        Parameters
        ----------
        keep : iterable of str
            Columns that stay exactly as in the row.
        at_least, at_most : mapping of str to value, optional
            Ends of a column's range, in its own units: numbers, levels of an ordinal, dates. The row itself need not
            lie within it.
        between : mapping of str to (low, high), optional
            Both ends at once.
        exactly : mapping of str to value, optional
            The value of a column: a level, an integer, a date, ``None`` for missing.
        effort : mapping of str to float, optional
            Factor on the cost of changing a column: 2 is twice as hard, 0.5 half. The prior is multiplied by
            ``exp(-(factor - 1) * change)`` with the change in units of the column's scale, and the answer is the
            cheapest known point that reaches the target at these costs; rules that use a distance are not affected.

        Returns
        -------
        Explanation
            Its notes state how probable the conditions are, and how many effective draws are left.

        Raises
        ------
        ValueError
            If fewer than 100 effective draws would be left; the message shows the call of
            :meth:`gbce.Explainer.given` that uses the models instead. This always happens when a continuous column is
            kept, unless columns can stay under the prior (:class:`gbce.Sparse`).

        Examples
        --------
        >>> import gbce, numpy as np
        >>> data = np.random.default_rng(0).normal(size=(200, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.Medoid()], seed=1)
        >>> bool(explanation.given(at_most={"x1": 0.5}).draws.x[:, 0].max() <= 0.5)
        True
        """
        return condition(self, Event(keep, at_least, at_most, between, exactly, effort))

    def alternatives(self, k: int = 3) -> Alternatives:
        """Return distinct strategies, each with its share of the posterior and a point that the model confirms.

        A strategy is a set of columns with a direction each. A draw changes more columns than it needs to: changes that
        it can do without were taken back, and a draw stands for the first strategy that has more than half of all moves
        in common with what is left. Strategies and points are found in :meth:`gbce.Explainer.explain` for a table, or
        with ``eta="auto"``; under :meth:`at` and :meth:`given` shares are computed anew and the points stay.

        Parameters
        ----------
        k : int
            Largest number of strategies; up to five are known. The share of everything else is ``other``.

        Returns
        -------
        Alternatives
            Its ``table`` has one line per strategy; printed, it is a list of sentences. Every point reaches the target
            by the model's own ``predict`` of that row, and changes no column by less than a hundredth of its unit. It
            is the cheapest found that is reliable as :class:`gbce.Reliable` judges, else the cheapest. An empty list
            says why.

        Raises
        ------
        ValueError
            If there are fewer than 100 effective draws, or no posterior.

        Examples
        --------
        >>> import gbce, numpy as np, pandas as pd
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
        >>> explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
        >>> explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1), rules=["Nearest"], seed=1)
        >>> found = explanation.alternatives()
        >>> len(found), found.table["reached"].tolist(), bool(found.other < 0.2)
        (2, [True, True], True)
        """
        return alternatives(self, k)

    def menu(self, max_columns: int = 3) -> Menu:
        """Return the sets of few columns by which the target can be reached: "which two things would do?".

        Each set that reaches has its cheapest point and its cheapest reliable one, both confirmed by the model's own
        ``predict``, and the share of the posterior that needs just these columns. All is found in
        :meth:`gbce.Explainer.explain` for a table, or with ``eta="auto"``; nothing is evaluated here. Of the columns
        that draws need most often, sets of one (the first eight columns), two (five) and three (four) are tried, unless
        fewer of them do already, besides sets that draws or rules show; ``tried`` counts them. For tree ensembles and
        linear models, sets are told apart that provably cannot reach the target.

        Parameters
        ----------
        max_columns : int
            Largest number of columns. Of sets of more than three only strategies are known.

        Returns
        -------
        Menu
            Its ``table`` has one line per set; printed, it is a list of sentences. An empty menu says why.

        Examples
        --------
        >>> import gbce, numpy as np, pandas as pd
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["a", "b"])
        >>> explainer = gbce.Explainer(lambda x: np.maximum(x["a"], x["b"]), data)
        >>> explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1), rules=["Nearest"], seed=1)
        >>> sorted(explanation.menu(1).table["columns"])
        [('a',), ('b',)]
        """
        return make_menu(self, max_columns)

    def _solve_eta(self, rule: EtaRule, mixture: Mixture) -> float:
        if isinstance(rule, ModelError):
            raise TypeError("ModelError needs the model: pass it to gbce.Explainer(..., eta=gbce.ModelError(y))")
        eta, met = solve_eta(self.draws, mixture, rule)
        if not met:
            raise ValueError(
                f"the draws cannot be reweighted to {rule.label}: of all etas with enough effective draws, {eta:g} "
                "comes closest. Run gbce.Explainer(..., eta=...) with it."
            )
        return eta

    def decide(self, rule: Rule | str) -> pd.DataFrame:
        """Apply one more rule to the draws and return its choice in the user's columns, one line per point.

        Built-in rules can be given by name: ``"Medoid"``. A rule that needs the model (CVaR, ChanceConstrained,
        DirectOpt) takes ``explainer.decide`` instead.
        """
        rule = require_rule(rule)
        choice = apply_rule(rule, self.query, self.draws)
        return choice_table(self.space, choice, rule)

    # --- reports, plots and files ---------------------------------------------------------------------------
    # Higher packages (plots, report, files) are imported on use, so that this one does not depend on them.

    def summary(self) -> str:
        """Return a text summary: the answer, the quality of the sampling, notes, decisions and the posterior."""
        from gbce.report import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return (
            f"<Explanation: {printable(self.target.describe())}, {self.status}, {len(self.draws)} draws, "
            f"{len(answers_among(self.decisions))} decisions; print(explanation.summary()) shows it>"
        )

    def _repr_html_(self) -> str:
        from gbce.pages import view_explanation

        return view_explanation(self)

    @property
    def plot(self) -> "Plots":
        """Plots: ``explanation.plot.before_after()``, ``explanation.plot.posterior()``, and more."""
        from gbce.plots import Plots

        return Plots(self)

    def to_arviz(self) -> Any:
        """Return the draws for ArviZ: an ``xarray.DataTree`` with one chain per independent run.

        Variables are the features that can move, ``loss``, ``cost`` and ``distance``. Needs the extra ``arviz``.
        """
        from gbce.explanation._tables import to_arviz

        return to_arviz(self)

    def to_dict(self, *, draws: bool = False) -> dict[str, Any]:
        """Return the explanation as plain data for other programs; docs/reference.md lists the keys.

        Parameters
        ----------
        draws : bool
            Whether to include the draws, each with its weight and the first model's output.

        Returns
        -------
        dict
            Strings, finite numbers, booleans, ``None`` (missing, or not finite), lists and mappings of them.
        """
        from gbce.explanation._tables import as_dict

        return as_dict(self, draws=draws)

    def to_json(self, path: str | Path | None = None, *, draws: bool = False) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write it atomically to ``path`` and return the path.

        It cannot be read back as an explanation; use :meth:`save` for that.
        """
        from gbce.files import to_json

        return to_json(self.to_dict(draws=draws), path)

    def to_html(self, path: str | Path | None = None, *, frontier: pd.DataFrame | None = None) -> str | Path:
        """Return an interactive HTML page of the explanation, or write it atomically to ``path``.

        One file that needs no server, no network and no Python: it opens with the answer, lets a person change the
        weight of the target, freeze columns, set ranges and mark what is hard to change, and reweights the draws
        accordingly. No model is called.

        Parameters
        ----------
        path : str or Path, optional
            The file to write; by default the page is returned as a string.
        frontier : DataFrame, optional
            Table from :meth:`gbce.Explainer.frontier` for this explanation, for the reliability slider. By default the
            slider uses the draws and decisions.

        Returns
        -------
        str or Path
            The page, or the path it was written to.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import gbce, numpy as np
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=1)
        >>> explanation.to_html()[:15]
        '<!doctype html>'
        """
        from gbce.pages import explore

        return explore(self, path, frontier=frontier)

    def to_text(self, language: str = "en", *, audience: Literal["person", "analyst"] = "person") -> str:
        """Return the answer in plain sentences: what would have been different, the result then, and how reliable.

        Words for probabilities always stand with the number. Nothing is stated that the figures deny: of draws that
        are not trustworthy, nothing at all.

        Parameters
        ----------
        language : str
            ``"en"`` or ``"ja"``; every language is one catalogue, a file of ``gbce.words``.
        audience : {"person", "analyst"}
            For analysts also the cost, proved bounds, the posterior and alternatives with their shares.

        Raises
        ------
        ValueError
            If there is no answer that reaches the target, with the reason.

        Examples
        --------
        >>> import gbce, numpy as np, pandas as pd
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
        >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
        >>> explanation = explainer.explain({"pay": 40.0, "debt": 60.0}, gbce.AtLeast(0), seed=0, posterior=False)
        >>> explanation.to_text().split(".")[0]
        'As things are, the model predicts -20'
        """
        from gbce.words import to_text

        return to_text(self, language, audience=audience)

    def letter(self, reasons: Mapping[str, str], **options: Any) -> "Letter":
        """Return a letter: at most four reasons in the lender's words, and what would have led to a different result.

        The reasons stand on the first page, what would have led to a different result on a page of its own with what it
        depends on and a receipt. Reasons are columns that the answer changes, the largest change first, then those of
        other possible changes. It is not legal advice.

        Parameters
        ----------
        reasons : mapping of str to str
            The reason for each column, as text or code.
        **options
            ``protected``: columns that must not be advice. ``language``: ``"en"`` or ``"ja"``. ``salutation``,
            ``sender``, ``subject``, ``contact``, ``model``, ``date``: words of the letter; today by default.
            ``alternatives``: most ways beside the answer, 2 by default; only those that are reliable are listed.

        Returns
        -------
        Letter
            With its ``.text`` and ``.html``.

        Raises
        ------
        gbce.words.LetterError
            In one sentence, if a column has no reason, if a protected or immutable column would be advice, if the
            answer does not reach the target or is not reliable, or if the posterior cannot be trusted; a
            ``ValueError``.

        Examples
        --------
        >>> import gbce, numpy as np, pandas as pd
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
        >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
        >>> explanation = explainer.explain({"pay": 40.0, "debt": 60.0}, gbce.AtLeast(0), seed=0, posterior=False)
        >>> letter = explanation.letter({"pay": "Income insufficient", "debt": "Excessive obligations"})
        >>> letter.reasons
        (('pay', 'Income insufficient'),)
        """
        from gbce.words import letter_of

        return letter_of(self, reasons, **options)

    def certificate(
        self, model: str | Path, *, classes: Sequence[Any] | None = None, trust_pickle: bool = False
    ) -> "Certificate":
        """Return what is claimed about the row as a small file that anyone can check with the model file alone.

        It holds row, answer, hash of the model file, bounds, rules, reliability, safe range and proof.
        ``certificate.check(model)`` and ``gbce verify`` compute all of it again and believe nothing.

        Parameters
        ----------
        model : str or Path
            The file of the model, see :func:`gbce.predictors.load_model`. The certificate is checked with it at once.
        classes : sequence, optional
            Names of the model's classes, if the explainer was given them by :func:`gbce.classifier`.
        trust_pickle : bool
            Whether the file may be a pickle, which runs the code in it.

        Raises
        ------
        gbce.words.CertificateError
            If the model file does not confirm the explanation, or it has several models, no answer, or rules that are
            functions; a ``ValueError``.
        """
        from gbce.words import certify

        return certify(self, model, classes=classes, trust_pickle=trust_pickle)

    def log_mlflow(self, folder: str = "model_explanations_gbce") -> None:
        """Log the explanation to the active run of MLflow: the file, the page, its tables, and figures as metrics.

        Parameters
        ----------
        folder : str
            Folder of the run's artifacts.
        """
        from gbce.files import log_mlflow

        log_mlflow(self, folder)

    def save(self, path: str | Path, *, pool: bool | None = None) -> Path:
        """Write everything atomically to one file; :func:`gbce.load` reads it back.

        Parameters
        ----------
        path : str or Path
            The file.
        pool : bool, optional
            Whether to keep every evaluated point. Without them a file is four to six times smaller; tables, plots,
            decisions and draws are the same, but :meth:`path`, :meth:`at`, ``frontier(among="pool")`` and ``draws.z``
            raise an error after loading. By default they are kept up to 50 MB, which hundreds of columns exceed, and
            dropped with a warning beyond.
        """
        from gbce.files import save

        return save(self, path, pool=pool)


def require_explanation(explanation: Any) -> Explanation:
    """Return ``explanation`` if it is one, else raise."""
    if not isinstance(explanation, Explanation):
        raise TypeError(f"explanation must come from explainer.explain(...) or gbce.load(...), not {explanation!r:.80}")
    return explanation

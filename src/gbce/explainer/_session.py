"""A session: the settings of an explainer, and what it knows of its models and data, with the steps for one row.

Explaining one row, many rows, nearby rows or a row again under conditions are all runs of a session; a change of a
setting is another session on the same models.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from gbce._numerics import SAMPLING, stream
from gbce._validation import is_count
from gbce.base import Array, Outputs, Prior, Query, Rule, Sampler, Target
from gbce.budget import HALF, Budget
from gbce.decisions import (
    MAP,
    ChanceConstrained,
    CVaR,
    Nearest,
    Reliable,
    Strategies,
    find_strategies,
    require_rules,
)
from gbce.draws import Covering, Draws, Points
from gbce.ensembles import ModelPosterior, as_models
from gbce.eta import AUTO, Calibration, EtaRule, ModelError, as_eta
from gbce.explainer._answering import Answering, Decided, Prover, state_proof
from gbce.explainer._follow_up import ADVICE, require_own
from gbce.explainer._notes import (
    assume_prior,
    describe_settings,
    flag_missed_mass,
    has_meaning,
    infer_space,
    judge_status,
    limit_sampling,
    minimise_loss,
    note_assumptions,
    note_calibration,
    note_end,
    note_few_rows,
    note_hanging,
    note_mode,
    note_shortfall,
    order_by_model,
    seek_reach,
)
from gbce.explanation import AnswerKind, Explanation, Status, exclude_row, require_explanation
from gbce.metrics import SEVERAL_MODELS, Evaluation, Neighbours, require_noise
from gbce.posterior import FEW_ROWS, Combine, GibbsPosterior, Mixture, as_weights
from gbce.predictors import Cache, Memory, Predictor, Reference, as_predictor
from gbce.priors import WithEffort
from gbce.samplers import MANY_MODELS, SMC, SearchOnly, sample_jointly
from gbce.space import Effort, Space, restate
from gbce.stress import KnownModels, OtherModels, replace_models
from gbce.targets import as_target
from gbce.trees import CellReader, ExactTrees, Proof, draw_if_many, sum_if_few

_LOG = logging.getLogger("gbce")
_DEFAULT_RULES: tuple[Rule, ...] = (Nearest(), ChanceConstrained(), CVaR(), MAP())
_RULES_WITHOUT_POSTERIOR: tuple[Rule, ...] = (Nearest(),)  # the other defaults need draws
_UNATTAINABLE: dict[str, Any] = {"unattainable": True}  # of the report of a search, after a proof
_DEFAULT = "left out, which is"  # prefix of a default in the recorded settings


class _Sampled(NamedTuple):
    """Draws, what judges their coverage if the sampler has it, and the budget that limited them."""

    draws: Draws
    cover: Covering | None
    budget: Budget


@dataclass(frozen=True, eq=False)
class Session:
    """The settings of an explainer, with its models, its data and all that was learned of them."""

    space: Space
    data: Array
    prior: Prior
    prior_note: str
    sampler: Sampler
    sums_if_few: bool
    evaluation: Evaluation
    mixture: Mixture
    eta_rule: EtaRule | None
    eta_is_auto: bool
    on_table: bool
    models: Sequence[Any]
    predictors: tuple[Predictor, ...]
    readers: tuple[CellReader, ...]
    neighbours: Neighbours
    reference: Reference
    other_models: KnownModels
    refits: OtherModels | None
    policy: Rule | None
    jointly: bool
    cache: Cache | None = None
    model_error: dict[str, Any] = field(default_factory=dict)
    effort: Effort = ()
    recorded: tuple[tuple[str, str], ...] | None = None  # settings to record, if they are not those of this session

    # --- settings -----------------------------------------------------------------------------------------------------

    def drawing(self, posterior: Any) -> "Session":
        """Return this session, or the one that only searches if ``posterior`` is False."""
        if not isinstance(posterior, (bool, np.bool_)):
            raise TypeError(f"posterior must be True or False, not {posterior!r:.80}")
        if posterior or isinstance(self.sampler, SearchOnly):  # it already searches only
            return self
        rule = self.eta_rule
        if rule is not None and not (isinstance(rule, ModelError) or self.eta_is_auto):
            raise ValueError(f"posterior=False needs a number as eta: {rule.label} needs draws")
        return self._without_posterior

    def _has_few_rows(self, predictors: tuple[Predictor, ...], rules: tuple[Rule, ...], budget: Budget) -> bool:
        """Whether a budget is too small for the usual run, and nothing was chosen that one search cannot give."""
        if budget.max_rows is None or budget.rows_left >= FEW_ROWS * sum(one.questions() for one in predictors):
            return False
        if self.eta_rule is not None and not self.eta_is_auto:
            return False
        if not all(one.readable for one in self.readers):
            others = rules != _DEFAULT_RULES and not all(isinstance(rule, Nearest) for rule in rules)
            return isinstance(self.sampler, SearchOnly) or (self.sums_if_few and bool(rules) and not others)
        return False

    @cached_property
    def _sparing(self) -> "Session":
        """The session for few rows: one search, and the nearest point, as promises take thousands of rows."""
        policy = Nearest() if self.policy == Reliable() else self.policy
        searching = self if isinstance(self.sampler, SearchOnly) else self._without_posterior
        return replace(searching, policy=policy)

    @cached_property
    def _without_posterior(self) -> "Session":
        """The same session with a search in place of the sampler."""
        rule = None if self.eta_is_auto else self.eta_rule
        return replace(self, sampler=SearchOnly(modes=self.refits is not None), sums_if_few=False, eta_rule=rule)

    def under(self, space: Space, mixture: Mixture, effort: Effort) -> "Session":
        """Return the session for a follow-up question: other conditions and efforts, eta as it was."""
        jointly = self.jointly and mixture.combine == "any"
        found = replace(self, space=space, mixture=mixture, effort=effort, jointly=jointly, eta_rule=None)
        return replace(found, recorded=self.settings)

    def _is_hopeless(self, query: Query, posterior: GibbsPosterior) -> bool:
        """Whether the usual run would seek an eta at which most draws reach a target that is out of reach."""
        usual = self.eta_is_auto and self.sums_if_few and query.rules == _DEFAULT_RULES
        return usual and not posterior.has_few_rows and Prover(self.readers[0]).foresees(query, posterior)

    @cached_property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Settings of the explainer as strings by name, for receipts."""
        if self.recorded is not None:
            return self.recorded
        return describe_settings(
            [*self.models, *(() if self.refits is None else self.refits.models)],
            prior=self.prior,
            sampler=f"{_DEFAULT}: {self.sampler!r}" if self.sums_if_few else self.sampler,
            policy=self.policy,
            refits=None if self.refits is None else f"{len(self.refits.models)} models",
            eta_rule=None if self.eta_rule is None else self.eta_rule.label,
            jointly=True if self.jointly else None,
            data=f"{len(self.data)} rows, SHA-256 {sha256(np.ascontiguousarray(self.data).data).hexdigest()}",
        )

    @property
    def _searches(self) -> bool:
        """Whether the sampler starts from rows of the data; a user-defined one may not tell."""
        return bool(getattr(self.sampler, "searches", False))

    def listed_rules(self, rules: Any) -> tuple[Rule, ...]:
        """Return rules as a validated tuple, the defaults for ``None``."""
        usual = _RULES_WITHOUT_POSTERIOR if isinstance(self.sampler, SearchOnly) else _DEFAULT_RULES
        return require_rules(usual if rules is None else rules, self.space)

    def listed_target(self, target: Any) -> Target:
        """Return a validated target; a class label becomes a ``Class`` target."""
        first = self.predictors[0]
        return as_target(target, first.classes, first.name)

    # --- preparing a question -----------------------------------------------------------------------------------------

    def prepare(self, target: Target | Any, budget: Budget) -> tuple[tuple[Predictor, ...], Target]:
        """Return predictors with fresh call counters, and the target with its open numbers resolved on the data."""
        target = self.listed_target(target)
        predictors = tuple(predictor.with_fresh_meter() for predictor in self.predictors)
        memories = self._find_memories(budget)
        if memories is not None:
            predictors = _remember(predictors, memories)
        if target.reads_classes:
            predictors = self.reference.as_classifiers(predictors, budget)
            predictors = predictors if memories is None else _remember(predictors, memories)
        spread = self.reference.output_spread(predictors[0], budget) if target.needs_spread else 1.0
        return predictors, target.resolve(spread)

    def _find_memories(self, budget: Budget) -> list[Memory] | None:
        """Return what is known of each model: from the cache, or with few rows of this question; None for nothing."""
        if self.cache is not None:
            both = zip(self.models, self.predictors, strict=True)
            return [self.cache.memory_of(*one, k) for k, one in enumerate(both)]
        few = budget.max_rows is not None and budget.rows_left < FEW_ROWS * len(self.predictors)
        return [Memory() for _ in self.predictors] if few else None

    def prepare_refits(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors of refitted models, if any, with fresh call counters."""
        return () if self.refits is None else self.refits.prepare(target, budget)

    def ask_about_data(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Evaluate some rows of the data, once per explainer, as starting points of searches."""
        if self._searches:
            self.reference.ask_known(predictors, budget)

    def read_models(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Read tree ensembles in advance if they will be needed, before other processes start."""
        if not budget.limited and (self.policy is not None or self.sums_if_few):
            for reader, predictor in zip(self.readers, predictors, strict=True):
                reader.read(predictor)

    def rows_to_prepare(self, target: Target) -> int:
        """Return how many model rows :meth:`prepare` and :meth:`ask_about_data` take the first time."""
        rows = self.reference.rows_to_compare(self.predictors) if target.reads_classes else 0
        if self._searches:
            rows += self.reference.rows_to_know(self.predictors, target.reads_classes)
        return rows + (len(self.reference.rows) if target.needs_spread else 0)

    # --- explaining a row ---------------------------------------------------------------------------------------------

    def explain(self, x0: Array, target: Any, rules: tuple[Rule, ...], seed: int, budget: Budget) -> Explanation:
        """Explain an encoded row ``(d,)``, set-up included."""
        predictors, target = self.prepare(target, budget)
        self.prior.at(self.space, x0)  # a prior that does not fit raises before any model is called
        self.ask_about_data(predictors, budget)
        refits = self.prepare_refits(target, budget)
        return self.explain_encoded(x0, predictors, target, rules, seed, budget, refits)

    def explain_encoded(
        self,
        x0: Array,
        predictors: tuple[Predictor, ...],
        target: Target,
        rules: tuple[Rule, ...],
        seed: int,
        budget: Budget,
        refits: tuple[Predictor, ...] = (),
    ) -> Explanation:
        """Explain an encoded row ``(d,)``; predictors, refits and target come from :meth:`prepare`."""
        session = self
        if self._has_few_rows(predictors, rules, budget):
            session, rules = self._sparing, _RULES_WITHOUT_POSTERIOR if rules == _DEFAULT_RULES else rules
        posterior = session.posterior_at(x0, predictors, target, budget)
        asked, question = session._evaluate_row(posterior, x0, rules, seed)
        for rule in rules:
            rule.check_target(question.target)
        if session._is_hopeless(question, asked):
            brief = replace(question, rules=_RULES_WITHOUT_POSTERIOR)
            found = session._without_posterior._conclude(replace(asked, goal=None), brief, refits, foreseen=True)
            if found.proof is not None:  # else the model differs from its structure somewhere
                return found
        return session._conclude(asked, question, refits)

    def _conclude(
        self, asked: GibbsPosterior, question: Query, refits: tuple[Predictor, ...], foreseen: bool = False
    ) -> Explanation:
        """Draw, decide and report; a proof that nothing reaches may be ``foreseen``."""
        budget = asked.budget
        decides = bool(question.rules) or isinstance(self.sampler, SearchOnly)  # SearchOnly exists to find an answer
        sampled = self._sample(asked, question, HALF if decides else 1.0)
        # from here on, eta is the one that the sampler reached, or found
        mixture = replace(asked.mixture, eta=sampled.draws.rungs[-1])
        posterior, query = replace(asked, mixture=mixture, goal=None), replace(question, mixture=mixture)
        proof = Prover(self.readers[0]).prove(query, posterior, sampled.draws.known)
        if foreseen and proof is not None:
            info = replace(sampled.draws.info, **_UNATTAINABLE)
            sampled = sampled._replace(draws=replace(sampled.draws, info=info))
            searched = minimise_loss(query, replace(posterior, budget=budget.share(HALF)), sampled.draws)
        else:
            searched = self._search(query, posterior, sampled.draws, proof)
        budget.begin("deciding")
        again = None if self.refits is None else replace_models(posterior, refits, self.refits.weights)
        answering = Answering(query, posterior, again, self.policy if decides else None, self.neighbours)
        chosen, known = answering.decide(searched)
        decided = answering.add_answer(known, chosen)
        strategies = self._find_strategies(query, posterior, known, decided, proof)
        draws = flag_missed_mass(query, posterior, known, sampled.cover, decided.decisions, decided.apart)
        found = self._report(query, posterior, again, sampled._replace(draws=draws), decided, proof)
        return replace(found, strategies=strategies)

    def posterior_at(
        self, x0: Array, predictors: tuple[Predictor, ...], target: Target, budget: Budget
    ) -> GibbsPosterior:
        """Return the posterior of a row, at a given eta or with the goal that eta has to meet."""
        mixture, rule = self.mixture, self.eta_rule
        if isinstance(rule, ModelError):
            data = self.space.decode(self.data)
            self.model_error.update(rule.measure(self.models[0], data, target, self.model_error))
            mixture, rule = replace(mixture, eta=rule.eta(target, self.model_error)), None
        prior = WithEffort(self.prior, self.effort).at(self.space, x0)
        return GibbsPosterior(prior, predictors, target, mixture, rule, budget=budget, readers=self.readers)

    def _evaluate_row(
        self, posterior: GibbsPosterior, x0: Array, rules: tuple[Rule, ...], seed: int
    ) -> tuple[GibbsPosterior, Query]:
        """Evaluate the row; return the posterior with its target bound to the row's outputs, and the query."""
        x = x0[None, :]
        others = replace(posterior, predictors=posterior.predictors[1:])
        outputs = posterior.ask_alone(x) + (others.ask(x, use_predict=True) if others.predictors else [])
        posterior = replace(posterior, target=posterior.target.bind(outputs[0]))
        known = self.reference.known(posterior.predictors) if self._searches else None
        if known is not None:
            posterior = _add_landmarks(posterior, *known)
        zero = np.zeros((1, posterior.prior.dimension))
        row = Points(zero, x, *posterior.read(outputs), cost=posterior.prior.cost(x), log_correction=np.zeros(1))
        row = exclude_row(row, self.space)
        return posterior, Query(
            space=self.space,
            target=posterior.target,
            models=tuple(predictor.name for predictor in posterior.predictors),
            mixture=posterior.mixture,
            evaluation=self.evaluation,
            rules=rules,
            seed=seed,
            row=row,
            free=self.space.free(x0),
            identities=tuple(predictor.identity for predictor in posterior.predictors),
            sparse=posterior.prior.spikes,
            effort=self.effort,
            settings=self.settings,
        )

    def _sample(self, posterior: GibbsPosterior, query: Query, share: float) -> _Sampled:
        """Draw with a share of the budget: on the cells of tree ensembles if that is the default, or by the sampler."""
        budget, rng = posterior.budget, stream(query.seed, SAMPLING, query.key)
        seeks_eta, n_models = posterior.goal is not None, len(posterior.predictors)
        spending = limit_sampling(budget.share(share), self.sampler, n_models, self.jointly, seeks_eta)
        allowed = replace(posterior, budget=spending)
        budget.begin("sampling")
        draws, cover = self._draw(allowed, rng)
        if not isinstance(draws, Draws):
            raise TypeError(f"the sampler {type(self.sampler).__name__} must return Draws, not {draws!r:.80}")
        return _Sampled(replace(draws, space=self.space), cover, spending)

    def _draw(self, posterior: GibbsPosterior, rng: np.random.Generator) -> tuple[Draws, Covering | None]:
        """Draw, and return also what judges the coverage of the draws, if the sampler has it."""
        if self.jointly:
            return sample_jointly(self.sampler, posterior, rng), None
        for draw_on_cells in (sum_if_few, draw_if_many) if self.sums_if_few else ():
            if (draws := draw_on_cells(posterior, rng)) is not None:
                return draws, None
        covered = getattr(self.sampler, "sample_with_coverage", None)
        return (self.sampler.sample(posterior, rng), None) if covered is None else covered(posterior, rng)

    def _search(self, query: Query, posterior: GibbsPosterior, draws: Draws, proof: Proof | None) -> Draws:
        """Search for points that reach the target, unless the row does or a proof excludes them; add them to draws."""
        if query.row.reached[0, 0] or proof is not None or (posterior.has_few_rows and query.rules):
            return draws
        posterior.budget.begin("searching")
        return seek_reach(query, posterior, draws, self.data)

    def _find_strategies(
        self, query: Query, posterior: GibbsPosterior, draws: Draws, decided: Decided, proof: Proof | None
    ) -> Strategies | None:
        """Find alternatives on a table, or where eta meets a goal; None elsewhere, or if the target is out of reach."""
        if proof is not None or not (self.on_table or self.eta_rule is not None):
            return None
        posterior.budget.begin("listing alternatives")
        answer = decided.answer
        if answer is None or answer.reliability is None or answer.kind != AnswerKind.RELIABLE:
            return find_strategies(query, draws, posterior, decided.decisions, self.policy)
        known = answer.decision, answer.reliability.share
        return find_strategies(query, draws, posterior, decided.decisions, self.policy, *known)

    def _report(
        self,
        query: Query,
        posterior: GibbsPosterior,
        refits: GibbsPosterior | None,
        sampled: _Sampled,
        decided: Decided,
        proof: Proof | None,
    ) -> Explanation:
        """Return the explanation, with its status and notes."""
        draws, decisions, answer = sampled.draws, decided.decisions, decided.answer
        judged = decisions
        if answer is not None and not any(decision.reached[0] for decision in decisions):
            judged = (*decisions, replace(answer.decision, label="the answer"))
        status, note = judge_status(query, draws.known, judged, proof, decided.depends)
        _LOG.info("%s: %s, %s model rows", query.target.describe(), status, f"{posterior.n_rows:,}")
        return Explanation(
            query=query,
            draws=draws,
            decisions=decisions,
            status=status,
            status_note=note,
            notes=tuple(filter(None, (note, *self._list_notes(query, posterior, sampled, decided, status)))),
            n_model_calls=posterior.n_calls + (0 if refits is None else refits.n_calls),
            n_model_rows=posterior.n_rows + (0 if refits is None else refits.n_rows),
            calibration=self._calibration(draws),
            answer=answer if answer is None else replace(answer, proof=state_proof(answer, decisions, proof)),
            proof=proof if status == Status.NOT_ATTAINED else None,
        )

    def _list_notes(
        self, query: Query, posterior: GibbsPosterior, sampled: _Sampled, decided: Decided, status: Status
    ) -> list[str]:
        """Return sentences on everything that a reader of the result should know; some are empty."""
        wanted = None if self.eta_rule is not None else self.mixture.eta
        unasked = bool(decided.choices) and not decided.decisions
        return [
            note_end(sampled.draws, sampled.budget, wanted),
            note_hanging(posterior),
            note_few_rows(sampled.draws, self.policy),
            "The budget left no model rows to evaluate decisions." if unasked else "",
            note_calibration(self._calibration(sampled.draws), posterior.mixture.eta),
            *decided.notes,
            *self.space.notes,
            note_assumptions(self.space, self.prior_note),
            note_shortfall(query, status, decided.decisions),
            note_mode(query, decided.decisions),
            *(reader.note for reader in self.readers),
        ]

    def _calibration(self, draws: Draws) -> Calibration | None:
        """Return how eta was found, None if it was given."""
        if self.eta_rule is None:
            return None
        if isinstance(self.eta_rule, ModelError):
            return Calibration(self.eta_rule.label, errors=dict(self.model_error))
        return Calibration(self.eta_rule.label, met=bool(draws.info.goal_met))

    # --- models of an explanation -------------------------------------------------------------------------------------

    def own_posterior(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior that an explanation was drawn from; raise if it was made with other models."""
        posterior = self.posterior_of(require_explanation(explanation), budget)
        require_own(explanation, posterior)
        known = self.reference.known(posterior.predictors)
        return posterior if known is None else _add_landmarks(posterior, *known)

    def posterior_of(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior of an explanation under these models, whatever models it was made with."""
        query = explanation.query
        same = len(explanation.models) == len(self.predictors) and query.space.names == self.space.names
        space = restate(self.space, query.conditions, query.x0, spikes=query.sparse) if same else self.space
        if not same or explanation.space != space:
            raise ValueError(f"the explanation was made with another space, or another number of models. {ADVICE}")
        predictors, target = self.prepare(explanation.target, budget)
        prior = WithEffort(self.prior, query.effort).at(space, explanation.x0)
        return GibbsPosterior(
            prior, predictors, target, explanation.mixture, budget=budget, readers=self.readers
        )  # fmt: skip


def _add_landmarks(posterior: GibbsPosterior, rows: Array, outputs: Sequence[Outputs]) -> GibbsPosterior:
    """Add evaluated rows of the data ``(n, d)`` to a posterior."""
    reading = posterior.read(outputs)
    return replace(posterior, landmarks=rows, landmark_loss=reading.loss, landmark_evaluated=reading)


# --- options of an explainer -----------------------------------------------------------------------------------------


def open_session(
    model: Any,
    data: Any,
    *,
    space: Space | None,
    prior: Prior | None,
    eta: Any,
    sampler: Sampler | None,
    weights: Any,
    combine: Combine,
    evaluation: Evaluation | None,
    batch_rows: int | None,
    refits: Any,
    policy: Rule | str | None,
    joint: bool | None,
    cache: Any = None,
    outputs: Any = None,
) -> Session:
    """Check the options of :class:`gbce.Explainer`, fill in what was left out, and wrap the models."""
    models, names = _name_models(model)
    if space is not None:
        _require_attribute(space, "adopt", "space", "gbce.Space.infer(data)")
    space = order_by_model(infer_space(data, models) if space is None else space.adopt(data), models, prior)
    encoded = space.encode(data, what="data")
    prior, prior_note = assume_prior(space, data) if prior is None else (prior, "")
    # on a table the posterior has to speak about the target; the paper's eta = 1 is for arrays
    on_table = has_meaning(space, data)
    chosen = on_table and len(models) == 1 and (sampler is None or isinstance(sampler, SMC))
    learned = _learn_prior(prior, space, encoded)
    number, rule = as_eta(("auto" if chosen else 1.0) if eta is None else eta)
    weights = model.weights if isinstance(model, ModelPosterior) and weights is None else weights
    mixture = Mixture(number, as_weights(weights, len(models)), combine)
    evaluation = Evaluation() if evaluation is None else evaluation
    _require_parts(learned, SMC() if sampler is None else sampler, evaluation, batch_rows, space)
    predictors = _make_names_distinct([as_predictor(one, space, batch_rows=batch_rows) for one in models], names)
    return Session(
        cache=_open_cache(cache, outputs, models, predictors, space, encoded),
        space=space,
        data=encoded,
        prior=learned,
        prior_note=prior_note,
        sampler=SMC() if sampler is None else sampler,
        sums_if_few=sampler is None,
        evaluation=evaluation,
        mixture=mixture,
        eta_rule=rule,
        eta_is_auto=rule is AUTO,
        on_table=on_table,
        models=models,
        readers=tuple(CellReader(one, space, encoded) for one in models),
        predictors=predictors,
        neighbours=Neighbours.of(encoded, space),
        reference=Reference.of(encoded, space),
        other_models=KnownModels(space, encoded),
        refits=None if refits is None else OtherModels.of(refits, space, encoded, "refits"),
        policy=None if policy is None else require_rules(policy, space)[0],
        jointly=_choose_joint(joint, len(models), mixture, rule, sampler),
    )


def _remember(predictors: tuple[Predictor, ...], memories: Sequence[Memory]) -> tuple[Predictor, ...]:
    """Return predictors that do not ask again what is known."""
    return tuple(replace(one, memory=memory) for one, memory in zip(predictors, memories, strict=True))


def _open_cache(
    path: Any, outputs: Any, models: Sequence[Any], predictors: Sequence[Predictor], space: Space, data: Array
) -> Cache | None:
    """Open a cache of outputs, with those of the first model on the data if they are given; None without either."""
    if path is None and outputs is None:
        return None
    cache = Cache.of(path, space)
    memories = [cache.memory_of(*one, k) for k, one in enumerate(zip(models, predictors, strict=True))]
    if outputs is not None:
        memories[0].learn_outputs(predictors[0], data, outputs)
    return cache


def _learn_prior(prior: Any, space: Space, data: Array) -> Any:
    """Return a prior with what it takes from the data: correlations, densities, ranges."""
    return prior.learned(space, data) if hasattr(prior, "learned") else prior


def _choose_joint(joint: Any, n_models: int, mixture: Mixture, rule: EtaRule | None, sampler: Any) -> bool:
    """Return whether each point carries the index of one model; raise if that is wanted but not possible."""
    can = mixture.combine == "any" and rule is None and n_models > 1 and not isinstance(sampler, ExactTrees)
    if joint and not can:
        raise ValueError('joint=True needs several models, combine="any", a number as eta, and a sampler of points')
    return can and (n_models >= MANY_MODELS if joint is None else bool(joint))


def _require_parts(prior: Any, sampler: Any, evaluation: Any, batch_rows: Any, space: Space) -> None:
    """Raise if an option is not of its kind."""
    _require_attribute(prior, "at", "prior", "gbce.Gaussian(), gbce.Laplace() or gbce.DistancePrior(...)")
    _require_attribute(sampler, "sample", "sampler", "gbce.SMC()")
    _require_attribute(evaluation, "noise", "evaluation", "gbce.Evaluation()")
    if batch_rows is not None and not is_count(batch_rows):
        raise ValueError(f"batch_rows must be an integer of at least 1, not {batch_rows!r}")
    require_noise(evaluation.noise, space)


def _require_attribute(value: Any, attribute: str, what: str, example: str) -> None:
    if isinstance(value, type) or not hasattr(value, attribute):
        raise TypeError(f"{what} must be an object such as {example}, not {value!r}")


def _name_models(model: Any) -> tuple[tuple[Any, ...], tuple[str, ...] | None]:
    """Return one or several models as a tuple, and the names they were given, if any."""
    if not isinstance(model, Mapping):
        return as_models(model, "model"), None
    for name in model:
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"model: names of models must be strings that are not empty, not {name!r:.80}")
        if name in SEVERAL_MODELS and len(model) > 1:
            raise ValueError(f"model: {name!r} is the name of the figures of all models together; choose another name")
    return as_models(list(model.values()), "model"), tuple(model)


def _make_names_distinct(
    predictors: Sequence[Predictor], names: tuple[str, ...] | None = None
) -> tuple[Predictor, ...]:
    """Return predictors with the names they were given, or with numbers behind names that occur twice."""
    if names is not None:
        return tuple(replace(one, name=name) for one, name in zip(predictors, names, strict=True))
    taken = list(SEVERAL_MODELS) if len(predictors) > 1 else []
    n_taken = len(taken)
    for predictor in predictors:
        numbered = (f"{predictor.name} #{number}" for number in count(2))
        taken.append(next(name for name in chain([predictor.name], numbered) if name not in taken))
    return tuple(replace(predictor, name=name) for predictor, name in zip(predictors, taken[n_taken:], strict=True))

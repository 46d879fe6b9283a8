"""The training loop: choose tasks, sample episodes, check them, update, report, save.

Every random choice has its own seed (`seeding.derive`). So an extra evaluation does not change training, and two runs
with the same seed on the same kind of machine are equal. For the same reason a killed run continues from its last
checkpoint with the same numbers: `restore`, then `train` with the returned counters.

With `staleness` k above 0, batch n is sampled with the weights after max(0, n - 1 - k) updates. During the update on
batch n, copies of the policies (`Policy.rollout_copy`) sample batch n + k. Batches that are sampled and not yet trained
on are saved with a checkpoint. Reports, evaluations and checkpoints wait until update and sampling have finished.

Read `train`, `_play` and `_learn`. Then `rollout/trajectories.py` plays episodes, and `algorithms/magrpo.py` updates.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from ..agents.base import Policy
from ..agents.concurrency import run_concurrently
from ..agents.engines import EngineError
from ..algorithms.base import Algorithm, Metrics
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..options import Sampling, TrainerConfig
from ..rollout import Trajectories
from ..seeding import derive, generator
from ..storage.files import replace_json
from ..storage.reading import conform
from ..storage.runfolder import finite
from ..storage.signals import StopRequest
from ..types import Episode, Group, all_played
from .checkpoint import CheckpointError, Checkpoints
from .divergence import DivergenceMonitor, MonitorState, describe_learning_rates
from .learnability import learnability, sample_by_learnability

MAX_UNSCORABLE = 0.05  # largest share of a step's episodes without a score; a run with more stops
MAX_SKIPPED = 3  # number of steps in a row without a finite gradient after which a run stops
MAX_ROLLBACKS = 2  # number of times that a run returns to a checkpoint, with on_divergence = "rollback"
RATE_FACTOR = 1 / 3  # factor of the learning rates after each of them
_log = logging.getLogger(__name__)


class TrainingError(RuntimeError):
    """A run that cannot continue; the message has the cause and a remedy."""


class DivergedError(TrainingError):
    """A run with several steps in a row without a finite loss, gradient or ratio, or with damaged weights.

    Args:
        message: The cause and a remedy.
        damaged: The first update that may have damaged the weights; 0 if they were damaged before.
    """

    def __init__(self, message: str, damaged: int = 0) -> None:
        super().__init__(message)
        self.damaged = damaged


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Results of one training step.

    Attributes:
        number: Number of the step, from 1.
        episodes: Number of joint trajectories, including those of cross-product credit, trees and replaced groups.
        mean_return: Mean return of the episodes that could be scored, weighted by `Episode.share`.
        return_percent: Mean final score in % of the maximum, as in an evaluation.
        components: Mean of each part of the final scores, by name.
        metrics: Metrics of the learner's update.
        texts: Hash of all completions; equal for runs with the same completions.
        seconds_rollout: Wall time of sampling and scoring, in seconds.
        seconds_update: Wall time of the update, in seconds.
        learning_rates: Learning rates of the trained agents, before the schedule; {} if the learner does not report
            them.
    """

    number: int
    episodes: int
    mean_return: float
    return_percent: float
    components: Mapping[str, float]
    metrics: Mapping[str, float]
    texts: str
    seconds_rollout: float
    seconds_update: float
    learning_rates: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Batch:
    """The groups that are sampled for one update.

    Attributes:
        groups: One group per task.
        version: Number of updates that the weights of the sampler had received.
        seconds: Wall time of sampling and scoring.
    """

    groups: tuple[Group, ...]
    version: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rollback:
    """A return to a checkpoint after divergence.

    Attributes:
        at: Number of the step that diverged.
        to: Number of updates of the checkpoint.
        reason: The finding.
        learning_rates: Learning rates of the trained agents from then on, before the schedule.
    """

    at: int
    to: int
    reason: str
    learning_rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counters:
    """Progress of a run.

    Attributes:
        step: Number of updates done.
        skipped: Number of consecutive latest steps that were not finite.
        bad: Total number of steps that were not finite.
        seconds: Wall time spent in `train`.
        ahead: Batches that are sampled for the next updates, with `staleness`.
        scores: Score of each task that was played, with `learnability`.
        rollbacks: Returns to checkpoints, with `on_divergence`.
        monitor: State of the monitor of the first updates.
    """

    step: int = 0
    skipped: int = 0
    bad: int = 0
    seconds: float = 0.0
    ahead: tuple[Batch, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    rollbacks: tuple[Rollback, ...] = ()
    monitor: MonitorState = field(default_factory=MonitorState)


def restore(learner: Algorithm, env: TextDecPOMDP, checkpoints: Checkpoints, *, before: int | None = None) -> Counters:
    """Load the newest undamaged checkpoint into a learner and its team.

    Args:
        learner: The learner.
        env: Its training environment.
        checkpoints: The checkpoints.
        before: Only checkpoints of steps before this one; None: all.

    Returns:
        Progress, for the argument `done` of `train`; all zero if nothing has been saved yet.

    Raises:
        CheckpointError: All checkpoints are damaged, or the newest one belongs to other tasks, versions or options.
    """
    newest = checkpoints.newest(before)
    if newest is None:
        return Counters()
    where = f"{newest.folder / 'checkpoint.json'}, field counters"
    done = conform(newest.counters, Counters, where)
    cursor = conform(newest.counters.get("cursor"), _Cursor, f"{where}.cursor")
    state = checkpoints.restore(newest, learner.team)
    try:
        learner.load_state_dict(state)
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"the state in {str(newest.folder)!r} belongs to another learner ({type(error).__name__}: {error}); use "
            "another checkpoint, or the learner that saved it"
        ) from error
    if cursor.tasks != (present := _cursor(learner.training_env(env), 0)).tasks:
        there, here = (f"{c.of} tasks" if c.of else "a stream" for c in (cursor, present))
        raise CheckpointError(
            f"{str(newest.folder)!r} was trained on other tasks ({there}) than this run has ({here}); give the tasks "
            "of the checkpoint"
        )
    return done


def train(
    learner: Algorithm,
    env: TextDecPOMDP,
    sampling: Sampling,
    config: TrainerConfig,
    seed: int,
    on_step: Callable[[TrainingStep], object] = lambda step: None,
    *,
    checkpoints: Checkpoints | None = None,
    done: Counters = Counters(),  # frozen
    stop: StopRequest | None = None,
    on_rollback: Callable[[Rollback], object] = lambda rollback: None,
) -> Counters:
    """Train a learner on all tasks of an environment, each epoch in a new order.

    Args:
        learner: The learner. Its stages may have other environments, see `Algorithm.training_env`.
        env: The training environment, under the learner's protocol.
        sampling: Sampling of completions.
        config: Steps, tasks per step, group size, checkpoints.
        seed: The run's seed.
        on_step: Called after every step and before its checkpoint, for logs, progress and evaluation.
        checkpoints: Where to save; left out, nothing is saved.
        done: Progress to continue from, as `restore` returns it.
        stop: Ends the run after the step in which a signal arrives, with a checkpoint; see `storage.signals.finishing`.
        on_rollback: Called after a return to a checkpoint (`on_divergence`), whose later steps are then repeated.

    Returns:
        The progress of the run.

    Raises:
        TrainingError: More than 5 % of a step could not be scored.
        DivergedError: Three steps in a row were not finite, or a model's weights are not; or `on_divergence` is stop,
            or the run diverged again after two rollbacks.
        EngineError: The engine cannot sample; without staleness, a checkpoint of the step before is saved.
        ConfigError, ValueError: The learner cannot learn in the environment; with staleness, a policy cannot sample
            during updates, or a learner cannot be trained on samples of older weights; with learnability, the tasks
            are a stream; or rollbacks are impossible, since there are no checkpoints or the learner has no updaters.
    """
    learner.check_compatible(env)
    if config.learnability and env.stream is not None:
        raise ConfigError(
            f"learnability is {config.learnability}, but every row of a stream is played once, so no task can be "
            "sampled again; set it to 0, or load the tasks"
        )
    started = time.perf_counter() - done.seconds
    learner.expect(config.steps, **({"stale": True} if config.staleness else {}))
    if config.on_divergence == "rollback":
        if checkpoints is None:
            raise ConfigError(
                "on_divergence is 'rollback', but nothing is saved; give a folder of checkpoints, or 'stop'"
            )
        learner.scale_learning_rates(RATE_FACTOR ** len(done.rollbacks))
        if done.step == 0 and not done.rollbacks:
            _save(learner, env, config, checkpoints, done)
    source = _Ahead(learner, env, sampling, config, seed, done) if config.staleness else None
    _log.info("%s", describe_learning_rates(learner.learning_rates()))
    if env.facts.needs_messages and not env.facts.shares_texts:
        _log.warning(
            "%s needs messages, but under this protocol agents do not see each other's actions; train with protocol "
            "'sequential' or 'discussion'",
            env.facts.name,
        )
    stop, monitor = stop or StopRequest(), DivergenceMonitor(done.monitor)
    while done.step < config.steps:
        number = done.step + 1
        stop.work = f"step {number}"
        try:
            if source:
                batch = source.take(number)
            else:
                batch = _play(learner, learner.policy, env, sampling, config, seed, number, number - 1, done.scores)
            step = _learn(learner, env, batch, number, source)
            bad = not all(math.isfinite(value) for value in step.metrics.values())
            if bad:
                _keep_bad_step(checkpoints, step, batch.groups)
            skipped, ahead = done.skipped + 1 if bad else 0, tuple(source.batches) if source else ()
            if skipped == MAX_SKIPPED:
                raise DivergedError(
                    f"step {number}: {skipped} steps in a row had a loss or gradient that is not finite "
                    f"({dict(step.metrics)}); lower the learning rate, or inspect the last batches",
                    number - MAX_SKIPPED + 1,
                )
            if found := monitor.check(number, step.metrics, step.learning_rates):
                if found.damaged is not None and config.on_divergence != "warn":
                    raise DivergedError(f"step {number}: {found.text}", found.damaged)
                _log.warning("%s", found.text)
        except EngineError:  # without staleness, this step has not changed any weights
            if checkpoints is not None and source is None:
                _save(learner, env, config, checkpoints, replace(done, seconds=time.perf_counter() - started))
            raise
        except DivergedError as error:
            if checkpoints is None or config.on_divergence != "rollback":
                raise
            past = done.rollbacks
            done = _roll_back(learner, env, checkpoints, past, number, error)
            done = replace(done, seconds=time.perf_counter() - started)
            _save(learner, env, config, checkpoints, done)
            _log.warning(
                "%s; the run returns to update %d with %s",
                error,
                done.step,
                describe_learning_rates(learner.learning_rates()),
            )
            on_rollback(done.rollbacks[-1])
            if stop.signal:
                break
            source = _Ahead(learner, env, sampling, config, seed, done) if config.staleness else None
            monitor = DivergenceMonitor(done.monitor)
            continue
        new = {group.item_id: learnability(group) for group in all_played(batch.groups)} if config.learnability else {}
        done = replace(
            done,
            step=number,
            skipped=skipped,
            bad=done.bad + bad,
            seconds=time.perf_counter() - started,
            ahead=ahead,
            scores={**done.scores, **new},
            monitor=monitor.state,
        )
        on_step(step)
        due = number == config.steps or (config.save_every > 0 and number % config.save_every == 0)
        if checkpoints is not None and (due or stop.signal):
            done = replace(done, seconds=time.perf_counter() - started)
            _save(learner, env, config, checkpoints, done)
        if stop.signal:
            break
    return done


def _roll_back(
    learner: Algorithm,
    env: TextDecPOMDP,
    checkpoints: Checkpoints,
    past: Sequence[Rollback],
    number: int,
    error: DivergedError,
) -> Counters:
    """Load the newest checkpoint from before the damage, lower the learning rates, and return the progress.

    Args:
        learner, env, checkpoints: See `train`.
        past: Earlier rollbacks.
        number: Number of the step that diverged.
        error: Its error.

    Raises:
        DivergedError: There were `MAX_ROLLBACKS` before, or no checkpoint is old enough.
    """
    if len(past) == MAX_ROLLBACKS:
        raise DivergedError(
            f"{error}; the run was rolled back {MAX_ROLLBACKS} times before (at steps "
            f"{', '.join(str(rollback.at) for rollback in past)}); start a new run with a lower learning rate"
        ) from error
    if checkpoints.newest(error.damaged) is None:
        raise DivergedError(
            f"{error}; there is no checkpoint from before update {error.damaged} to return to; save more often "
            "(save_every), or keep more checkpoints (keep)"
        ) from error
    done = restore(learner, env, checkpoints, before=error.damaged)
    learner.scale_learning_rates(RATE_FACTOR ** (len(past) + 1))
    return replace(done, rollbacks=(*past, Rollback(number, done.step, str(error), learner.learning_rates())))


def _play(
    learner: Algorithm,
    policy: Policy,
    env: TextDecPOMDP,
    sampling: Sampling,
    config: TrainerConfig,
    seed: int,
    number: int,
    version: int,
    scores: Mapping[str, float] = {},  # read only
) -> Batch:
    """Sample the batch of step `number` with a policy after `version` updates."""
    count, env = config.prompts_per_step, learner.training_env(env)
    if env.stream is None:
        item_ids = tasks_of_step(env, count, number, seed)
        if config.learnability:
            of_step = derive(seed, "tasks", number)
            item_ids = sample_by_learnability(env, item_ids, scores, config.learnability, of_step)
    else:
        items = env.stream.read((number - 1) * count, count)
        env, item_ids = env.with_items(items), [item.id for item in items]
    started = time.perf_counter()
    seeds = [derive(seed, "rollout", number, i) for i in range(len(item_ids))]
    groups = learner.rollout.play(env, policy, item_ids, seeds, sampling, config.group_size)
    return Batch(tuple(groups), version, time.perf_counter() - started)


class _Ahead:
    """Sampler of batches ahead of their updates.

    Attributes:
        batches: Batches that are sampled and not yet trained on, in order.
    """

    def __init__(
        self,
        learner: Algorithm,
        env: TextDecPOMDP,
        sampling: Sampling,
        config: TrainerConfig,
        seed: int,
        done: Counters,
    ) -> None:
        if learner.policy is not learner.team or not isinstance(learner.rollout, Trajectories):
            raise ConfigError(
                f"staleness is {config.staleness}, but {type(learner).__name__} samples more than trajectories of its "
                "team, or with other policies than the team's; set it to 0"
            )
        self.batches = list(done.ahead)
        self._sampler = learner.team.rollout_copy()
        self._lead = config.staleness
        self._arguments = env, sampling, config, seed
        self._learner = learner

    def take(self, number: int) -> Batch:
        """Return the batch of a step; first sample it and the next k - 1 batches, if they are missing."""
        if len(self.batches) < self._lead:
            self._sampler.sync_weights()
            for missing in range(number + len(self.batches), number + self._lead):
                self.batches.append(self._play(missing, number - 1))
        return self.batches.pop(0)

    def update_while_sampling(self, update: Callable[[], Metrics], number: int) -> Metrics:
        """Run the update while the batch for step `number + k` is sampled; return the update's metrics.

        The last updates do this too, so that a continued run equals a longer run.
        """
        self._sampler.sync_weights()
        metrics, batch = run_concurrently(update, lambda: self._play(number + self._lead, number - 1))
        self.batches.append(batch)
        return metrics

    def _play(self, number: int, version: int) -> Batch:
        return _play(self._learner, self._sampler, *self._arguments, number, version)


def _learn(learner: Algorithm, env: TextDecPOMDP, batch: Batch, number: int, source: _Ahead | None) -> TrainingStep:
    """Check a batch and update the learner on it; with a source, sample a later batch at the same time."""
    groups, played = batch.groups, all_played(batch.groups)
    env = learner.training_env(env)  # before the update, after which the next stage may begin
    episodes = [episode for group in played for episode in group.episodes]
    _check_rewards(played, learner.reward_range(env), number)
    _check_logprobs(episodes, number, batch.version)
    rates = learner.learning_rates()  # before the update, after which the next stage may begin
    started = time.perf_counter()
    metrics = source.update_while_sampling(lambda: learner.update(groups), number) if source else learner.update(groups)
    seconds = time.perf_counter() - started
    if not isinstance(metrics, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TrainingError(
            f"update() of {type(learner).__name__} returned {metrics!r:.60}; return metrics by name, {{}} for none"
        )
    if source:
        metrics = {**metrics, "staleness": float(number - 1 - batch.version)}
    return TrainingStep(
        number,
        len(episodes),
        *mean_scores(played, env),
        metrics=metrics,
        texts=_fingerprint(c.text for e in episodes for turn in e.turns for c in turn.actions.values()),
        seconds_rollout=batch.seconds,
        seconds_update=seconds,
        learning_rates=rates,
    )


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Position of a checkpoint in the tasks.

    Attributes:
        epoch: Number of the epoch, from 0; 0 for a stream.
        place: Position in the epoch; for a stream, number of rows read.
        of: Number of tasks; 0 for a stream.
        tasks: Hash of the task ids; for a stream, of its first row.
    """

    epoch: int
    place: int
    of: int
    tasks: str


def _cursor(env: TextDecPOMDP, position: int) -> _Cursor:
    """Return the cursor after `position` tasks."""
    if env.stream is not None:
        first = env.stream.first
        return _Cursor(0, position, 0, _fingerprint([first.id, first.prompt]))
    epoch, place = divmod(position, len(env.items))
    return _Cursor(epoch, place, len(env.items), _fingerprint(item.id for item in env.items))


def _save(
    learner: Algorithm, env: TextDecPOMDP, config: TrainerConfig, checkpoints: Checkpoints, done: Counters
) -> None:
    cursor = asdict(_cursor(learner.training_env(env), done.step * config.prompts_per_step))
    checkpoints.save(done.step, learner.team, learner.state_dict(), {**asdict(done), "cursor": cursor})


def _keep_bad_step(checkpoints: Checkpoints | None, step: TrainingStep, groups: Sequence[Group]) -> None:
    """Save the groups of a step that was not finite for inspection."""
    kept = ""
    if checkpoints is not None:
        folder = checkpoints.folder.parent / "bad_steps"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"step-{step.number:06d}.json"
        replace_json(path, finite({**asdict(step), "groups": [asdict(group) for group in groups]}))
        kept = f"; its batch is in {path}"
    _log.warning("step %d was not trained on in full, %s is not finite%s", step.number, dict(step.metrics), kept)


def _fingerprint(texts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(repr(text).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


# --- tasks and results of a step --------------------------------------------------------------------------------------


def tasks_of_step(env: TextDecPOMDP, count: int, number: int, seed: int) -> list[str]:
    """Return the tasks of step `number` (from 1): the next `count` tasks of endless shuffled epochs."""
    size = len(env.items)
    chosen: list[str] = []
    for position in range((number - 1) * count, number * count):
        epoch, place = divmod(position, size)
        order = generator(seed, "epoch", epoch).permutation(size)
        chosen.append(env.items[int(order[place])].id)
    return chosen


def mean_scores(groups: Sequence[Group], env: TextDecPOMDP) -> tuple[float, float, dict[str, float]]:
    """Return the mean return, the mean final score in % of the maximum, and the mean parts of final scores by name.

    Each episode is weighted by its `share`, so that the mean return of a tree is unbiased. Episodes without a score are
    left out.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    final = [(e.share, e.final) for e in episodes if e.final is not None and e.final.scorable]
    percent = env.facts.score_scale.percent
    return (
        _mean((e.share, e.total) for e in episodes if not math.isnan(e.total)),
        _mean((share, percent(score.total)) for share, score in final),
        {name: _mean((share, score.components[name]) for share, score in final) for name in env.facts.components},
    )


def _mean(weighed: Iterable[tuple[float, float]]) -> float:
    """Return the weighted mean of (weight, value) pairs; 0 if there are none."""
    pairs = list(weighed)
    return sum(weight * value for weight, value in pairs) / (sum(weight for weight, _ in pairs) or 1.0)


def _check_rewards(groups: Sequence[Group], reward_range: tuple[float, float], number: int) -> None:
    """Raise TrainingError for a reward out of range, and if too many episodes could not be scored."""
    low, high = reward_range
    lost: list[Episode] = []
    everything = [episode for group in groups for episode in group.episodes]
    for group in groups:
        scored = [turn.reward for e in group.episodes for turn in e.turns if turn.score is not None]
        tried = [r for decision in group.decisions for branch in decision.branches for r in branch.rewards]
        wrong = [r for r in scored if not (math.isnan(r) or low <= r <= high)]
        wrong += [r for r in tried if not (math.isnan(r) or min(low, 0.0) <= r <= max(high, 0.0))]  # 0: unscored turns
        if wrong:
            raise TrainingError(
                f"step {number}: task {group.item_id!r} has reward {wrong[0]}, not in {(low, high)}; correct the reward"
            )
        lost += [episode for episode in group.episodes if math.isnan(episode.total)]
    if sum(e.share for e in lost) > MAX_UNSCORABLE * sum(e.share for e in everything):
        raise TrainingError(
            f"step {number}: {len(lost)} of {len(everything)} episodes could not be scored (more than "
            f"{MAX_UNSCORABLE:.0%}); the judge fails: see the notes of their scores"
        )


def _check_logprobs(episodes: Sequence[Episode], number: int, version: int) -> None:
    """Raise DivergedError for a log-probability that is not finite: the weights after `version` updates are damaged."""
    for episode in episodes:
        for turn in episode.turns:
            for agent, completion in turn.actions.items():
                if not all(map(math.isfinite, completion.logprobs)):
                    raise DivergedError(
                        f"step {number}: an action of {agent} on task {episode.item_id!r} has a log-probability that "
                        "is not finite, so its weights are damaged; lower the learning rate and start from an earlier "
                        "checkpoint",
                        version,
                    )

"""Suites: the fields of a TOML file, and the cells that it describes.

A cell is the configuration of one run: environment, method, model and seed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast

import pydantic
from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from ..agents.io.load import Members, SavedMember, check_model, read_members
from ..agents.io.models import server_model
from ..agents.io.save import DESCRIPTION, CheckpointError, read_description
from ..agents.options import ModelOptions
from ..algorithms.base import Options
from ..algorithms.options import UpdaterOptions
from ..algorithms.registration import find_algorithm, learns
from ..config import Config, ConfigError, Positive, build, changed, named_model, override, read_toml, without_aliases
from ..envs.judging import BASE
from ..envs.registration import with_version
from ..options import EvaluationConfig, Sampling, TrainerConfig
from ..registries import nearest
from ..storage.files import clean
from ..storage.reading import is_there, read_json
from ..training.checkpoint import differences
from ..training.tracking import Tracker


class _Named(Config):
    """A table of a suite; a string in place of the table sets its field `alone`, such as the name."""

    alone: ClassVar[str] = "name"

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_text(cls, values: Any) -> Any:
        return {cls.alone: values} if isinstance(values, str) else values


class WrittenOptions(Options):
    """Options as written in a file, not validated yet, because their learner is not imported; see `Cell.loaded`."""

    values: dict[str, Any] = {}

    def given(self) -> dict[str, Any]:
        """Return the options by name."""
        return self.values


def _as_written(values: Any) -> Any:
    return WrittenOptions(values=cast("dict[str, Any]", values)) if isinstance(values, dict) else values


LearnerOptions = Annotated[Options, BeforeValidator(_as_written), PlainSerializer(lambda options: options.given())]


class StageEnvironment(Config):
    """Changes of the training environment in a stage."""

    max_turns: Positive | None = None
    """Turns per episode. Default: those of the run."""
    options: dict[str, Any] = {}
    """Changed arguments of the environment's constructor, such as the difficulty or the size of the team."""

    @pydantic.model_validator(mode="after")
    def _check_scorers(self) -> StageEnvironment:
        for name, value in self.options.items():
            if name in ("judge", "reward") or named_model(value) is not None:
                raise ValueError(
                    f"option {name} = {value!r} of a stage: all stages have the models, judge and reward of the run; "
                    "set the option in the environment of the run"
                )
        return self

    def __str__(self) -> str:
        turns = {} if self.max_turns is None else {"max_turns": self.max_turns}
        return ", ".join(f"{name} = {value}" for name, value in {**turns, **self.options}.items())


class StageConfig(Config):
    """A stage of training before the last one: a learner, or an easier environment for the method itself."""

    name: str = ""
    """A registered name or "module:Class"; imitation works with every protocol. Default: the method itself, whose
    optimizer continues in the next stage unless `options` change it."""
    steps: Positive
    """Number of updates of this stage; training.steps includes them."""
    options: LearnerOptions = WrittenOptions()
    """Options of the learner. Without a name: changes of the method's options."""
    environment: StageEnvironment = StageEnvironment()
    """Changes of the training environment. Evaluations have the environment of the run."""


class MethodChange(Config):
    """Changes of a method in one environment."""

    options: dict[str, Any] = {}
    """Changed options of the method."""
    model: dict[str, Any] = {}
    """Changed options of its model."""
    training: dict[str, Any] = {}
    """Changed options of its training."""
    stages: list[StageConfig] = []
    """Stages of training before its own stages; training.steps includes their steps."""


class EnvironmentConfig(_Named):
    """An environment, with changes of the suite's defaults; in a suite, an id may stand for the whole table."""

    alone = "id"

    id: Annotated[str, AfterValidator(with_version)]
    """Registered id; a missing version is completed, see `with_version`."""
    tasks: str = "sample"
    """Source of the tasks: "sample", "hub" or a path. Its train split is for training and its test split for
    evaluation."""
    split: str | None = None
    """Split to train on: train, test or all. Default: train; with `eval_tasks`: all. See also `evaluation.split`."""
    eval_tasks: str | None = None
    """Separate source of evaluation tasks, all of which are used."""
    fields: dict[str, str] = {}
    """Column name in a file by field of a task."""
    max_turns: Positive | None = None
    """Turns per episode. Default: as many as the environment has."""
    protocol: str | None = None
    """Protocol of all methods: parallel, sequential, discussion, ... Default: the protocol of each method."""
    options: dict[str, Any] = {}
    """Further arguments of the environment's constructor."""
    sampling: dict[str, Any] = {}
    """Changes of the suite's sampling."""
    training: dict[str, Any] = {}
    """Changes of the suite's training."""
    evaluation: dict[str, Any] = {}
    """Changes of the suite's evaluation."""
    model: dict[str, Any] = {}
    """Changes of the suite's models."""
    stages: list[StageConfig] = []
    """Stages of training before every method, and before its own stages; training.steps includes their steps."""
    methods: dict[str, MethodChange] = {}
    """Changes of methods, by title: `methods.single.model.name = "..."`."""
    without: list[str] = []
    """Titles of methods of the suite that are left out here."""
    seeds: list[int] = []
    """Seeds in place of those of the suite."""
    label: str | None = None
    """Name in tables and folders. Default: the id. Required if an environment is listed twice."""

    @property
    def title(self) -> str:
        """The label, or the id."""
        return self.label or self.id


_OF_SUITE = {  # fields that other parts of a cell already contain
    name: EnvironmentConfig.model_fields[name]
    for name in ("sampling", "training", "evaluation", "model", "stages", "methods", "without", "seeds")
}


class ModelConfig(_Named, ModelOptions):
    """The model of the agents; in a suite, a name may stand for the whole table."""

    name: str = ""
    """builtin:tiny, a folder, a .gguf file, a name on the hub, the address of a server, or a script (script:optimal).
    Default: see `evaluation.teams.default_model`."""
    members: Members = []
    """Different models for the agents; `name` is then only a label."""
    start: str = ""
    """Folder of a trained team to start from (`team` of a run), built with the same options. Default: none."""


class MethodConfig(_Named):
    """An algorithm and its options; in a suite, a name may stand for the whole table."""

    name: str
    """A registered name or "module:Class"."""
    options: LearnerOptions = WrittenOptions()
    """Options of the algorithm."""
    label: str | None = None
    """Name in tables and folders. Default: the name of the algorithm. Required if an algorithm is listed twice."""
    stages: list[StageConfig] = []
    """Learners that train the team before this algorithm, in this order; training.steps includes their steps."""

    @property
    def learns(self) -> bool:
        """Whether the algorithm is a learner. This loads its module."""
        return learns(self.name)

    @property
    def title(self) -> str:
        """The label, or the names of all learners without their modules, in order."""
        names = [stage.name or self.name for stage in self.stages] + [self.name]
        return self.label or " then ".join(name.rpartition(":")[2] for name, _ in itertools.groupby(names))


MethodT = TypeVar("MethodT", StageConfig, MethodConfig)


class Suite(Config):
    """Environments x methods x models x seeds."""

    name: str
    environments: list[EnvironmentConfig]
    methods: list[MethodConfig]
    models: list[ModelConfig] = [ModelConfig()]
    seeds: list[int] = [0]
    sampling: Sampling = Sampling()
    training: TrainerConfig = TrainerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    about: str = ""
    """The comparison in one sentence."""
    tracking: list[Tracker] = []
    """Trackers that also receive the training metrics. TensorBoard writes into the folder of each run."""
    traces: bool = False
    """Keep the traces of every evaluation in the folder of each run."""

    def in_all_environments(self, keys: Mapping[str, Collection[str]]) -> Suite:
        """Return the suite without changes of these keys (by section) in environments and their methods."""

        def free(config: EnvironmentConfig | MethodChange) -> dict[str, Any]:
            sections = [name for name in keys if name in type(config).model_fields]
            given = {name: without_aliases(getattr(config, name)) for name in sections}
            return {n: {k: v for k, v in values.items() if k not in keys[n]} for n, values in given.items()}

        environments: list[EnvironmentConfig] = []
        for environment in self.environments:
            methods = {name: m.model_copy(update=free(m)) for name, m in environment.methods.items()}
            environments.append(environment.model_copy(update={**free(environment), "methods": methods}))
        return self.model_copy(update={"environments": environments})

    def cells(self) -> list[Cell]:
        """Return all combinations, ordered by environment, each with `Cell.loaded` applied.

        Raises:
            ConfigError: See `written_cells` and `AlgorithmSpec.config`.
            KeyError: There is no such method.
        """
        return [cell.loaded() for cell in self.written_cells()]

    def written_cells(self) -> list[Cell]:
        """Return all combinations with `WrittenOptions`, without importing anything that the suite names.

        Raises:
            ConfigError: A key or value in the changes of an environment is refused, or two cells have the same label.
        """
        titles = [method.title for method in self.methods]
        for environment in self.environments:
            for name in (*environment.methods, *environment.without):
                if name not in titles:
                    raise ConfigError(f"environment {environment.title}: no method {name!r}; {nearest(name, titles)}")
        cells = [
            self._cell(environment, method, model, seed)
            for environment, method, model in itertools.product(self.environments, self.methods, self.models)
            if method.title not in environment.without
            for seed in environment.seeds or self.seeds
        ]
        labels = Counter(cell.label for cell in cells)
        if twice := [label for label, times in labels.items() if times > 1]:
            raise ConfigError(
                f"suite {self.name} has {twice[0]!r} twice; give each of its methods or environments a `label`"
            )
        return cells

    def _cell(self, environment: EnvironmentConfig, method: MethodConfig, model: ModelConfig, seed: int) -> Cell:
        """Return one combination, with the changes of its environment."""
        source = f"environment {environment.title}"
        change = environment.methods.get(method.title, MethodChange())
        options = {**method.options.given(), **change.options}
        stages = [
            stage
            if stage.name
            else stage.model_copy(
                update={
                    "name": method.name,
                    "options": WrittenOptions(values={**options, **stage.options.given()}),
                }
            )
            for stage in (*environment.stages, *change.stages, *method.stages)
        ]
        return Cell(
            environment.model_copy(update={name: field.default for name, field in _OF_SUITE.items()}),
            method.model_copy(update={"options": WrittenOptions(values=options), "stages": stages}),
            changed(model, environment.model, change.model, source=source),
            seed,
            changed(self.sampling, environment.sampling, source=source),
            changed(self.training, environment.training, change.training, source=source),
            changed(self.evaluation, environment.evaluation, source=source),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of a suite: the complete configuration of a run."""

    environment: EnvironmentConfig
    method: MethodConfig
    model: ModelConfig
    seed: int
    sampling: Sampling
    training: TrainerConfig
    evaluation: EvaluationConfig

    def loaded(self) -> Cell:
        """Return the cell with validated options in place of `WrittenOptions`.

        This imports the learners of the cell, except those registered with a `config` in `register_algorithm`.

        Raises:
            ConfigError: See `AlgorithmSpec.config`.
            KeyError: There is no such method.
        """

        def built(method: MethodT) -> MethodT:
            source = f"{self.environment.title}, options of {method.name}"
            config = find_algorithm(method.name).config(method.options.given(), source)
            return method.model_copy(update={"options": config})

        method = built(self.method)
        stages = [built(stage) for stage in method.stages]
        return dataclasses.replace(self, method=method.model_copy(update={"stages": stages}))

    def at_stage(self, stage: StageConfig) -> Cell:
        """Return the cell with the environment of one of its stages."""
        config, change = self.environment, stage.environment
        options = {**config.options, **change.options}
        turns = change.max_turns or config.max_turns
        return dataclasses.replace(self, environment=config.model_copy(update={"options": options, "max_turns": turns}))

    @property
    def label(self) -> str:
        """A name that is safe as a folder name."""
        model = Path(self.model.name).stem if self.model.name.endswith(".gguf") else self.model.name
        parts = (self.environment.title, self.method.title, model, f"seed{self.seed}")
        return "-".join(clean(part, "._") for part in parts)

    @property
    def short(self) -> str:
        """A short name for log lines."""
        return f"{self.environment.title} {self.method.title} {self.seed}"

    @property
    def protocol(self) -> str:
        """The protocol of the team: the one of the environment if it is given, else the one of the method."""
        return self.environment.protocol or find_algorithm(self.method.name).protocol

    @property
    def models(self) -> list[str]:
        """The names of all models of the cell, also those in options of the environment."""
        players = [member.model for member in self.model.members] or [self.model.name]
        named = [*filter(None, map(named_model, self.environment.options.values())), self.judge]
        named += [self.training.judge_model]
        return [*filter(None, players), *(name for name in named if name not in ("", BASE))]

    @property
    def reward_model(self) -> str:
        """The learned reward, a run or a model; "" for the reward of the environment itself."""
        return named_model(self.environment.options.get("reward")) or ""

    @property
    def judge(self) -> str:
        """The name of the LLM judge in the reward; "" for none."""
        judge = self.environment.options.get("judge", "")
        return judge if isinstance(judge, str) else ""

    @property
    def outside(self) -> list[str]:
        """The names of code outside of installed packages ("module:Class"), and of servers that receive texts.

        This includes the names in the runs whose saved teams are members.
        """
        stages = [stage.name for stage in self.method.stages]
        code = [name for name in (self.environment.id, self.method.name, *stages) if ":" in name]
        saved = {place.folder: place for member in self.model.members if (place := SavedMember.of(member.model))}
        for place in saved.values():
            check_model(str(place))
        further = [name for folder in saved for name in cell_of(folder).outside]
        return [*code, *(name for name in self.models if server_model(name)), *further]

    def sampling_of(self, agent: str, role: str, parts: int = 1) -> Sampling:
        """Return the sampling options of an agent: those of the run, changed by the agent's entry in `members`.

        Args:
            agent, role: Name and role of the agent.
            parts: Number of parts in one action; the token limit of the run is multiplied by it. A limit in `members`
                holds for the whole text.
        """
        changes = (member.sampling for member in self.model.members if {agent, role} & set(member.agents))
        return self.sampling.for_parts(parts).changed(next(changes, Sampling()))

    def without(self, *names: str) -> dict[str, Any]:
        """Return plain values as read from a file, without some of them, such as "seed" or "training.keep"."""
        values: dict[str, Any] = json.loads(json.dumps(self.to_dict()))
        for name in names:
            section, _, key = name.partition(".")
            (values[section] if key else values).pop(key or section)
            for member in values["model"]["members"] if section == "model" and key else ():
                member.pop(key)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        parts = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return {name: part.model_dump() if isinstance(part, Config) else part for name, part in parts.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "cell") -> Cell:
        """Return the cell of `to_dict`, with `WrittenOptions`.

        Raises:
            ConfigError: The values of `source` are not a cell.
        """
        parts = build(_Parts, values, source=source)
        return cls(**{name: getattr(parts, name) for name in _Parts.model_fields})

    @classmethod
    def read(cls, path: Path) -> Cell:
        """Return the cell in a `cell.json`; raise FileError or ConfigError if the file is invalid."""
        return cls.from_dict(read_json(path, dict[str, Any]), str(path))


class _Parts(Config):
    """A cell as plain values."""

    environment: EnvironmentConfig
    method: MethodConfig
    model: ModelConfig
    seed: int
    sampling: Sampling
    training: TrainerConfig
    evaluation: EvaluationConfig


def cell_of(team: Path) -> Cell:
    """Return the cell in which a team was trained; `team` is a result of `find_team`.

    Raises:
        CheckpointError: The team does not name its cell.
    """
    if (team / DESCRIPTION).is_file() and "environment" in (described := read_description(team)):
        return Cell.from_dict(described)
    if (of_checkpoint := team.parent.parent / "cell.json").is_file():
        return Cell.read(of_checkpoint)
    raise CheckpointError(
        f"{str(team)!r} was saved in Python and has no description of its training; build the team in Python with "
        "load_team(env, model, weights=...)"
    )


# --- differences between cells ----------------------------------------------------------------------------------------

# These options cannot change the results of training.
CADENCE = ("training.save_every", "training.keep", "evaluation.every")
PLACEMENT = ("model.ranks", "model.gpus")
FREE_IN_CHECKPOINT = ("evaluation", "training.save_every", "training.keep", "training.steps", *PLACEMENT)
FREE_IN_FOLDER = (*CADENCE, "training.steps", *PLACEMENT)
FREE_IN_LINE = ("seed", *CADENCE, "evaluation.timing", *PLACEMENT)


def conflicts(there: Cell, here: Cell, saved: int | None = None) -> list[str]:
    """Return the reasons why the cell `here` cannot resume in the folder of `there`, each as "a.b: 1 -> 2".

    It may differ in `CADENCE` and `PLACEMENT`, and have more steps. With `saved` updates in the newest checkpoint, it
    may also have fewer steps, but not fewer than `saved`.
    """
    different = differences(there.without(*FREE_IN_FOLDER), here.without(*FREE_IN_FOLDER))
    before, after = there.training.steps, here.training.steps
    options = here.method.options
    decays = isinstance(options, UpdaterOptions) and options.schedule != "constant"
    given = options.horizon if isinstance(options, UpdaterOptions) else 0
    horizon = (given or before) if decays else after
    least = before if saved is None or (decays and not given) else saved
    if after < least:
        why = f", but {saved} are done" if least == saved else ""
        different.append(f"training.steps: {before} -> {after}{why}")
    elif after > max(before, horizon):
        different.append(
            f"training.steps: {before} -> {after}, but the learning rate is 0 after update {horizon} (horizon)"
        )
    return different


# --- suites by name ---------------------------------------------------------------------------------------------------


_SUITES = Path(str(resources.files("llm_dec_pomdp.benchmarks") / "suites"))


def built_in_suites() -> list[str]:
    """Return the names of the suites in this package."""
    return sorted(path.stem for path in _SUITES.glob("*.toml"))


def about_suites() -> dict[str, str]:
    """Return the description of each built-in suite, by name."""
    return {name: read_toml(_SUITES / f"{name}.toml")["about"] for name in built_in_suites()}


def load_suite(name: str, assignments: Sequence[str] = ()) -> Suite:
    """Return a suite by name or from a TOML file.

    Args:
        name: Name of a built-in suite, or path of a .toml file.
        assignments: Changes as `a.b=value`, which apply to all environments.

    Raises:
        ConfigError: The name is unknown, the file is missing, or a key or value is refused.
    """
    if name.endswith(".toml"):
        values, source = read_toml(Path(name)), name
    elif name in built_in_suites():
        values, source = read_toml(_SUITES / f"{name}.toml"), f"suite {name}"
    else:
        raise ConfigError(f"there is no suite {name!r}; {nearest(name, built_in_suites())} Or give a .toml file")
    return _assigned(values, assignments, source)


def saved_suite(folder: Path, assignments: Sequence[str] = ()) -> Suite:
    """Return the suite of the benchmark in a folder; raise ConfigError if there is none."""
    path = folder / "suite.json"
    if not is_there(path):
        raise ConfigError(
            f"{str(folder)!r} is not the folder of a benchmark (suite.json is missing); give one that bench has written"
            if folder.is_dir()
            else f"the folder {str(folder)!r} does not exist; give the folder of a benchmark"
        )
    return _assigned(read_json(path, dict[str, Any]), assignments, str(path))


def _assigned(values: dict[str, Any], assignments: Sequence[str], source: str) -> Suite:
    """Return a suite with assignments, which take precedence over changes in environments."""
    suite, assigned = build(Suite, override(values, assignments), source=source), override({}, assignments)
    sections = ("sampling", "training", "evaluation")
    return suite.in_all_environments({name: without_aliases(assigned.get(name, {})) for name in sections})


def read_team(path: Path) -> ModelConfig:
    """Return the team that a TOML file describes; raise ConfigError, see `agents.io.load.read_members`."""
    team = read_members(path)
    return ModelConfig(name=team.name, members=team.members, start=team.start)

"""A benchmark as values: what a TOML file may say, and the cells it makes."""

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

from ..agents.io.load import Members, read_members
from ..agents.io.models import server_model
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
    """What a suite may also write as a text alone: its name."""

    alone: ClassVar[str] = "name"

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_text(cls, values: Any) -> Any:
        return {cls.alone: values} if isinstance(values, str) else values


class WrittenOptions(Options):
    """Options as a file has them, not validated yet since their learner is not imported; see `Cell.loaded`."""

    values: dict[str, Any] = {}

    def given(self) -> dict[str, Any]:
        """Return them."""
        return self.values


def _as_written(values: Any) -> Any:
    return WrittenOptions(values=cast("dict[str, Any]", values)) if isinstance(values, dict) else values


LearnerOptions = Annotated[Options, BeforeValidator(_as_written), PlainSerializer(lambda options: options.given())]


class MethodChange(Config):
    """What differs for a method in one environment."""

    options: dict[str, Any] = {}
    """Overrides of its options."""
    model: dict[str, Any] = {}
    """Overrides of the model that plays it."""
    training: dict[str, Any] = {}
    """Overrides of how long and how broadly it trains."""


class StageConfig(Config):
    """A learner that comes before another on the same team."""

    name: str
    """A registered name or "module:Class"; imitation fits any protocol."""
    steps: Positive
    """How many of the training's updates are its own."""
    options: LearnerOptions = WrittenOptions()
    """Its configuration."""


class EnvironmentConfig(_Named):
    """An environment, and what differs for it from the suite's defaults; an id alone is one too."""

    alone = "id"

    id: Annotated[str, AfterValidator(with_version)]
    """Registered id; one without a version is completed, see `with_version`."""
    tasks: str = "sample"
    """"sample", "hub" or a path; training and evaluation rows are its train and test splits."""
    split: str | None = None
    """Rows to train on: train, test or all; left out, train, or with `eval_tasks` all. See also `evaluation.split`."""
    eval_tasks: str | None = None
    """Another source for the evaluation rows, all of which are used."""
    fields: dict[str, str] = {}
    """Field mapping for files."""
    max_turns: Positive | None = None
    """H; the environment's own when left out."""
    protocol: str | None = None
    """Communication protocol of every team here: parallel, sequential, discussion, ...; else each method's own."""
    options: dict[str, Any] = {}
    """Further arguments of its constructor."""
    sampling: dict[str, Any] = {}
    """Overrides of the suite's sampling."""
    training: dict[str, Any] = {}
    """Overrides of the suite's training."""
    evaluation: dict[str, Any] = {}
    """Overrides of the suite's evaluation."""
    model: dict[str, Any] = {}
    """Overrides of the suite's models."""
    stages: list[StageConfig] = []
    """What learns here before every method and before the method's own stages; its `steps` count too."""
    methods: dict[str, MethodChange] = {}
    """Overrides per method, by its title: `methods.single.model.name = "..."`."""
    without: list[str] = []
    """Titles of the suite's methods that do not play here."""
    seeds: list[int] = []
    """Seeds instead of the suite's."""
    label: str | None = None
    """Name in tables and folders; the id when left out. Needed when an environment is listed twice."""

    @property
    def title(self) -> str:
        """The label, or the id."""
        return self.label or self.id


_OF_SUITE = {  # what a cell has no need of: other parts of it say the same
    name: EnvironmentConfig.model_fields[name]
    for name in ("sampling", "training", "evaluation", "model", "stages", "methods", "without", "seeds")
}


class ModelConfig(_Named, ModelOptions):
    """Who plays the agents; a name alone is one too."""

    name: str = ""
    """builtin:tiny, a folder, a .gguf file, a hub id, the address of a server, or a script (script:optimal); left out,
    that of `setup.default_model`."""
    members: Members = []
    """Members of different kinds instead: who plays whom; `name` is then only a name."""
    start: str = ""
    """Folder of a trained team to begin with (`team` of a cell), built with the same options; "": `name` as it is."""


class MethodConfig(_Named):
    """An algorithm and its options; a name alone is one too."""

    name: str
    """A registered name or "module:Class"."""
    options: LearnerOptions = WrittenOptions()
    """Its configuration."""
    label: str | None = None
    """Name in tables and folders; the algorithm's when left out. Needed when an algorithm is listed twice."""
    stages: list[StageConfig] = []
    """What learns before it, in this order; the steps of the training count theirs."""

    @property
    def learns(self) -> bool:
        """Whether it is a learner. Loads its module."""
        return learns(self.name)

    @property
    def title(self) -> str:
        """The label, or the names of all stages without their modules."""
        return self.label or " then ".join(method.name.rpartition(":")[2] for method in (*self.stages, self))


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
    """What the suite compares, in a sentence."""
    tracking: list[Tracker] = []
    """Where the numbers of a training run also go; event files for TensorBoard lie in each cell's folder."""
    traces: bool = False
    """Write the traces of every evaluation as it goes, into each cell's folder."""

    def in_all_environments(self, keys: Mapping[str, Collection[str]]) -> Suite:
        """The suite in which no environment, nor a method in one, overrides these keys (by section)."""

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
        """Return every combination, environments outermost, each `loaded`.

        Raises:
            ConfigError: See `written_cells` and `AlgorithmSpec.config`.
            KeyError: No such method.
        """
        return [cell.loaded() for cell in self.written_cells()]

    def written_cells(self) -> list[Cell]:
        """Return every combination with `WrittenOptions`; import nothing that the suite names.

        Raises:
            ConfigError: A key or value of an environment's overrides that is not allowed, or two cells with one label.
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
                f"suite {self.name} has {twice[0]!r} twice; give its methods or environments a `label` each"
            )
        return cells

    def _cell(self, environment: EnvironmentConfig, method: MethodConfig, model: ModelConfig, seed: int) -> Cell:
        """One combination, with the overrides of its environment applied."""
        source = f"environment {environment.title}"
        change = environment.methods.get(method.title, MethodChange())
        options = WrittenOptions(values={**method.options.given(), **change.options})
        return Cell(
            environment.model_copy(update={name: field.default for name, field in _OF_SUITE.items()}),
            method.model_copy(update={"options": options, "stages": [*environment.stages, *method.stages]}),
            changed(model, environment.model, change.model, source=source),
            seed,
            changed(self.sampling, environment.sampling, source=source),
            changed(self.training, environment.training, change.training, source=source),
            changed(self.evaluation, environment.evaluation, source=source),
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of a suite: everything that is needed to run it."""

    environment: EnvironmentConfig
    method: MethodConfig
    model: ModelConfig
    seed: int
    sampling: Sampling
    training: TrainerConfig
    evaluation: EvaluationConfig

    def loaded(self) -> Cell:
        """Return the cell with validated options: the configurations of its learners in place of `WrittenOptions`.

        Import the learners that it names, except where `register_algorithm` was given a `config`.

        Raises:
            ConfigError: See `AlgorithmSpec.config`.
            KeyError: No such method.
        """

        def built(method: MethodT) -> MethodT:
            source = f"{self.environment.title}, options of {method.name}"
            config = find_algorithm(method.name).config(method.options.given(), source)
            return method.model_copy(update={"options": config})

        method = built(self.method)
        stages = [built(stage) for stage in method.stages]
        return dataclasses.replace(self, method=method.model_copy(update={"stages": stages}))

    @property
    def label(self) -> str:
        """A name that is safe as a folder name."""
        model = Path(self.model.name).stem if self.model.name.endswith(".gguf") else self.model.name
        parts = (self.environment.title, self.method.title, model, f"seed{self.seed}")
        return "-".join(clean(part, "._") for part in parts)

    @property
    def short(self) -> str:
        """A name for a line of a terminal."""
        return f"{self.environment.title} {self.method.title} {self.seed}"

    @property
    def protocol(self) -> str:
        """The communication protocol of its team: that of the environment, or else of the method."""
        return self.environment.protocol or find_algorithm(self.method.name).protocol

    @property
    def models(self) -> list[str]:
        """The names of all its models, also those in options of its environment."""
        players = [member.model for member in self.model.members] or [self.model.name]
        named = [*filter(None, map(named_model, self.environment.options.values())), self.judge]
        return [*filter(None, players), *(name for name in named if name not in ("", BASE))]

    @property
    def reward_model(self) -> str:
        """What it is paid by, a run or a model, see `judges.Learnt`; "" for its environment's own reward."""
        return named_model(self.environment.options.get("reward")) or ""

    @property
    def judge(self) -> str:
        """The name of the language model that judges its texts; "" for none."""
        judge = self.environment.options.get("judge", "")
        return judge if isinstance(judge, str) else ""

    @property
    def outside(self) -> list[str]:
        """What it names that is not part of an installed package: "module:Class", and servers that get its texts."""
        stages = [stage.name for stage in self.method.stages]
        code = [name for name in (self.environment.id, self.method.name, *stages) if ":" in name]
        return [*code, *(name for name in self.models if server_model(name))]

    def sampling_of(self, agent: str, role: str, parts: int = 1) -> Sampling:
        """Return the sampling options of an agent: those of the run, changed by its member.

        Args:
            agent, role: The agent.
            parts: Number of parts in one action, a factor of the run's token limit. A member's own limit
                holds for the whole text.
        """
        changes = (member.sampling for member in self.model.members if {agent, role} & set(member.agents))
        return self.sampling.for_parts(parts).changed(next(changes, Sampling()))

    def without(self, *names: str) -> dict[str, Any]:
        """Plain values as read back from a file, without some of them, such as "seed" or "training.keep"."""
        values: dict[str, Any] = json.loads(json.dumps(self.to_dict()))
        for name in names:
            section, _, key = name.partition(".")
            (values[section] if key else values).pop(key or section)
            for member in values["model"]["members"] if section == "model" and key else ():
                member.pop(key)
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        parts = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return {name: part.model_dump() if isinstance(part, Config) else part for name, part in parts.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str = "cell") -> Cell:
        """Return the cell of `to_dict`, with `WrittenOptions`.

        Raises:
            ConfigError: The values of `source` are of no cell.
        """
        parts = build(_Parts, values, source=source)
        return cls(**{name: getattr(parts, name) for name in _Parts.model_fields})

    @classmethod
    def read(cls, path: Path) -> Cell:
        """The cell that a `cell.json` describes; raises FileError or ConfigError."""
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


# --- which cells go together ------------------------------------------------------------------------------------------

# These cannot change what is learnt.
CADENCE = ("training.save_every", "training.keep", "evaluation.every")
PLACEMENT = ("model.ranks", "model.gpus")
FREE_IN_CHECKPOINT = ("evaluation", "training.save_every", "training.keep", "training.steps", *PLACEMENT)
FREE_IN_FOLDER = (*CADENCE, "training.steps", *PLACEMENT)
FREE_IN_LINE = ("seed", *CADENCE, "evaluation.timing", *PLACEMENT)


def conflicts(there: Cell, here: Cell, saved: int | None = None) -> list[str]:
    """Why `here` cannot go on in the folder of `there`, as "a.b: 1 -> 2".

    It may have another cadence, more steps, or end early: with `saved` updates or more, where they are given.
    """
    different = differences(there.without(*FREE_IN_FOLDER), here.without(*FREE_IN_FOLDER))
    before, after = there.training.steps, here.training.steps
    options = here.method.options
    decays = isinstance(options, UpdaterOptions) and options.schedule != "constant"
    given = options.horizon if isinstance(options, UpdaterOptions) else 0
    horizon = (given or before) if decays else after
    least = before if saved is None or (decays and not given) else saved
    if after < least:
        why = f", though {saved} are done" if least == saved else ""
        different.append(f"training.steps: {before} -> {after}{why}")
    elif after > max(before, horizon):
        different.append(
            f"training.steps: {before} -> {after}, though the learning rate is 0 after update {horizon} (horizon)"
        )
    return different


# --- suites by name ---------------------------------------------------------------------------------------------------


_SUITES = Path(str(resources.files("llm_dec_pomdp.benchmarks") / "suites"))


def built_in_suites() -> list[str]:
    """Return the names of the suites in this package."""
    return sorted(path.stem for path in _SUITES.glob("*.toml"))


def about_suites() -> dict[str, str]:
    """What each built-in suite compares, by its name."""
    return {name: read_toml(_SUITES / f"{name}.toml")["about"] for name in built_in_suites()}


def load_suite(name: str, assignments: Sequence[str] = ()) -> Suite:
    """A suite by name or from a TOML file, with `a.b=value` overrides, which hold in all its environments.

    Raises:
        ConfigError: Unknown name, missing file, or a key or value that is not allowed.
    """
    if name.endswith(".toml"):
        values, source = read_toml(Path(name)), name
    elif name in built_in_suites():
        values, source = read_toml(_SUITES / f"{name}.toml"), f"suite {name}"
    else:
        raise ConfigError(f"no suite {name!r}; {nearest(name, built_in_suites())} A file of your own ends in .toml")
    return _assigned(values, assignments, source)


def saved_suite(folder: Path, assignments: Sequence[str] = ()) -> Suite:
    """The suite that a run folder was made with; raises ConfigError where there is none."""
    path = folder / "suite.json"
    if not is_there(path):
        raise ConfigError(
            f"{str(folder)!r} holds no benchmark to resume (suite.json is missing); give the folder of one"
            if folder.is_dir()
            else f"{str(folder)!r} does not exist, so there is no benchmark to resume; give the folder of one"
        )
    return _assigned(read_json(path, dict[str, Any]), assignments, str(path))


def _assigned(values: dict[str, Any], assignments: Sequence[str], source: str) -> Suite:
    """A suite with assignments; what one of them sets, no environment overrides."""
    suite, assigned = build(Suite, override(values, assignments), source=source), override({}, assignments)
    sections = ("sampling", "training", "evaluation")
    return suite.in_all_environments({name: without_aliases(assigned.get(name, {})) for name in sections})


def read_team(path: Path) -> ModelConfig:
    """A team whose members a TOML file lists; raises ConfigError, see `agents.io.load.read_members`."""
    team = read_members(path)
    return ModelConfig(name=team.name, members=team.members, start=team.start)

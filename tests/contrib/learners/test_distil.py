"""On-policy distillation: exact gradients by enumeration, teachers, contexts, and learning."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from models import (
    WORDS,
    gradients,
    language_model,
    match,
    network,
    same,
    save_model,
    separate_team,
    tokenizer,
    weights,
)
from servers import Reply, Server

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Request, Sampling, Team
from llm_dec_pomdp.algorithms.registration import find_algorithm
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.contrib.learners.distil import Distil, DistilConfig, Scored
from llm_dec_pomdp.contrib.learners.teachers import Asked, ModelTeacher, ScriptTeacher, ServerTeacher, joint_contexts
from llm_dec_pomdp.types import Completion, Episode, Group, Turn, conversation

AGENTS = ("agent_0", "agent_1")
TEXTS = ((1,), (0, 0), (0, 1))  # completions over two tokens: token 1 ends one, and two tokens are the most
CONTEXTS = 5  # histories of an agent: none yet, or the joint completion kinds (0 or 1 token of each agent) before


class Tree(Policy):
    """A softmax for each history and each first token."""

    def __init__(self, seed: int) -> None:
        logits = torch.randn(CONTEXTS, 2, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.logits = torch.nn.Parameter(logits)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        raise NotImplementedError

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [self.logits]

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"logits": self.logits.detach()}

    def of(self, history: int, text: Sequence[int]) -> torch.Tensor:
        """log pi of each token."""
        return torch.stack([self.logits[history, place].log_softmax(-1)[token] for place, token in enumerate(text)])

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [self.of(c.prompt_ids[0], c.token_ids) for _, c in samples]
        padded = [torch.nn.functional.pad(row, (0, 2 - len(row))) for row in rows]
        return torch.stack(padded), torch.tensor([[1.0] * len(row) + [0.0] * (2 - len(row)) for row in rows])


def trajectories() -> Iterable[list[tuple[int, dict[str, tuple[int, ...]]]]]:
    """All episodes of two turns, as (history, completions by agent); what was written decides the next history."""
    for first in itertools.product(TEXTS, repeat=2):
        history = 1 + 2 * (len(first[0]) - 1) + (len(first[1]) - 1)
        for second in itertools.product(TEXTS, repeat=2):
            yield [(0, dict(zip(AGENTS, first, strict=True))), (history, dict(zip(AGENTS, second, strict=True)))]


def enumerated(students: dict[str, Tree], teachers: dict[str, Tree]) -> Group:
    """Every trajectory as an episode whose share is its probability."""
    episodes: list[Episode] = []
    for steps in trajectories():
        turns: list[Turn] = []
        probability = 1.0
        for history, texts in steps:
            actions: dict[str, Completion] = {}
            for agent, text in texts.items():
                logprobs = students[agent].of(history, text).tolist()
                probability *= math.exp(sum(logprobs))
                scores = tuple(teachers[agent].of(history, text).tolist())
                actions[agent] = Scored("x", (history,), text, tuple(logprobs), teacher=scores)
            turns.append(Turn({}, actions, 0.0))
        episodes.append(Episode("t", 0, tuple(turns), True, probability))
    return Group("t", tuple(episodes))


def exact(students: dict[str, Tree], teachers: dict[str, Tree], *, whole: bool) -> torch.Tensor:
    """The reverse KL by enumeration: of whole episodes, or of each token with the distribution of prefixes fixed."""
    total = torch.zeros((), dtype=torch.float64)
    for steps in trajectories():
        written = [(agent, history, text) for history, texts in steps for agent, text in texts.items()]
        pairs = [(students[a].of(h, text), teachers[a].of(h, text).detach()) for a, h, text in written]
        probability = torch.stack([own.sum() for own, _ in pairs]).sum().exp()
        if whole:
            total = total + probability * torch.stack([(own - of).sum() for own, of in pairs]).sum()
            continue
        for agent, history, text in written:
            for place in range(len(text)):
                own = students[agent].logits[history, place].log_softmax(-1)
                of = teachers[agent].logits[history, place].log_softmax(-1).detach()
                total = total + probability.detach() * (own.exp() * (own - of)).sum()
    return total


@pytest.mark.parametrize("estimator", ["token", "trajectory"])
def test_the_expected_update_is_the_gradient_of_the_exact_divergence(estimator: Any) -> None:
    students = {agent: Tree(seed) for seed, agent in enumerate(AGENTS)}
    teachers = {agent: Tree(seed + 10) for seed, agent in enumerate(AGENTS)}
    team = Team(students)
    options = {"average": "constant", "normaliser": 1, "learning_rate": 0.0, "max_grad_norm": 1e9}
    learner = Distil(team, Sampling(), DistilConfig(teacher="given", estimator=estimator, **options))
    metrics = learner.update([enumerated(students, teachers)])
    found = gradients(team)
    for student in students.values():
        student.logits.grad = None
    exact(students, teachers, whole=estimator == "trajectory").backward()
    for gradient, wanted in zip(found, gradients(team), strict=True):
        # the objective of an agent is a mean over its completions, of which an episode has two
        torch.testing.assert_close(2 * gradient, wanted, rtol=1e-5, atol=1e-7)
    assert metrics["labels"] == 0


def test_the_control_has_no_gradient_on_average() -> None:
    """All pairs of a completion and a donor, which the control samples."""
    students, teachers = {AGENTS[0]: Tree(0)}, {AGENTS[0]: Tree(1)}
    logits = students[AGENTS[0]].logits
    total = torch.zeros(())
    for text, other in itertools.product(TEXTS, repeat=2):
        episodes = []
        for written in (text, other):
            own, of = (trees[AGENTS[0]].of(0, written).tolist() for trees in (students, teachers))
            scored = Scored("x", (0,), written, tuple(own), teacher=tuple(of))
            episodes.append(Episode("t", 0, (Turn({}, {AGENTS[0]: scored}, 0.0),), True))
        learner = Distil(Team(students), Sampling(), DistilConfig(teacher="given"))
        [group] = learner.shuffle_rewards([Group("t", tuple(episodes))])
        [[advantages]] = [[turn[AGENTS[0]] for turn in learner.advantages(group.episodes[0])]]
        rewards = episodes[1].turns[0].actions[AGENTS[0]].rewards
        assert advantages == pytest.approx(list(itertools.islice(itertools.cycle(rewards), len(text))))
        own, donor = students[AGENTS[0]].of(0, text), students[AGENTS[0]].of(0, other)
        total = total + (own.sum() + donor.sum()).detach().exp() * advantages[0] * own[0]  # of the first token
    [gradient] = torch.autograd.grad(total, logits)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0)


# --- teachers ---------------------------------------------------------------------------------------------------------


def tiger(turns: int = 2) -> Any:
    return llm_dec_pomdp.make("dectiger-v0", max_turns=turns)


def test_tables_learn_from_a_script_and_from_a_saved_table(tmp_path: Path) -> None:
    env, saved = tiger(), tmp_path / "teacher"
    reached: list[float] = []
    for learner, options in (
        ("distil", {}),
        ("distil", {"teacher": "builtin:table", "weights": str(saved)}),
        ("distil_shuffled", {}),
    ):
        team = llm_dec_pomdp.load_team(env, "builtin:table")
        llm_dec_pomdp.train(team, env, learner, steps=10, prompts_per_step=2, learning_rate=1.0, **options)
        reached.append(llm_dec_pomdp.evaluate(team, env, samples=50).return_percent.mean)
        if not saved.exists():
            llm_dec_pomdp.save_team(team, saved)
    assert min(reached[:2]) > 90
    assert reached[2] < 60


def test_a_script_has_the_stated_probabilities() -> None:
    env = tiger()
    env.reset(seed=0)
    teacher = ScriptTeacher(env, "optimal", 0.3)
    history = env.history(AGENTS[0])
    asked = [
        Asked(AGENTS[0], Completion(text, (1,), (n,), (0.0,)), history) for n, text in enumerate(env.choices(AGENTS[0]))
    ]
    probabilities = [math.exp(p) for (p,) in teacher.logprobs(asked)]
    assert probabilities == pytest.approx([0.8, 0.1, 0.1])  # the script listens


def test_a_teacher_equal_to_its_student_gives_no_advantage() -> None:
    team = separate_team()
    completion = _sampled(team)
    teacher = ModelTeacher(team, team, {AGENTS[0]: 0.7})
    [logprobs] = teacher.logprobs([Asked(AGENTS[0], completion, ())])
    assert logprobs == pytest.approx(completion.logprobs, abs=1e-5)


def _sampled(team: Team) -> Completion:
    request = Request(AGENTS[0], conversation("say red"), (3,))
    [[completion]] = team.members[AGENTS[0]].generate([request], Sampling(temperature=0.7, max_new_tokens=6))
    return completion


def test_another_tokenizer_is_refused() -> None:
    from llm_dec_pomdp.agents.language_model.policy import LanguageModel  # loads transformers

    team = separate_team()
    other = Team(dict.fromkeys(AGENTS, LanguageModel(network(), tokenizer(words=WORDS[::-1]))))
    with pytest.raises(ConfigError, match="agent_0"):
        ModelTeacher(other, team, {AGENTS[0]: 1.0})


def test_a_privileged_teacher_scores_parts_of_its_own_joint_action() -> None:
    """The log-probabilities of all parts, in order, are those of the joint action (equation parts)."""
    env, single = match(), language_model(5)
    said, end = (
        {agent: single.prompts.text_ids(word) for agent, word in zip(AGENTS, ("red", "blue now"), strict=True)},
        (2,),
    )
    texts = dict(zip(AGENTS, ("red", "blue now"), strict=True))
    actions = {a: Completion(texts[a], (0,), (*said[a], *end), (0.0,) * (len(said[a]) + 1)) for a in AGENTS}
    asked = joint_contexts(env, Episode("t1", 0, (Turn({}, actions, 0.0),), True))
    assert [a.before for a in asked] == ["[left]\n", "[left]\nred\n[right]\n"]
    assert "say one" not in asked[0].history[0].text
    assert "left please" in asked[0].history[0].text
    assert "right please" in asked[0].history[0].text
    teacher = ModelTeacher(Team({"agent_0": single}), Team(dict.fromkeys(AGENTS, single)), dict.fromkeys(AGENTS, 1.0))
    scored = teacher.logprobs(asked)
    assert [len(row) for row in scored] == [2, 3]
    prompt = (*single.encode(asked[0].history), *single.prompts.text_ids("[left]\n"))
    rest = (*said["agent_0"], *single.prompts.text_ids("\n[right]\n"), *said["agent_1"], *end)
    with torch.no_grad():
        whole, _ = single.token_logprobs([("agent_0", Completion("", prompt, rest))], 1.0)
    assert sum(map(sum, scored)) == pytest.approx(float(whole.sum()), abs=1e-4)


def test_a_part_that_writes_the_next_header_is_unlikely() -> None:
    """Else a student would write the part of its teammate too, as its teacher does."""
    model = language_model(5)
    completion = Completion("", (0,), (*model.prompts.text_ids("red please red"), 2), (0.0,) * 4)
    asked = Asked(AGENTS[0], completion, conversation("red"), "say", " please ")
    team = Team({AGENTS[0]: model})
    [logprobs] = ModelTeacher(team, team, {AGENTS[0]: 1.0}).logprobs([asked])
    assert logprobs[1] == pytest.approx(math.log(0.001))
    assert min(logprobs[0], logprobs[2]) > -6


def test_a_team_is_trained_by_a_single_agent_that_sees_all_observations(tmp_path: Path) -> None:
    env, team, kl = match(), separate_team(), list[float]()
    before = weights(team)
    options: dict[str, Any] = {"teacher": save_model(tmp_path, seed=5), "sees": "all", "learning_rate": 1e-3}
    llm_dec_pomdp.train(
        team,
        env,
        "distil",
        steps=2,
        prompts_per_step=2,
        group_size=2,
        sampling=Sampling(max_new_tokens=4),
        on_step=lambda step: kl.append(step.metrics["reverse_kl"]),
        **options,
    )
    assert all(map(math.isfinite, kl))
    assert not same(before, weights(team))


def test_a_server_scores_as_the_model_behind_it(server: Server) -> None:
    team = separate_team()
    behind: Any = team.members[AGENTS[0]]
    completion = _sampled(team)

    def answer(body: dict[str, Any], number: int) -> Reply:
        assert body["model"] == "base"
        if server.paths[-1] == "/tokenize":
            return 200, json.dumps(
                {"tokens": behind.tokenizer.encode(body["prompt"], add_special_tokens=False)}
            ).encode()
        ids = body["prompt"]
        with torch.no_grad():
            logprobs, _ = behind.token_logprobs([(AGENTS[0], Completion("", tuple(ids[:1]), tuple(ids[1:])))], 1.0)
        told = [
            {str(i): {"logprob": p, "rank": 1, "decoded_token": "?"}}
            for i, p in zip(ids[1:], logprobs[0].tolist(), strict=True)
        ]
        return 200, json.dumps({"choices": [{"text": "", "prompt_logprobs": [None, *told]}]}).encode()

    server.answer = answer
    asked = [Asked(AGENTS[0], completion, ())]
    [found] = ServerTeacher(server.url, "base", team).logprobs(asked)
    [wanted] = ModelTeacher(team, team, {AGENTS[0]: 1.0}).logprobs(asked)
    assert found == pytest.approx(wanted, abs=1e-4)
    server.answer = lambda body, number: (200, b'{"tokens": [1, 2]}')
    with pytest.raises(ConfigError, match="agent_0"):
        ServerTeacher(server.url, "base", team)


def trained_without_the_script() -> None:
    env = llm_dec_pomdp.make("relay-v0")
    llm_dec_pomdp.train(llm_dec_pomdp.load_team(env, "builtin:table"), env, "distil", steps=1)


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: find_algorithm("distil").config({"sees": "all"}), "script:optimal"),
        (lambda: find_algorithm("distil").config({"weights": "somewhere"}), "somewhere"),
        (lambda: find_algorithm("distil").config({"ratio": "sequence"}), "ratio"),
        (lambda: find_algorithm("distil").config({"epsilon": 0.0}), "epsilon"),
        (lambda: Distil(separate_team(), Sampling(), DistilConfig()), "script:optimal"),  # a script teaches tables
        (trained_without_the_script, "script:optimal"),
    ],
)
def test_what_cannot_teach_or_be_taught_is_refused(build: Callable[[], Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        build()

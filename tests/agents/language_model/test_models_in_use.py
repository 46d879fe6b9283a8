"""Models as users have them: templates with variables, devices with little memory, and any family."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from models import AGENTS, network, sampled, tokenizer
from requests_of_agents import REQUESTS, SHORT
from transformers import AutoModelForCausalLM, JambaConfig, MambaConfig, OpenAIGPTConfig

from llm_dec_pomdp.agents import Request, Sampling
from llm_dec_pomdp.agents.engines import own as module
from llm_dec_pomdp.agents.io.load import MemberConfig, assemble_team, load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.oom import OutOfDeviceMemoryError
from llm_dec_pomdp.benchmarks.suite import ModelConfig, load_suite
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.types import conversation

# --- variables of the chat template -----------------------------------------------------------------------------------

THINKING = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} <eos> {% endfor %}assistant"
    "{% if enable_thinking is defined and enable_thinking is false %} now{% endif %}"
)


def thinking(**options: Any) -> LanguageModel:
    """A model whose template has a variable, as that of Qwen3 has."""
    words = tokenizer()
    words.chat_template = THINKING
    return LanguageModel(network(), words, **options)


def test_variables_reach_the_chat_template() -> None:
    plain, without = thinking(), thinking(chat_template_kwargs={"enable_thinking": False})
    [now] = plain.tokenizer("now")["input_ids"]
    assert without.encode(conversation("red")) == [*plain.encode(conversation("red")), now]
    assert without.encode(conversation("red", "green", "blue")) == [
        *plain.encode(conversation("red", "green", "blue")),
        now,
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enable_thinkin": False}, "enable_thinkin = False.*enable_thinking"),
        ({"messages": []}, r"messages = \[\]"),
        ({"tokenize": True}, "tokenize = True"),
    ],
)
def test_a_variable_that_the_template_does_not_have_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        thinking(chat_template_kwargs=options)


def test_a_model_without_a_template_has_no_variables() -> None:
    with pytest.raises(ValueError, match="enable_thinking = False"):
        LanguageModel(network(), tokenizer(chat=False), chat_template_kwargs={"enable_thinking": False})


def test_paper_keeps_qwen3_from_thinking() -> None:
    by_name = {c.model.name: c.model.chat_template_kwargs for c in load_suite("paper").cells()}
    assert {name: not options.get("enable_thinking", True) for name, options in by_name.items()} == {
        name: name.startswith("Qwen/Qwen3") for name in by_name
    }


# --- options in files -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a model whose template has a variable."""
    folder = tmp_path_factory.mktemp("thinker")
    policy = thinking()
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("sharing", ["separate", "shared", "lora"])
def test_options_of_a_suite_and_of_a_member_reach_their_models(thinker: str, sharing: Any) -> None:
    options: dict[str, Any] = {"batch_rows": 3, "chat_template_kwargs": {"enable_thinking": False}}
    of_suite = build(ModelConfig, {"sharing": sharing, "device": "cpu", **options}, source="suite")
    teams = [load_team(AGENTS, thinker, **of_suite.options())]
    member = MemberConfig(agents=list(AGENTS), model=thinker, sharing=sharing, device="cpu", **options)
    teams.append(assemble_team(AGENTS, AGENTS, [member]))
    for policy in (p for team in teams for p in team.policies):
        assert isinstance(policy, LanguageModel)
        assert policy.batch_rows.size == 3
        assert policy.encode(conversation("red")) == thinking(**options).encode(conversation("red"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_rows": 0}, "batch_rows = 0"),
        ({"chat_template_kwargs": 3}, "chat_template_kwargs = 3"),
        ({"batch_row": 3}, "batch_row: .*batch_rows"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(ModelConfig, options, source="suite")


# --- little memory ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A device that holds `room` texts; notes with how many it was asked."""
    device = SimpleNamespace(room=2, asked=[])
    whole = module.sample

    def sample(model: Any, prompts: Any, *arguments: Any) -> Any:
        rows = sum(len(prompt.seeds) for prompt in prompts)
        device.asked.append(rows)
        if rows > device.room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory (simulated)")
        return whole(model, prompts, *arguments)

    monkeypatch.setattr(module, "sample", sample)
    return device


def doubled(**options: Any) -> LanguageModel:
    return LanguageModel(network(1, double=True), tokenizer(), **options)


def texts(policy: LanguageModel) -> list[list[tuple[int, ...]]]:
    return [[c.token_ids for c in answer] for answer in policy.generate(REQUESTS, SHORT)]


@pytest.mark.slow
def test_a_rollout_that_runs_out_of_memory_goes_on_with_half_the_rows(
    small_device: Any, caplog: pytest.LogCaptureFixture
) -> None:
    policy = doubled(batch_rows=8)
    with caplog.at_level(logging.WARNING):
        answers = texts(policy)
    assert "batch_rows is 2 from now on" in caplog.records[-1].getMessage()
    assert small_device.asked == [7, 2, 3, 2, 1, 2]  # of four rows at most the first two are sampled, and kept
    small_device.asked.clear()
    texts(policy)
    assert max(small_device.asked) == 2  # for good
    small_device.room = 100
    assert answers == texts(doubled())


def test_what_was_sampled_before_memory_ran_out_is_kept(small_device: Any) -> None:
    policy = doubled(batch_rows=3)
    small_device.room = 3
    questions = [
        Request("a", conversation("red"), (1, 2)),
        Request("a", conversation("say one of the words please"), (3, 4, 5)),
    ]
    policy.generate(questions[:1], SHORT)
    small_device.room = 2
    small_device.asked.clear()
    answers = policy.generate(questions, SHORT)
    assert small_device.asked == [2, 3, 2, 1]  # the two first are not sampled again
    small_device.room = 100
    assert [[c.token_ids for c in a] for a in answers] == [
        [c.token_ids for c in a] for a in doubled().generate(questions, SHORT)
    ]


@pytest.mark.slow
def test_a_device_that_holds_no_text_is_given_up(small_device: Any) -> None:
    small_device.room = 0
    with pytest.raises(OutOfDeviceMemoryError, match="CUDA out of memory"):
        texts(doubled())


# --- other families ---------------------------------------------------------------------------------------------------

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "eos_token_id": 2, "pad_token_id": 1, "vocab_size": 40}


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(**SIZES, state_size=4),
        JambaConfig(
            **SIZES,
            intermediate_size=16,
            num_attention_heads=2,
            num_key_value_heads=2,
            num_experts=2,
            attn_layer_period=2,
            attn_layer_offset=1,
            mamba_d_state=4,
        ),
        OpenAIGPTConfig(vocab_size=40, n_embd=16, n_layer=1, n_head=2),
    ],
    ids=lambda config: config.model_type,
)
@pytest.mark.filterwarnings("ignore")
def test_a_family_that_cannot_be_driven_is_named(config: Any) -> None:
    policy = LanguageModel(AutoModelForCausalLM.from_config(config), tokenizer())
    message = f"'{config.model_type}'"
    with pytest.raises(ValueError, match=message):
        policy.generate([Request("a", conversation("red"))], Sampling(max_new_tokens=2))
    with pytest.raises(ValueError, match=message), contextlib.suppress(NotImplementedError):
        policy.token_logprobs([("a", sampled(5, 6))], 1.0)

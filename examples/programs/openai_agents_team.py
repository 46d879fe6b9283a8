"""A program of the OpenAI Agents SDK with two agents, trained: only the scout sees the colour, the painter paints.

    pip install openai-agents
    python examples/programs/openai_agents_team.py

It prints the return of the trained team and of the shuffled-reward control for three seeds.
"""

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

import llm_dec_pomdp

COLOURS = ("red", "green", "blue")
CHOICES = {"scout": ("one", "two", "three"), "painter": COLOURS}
TASKS = [{"id": colour, "prompt": f"The wall has to be {colour}."} for colour in COLOURS]
JOBS = {"scout": "Signal the colour of the wall by a word.", "painter": "Paint the wall by the signal."}
set_tracing_disabled(True)


async def solve(task, roles):
    """Run the scout, then the painter on its signal."""

    async def ask(role, text):
        async with AsyncOpenAI(base_url=roles[role].base_url, api_key=roles[role].api_key) as client:
            model = OpenAIChatCompletionsModel(model=role, openai_client=client)
            return (await Runner.run(Agent(name=role, instructions=JOBS[role], model=model), text)).final_output

    signal = await ask("scout", task["prompt"])
    return await ask("painter", f"Signal: {signal}. Which colour?")


def score(task, result):
    """Return 1 if the wall has its colour."""
    return float(result == task["id"])


if __name__ == "__main__":
    for learner in ("magrpo", "magrpo_shuffled"):
        for seed in range(3):
            env = llm_dec_pomdp.from_program(
                solve, roles=list(CHOICES), tasks=TASKS, choices=CHOICES, score=score, split="all"
            )
            team = llm_dec_pomdp.load_team(env)
            llm_dec_pomdp.train(team, env, learner, steps=30, seed=seed)
            print(learner, seed, llm_dec_pomdp.evaluate(team, env, samples=20).return_percent)

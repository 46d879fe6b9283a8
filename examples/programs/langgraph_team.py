"""A LangGraph program with two nodes, trained: only the scout sees the colour, and only the painter paints.

    pip install langgraph langchain-openai
    python examples/programs/langgraph_team.py

It prints the return of the trained team and of the shuffled-reward control for three seeds.
"""

from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

import llm_dec_pomdp

COLOURS = ("red", "green", "blue")
CHOICES = {"scout": ("one", "two", "three"), "painter": COLOURS}
TASKS = [{"id": colour, "prompt": f"The wall has to be {colour}."} for colour in COLOURS]


class Wall(TypedDict, total=False):
    """The state of the graph."""

    order: str
    signal: str
    colour: str


def solve(task, roles):
    """Run the graph; each node is a role."""

    def ask(role, text):
        return ChatOpenAI(model=role, base_url=roles[role].base_url, api_key=roles[role].api_key).invoke(text).content

    graph = StateGraph(Wall)
    graph.add_node("scout", lambda wall: {"signal": ask("scout", wall["order"])})
    graph.add_node("painter", lambda wall: {"colour": ask("painter", f"Signal: {wall['signal']}. Which colour?")})
    graph.add_edge(START, "scout")
    graph.add_edge("scout", "painter")
    graph.add_edge("painter", END)
    return graph.compile().invoke({"order": task["prompt"]})["colour"]


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

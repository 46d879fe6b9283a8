"""A planner and a coder behind the `openai` client, as a program that was written without this package.

    llm-dec-pomdp train examples/programs/planner_coder.py:solve --model MODEL --steps 40

Only `base_url` and `api_key` come from the training. The score runs the function in the sandbox on two examples.
"""

from openai import OpenAI

from llm_dec_pomdp.sandbox import Job, SandboxPool

ROLES = ["planner", "coder"]
EXAMPLES = {
    "add": ("returns the sum of two numbers a and b", ["add(1, 2) == 3", "add(-1, 1) == 0"]),
    "double": ("returns twice the number a", ["double(2) == 4", "double(0) == 0"]),
    "first": ("returns the first item of the list a", ["first([3, 4]) == 3", "first('ab') == 'a'"]),
    "is_even": ("returns whether the number a is even", ["is_even(4) is True", "is_even(3) is False"]),
}
TASKS = [{"id": name, "prompt": f"A Python function {name} that {what}."} for name, (what, _) in EXAMPLES.items()]
pool = SandboxPool()


def solve(task, roles):
    """Let the planner describe the function in a sentence, and the coder write it."""

    def ask(role, content):
        client = OpenAI(base_url=roles[role].base_url, api_key=roles[role].api_key)
        messages = [{"role": "user", "content": content}]
        return client.chat.completions.create(model=role, messages=messages).choices[0].message.content

    plan = ask("planner", f"Describe in a sentence how to write: {task['prompt']}")
    return ask("coder", f"{task['prompt']}\nPlan: {plan}\nAnswer only with the code of the function.")


def score(task, result):
    """Return the share of the examples that hold."""
    code = result.partition("```python")[2].partition("```")[0] or result
    asserts = "\n".join(f"    assert {example}" for example in EXAMPLES[task["id"]][1])
    name = task["id"]
    [verdict] = pool.run([Job(code, f"def check({name}):\n{asserts}\n", name)])
    return verdict.passed / max(verdict.total, 1)

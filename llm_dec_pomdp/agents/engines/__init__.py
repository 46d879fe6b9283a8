"""Engines: what draws the texts of a language model. The model in this process does, unless a configuration names one.

One file each: `own` is the model itself, `vllm` a server, `colocated` vLLM in this process; `base` has the contract.
"""

from .base import ENGINES, Engine, EngineError, Prompt, Sampled, make_engine, register

__all__ = ["ENGINES", "Engine", "EngineError", "Prompt", "Sampled", "make_engine", "register"]

"""Engines, which sample the completions of a language model.

The default engine is the model in this process (`own`). Others are a vLLM server (`vllm`) and vLLM in this process
(`colocated`). `base` has the contract.
"""

from .base import ENGINES, Engine, EngineError, Prompt, Sampled, make_engine, register

__all__ = ["ENGINES", "Engine", "EngineError", "Prompt", "Sampled", "make_engine", "register"]

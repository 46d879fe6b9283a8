"""Language models of the transformers library as policies: prompts, sampling, log-probabilities, adapters."""

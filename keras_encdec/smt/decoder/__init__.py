"""The phrase-based decoder: cube pruning with a phrase table and an n-gram language model."""

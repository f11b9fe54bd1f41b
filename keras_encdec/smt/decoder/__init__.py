"""The phrase-based decoder."""

"""N-gram language models: estimated from text, and read from ARPA files."""

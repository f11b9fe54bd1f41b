"""N-gram language models: estimated from text, and read by KenLM."""

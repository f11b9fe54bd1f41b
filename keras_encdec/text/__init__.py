"""Raw text and tokens: the tokenizer and the vocabulary."""

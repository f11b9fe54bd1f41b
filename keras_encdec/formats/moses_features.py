"""The names of Moses's features, as its n-best lists and its weights have them."""

#: Minus the sum of the distances between the end of a phrase's source and the start of the next one's.
DISTORTION = "Distortion0"
#: ln p of the sentence with its end, by the language model.
LANGUAGE_MODEL = "LM0"
#: Minus the number of words.
WORD_PENALTY = "WordPenalty0"
#: The number of phrases.
PHRASE_PENALTY = "PhrasePenalty0"
#: For each score of the phrase table, the sum of its ln over the phrases.
TRANSLATION_MODEL = "TranslationModel0"
#: -100 times the number of copied words. It has a weight, but Moses does not write it to its lists.
UNKNOWN_WORD_PENALTY = "UnknownWordPenalty0"

"""Options of extracting a phrase table and of making a dictionary from parallel text."""

import dataclasses

from keras_encdec.backend.startup import quietly
from keras_encdec.configuration import hyperparameter
from keras_encdec.data.alignment import ALIGNERS, DEFAULT_ALIGNER, DEFAULT_SYMMETRIZATION, SYMMETRIZATIONS
from keras_encdec.smt.extraction.count_smoothing import SMOOTHINGS
from keras_encdec.smt.extraction.phrase_extraction import MAX_PHRASE_LENGTH
from keras_encdec.task_options import (
    SHORTLIST_WORDS,
    EncodingOption,
    MalformedLinesOption,
    ProcessesOption,
    RawTextOptions,
)
from keras_encdec.text.tokenizer import Tokenizer


def raw_text_tokenizer(options: RawTextOptions) -> Tokenizer | None:
    """Makes a tokenizer for raw text, without the start-up messages of TensorFlow; returns `None` for tokenized text.

    Raises:
        ImportError: if tensorflow-text is needed and is not installed.
    """
    if not options.tokenize:
        return None
    with quietly():
        tokenizer = Tokenizer(lowercase=options.lowercase)
        tokenizer.words([""])  # the first operation looks for devices, with messages of its own
    return tokenizer


@dataclasses.dataclass(frozen=True)
class ExtractionOptions(RawTextOptions, EncodingOption, MalformedLinesOption, ProcessesOption):
    """Options of `extract_phrase_table`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    aligner: str | None = hyperparameter(
        None,
        "Alignment model: fast_align; hmm, initialized by IBM model 1; ibm4, initialized by IBM model 1, hmm and IBM "
        "model 3; eflomal. "
        f"Default: {DEFAULT_ALIGNER}.",
        choices=tuple(ALIGNERS),
    )
    symmetrization: str | None = hyperparameter(
        None,
        f"How to combine the links of both directions. Default: {DEFAULT_SYMMETRIZATION}.",
        choices=tuple(SYMMETRIZATIONS),
    )
    max_phrase_length: int = hyperparameter(
        MAX_PHRASE_LENGTH, "Maximum number of words in a phrase, on either side.", minimum=1
    )
    max_sentence_length: int = hyperparameter(
        100,
        "Maximum number of words in a sentence. Longer sentences and empty ones are handled like malformed lines.",
        minimum=1,
    )
    smoothing: str = hyperparameter(
        "none", "Smoothing of the phrase probabilities (Foster et al., 2006).", choices=SMOOTHINGS
    )


@dataclasses.dataclass(frozen=True)
class DictionaryOptions(RawTextOptions, EncodingOption, MalformedLinesOption):
    """Options of `write_dictionary`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    min_count: int | None = hyperparameter(
        None,
        "Leave out words that are aligned to their translation fewer times than this. Default: 2; 1 with --shortlist. "
        "The paper uses 100 for 12 million pairs.",
        minimum=1,
    )
    shortlist: bool = hyperparameter(
        False,
        "Write several translations of each word with their probabilities, for --lexical_shortlist of encdec-generate.",
    )
    shortlist_words: int | None = hyperparameter(
        None,
        f"With --shortlist: maximum number of translations of a word. Default: {SHORTLIST_WORDS}.",
        minimum=1,
        needs="shortlist",
    )
    reverse: bool = hyperparameter(
        False, "Translate target words into source words, for a model trained in that direction."
    )

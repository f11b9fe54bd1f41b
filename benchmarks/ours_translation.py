"""Measures this package's translation of text with a trained model, on the backend that KERAS_BACKEND names."""

import argparse
import time

from workload import report

from keras_encdec.backend import compiled_call
from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.decoding import BeamSampler, GreedySampler, TextGenerator
from keras_encdec.decoding.text_generator import UnknownReplacement
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.runtime.workers import collect_cycles_rarely
from keras_encdec.text.lexical_shortlist import LexicalShortlist, read_dictionary


def arguments():
    """Makes the parser of the command line of this package and of its peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir")
    parser.add_argument("--input", required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--dictionary")
    parser.add_argument("--single", action="store_true", help="one sentence at a time")
    return parser


def main():
    """Translates twice: the first time compiles all sizes of batches, as after many sentences."""
    parser = arguments()
    parser.add_argument("--dtype")
    parser.add_argument("--shortlist")
    parser.add_argument("--shortlist_words", type=int)
    options = parser.parse_args()
    compiled_call.COMPILING = 0
    keep_freed_memory()  # these two as encdec-generate does
    collect_cycles_rarely()
    generator = TextGenerator([options.model_dir], dtype=options.dtype)
    sampler = GreedySampler() if options.beam == 1 else BeamSampler(options.beam, length_penalty=1.0)
    vocabulary = generator.directories[0].target_vocabulary
    shortlist = None
    if options.shortlist:
        shortlist = LexicalShortlist.read(options.shortlist, vocabulary, options.shortlist_words)
    replacement = UnknownReplacement(read_dictionary(options.dictionary)) if options.dictionary else None
    lines = read_sentences(options.input)
    windows = [[line] for line in lines] if options.single else [lines]
    for _ in range(2):
        start = time.perf_counter()
        found = [
            best
            for window in windows
            for best, *_ in generator.generate(window, sampler, replacement, lexical_shortlist=shortlist)
        ]
        seconds = time.perf_counter() - start
    words = sum(len(best.words) for best in found)
    report(words_per_second=words / seconds, translations=[" ".join(best.words) for best in found])


if __name__ == "__main__":
    main()

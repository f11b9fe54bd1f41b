"""Phrase-based machine translation: extraction, n-gram models, decoding, n-best lists, tuning and evaluation."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.data.alignment import align as align
    from keras_encdec.data.pairs import open_aligned_pairs as open_aligned_pairs
    from keras_encdec.smt.decoder.decoding_options import DecodingOptions as DecodingOptions
    from keras_encdec.smt.decoder.decoding_options import initial_weights as initial_weights
    from keras_encdec.smt.decoder.phrase_decoder import DecodingSummary as DecodingSummary
    from keras_encdec.smt.decoder.phrase_decoder import decode_nbest as decode_nbest
    from keras_encdec.smt.extraction.dictionary import DictionaryEntry as DictionaryEntry
    from keras_encdec.smt.extraction.dictionary import DictionarySummary as DictionarySummary
    from keras_encdec.smt.extraction.dictionary import dictionary_entries as dictionary_entries
    from keras_encdec.smt.extraction.dictionary import write_dictionary as write_dictionary
    from keras_encdec.smt.extraction.extract import ExtractSummary as ExtractSummary
    from keras_encdec.smt.extraction.extract import extract_phrase_table as extract_phrase_table
    from keras_encdec.smt.extraction.extraction_options import DictionaryOptions as DictionaryOptions
    from keras_encdec.smt.extraction.extraction_options import ExtractionOptions as ExtractionOptions
    from keras_encdec.smt.extraction.phrase_extraction import extract_phrases as extract_phrases
    from keras_encdec.smt.extraction.phrase_scoring import score_phrases as score_phrases
    from keras_encdec.smt.nbest.ngram_posteriors import NgramPosteriorsSummary as NgramPosteriorsSummary
    from keras_encdec.smt.nbest.ngram_posteriors import PosteriorOptions as PosteriorOptions
    from keras_encdec.smt.nbest.ngram_posteriors import add_ngram_posteriors as add_ngram_posteriors
    from keras_encdec.smt.nbest.phrase_features import PhraseFeatureOptions as PhraseFeatureOptions
    from keras_encdec.smt.nbest.phrase_features import PhraseFeaturesSummary as PhraseFeaturesSummary
    from keras_encdec.smt.nbest.phrase_features import add_phrase_features as add_phrase_features
    from keras_encdec.smt.nbest.rerank import RerankOptions as RerankOptions
    from keras_encdec.smt.nbest.rerank import RerankSummary as RerankSummary
    from keras_encdec.smt.nbest.rerank import rerank as rerank
    from keras_encdec.smt.ngrams.ngram_estimation import NgramOptions as NgramOptions
    from keras_encdec.smt.ngrams.ngram_estimation import NgramSummary as NgramSummary
    from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams as estimate_ngrams
    from keras_encdec.smt.ngrams.ngram_model import NgramModel as NgramModel

lazy_imports(__name__)

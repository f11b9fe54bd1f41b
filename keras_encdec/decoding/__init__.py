"""Target sequences from models: samples, greedy and beam search, for one model or an ensemble."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.decoding.beam_sampler import BeamSampler as BeamSampler
    from keras_encdec.decoding.beam_sampler import GreedySampler as GreedySampler
    from keras_encdec.decoding.ensemble import Ensemble as Ensemble
    from keras_encdec.decoding.generate_file import GenerationSummary as GenerationSummary
    from keras_encdec.decoding.generate_file import generate_file as generate_file
    from keras_encdec.decoding.generation_options import GenerationOptions as GenerationOptions
    from keras_encdec.decoding.generator import Generator as Generator
    from keras_encdec.decoding.random_sampler import RandomSampler as RandomSampler
    from keras_encdec.decoding.sampler import Choice as Choice
    from keras_encdec.decoding.sampler import Sampler as Sampler
    from keras_encdec.decoding.sampler_registry import RegisteredSampler as RegisteredSampler
    from keras_encdec.decoding.sampler_registry import register_sampler as register_sampler
    from keras_encdec.decoding.sampler_registry import registered_samplers as registered_samplers
    from keras_encdec.decoding.search import Hypothesis as Hypothesis
    from keras_encdec.decoding.text_generator import TextGenerator as TextGenerator
    from keras_encdec.decoding.text_generator import TextHypothesis as TextHypothesis
    from keras_encdec.decoding.text_generator import UnknownReplacement as UnknownReplacement
    from keras_encdec.decoding.unknown_speller import UnknownSpeller as UnknownSpeller

lazy_imports(__name__)

"""Target sequences from models: samples, greedy and beam search, for one model or an ensemble."""

from keras_encdec.decoding.beam_sampler import BeamSampler as BeamSampler
from keras_encdec.decoding.beam_sampler import GreedySampler as GreedySampler
from keras_encdec.decoding.ensemble import Ensemble as Ensemble
from keras_encdec.decoding.generator import Generator as Generator
from keras_encdec.decoding.hypothesis import Hypothesis as Hypothesis
from keras_encdec.decoding.random_sampler import RandomSampler as RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator as TextGenerator
from keras_encdec.decoding.text_generator import TextHypothesis as TextHypothesis

"""The workload of the attention benchmark: a file that is made once and given to all contestants."""

import argparse
import itertools
import json
import random

import numpy as np

from keras_encdec.formats import InputLines
from keras_encdec.formats.nbest import hypotheses_by_sentence
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.text import Vocabulary
from keras_encdec.text.vocabulary import END, FIRST_WORD

# Number of ids of each side, including the special ids.
IDS = 8_000
# Length of both sides of a training batch, including the end of sequence; and the maximum number of batches.
LENGTH, BATCHES = 16, 3
# Adam's epsilon. Keras and PyTorch add it in different places; it is too small to matter, so that losses can be
# compared.
EPSILON = 1e-12


def arguments():
    """Makes the parser of the command line of the measured scripts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["prepare", "train", "decode", "score"])
    parser.add_argument("prepared", help="file that `prepare` writes and the others read")
    for name in ("layers", "units", "sentences", "nbest_sentences", "hypotheses"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--input_feeding", action="store_true")
    parser.add_argument("--input")
    parser.add_argument("--nbest")
    parser.add_argument("--batch", type=int, help="pairs of a training step, or sources that the peer decodes together")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--pairs", type=int, help="maximum number of pairs to score")
    parser.add_argument("--candidates", type=int, help="candidate words for the targets of each source")
    parser.add_argument("--dtype", help="float32, bfloat16 or int8; for the peer, in training only")
    parser.add_argument("--automatic", action="store_true", help="train without the hand-written gradient")
    return parser


def write(settings, weights, options):
    """Writes a model and the data to compute with it, as the command line says.

    Args:
        settings: dict. Hyper-parameters of the model.
        weights: dict of arrays by path of the variable.
        options: namespace of `arguments`.
    """
    numbers, count = random.Random(0), options.nbest_sentences
    if options.input:
        sources, nbest = read_text(options.input, options.nbest)
    else:
        needed = max(options.sentences, count)
        sources, nbest = [random_sequence(numbers, numbers.randint(4, 20)) for _ in range(needed)], []
    if not nbest:
        nbest = [random_hypotheses(numbers, len(source) - 1, options.hypotheses) for source in sources[:count]]
    nbest = nbest[:count]
    batches = np.random.default_rng(0).integers(FIRST_WORD, IDS, (2, BATCHES * options.batch, LENGTH), np.int32)
    batches[..., -1] = END
    np.savez(
        options.prepared,
        settings=json.dumps(settings),
        sources=_joined(sources),
        hypotheses=_joined(itertools.chain.from_iterable(nbest)),
        hypotheses_of_source=[len(targets) for targets in nbest],
        batches=batches,
        **{f"weights/{name}": weight for name, weight in weights.items()},
    )


class Workload:
    """The contents of the file that `write` wrote.

    Args:
        path: path of the file.

    Attributes:
        settings: dict. Hyper-parameters of the model.
        weights: dict of arrays by path of the variable.
        sources: list of lists of ids.
        pairs: list of `(source ids, target ids)`: an n-best list.
    """

    def __init__(self, path):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        self.settings = json.loads(str(arrays["settings"]))
        self.weights = {name.split("/", 1)[1]: value for name, value in arrays.items() if name.startswith("weights/")}
        self.sources = split_sequences(arrays["sources"])
        pair_sources = itertools.chain.from_iterable(
            map(itertools.repeat, self.sources, arrays["hypotheses_of_source"])
        )
        self.pairs = list(zip(pair_sources, split_sequences(arrays["hypotheses"]), strict=True))
        self._batches = arrays["batches"]

    def batches(self, size):
        """Returns batches to train on: pairs of int32 arrays `(size, LENGTH)`."""
        return [self._batches[:, i : i + size] for i in range(0, BATCHES * size, size)]

    def candidates(self, number):
        """Returns candidate ids for the targets of each source, drawn like words of a text, so mostly frequent ones."""
        rng, ids = np.random.default_rng(0), np.arange(FIRST_WORD, IDS)
        probabilities = 1 / (ids + 50.0)
        probabilities /= probabilities.sum()
        return [rng.choice(ids, number, replace=False, p=probabilities) for _ in self.sources]

    def shared(self):
        """Returns the number of target tokens of the n-best list per distinct pair of a source and a target prefix."""
        distinct = {(tuple(source), tuple(target[:i])) for source, target in self.pairs for i in range(len(target))}
        return sum(len(target) for _, target in self.pairs) / len(distinct)


def read_text(input, nbest=None):
    """Reads a text file and the n-best list of its first sentences as ids, numbered in the order of occurrence."""
    sources, lists = [line.split() for line in read_sentences(input)], []
    if nbest:
        with InputLines(nbest) as lines:
            for sentence in hypotheses_by_sentence(lines):
                lists += [[]] * sentence.missing
                lists.append([hypothesis.parsed.hypothesis.decode().split() for hypothesis in sentence.hypotheses])
    targets = itertools.chain.from_iterable(lists)
    source_words, target_words = (_vocabulary(itertools.chain.from_iterable(side)) for side in (sources, targets))
    return list(map(source_words.encode, sources)), [list(map(target_words.encode, targets)) for targets in lists]


def _vocabulary(words):
    return Vocabulary(itertools.islice(dict.fromkeys(words), IDS - FIRST_WORD))


def random_sequence(numbers, words, first=()):
    """Returns random ids that begin with those of `first`, closed by the end of sequence."""
    return [*first, *(numbers.randrange(FIRST_WORD, IDS) for _ in range(words - len(first))), END]


def random_hypotheses(numbers, words, count):
    """Returns random targets, each with a prefix of another; they share less than an n-best list of Moses."""
    targets = [random_sequence(numbers, words)]
    for _ in range(count - 1):
        other = numbers.choice(targets)[:-1]
        shared = other[: numbers.randint(0, len(other))]
        targets.append(random_sequence(numbers, max(len(shared), words + numbers.randint(-2, 2)), shared))
    return targets


def _joined(sequences):
    return np.array(list(itertools.chain.from_iterable(sequences)), np.int32)


def split_sequences(ids):
    """Returns the sequences that `_joined` joined."""
    return [part.tolist() for part in np.split(ids, np.flatnonzero(ids == END) + 1)[:-1]]

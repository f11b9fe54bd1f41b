"""What attention models are measured on, made once and handed to those who are measured in one file."""

import argparse
import itertools
import json
import random

import numpy as np

from keras_encdec.formats import InputLines
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.smt.nbest.nbest_sentences import hypotheses_by_sentence
from keras_encdec.text import Vocabulary
from keras_encdec.text.vocabulary import END, FIRST_WORD

# Ids of each side, the special ones counted.
IDS = 8_000
# Of a batch to train on, both sides, the end of sequence counted; and how many batches there are at most.
LENGTH, BATCHES = 16, 3
# Of Adam, which Keras and PyTorch add at different places: too small to matter, so that the losses can be compared.
EPSILON = 1e-12


def arguments():
    """The command line that the measured scripts understand."""
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
    parser.add_argument("--pairs", type=int, help="to score, at most")
    parser.add_argument("--candidates", type=int, help="words that may follow in the targets of each source")
    parser.add_argument("--dtype", help="of this package's scoring and decoding")
    parser.add_argument("--automatic", action="store_true", help="train without the hand-written gradient")
    return parser


def write(settings, weights, options):
    """Writes a model and what is computed with it, as the command line says.

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
    """What `write` wrote.

    Args:
        path: of the file.

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
        of_pairs = itertools.chain.from_iterable(map(itertools.repeat, self.sources, arrays["hypotheses_of_source"]))
        self.pairs = list(zip(of_pairs, split_sequences(arrays["hypotheses"]), strict=True))
        self._batches = arrays["batches"]

    def batches(self, size):
        """Batches to train on: pairs of int32 arrays `(size, LENGTH)`."""
        return [self._batches[:, i : i + size] for i in range(0, BATCHES * size, size)]

    def candidates(self, number):
        """For each source the ids that may follow, drawn as words of a text are: frequent ones in most lists."""
        rng, ids = np.random.default_rng(0), np.arange(FIRST_WORD, IDS)
        probabilities = 1 / (ids + 50.0)
        probabilities /= probabilities.sum()
        return [rng.choice(ids, number, replace=False, p=probabilities) for _ in self.sources]

    def shared(self):
        """Target tokens of the n-best list for each that does not share its source and all words before it."""
        distinct = {(tuple(source), tuple(target[:i])) for source, target in self.pairs for i in range(len(target))}
        return sum(len(target) for _, target in self.pairs) / len(distinct)


def read_text(input, nbest=None):
    """The sentences of a text file and the n-best list of its first ones as ids, numbered as the words come."""
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
    """Random ids, closed by the end of sequence, that begin with those of `first`."""
    return [*first, *(numbers.randrange(FIRST_WORD, IDS) for _ in range(words - len(first))), END]


def random_hypotheses(numbers, words, count):
    """Targets, each with a prefix of another: less is shared than in an n-best list of Moses."""
    targets = [random_sequence(numbers, words)]
    for _ in range(count - 1):
        other = numbers.choice(targets)[:-1]
        shared = other[: numbers.randint(0, len(other))]
        targets.append(random_sequence(numbers, max(len(shared), words + numbers.randint(-2, 2)), shared))
    return targets


def _joined(sequences):
    return np.array(list(itertools.chain.from_iterable(sequences)), np.int32)


def split_sequences(ids):
    """The sequences that were joined."""
    return [part.tolist() for part in np.split(ids, np.flatnonzero(ids == END) + 1)[:-1]]

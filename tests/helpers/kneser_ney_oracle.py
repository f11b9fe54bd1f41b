"""Interpolated modified Kneser-Ney, written from its definition: slow, and for small texts."""

from collections import Counter, defaultdict

DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)


class KneserNeyOracle:
    """Probabilities by recursion over shorter and shorter contexts.

    Args:
        sentences: list of lists of str.
        order: int.
    """

    def __init__(self, sentences, order):
        padded = [("<s>", *words, "</s>") for words in sentences]
        self.words = {word for sentence in padded for word in sentence} - {"<s>"} | {"<unk>"}
        self._counts = [Counter() for _ in range(order + 1)]
        for sentence in padded:
            for length in range(1, order + 1):
                self._counts[length].update(zip(*[sentence[start:] for start in range(length)], strict=False))
        for length in range(1, order):
            preceding = defaultdict(set)
            for ngram in self._counts[length + 1]:
                preceding[ngram[1:]].add(ngram[0])
            for ngram in self._counts[length]:
                if ngram[0] != "<s>":
                    self._counts[length][ngram] = len(preceding[ngram])
        del self._counts[1]["<s>",]
        self.discounts = [self._discounts(counts) for counts in self._counts]
        self._following = defaultdict(dict)
        for counts in self._counts:
            for ngram, count in counts.items():
                self._following[ngram[:-1]][ngram[-1]] = count

    def _discounts(self, counts):
        t = Counter(counts.values())
        if not (t[1] and t[2] and t[3]):
            return DEFAULT_DISCOUNTS
        y = t[1] / (t[1] + 2 * t[2])
        found = tuple(k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3))
        return found if all(0 < discount <= k + 1 for k, discount in enumerate(found)) else DEFAULT_DISCOUNTS

    def probability(self, context, word):
        """p(word | context), a tuple of str."""
        below = self.probability(context[1:], word) if context else 1 / len(self.words)
        following = self._following.get(context)
        if not following:
            return below
        discounts = self.discounts[len(context) + 1]
        discount = {other: discounts[min(count, 3) - 1] for other, count in following.items()}
        left = sum(discount.values()) / sum(following.values())
        own = (following[word] - discount[word]) / sum(following.values()) if word in following else 0
        return own + left * below

"""A phrase table with lines of every form that Moses reads, a moses.ini for it, and what scoring adds to it."""

import numpy as np

# Lines of two scores, of every form that Moses reads, and the words that the model is to see.
LINES = {
    "le chat ||| the cat ||| 0.5 0.25 ||| 0-0 1-1 ||| 3 4 2 ||| |||": ("le chat", "the cat"),
    "le chat ||| the cat ||| 0.125 1e-05 ||| 0-0 1-1 ||| 9 9 9": ("le chat", "the cat"),
    "la maison ||| house ||| 0.5 0.25": ("la maison", "house"),
    "la|||the|||.5 1.5E-05|||0-0": ("la", "the"),
    "l&apos; été ||| &apos;s summer ||| 1 1 |||  ||| 1 1 1": ("l' été", "'s summer"),
    "&quot; &#124; R&amp;D &lt;b&gt; &#91;X&#93; ||| &quot; &#124; R&amp;D &lt;b&gt; &#91;X&#93; ||| 1 1": (
        '" | R&D <b> [X]',
        '" | R&D <b> [X]',
    ),
    "le|DET|le chat|NOM|chat ||| the|DT cat|NN ||| 0.5 0.5 ||| 0-0 ||| 1 1 1 ||| dom 1 ||| {{Counts 1 2}}": (
        "le chat",
        "the cat",
    ),
    "  le   chat  |||\tthe\tcat ||| 0.5  0.5  ||| x": ("le chat", "the cat"),
    "chien inconnu ||| unknown the dog ||| 0.5 0.5 ||| ||| ||| ||| {{a b}} ||| eighth": (
        "chien inconnu",
        "unknown the dog",
    ),
    "||| the ||| 0.5 0.5": ("", "the"),
    "le ||| ||| 0.5 0.5": ("le", ""),
    f"{'le ' * 80}||| {'the ' * 70}||| 0.5 0.5 ||| 0-0": ("le " * 80, "the " * 70),
}
INI = """[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=/old/table input-factor=0 output-factor=0

[weight]
UnknownWordPenalty0= 1
TranslationModel0= 0.25 0.35
# a comment
"""


def added(before, after):
    """The scores that were added to a table; asserts that nothing else changed, in any line."""
    assert before.count(b"\n") == after.count(b"\n")
    scores = []
    for old, new in zip(before.split(b"\n"), after.split(b"\n"), strict=True):
        if not old:
            assert not new
            continue
        fields = old.split(b"|||")
        head = b"|||".join(fields[:3]).rstrip(b" \t\r")
        tail = old[len(head) :]
        assert new.startswith(head + b" ") and new.endswith(tail), (old, new)
        scores.append([float(score) for score in new[len(head) : len(new) - len(tail)].split()])
    return np.array(scores)


def expected_probabilities(scorer, pairs):
    """p(target | source) of pairs of texts, as it is written: never 0."""
    return np.exp(np.maximum(scorer.score([(source.split(), target.split()) for source, target in pairs]), -100))

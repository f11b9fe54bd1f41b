"""ln p of a pair by a hybrid word-character model in float64 NumPy, one pair and one word at a time.

Written from Luong and Manning (2016) and the equations of the documentation, not from the layers. Weights are the
arrays of `to_symbols`: one LSTM layer on each side, global general attention, input feeding. A pair's source is a list
of words: an id, or a list of the ids of its characters; so is its target.
"""

import numpy as np
from oracle import sigmoid

UNKNOWN, END = 1, 2
LONGEST = 50


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def lstm(w, side, layer, x, h, c):
    def gate(name):
        weights = (w[f"{side}.{letter}_{name}.{layer}"] for letter in "WUb")
        matrix, recurrent, bias = weights
        return x @ matrix + h @ recurrent + bias

    c = sigmoid(gate("f")) * c + sigmoid(gate("i")) * np.tanh(gate("g"))
    return sigmoid(gate("o")) * np.tanh(c), c


def stack(w, side, x, states):
    """The top hidden state and the new states of all layers."""
    new = []
    for layer, (h, c) in enumerate(states, start=1):
        x, c = lstm(w, side, layer, x, h, c)
        new.append((x, c))
    return x, new


def depth(w, side):
    return sum(name.startswith(f"{side}.b_i.") for name in w)


def read(w, word):
    """The vector of a source word."""
    if not isinstance(word, list):
        return w["source.E"][word]
    embeddings = w["source.characters.E"]
    units = embeddings.shape[1]
    states = [(np.zeros(units), np.zeros(units))] * depth(w, "reader")
    for character in [len(embeddings) - 1, *word[:LONGEST], END]:
        top, states = stack(w, "reader", embeddings[character], states)
    return top @ w["reader.P"] if "reader.P" in w else top


def spelling(w, first, word):
    """ln p of the characters of a word."""
    states = [
        (first if layer == 0 else np.zeros_like(first), np.zeros_like(first)) for layer in range(depth(w, "speller"))
    ]
    total, before = 0.0, END
    for character in [*word[:LONGEST], END][:LONGEST]:
        top, states = stack(w, "speller", w["target.characters.E"][before], states)
        logits = (top @ w["speller.output.W_hy"] + w["speller.output.b_hy"])[1:]  # padding is impossible
        total += np.log(softmax(logits)[character - 1])
        before = character
    return total


def log_prob(w, source, target):
    """ln p(target | source), the ends of sequence included."""
    units = w["attention.W_h"].shape[0]
    h, c, annotations = np.zeros(units), np.zeros(units), []
    for word in [*source, END]:
        h, c = lstm(w, "encoder", 1, read(w, word), h, c)
        annotations.append(h)
    annotations, attentional = np.array(annotations), np.zeros(units)
    total, before = 0.0, END
    for word in [*target, END]:
        weights = {**w}
        for gate in "ifog":  # the first layer reads h~ of the step before, too
            weights[f"decoder.W_{gate}.1"] = np.concatenate([w[f"decoder.W_{gate}.1"], w[f"decoder.F_{gate}.1"]])
        h, c = lstm(weights, "decoder", 1, np.concatenate([w["target.E"][before], attentional]), h, c)
        context = softmax(annotations @ (h @ w["attention.W_a"])) @ annotations
        attentional = np.tanh(context @ w["attention.W_c"] + h @ w["attention.W_h"])
        probabilities = softmax(attentional @ w["output.W_hy"] + w["output.b_hy"])
        before = UNKNOWN if isinstance(word, list) else word
        total += np.log(probabilities[before])
        if isinstance(word, list):
            separate = "speller.W_s" in w
            first = np.tanh(context @ w["speller.W_s"] + h @ w["speller.W_t"]) if separate else attentional
            total += spelling(w, first, word)
    return total

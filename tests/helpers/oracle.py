"""The equations in float64 NumPy, one pair at a time, written from the equations and not from the layers.

Weights are a dict under the symbols of the equations ("encoder.U_r", ...), row vectors on the left.
"""

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def summary(w, source, reset_after):
    """c of one source, a list of ids closed by 2."""
    h = np.zeros(w["encoder.U"].shape[0])
    for x in source:
        e = w["source.E"][x]
        r = sigmoid(e @ w["encoder.W_r"] + h @ w["encoder.U_r"] + w["encoder.b_r"])
        z = sigmoid(e @ w["encoder.W_z"] + h @ w["encoder.U_z"] + w["encoder.b_z"])
        recurrent = r * (h @ w["encoder.U"]) if reset_after else (r * h) @ w["encoder.U"]
        n = np.tanh(e @ w["encoder.W"] + w["encoder.b"] + recurrent)
        h = z * h + (1 - z) * n
    return np.tanh(h @ w["encoder.V"] + w["encoder.b_V"])


def token_log_probs(w, source, target, reset_after):
    """log p(y_t | y_<t, x) for every t, over the whole vocabulary: array (len(target), vocabulary)."""
    c = summary(w, source, reset_after)
    h = np.tanh(c @ w["decoder.V"] + w["decoder.b_V"])
    rows = []
    for previous in [0, *target[:-1]]:
        e = w["target.E"][previous] if previous else np.zeros(w["target.E"].shape[1])
        r = sigmoid(e @ w["decoder.W_r"] + h @ w["decoder.U_r"] + c @ w["decoder.C_r"] + w["decoder.b_r"])
        z = sigmoid(e @ w["decoder.W_z"] + h @ w["decoder.U_z"] + c @ w["decoder.C_z"] + w["decoder.b_z"])
        n = np.tanh(e @ w["decoder.W"] + w["decoder.b"] + r * (h @ w["decoder.U"] + c @ w["decoder.C"]))
        h = z * h + (1 - z) * n
        s = h @ w["readout.O_h"] + e @ w["readout.O_y"] + c @ w["readout.O_c"] + w["readout.b_O"]
        s = np.array([max(s[2 * i], s[2 * i + 1]) for i in range(len(s) // 2)])
        logits = s @ w["readout.G_r"] @ w["readout.G_l"] + w["readout.b_G"]
        top = logits.max()
        rows.append(logits - top - np.log(np.exp(logits - top).sum()))
    return np.array(rows)


def score(w, source, target, reset_after):
    rows = token_log_probs(w, source, target, reset_after)
    return sum(row[y] for row, y in zip(rows, target, strict=True))


def random_weights(model_arrays, scale=0.4, seed=0):
    """Weights large enough that every term of the equations moves the score."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, scale, array.shape) for name, array in sorted(model_arrays.items())}
    arrays["source.E"][0] = 0
    arrays["target.E"][0] = 0
    return arrays

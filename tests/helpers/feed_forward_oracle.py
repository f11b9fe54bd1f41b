"""The feed-forward language model in float64 NumPy, one n-gram at a time, written from the equations.

Weights are a dict under the symbols of the equations ("decoder.W.1", ...), row vectors on the left.
"""

import numpy as np


def log_probs(w, context):
    """log p of every id after the n - 1 ids before it; 0 where the sentence has not begun."""
    size = w["target.E"].shape[1]
    h = np.concatenate([w["target.E"][i] if i else np.zeros(size) for i in context])
    layer = 1
    while f"decoder.W.{layer}" in w:
        h = np.maximum(h @ w[f"decoder.W.{layer}"] + w[f"decoder.b.{layer}"], 0)
        layer += 1
    logits = h @ w["output.W_hy"] + w["output.b_hy"]
    top = logits.max()
    return logits - top - np.log(np.exp(logits - top).sum())


def token_log_probs(w, target, order):
    """log p(y_t | y_{t-n+1} .. y_{t-1}) of each token of one sentence."""
    before = [0] * (order - 1) + list(target)
    return np.array([log_probs(w, before[t : t + order - 1])[y] for t, y in enumerate(target)])

"""The recurrent encoder-decoder with all its choices, attention too, in float64 NumPy, forward, one pair at a time.

Written from the equations and not from the layers. Weights are nested lists of arrays, row vectors on the left.
"""

import numpy as np
from oracle import sigmoid

END = 2


def cell_step(kind, weights, x, state):
    """The state after x, and its h."""
    if kind == "rnn":
        W, U, b = weights
        h = np.tanh(x @ W + state @ U + b)
        return h, h
    if kind == "gru":
        W, U_gates, U, b = weights
        W_r, W_z, W_n = np.split(W, 3, axis=1)
        U_r, U_z = np.split(U_gates, 2, axis=1)
        b_r, b_z, b_n = np.split(b, 3)
        r, z = sigmoid(x @ W_r + state @ U_r + b_r), sigmoid(x @ W_z + state @ U_z + b_z)
        h = z * state + (1 - z) * np.tanh(x @ W_n + (r * state) @ U + b_n)
        return h, h
    W, U, b = weights
    h, c = np.split(state, 2)
    i, f, o, g = np.split(x @ W + h @ U + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return np.concatenate([h, c]), h


def read(kind, weights, inputs, state):
    """The last state and every h."""
    outputs = []
    for x in inputs:
        state, h = cell_step(kind, weights, x, state)
        outputs.append(h)
    return state, outputs


def encode(w, source, choices):
    """What the decoder gets: a state a layer, or the summary; and H_s of every position of the sentence."""
    kind, units = choices["cell"], choices["units"]
    width = 2 * units if kind == "lstm" else units
    if choices["reverse_source"]:
        source = [*source[-2::-1], END]
    inputs, lasts = [w["source"][i] for i in source], []
    for cells in w["encoder"]:
        last, outputs = read(kind, cells[0], inputs, np.zeros(width))
        if choices["bidirectional"] != "none":
            last_left, outputs_left = read(kind, cells[1], inputs[::-1], np.zeros(width))
            both = zip(outputs, outputs_left[::-1], strict=True)
            outputs = [np.concatenate(two) if choices["bidirectional"] == "concat" else sum(two) for two in both]
            last = [last, last_left]
        else:
            last = [last]
        inputs = outputs
        lasts.append(last)
    annotations = np.array([*inputs[-2::-1], inputs[-1]] if choices["reverse_source"] else inputs)
    if choices["condition"] == "context":
        V, b = w["projections"][0][0]
        return np.tanh(np.concatenate([state[:units] for state in lasts[-1]]) @ V + b), annotations
    if choices["bidirectional"] == "none":
        return [one for (one,) in lasts], annotations
    states = [
        np.concatenate(
            [
                np.concatenate([state[k * units : (k + 1) * units] for state in last]) @ P + b
                for k, (P, b) in enumerate(ps)
            ]
        )
        for last, ps in zip(lasts, w["projections"], strict=True)
    ]
    return states, annotations


def attention_weights(w, h, annotations, t, choices):
    """a_t(s) of h_t for every s."""
    scores, S = [], len(annotations)
    for H_s in annotations:
        if choices["attention_score"] == "dot":
            scores.append(h @ H_s)
        elif choices["attention_score"] == "general":
            (W_a,) = w["score"]
            scores.append(h @ W_a @ H_s)
        else:
            W_q, W_k, v_a = w["score"]
            scores.append(np.tanh(h @ W_q + H_s @ W_k) @ v_a[:, 0])
    p, D = t, choices["attention_window"] or 10
    if choices["attention"] == "local_p":
        W_p, v_p = w["position"]
        p = (S - 1) * sigmoid(np.tanh(h @ W_p) @ v_p[:, 0])
    middle = min(int(np.floor(p)), S - 1)
    window = [s for s in range(S) if choices["attention"] == "global" or middle - D <= s <= middle + D]
    total = sum(np.exp(scores[s]) for s in window)
    weights = np.zeros(S)
    for s in window:
        gauss = np.exp(-((s - p) ** 2) / (2 * (D / 2) ** 2)) if choices["attention"] == "local_p" else 1.0
        weights[s] = np.exp(scores[s]) / total * gauss
    return weights


def token_log_probs(w, source, target, choices):
    """log p(y_t | y_<t, x) of each token."""
    return decoded(w, source, target, choices)[0]


def decoded(w, source, target, choices):
    """log p(y_t | y_<t, x) of each token, and, with attention, a_t(s) of each `(T, S)`."""
    states, annotations = encode(w, source, choices)
    summary = states if choices["condition"] == "context" else None
    if summary is not None:
        states = [np.tanh(summary @ V + b) for V, b in w["first_states"]]
    attends = choices.get("attention", "none") != "none"
    attentional, scores, attention = np.zeros(choices["units"]), [], []
    for t, (previous, word) in enumerate(zip([END, *target[:-1]], target, strict=True)):
        x = w["target"][previous]
        for layer, cell in enumerate(w["decoder"]):
            if layer == 0 and summary is not None:
                # c beside the word: the product of [e c] with both matrices, one above the other.
                cell = [np.vstack([cell[0], w["context"]]), *cell[1:]]
                x = np.concatenate([x, summary])
            if layer == 0 and attends and choices["input_feeding"]:
                cell = [np.vstack([cell[0], w["feeding"]]), *cell[1:]]
                x = np.concatenate([x, attentional])
            states[layer], x = cell_step(choices["cell"], cell, x, states[layer])
        if attends:
            attention.append(attention_weights(w, x, annotations, t, choices))
            c = sum(a * H_s for a, H_s in zip(attention[-1], annotations, strict=True))
            x = attentional = np.tanh(c @ w["W_c"] + x @ w["W_h"])
        W, b = w["output"]
        logits = x @ W + b
        scores.append(logits[word] - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
    return np.array(scores), np.array(attention)

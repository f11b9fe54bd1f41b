"""The algorithms of Luong's thesis (Neural Machine Translation, 2016, chapter 2) in float64 NumPy, both ways.

Written from the thesis and not from the layers: column vectors, one sentence at a time, the gradient of log p by
the thesis's own back-propagation through time. Weights are a dict. Algorithm 1 has "W_e" (a column for each word),
"W_xh", "W_hh" and "W_hy". In the other algorithms, T of layer l is in two parts with the prefix of its side, such as
"decoder.T_x.1" and "decoder.T_h.1"; its rows are the gates i, f, o and h-hat. The thesis allows biases in a footnote:
"b_h", "decoder.b.1", "b_y".
"""

import numpy as np
from oracle import sigmoid

END = 2  # the thesis's marker "_"


def zeros(w):
    return {name: np.zeros_like(array) for name, array in w.items()}


def predict(w, h):
    """p_t over the vocabulary."""
    s = w["W_hy"] @ h + w["b_y"]
    e = np.exp(s - s.max())
    return e / e.sum()


def predict_grad(w, d, y, p, h):
    """d h_t of the loss at t; adds to the gradients of the output matrix."""
    ds = -p
    ds[y] += 1
    d["W_hy"] += np.outer(ds, h)
    d["b_y"] += ds
    return w["W_hy"].T @ ds


# Algorithm 1: the plain recurrent language model.


def rnn_language_model(w, y):
    """log p(y_t | y_<t) of each token of y, closed by the end of sequence; and h_0 .. h_T and p_1 .. p_T."""
    h, p = [np.zeros(len(w["W_hh"]))], []
    for x in [END, *y[:-1]]:
        h.append(np.tanh(w["W_xh"] @ w["W_e"][:, x] + w["W_hh"] @ h[-1] + w["b_h"]))
        p.append(predict(w, h[-1]))
    return np.array([np.log(p_t[y_t]) for p_t, y_t in zip(p, y, strict=True)]), h, p


def rnn_bptt(w, y):
    """Gradient of log p(y)."""
    _, h, p = rnn_language_model(w, y)
    words, d, dh = [END, *y[:-1]], zeros(w), np.zeros_like(h[0])
    for t in reversed(range(len(y))):
        dh = dh + predict_grad(w, d, y[t], p[t], h[t + 1])
        dz = (1 - h[t + 1] ** 2) * dh  # tanh'
        d["W_xh"] += np.outer(dz, w["W_e"][:, words[t]])
        d["W_hh"] += np.outer(dz, h[t])
        d["b_h"] += dz
        d["W_e"][:, words[t]] += w["W_xh"].T @ dz
        dh = w["W_hh"].T @ dz
    return d


# Algorithm 2: the LSTM, and the language model of several of them.


def lstm(w, side, layer, x, h, c):
    u = w[f"{side}.T_x.{layer}"] @ x + w[f"{side}.T_h.{layer}"] @ h + w[f"{side}.b.{layer}"]
    i, f, o, candidate = np.split(u, 4)
    i, f, o, candidate = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(candidate)
    c_new = f * c + i * candidate
    return o * np.tanh(c_new), c_new, (i, f, o, candidate, c_new, x, h, c)


def lstm_grad(w, d, side, layer, dh, dc, kept):
    """d h_{t-1}, d c_{t-1} and d x_t; adds to the gradients of T."""
    i, f, o, candidate, c_new, x, h, c = kept
    do = np.tanh(c_new) * dh
    dc = dc + (1 - np.tanh(c_new) ** 2) * o * dh
    df, di, dcandidate = c * dc, candidate * dc, i * dc
    du = np.concatenate([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dcandidate * (1 - candidate**2)])
    d[f"{side}.T_x.{layer}"] += np.outer(du, x)
    d[f"{side}.T_h.{layer}"] += np.outer(du, h)
    d[f"{side}.b.{layer}"] += du
    return w[f"{side}.T_h.{layer}"].T @ du, f * dc, w[f"{side}.T_x.{layer}"].T @ du


def depth(w):
    return sum(name.startswith("decoder.T_x.") for name in w)


def lstm_language_model(w, y):
    """log p(y_t | y_<t) of each token."""
    return _forward(w, [], y)[0]


def lstm_bptt(w, y):
    """Gradient of log p(y)."""
    return _backward(w, [], y)


# Algorithms 3 and 4: the encoder-decoder. Its encoder reads the end of sequence too, before the decoder does.


def encoder_decoder(w, x, y):
    """log p(y_t | y_<t, x) of each token."""
    return _forward(w, x, y)[0]


def encoder_decoder_grad(w, x, y):
    """Gradient of log p(y | x)."""
    return _backward(w, x, y)


def _forward(w, x, y):
    layers = range(depth(w))
    units = w["decoder.T_h.0"].shape[1]
    h, c = [np.zeros(units) for _ in layers], [np.zeros(units) for _ in layers]
    steps, p = [], []
    for t, (side, word) in enumerate([*(("encoder", i) for i in x), *(("decoder", i) for i in [END, *y[:-1]])]):
        below, kept = w[f"{side}.W_e"][:, word], []
        for layer in layers:
            h[layer], c[layer], one = lstm(w, side, layer, below, h[layer], c[layer])
            below = h[layer]
            kept.append(one)
        steps.append((side, word, kept, below))
        if t >= len(x):
            p.append(predict(w, below))
    return np.array([np.log(p_t[y_t]) for p_t, y_t in zip(p, y, strict=True)]), steps, p


def _backward(w, x, y):
    _, steps, p = _forward(w, x, y)
    layers, d = range(depth(w)), zeros(w)
    units = w["decoder.T_h.0"].shape[1]
    dh, dc = [np.zeros(units) for _ in layers], [np.zeros(units) for _ in layers]
    for t in reversed(range(len(steps))):
        side, word, kept, top = steps[t]
        if t >= len(x):
            dh[-1] = dh[-1] + predict_grad(w, d, y[t - len(x)], p[t - len(x)], top)
        for layer in reversed(layers):
            dh[layer], dc[layer], dx = lstm_grad(w, d, side, layer, dh[layer], dc[layer], kept[layer])
            if layer:
                dh[layer - 1] = dh[layer - 1] + dx
            else:
                d[f"{side}.W_e"][:, word] += dx
    return d


# Algorithm 5: greedy decoding.


def greedy(w, x, longest):
    """The target of a source, both closed by the end of sequence; of so many words at most."""
    _, steps, _ = _forward(w, x, [END])
    # The last step was the decoder's first; what it read is the encoder's.
    h, c = [kept[6] for kept in steps[-1][2]], [kept[7] for kept in steps[-1][2]]
    y = [END]
    while len(y) <= longest:
        below = w["decoder.W_e"][:, y[-1]]
        for layer in range(depth(w)):
            h[layer], c[layer], _ = lstm(w, "decoder", layer, below, h[layer], c[layer])
            below = h[layer]
        best = int(np.argmax(predict(w, below)))
        if best == END:
            break
        y.append(best)
    return [*y[1:], END]

"""The same stacked LSTMs as a PyTorch user would write them, decoding in batches: nn.LSTM, top-k, gathered states."""

import argparse
import json
import math
import time

import numpy as np
import torch
from torch import nn
from workload import report

END = 2


class TorchTranslator(nn.Module):
    """nn.LSTM encoder and decoder with the weights of a RecurrentEncoderDecoder of LSTMs, from left to right."""

    def __init__(self, weights, layers, reverse):
        super().__init__()
        self.reverse = reverse
        self.source = nn.Embedding.from_pretrained(one_weight(weights, "encoder", "embeddings"))
        self.target = nn.Embedding.from_pretrained(one_weight(weights, "decoder", "embeddings"))
        self.encoder = lstm_of(weights, "encoder", layers)
        self.decoder = lstm_of(weights, "decoder", layers)
        kernel = one_weight(weights, "decoder", "dense/kernel").T
        self.output = nn.Linear(kernel.shape[1], kernel.shape[0])
        self.output.weight.data = kernel.contiguous()
        self.output.bias.data = one_weight(weights, "decoder", "dense/bias")

    def read(self, sources):
        """Returns the packed outputs of the encoder, and its last states."""
        if self.reverse:
            sources = [source[-2::-1] + source[-1:] for source in sources]
        lengths = torch.tensor([len(source) for source in sources])
        padded = nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(self.source(padded), lengths, batch_first=True, enforce_sorted=False)
        return self.encoder(packed)

    def encode(self, sources):
        """Returns the decoder's first states, `(layers, sources, units)`, and its memory of the sources: nothing."""
        return self.read(sources)[1], ()

    def step(self, previous, states, memory):
        outputs, states = self.decoder(self.target(previous)[:, None], states)
        return torch.log_softmax(self.output(outputs[:, 0]), -1), states

    def token(self, word, row):
        """Returns what stands for a word that continues a row of the last step: itself."""
        return word

    def search(self, sources, beam, length_penalty=0.0):
        """Finds the best target of each source; finished sources leave the batch."""

        def score(total, tokens):
            return total / ((5 + tokens) / 6) ** length_penalty

        states, memory = self.encode(sources)
        states = tuple(part.repeat_interleave(beam, 1) for part in states)
        limits = [max(10, math.ceil(1.5 * (len(source) - 1))) + 1 for source in sources]
        best = [(-math.inf, None)] * len(sources)
        places = list(range(len(sources)))
        totals = torch.full((len(sources), beam), -math.inf)
        totals[:, 0] = 0
        previous = torch.full((len(sources) * beam,), END)
        tokens = [[()] * beam for _ in sources]
        for length in range(1, max(limits) + 1):
            log_probs, states = self.step(previous, states, memory)
            log_probs[:, 0] = -math.inf
            log_probs = log_probs.view(len(places), beam, -1)
            words = log_probs.shape[-1]
            # Twice as many as needed, because up to half of them may be ends.
            values, which = (totals[:, :, None] + log_probs).flatten(1).topk(2 * beam)
            values, which, ends = values.tolist(), which.tolist(), (totals + log_probs[:, :, END]).tolist()
            rows, sums, chosen, on, kept, longer = [], [], [], [], [], []
            for i, place in enumerate(places):
                candidates = [(v, *divmod(w, words)) for v, w in zip(values[i], which[i], strict=True) if v > -math.inf]
                if length == limits[place]:
                    candidates = [(value, parent, END) for parent, value in enumerate(ends[i])]
                for value, parent, word in candidates[:beam]:
                    if word == END and score(value, length) > best[place][0]:
                        best[place] = score(value, length), (*tokens[i][parent], END)
                going = [one for one in candidates if one[2] != END][:beam]
                if not going or best[place][0] >= score(going[0][0], limits[place]):
                    continue
                going += [(-math.inf, going[0][1], END)] * (beam - len(going))
                on.append(place)
                kept.append(i)
                longer.append([(*tokens[i][parent], self.token(word, i * beam + parent)) for _, parent, word in going])
                sums.append([value for value, _, _ in going])
                chosen += [word for _, _, word in going]
                rows += [i * beam + parent for _, parent, _ in going]
            if not on:
                break
            if rows != list(range(len(previous))):
                states = tuple(part[:, rows] for part in states)
            if len(kept) < len(places):
                memory = tuple(part[kept] for part in memory)
            places, tokens, totals, previous = on, longer, torch.tensor(sums), torch.tensor(chosen)
        return [ids for _, ids in best]


def one_weight(weights, side, name):
    """Returns the weight of a side whose path ends in this name, as a tensor."""
    (found,) = (value for path, value in weights.items() if f"/{side}/" in path and path.endswith(f"/{name}"))
    return torch.as_tensor(found)


def lstm_of(weights, side, layers):
    """Makes an nn.LSTM with the weights of a side. Their gates are i, f, o, g; those of PyTorch are i, f, g, o."""
    recurrent = [path for path in weights if f"/{side}/" in path and path.endswith("/recurrent_kernel")]
    cells = [path.removesuffix("/recurrent_kernel") for path in recurrent]
    kernels = [weights[f"{cell}/kernel"] for cell in cells]
    lstm = nn.LSTM(kernels[0].shape[0], kernels[0].shape[1] // 4, layers, batch_first=True)
    for layer, cell in enumerate(cells):
        for name, ours in (("weight_ih", "kernel"), ("weight_hh", "recurrent_kernel"), ("bias_ih", "bias")):
            i, f, o, g = np.split(weights[f"{cell}/{ours}"], 4, axis=-1)
            getattr(lstm, f"{name}_l{layer}").data = torch.as_tensor(np.concatenate([i, f, g, o], -1).T.copy())
        getattr(lstm, f"bias_hh_l{layer}").data.zero_()
    return lstm


def main():
    """Decodes all sources in batches of sentences of similar length, after a warm-up on the first batch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("prepared")
    parser.add_argument("found")
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    options = parser.parse_args()
    with np.load(options.prepared) as prepared:
        weights = {name: prepared[name] for name in prepared.files}
    flat, layers, reverse = (weights.pop(name) for name in ("ids", "layers", "reverse"))
    sources = [ids.tolist() for ids in np.split(flat, np.flatnonzero(flat == END) + 1)[:-1]]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    model = TorchTranslator(weights, int(layers), bool(reverse))
    found = [None] * len(sources)
    with torch.inference_mode():
        for batches in (order[: options.batch], order):
            start = time.perf_counter()
            for i in range(0, len(batches), options.batch):
                places = batches[i : i + options.batch]
                for place, ids in zip(places, model.search([sources[p] for p in places], options.beam), strict=True):
                    found[place] = ids
    seconds = time.perf_counter() - start
    with open(options.found, "w") as file:
        json.dump(found, file)
    report(tokens_per_second=sum(map(len, found)) / seconds)


if __name__ == "__main__":
    main()

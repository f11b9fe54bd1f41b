"""The CSLM as a PyTorch user would write it: all n-grams in batches, nothing shared."""

import time

import numpy as np
import torch
from attention_workload import split_sequences
from ngrams_workload import SIZES, arguments, weights_of
from torch import nn
from workload import report, train_seconds

# Number of n-grams that are scored together.
NGRAMS = 1024


class TorchNgramModel(nn.Module):
    """An embedding, rectified layers and a softmax, with weights by symbol."""

    def __init__(self, weights):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.tensor(weights["target.E"]), freeze=False, padding_idx=0)
        layers = []
        for name in [name for name in weights if ".W" in name]:
            kernel = torch.tensor(weights[name])
            layer = nn.Linear(*kernel.shape)
            layer.weight.data, layer.bias.data = kernel.T.contiguous(), torch.zeros(kernel.shape[1])
            layers += [layer, nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, contexts, words):
        """Computes ln p of each word after its context `(ngrams, order - 1)`."""
        logits = self.layers(self.embedding(contexts).flatten(1))
        return -nn.functional.cross_entropy(logits, words, reduction="none")


def ngrams_of(targets):
    """Returns the contexts, the words and the target of each n-gram of padded targets, as tensors."""
    order = SIZES["ngram_order"]
    before = nn.functional.pad(targets, (order - 1, 0))[:, :-1].unfold(1, order - 1, 1)
    inside = targets != 0
    return before[inside], targets[inside], inside.nonzero()[:, 0]


def train(options, model, batches):
    """Trains on batches of one shape."""
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    data, losses = [torch.tensor(batch).long() for batch in batches], []

    def step(number):
        contexts, words, _ = ngrams_of(data[number])
        loss = -model(contexts, words).sum() / len(data[number])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    seconds = train_seconds(step, options.steps, len(data))
    report(rate=batches[0].size / seconds, found=np.mean(losses[-options.steps :]))


def score(model, targets):
    """Scores all n-grams, after a warm-up on one batch."""
    start = time.perf_counter()
    padded = nn.utils.rnn.pad_sequence([torch.tensor(target) for target in targets], batch_first=True).long()
    contexts, words, rows = ngrams_of(padded)
    seconds = time.perf_counter() - start
    with torch.inference_mode():
        model(contexts[:NGRAMS], words[:NGRAMS])
        start = time.perf_counter()
        found = [model(contexts[i : i + NGRAMS], words[i : i + NGRAMS]) for i in range(0, len(words), NGRAMS)]
        scores = torch.zeros(len(targets)).index_add(0, rows, torch.cat(found))
        seconds += time.perf_counter() - start
    report(rate=len(words) / seconds, found=scores.tolist())


def main():
    """Does what the command line says."""
    options, arrays = arguments()
    model = TorchNgramModel(weights_of(arrays))
    if options.work == "train":
        train(options, model, arrays["batches"])
    else:
        score(model, split_sequences(arrays[options.work]))


if __name__ == "__main__":
    main()

"""The same LSTMs with attention as a PyTorch user would write them: nn.LSTM, or nn.LSTMCell where h~ is fed back."""

import time

import numpy as np
import torch
from attention_workload import EPSILON, LENGTH, Workload, arguments
from peer_decoder import END, TorchTranslator, one_weight
from torch import nn
from workload import report, train_seconds

# Number of pairs that are scored together.
PAIRS = 512


class TorchAttentionTranslator(TorchTranslator):
    """nn.LSTM encoder and decoder and global attention, "general" score, with the weights of a RecurrentEncoderDecoder.

    Products that depend only on the source are computed once per source, and are not copied for hypotheses.
    """

    def __init__(self, weights, layers, input_feeding):
        if input_feeding:
            first = next(path for path in weights if "/decoder/" in path and path.endswith("/recurrent_kernel"))
            first = first.replace("/recurrent_kernel", "/kernel")
            kernels = weights[first], one_weight(weights, "decoder", "dense_3/kernel").numpy()
            weights = {**weights, first: np.concatenate(kernels)}
        super().__init__(weights, layers, reverse=False)
        units = self.encoder.hidden_size
        self.score, self.combine = nn.Linear(units, units, bias=False), nn.Linear(2 * units, units, bias=False)
        self.score.weight.data = one_weight(weights, "decoder", "general_score/kernel")
        both = [one_weight(weights, "decoder", f"{name}/kernel") for name in ("dense_1", "dense_2")]
        self.combine.weight.data = torch.cat(both).T.contiguous()
        self.cells = nn.ModuleList()
        if input_feeding:
            for layer in range(layers):
                cell = nn.LSTMCell(getattr(self.decoder, f"weight_ih_l{layer}").shape[1], units)
                for name, _ in cell.named_parameters():
                    setattr(cell, name, getattr(self.decoder, f"{name}_l{layer}"))
                self.cells.append(cell)
            del self.decoder

    def remembered(self, annotations, mask):
        """Returns what attention reads: keys, annotations and mask. The mask is empty if there is no padding."""
        return self.score(annotations), annotations, mask

    def encode(self, sources):
        outputs, states = self.read(sources)
        annotations, lengths = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        if self.cells:
            states = *states, torch.zeros_like(states[0][:1])
        return states, self.remembered(annotations, torch.arange(annotations.shape[1]) < lengths[:, None])

    def attend(self, hidden, memory):
        """Computes h~ from states `(sources, steps, units)`."""
        keys, annotations, mask = memory
        scores = hidden @ keys.transpose(1, 2)
        if len(mask):
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        context = torch.softmax(scores, -1) @ annotations
        return torch.tanh(self.combine(torch.cat([context, hidden], -1)))

    def fed(self, inputs, h, c, attentional, memory):
        """Takes one step with input feeding; returns the state, lists of h and c by layer, and h~."""
        inputs, states = torch.cat([inputs, attentional], -1), []
        for cell, *before in zip(self.cells, h, c, strict=True):
            states.append(cell(inputs, before))
            inputs = states[-1][0]
        together = inputs.view(len(memory[0]), -1, inputs.shape[-1])
        return *zip(*states, strict=True), self.attend(together, memory).view_as(inputs)

    def step(self, previous, states, memory):
        embedded = self.target(previous)
        if self.cells:
            h, c, attentional = self.fed(embedded, *states[:2], states[2][0], memory)
            states = torch.stack(h), torch.stack(c), attentional[None]
        else:
            outputs, states = self.decoder(embedded[:, None], states)
            attentional = self.attend(outputs.view(len(memory[0]), -1, outputs.shape[-1]), memory).flatten(0, 1)
        return torch.log_softmax(self.output(attentional), -1), states

    def losses(self, states, memory, target):
        """Computes -ln p of each token of targets, an int tensor `(pairs, time)`; 0 on padding."""
        embedded = self.target(nn.functional.pad(target[:, :-1], (1, 0), value=END))
        if self.cells:
            h, c, attentional = *states[:2], torch.zeros_like(states[0][0])
            steps = []
            for inputs in embedded.unbind(1):
                h, c, attentional = self.fed(inputs, h, c, attentional, memory)
                steps.append(attentional)
            attentional = torch.stack(steps, 1)
        else:
            attentional = self.attend(self.decoder(embedded, states)[0], memory)
        logits = self.output(attentional).flatten(0, 1)
        losses = nn.functional.cross_entropy(logits, target.flatten(), reduction="none", ignore_index=0)
        return losses.view(target.shape)


def train(options, workload, model):
    """Trains on batches of one shape, which need no mask."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "bias_hh" not in name  # nn.LSTM's second bias, 0 here
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, eps=EPSILON, fused=True)
    batches = [[torch.as_tensor(side).long() for side in batch] for batch in workload.batches(options.batch)]
    losses = []
    cast = torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bfloat16")

    def step(number):
        source, target = batches[number]
        with cast:
            annotations, states = model.encoder(model.source(source))
            loss = model.losses(states, model.remembered(annotations, ()), target).sum() / len(target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    seconds = train_seconds(step, options.steps, len(batches))
    report(rate=options.batch * LENGTH / seconds, found=np.mean(losses[-options.steps :]))


def decode(options, workload, model):
    """Decodes the sources in batches of similar length, after a warm-up on the first batch."""
    sources = workload.sources[: options.sentences]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found, seconds = in_batches(lambda some: model.search(some, options.beam), sources, order, options.batch)
    report(rate=sum(map(len, found)) / seconds, found=found)


def score(options, workload, model):
    """Scores an n-best list in padded batches of targets of similar length, after a warm-up on the first batch."""

    def log_probs(pairs):
        sources, targets = zip(*pairs, strict=True)
        target = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in targets], batch_first=True)
        return (-model.losses(*model.encode(sources), target).sum(1)).tolist()

    pairs = workload.pairs[: options.pairs]
    order = sorted(range(len(pairs)), key=lambda i: [*map(len, reversed(pairs[i]))])
    found, seconds = in_batches(log_probs, pairs, order, PAIRS)
    report(rate=len(pairs) / seconds, found=found)


def in_batches(function, items, order, size):
    """Calls a function on batches of items in this order; returns its result for each item, and the seconds."""
    found = [None] * len(items)
    with torch.inference_mode():
        for indices in (order[:size], order):
            start = time.perf_counter()
            for i in range(0, len(indices), size):
                batch = indices[i : i + size]
                for index, result in zip(batch, function([items[j] for j in batch]), strict=True):
                    found[index] = result
    return found, time.perf_counter() - start


def main():
    """Measures what the command line says, and reports it."""
    options = arguments().parse_args()
    workload = Workload(options.prepared)
    settings = workload.settings
    model = TorchAttentionTranslator(workload.weights, settings["layers"], settings["input_feeding"])
    {"train": train, "decode": decode, "score": score}[options.what](options, workload, model)


if __name__ == "__main__":
    main()

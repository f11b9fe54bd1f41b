"""The same model as a PyTorch user would write it: nn.GRU, batches of one length, nothing shared."""

import argparse
import collections
import time

import torch
from torch import nn
from workload import SHORTLIST, SIZES, read_ids, report


class TorchEncoderDecoder(nn.Module):
    """Sizes and arithmetic of the RNN Encoder-Decoder; the summary is an input of every decoder step."""

    def __init__(self, embedding_dim, units, maxout_units, output_rank):
        super().__init__()
        words = SHORTLIST + 3
        self.source = nn.Embedding(words, embedding_dim, padding_idx=0)
        self.target = nn.Embedding(words, embedding_dim, padding_idx=0)
        self.encoder = nn.GRU(embedding_dim, units, batch_first=True)
        self.decoder = nn.GRU(embedding_dim + units, units, batch_first=True)
        self.summary, self.first = nn.Linear(units, units), nn.Linear(units, units)
        self.readout = nn.Linear(units + embedding_dim, 2 * maxout_units)
        self.context = nn.Linear(units, 2 * maxout_units, bias=False)
        self.right = nn.Linear(maxout_units, output_rank, bias=False)
        self.left = nn.Linear(output_rank, words)

    def forward(self, source, target):
        _, last = self.encoder(self.source(source))
        c = torch.tanh(self.summary(last[0]))
        previous = self.target(nn.functional.pad(target[:, :-1], (1, 0)))
        inputs = torch.cat([previous, c[:, None].expand(-1, target.shape[1], -1)], -1)
        states, _ = self.decoder(inputs, torch.tanh(self.first(c))[None])
        wide = self.readout(torch.cat([states, previous], -1)) + self.context(c)[:, None]
        logits = self.left(self.right(wide.unflatten(-1, (-1, 2)).amax(-1))).float()
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        return -losses.view(target.shape).sum(1)


def batches(pairs, size):
    """Batches of one source and one target length each."""
    waiting = collections.defaultdict(list)
    for source, target in pairs:
        bucket = waiting[len(source), len(target)]
        bucket.append((source, target))
        if len(bucket) == size:
            yield [torch.tensor(side) for side in zip(*bucket, strict=True)]
            bucket.clear()
    for bucket in filter(None, waiting.values()):
        yield [torch.tensor(side) for side in zip(*bucket, strict=True)]


def main():
    """Measures what the command line says and reports it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["score", "train"])
    parser.add_argument("table")
    parser.add_argument("--sizes", default="cho2014")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = TorchEncoderDecoder(**SIZES[options.sizes]).to(options.device)
    pairs = read_ids(options.table, options.pairs)
    data = [[side.to(options.device) for side in batch] for batch in batches(pairs, options.batch)]
    cast = torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16")

    def wait():
        if options.device == "cuda":
            torch.cuda.synchronize()

    if options.what == "score":
        with torch.inference_mode(), cast:
            for batch in data[:3]:
                model(*batch)
            wait()
            start = time.perf_counter()
            for batch in data:
                model(*batch)
            wait()
        pairs = sum(len(source) for source, _ in data)
    else:
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
        full = [batch for batch in data if len(batch[0]) == options.batch][: options.steps + 3]
        for step, batch in enumerate(full):
            if step == 3:
                wait()
                start = time.perf_counter()
            optimizer.zero_grad()
            with cast:
                loss = -model(*batch).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        wait()
        pairs = options.batch * (len(full) - 3)
    report(pairs_per_second=pairs / (time.perf_counter() - start))


if __name__ == "__main__":
    main()

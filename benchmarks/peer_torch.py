"""The same model as a PyTorch user would write it: nn.GRU, batches of one length, nothing shared."""

import time

import torch
from torch import nn
from workload import (
    SHORTLIST,
    SIZES,
    arguments,
    batches_of_one_length,
    full_batches,
    plain_operations,
    read_ids,
    report,
    train_seconds,
)


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


def main():
    """Measures what the command line says, and reports it."""
    parser = arguments()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    sizes = SIZES[options.sizes]
    model = TorchEncoderDecoder(**sizes).to(options.device)
    pairs = read_ids(options.table, options.pairs)
    cast = torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16")

    def tensors(batches):
        return [[torch.as_tensor(side, device=options.device).long() for side in batch] for batch in batches]

    def wait():
        if options.device == "cuda":
            torch.cuda.synchronize()

    if options.what == "score":
        data = tensors(batches_of_one_length(pairs, options.batch))
        with torch.inference_mode(), cast:
            for batch in data[:3]:
                model(*batch)
            wait()
            start = time.perf_counter()
            for batch in data:
                model(*batch)
            wait()
        seconds = time.perf_counter() - start
        work = plain_operations(sizes, pairs)
        report(pairs_per_second=len(pairs) / seconds, gflops=work / seconds / 1e9)
    else:
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
        arrays = full_batches(pairs, options.batch)
        data = tensors(arrays)

        def step(number):
            optimizer.zero_grad()
            with cast:
                loss = -model(*data[number]).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            wait()

        seconds = train_seconds(step, options.steps, len(data))
        work = 3 * plain_operations(sizes, list(zip(*arrays[0], strict=True)))
        report(pairs_per_second=options.batch / seconds, gflops=work / seconds / 1e9)


if __name__ == "__main__":
    main()

"""Translates with GRUs with global attention as a PyTorch user would write them, with the weights of a model directory.

nn.GRU resets the state after the product with U, and these models before it, so the steps are written out.
"""

import time

import torch
from ours_translation import arguments
from peer_decoder import TorchTranslator
from torch import nn
from workload import report

from keras_encdec.decoding.search_batches import MAX_ROWS
from keras_encdec.formats import model_words
from keras_encdec.formats.plain_text import read_sentences
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models.symbols import to_symbols
from keras_encdec.text.lexical_shortlist import read_dictionary
from keras_encdec.text.vocabulary import UNKNOWN

# The settings that a model must have: of the kinds of models in the guide, only this one is written out here.
EXPECTED = {"cell": "gru", "layers": 1, "condition": "states", "attention": "global", "input_feeding": False}


class Gates:
    """The matrices of one GRU, those of equal factors side by side."""

    def __init__(self, weights, side, direction=""):
        def columns(name, *gates):
            return torch.cat([weights[f"{side}.{name}{gate}.1{direction}"] for gate in gates], -1)

        self.inputs, self.bias = columns("W", "_r", "_z", ""), columns("b", "_r", "_z", "")
        self.gates, self.candidate = columns("U", "_r", "_z"), columns("U", "")

    def step(self, projected, hidden):
        """Computes the next state from the projected inputs `(rows, 3 * units)` and the state `(rows, units)`."""
        units = hidden.shape[-1]
        reset, update = torch.sigmoid(projected[:, : 2 * units] + hidden @ self.gates).chunk(2, -1)
        new = torch.tanh(torch.addmm(projected[:, 2 * units :], reset * hidden, self.candidate))
        return torch.lerp(new, hidden, update)


class TorchGRUTranslator(TorchTranslator):
    """A GRU encoder in both directions, and a GRU decoder with global attention.

    The products of inputs are computed for all positions at once, those of the source once per source.
    """

    def __init__(self, model):
        nn.Module.__init__(self)
        config = model.config
        other = {name: value for name, value in EXPECTED.items() if getattr(config, name) != value}
        if other or config.bidirectional == "none" or config.reverse_source or config.characters != "none":
            raise SystemExit(f"found another model, expected a GRU in both directions with {EXPECTED}")
        self.weights = {name: torch.as_tensor(value) for name, value in to_symbols(model).items()}
        self.score, self.combined = config.attention_score, config.bidirectional
        self.directions = [Gates(self.weights, "encoder", direction) for direction in ("", ".left")]
        self.decoder = Gates(self.weights, "decoder")
        self.attended = None

    def encode(self, sources):
        w, lengths = self.weights, torch.tensor([len(source) for source in sources])
        padded = nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], batch_first=True)
        embedded, mask = w["source.E"][padded], torch.arange(padded.shape[1]) < lengths[:, None]
        outputs, last = zip(*(self.read(gates, embedded, mask) for gates in self.directions), strict=True)
        annotations = torch.cat(outputs, -1) if self.combined == "concat" else sum(outputs)
        annotations = annotations * mask[..., None]
        hidden = torch.addmm(w["encoder.b_P_h.1"], torch.cat(last, -1), w["encoder.P_h.1"])
        keys = {"concat": "attention.W_k", "general": "attention.W_a"}.get(self.score)
        keys = annotations @ (w[keys] if self.score == "concat" else w[keys].T) if keys else annotations
        return (hidden[None],), (keys, annotations @ w["attention.W_c"], mask)

    def read(self, gates, embedded, mask):
        """Returns the states of one direction, in the order of the source, and the last of them."""
        backwards = gates is self.directions[1]
        projected = torch.addmm(gates.bias, embedded.flatten(0, 1), gates.inputs).view(*mask.shape, -1).unbind(1)
        hidden, states = embedded.new_zeros(len(mask), gates.candidate.shape[0]), [None] * len(projected)
        complete = mask.all(0).tolist()
        for t in sorted(range(len(projected)), reverse=backwards):
            new = gates.step(projected[t], hidden)
            hidden = states[t] = new if complete[t] else torch.where(mask[:, t, None], new, hidden)
        return torch.stack(states, 1), hidden

    def step(self, previous, states, memory):
        w, (keys, values, mask) = self.weights, memory
        projected = torch.addmm(self.decoder.bias, w["target.E"][previous], self.decoder.inputs)
        hidden = self.decoder.step(projected, states[0][0])
        queries = hidden.view(len(keys), -1, hidden.shape[-1])
        if self.score == "concat":
            sums = torch.tanh((queries @ w["attention.W_q"])[:, :, None] + keys[:, None])
            scores = (sums @ w["attention.v_a"])[..., 0]
        else:
            scores = queries @ keys.transpose(1, 2)
        attention = torch.softmax(scores.masked_fill(~mask[:, None], -torch.inf), -1)
        attentional = torch.tanh((attention @ values).flatten(0, 1) + hidden @ w["attention.W_h"])
        # The end of sequence, the last position, is not a word that could replace an unknown word.
        words = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
        self.attended = attention.masked_fill(~words[:, None], -1).argmax(-1).flatten()
        logits = torch.addmm(w["output.b_hy"], attentional, w["output.W_hy"])
        return torch.log_softmax(logits, -1), (hidden[None],)

    def token(self, word, row):
        return word if word != UNKNOWN else -1 - int(self.attended[row])


def main():
    """Translates twice, as ours_translation.py does."""
    options = arguments().parse_args()
    directory, lines = ModelDirectory.load(options.model_dir), list(map(model_words, read_sentences(options.input)))
    model = TorchGRUTranslator(directory.model)
    dictionary = read_dictionary(options.dictionary) if options.dictionary else None
    target = directory.target_vocabulary

    def translated(words, tokens):
        text = target.decode([UNKNOWN if token < 0 else token for token in tokens])
        if dictionary is not None:
            sources = {i: words[-1 - token] for i, token in enumerate(tokens) if token < 0 and words}
            text = [dictionary.get(sources[i]) or sources[i] if i in sources else word for i, word in enumerate(text)]
        return text

    size, penalty = (1 if options.single else MAX_ROWS // options.beam), float(options.beam > 1)
    with torch.inference_mode():
        for _ in range(2):
            start, found = time.perf_counter(), {}
            sources = [directory.source_vocabulary.encode(words) for words in lines]
            order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
            for places in (order[i : i + size] for i in range(0, len(order), size)):
                targets = model.search([sources[place] for place in places], options.beam, penalty)
                found.update((i, translated(lines[i], ids[:-1])) for i, ids in zip(places, targets, strict=True))
            seconds = time.perf_counter() - start
    words = sum(map(len, found.values()))
    report(words_per_second=words / seconds, translations=[" ".join(found[i]) for i in range(len(lines))])


if __name__ == "__main__":
    main()

"""Training steps that a GPU records. Without a GPU, a trace of PyTorch's operations stands for the recording."""

import keras
import numpy as np
import pytest
from hybrid_toys import hybrid
from layer_checks import numpy

from keras_encdec.backend.devices import torch_on_cuda
from keras_encdec.backend.training_step import StepCompilation
from keras_encdec.data.rare_word_batches import with_source_characters, with_target_characters
from keras_encdec.models import (
    RecurrentEncoderDecoder,
    RecurrentLanguageModel,
    RNNEncoderDecoder,
    published_optimizer,
)
from keras_encdec.text.vocabulary import SPELLING_WIDTH

if keras.backend.backend() != "torch":
    pytest.skip("steps are recorded under PyTorch", allow_module_level=True)

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from keras_encdec.backend import torch_lstm
from keras_encdec.backend.cuda_graphs import NumbersOnDevice

SIZES = {"units": 4, "embedding_dim": 3}
ATTENTION = {"attention": "local_p", "bidirectional": "none", "layers": 2, **SIZES}
needs_gpu = pytest.mark.skipif(not torch_on_cuda(), reason="no GPU")


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Without the operation for CPUs, which looks at the padding first."""
    monkeypatch.setattr(torch_lstm, "onednn_is_available", lambda: False)


def phrase_model(dropout=0.0):
    model = RNNEncoderDecoder(20, 20, maxout_units=4, output_rank=3, **SIZES)
    return model, {"optimizer": published_optimizer()}


def attention_model(dropout=0.0):
    model = RecurrentEncoderDecoder(20, 20, cell="lstm", input_feeding=True, dropout=dropout, **ATTENTION)
    optimizer = keras.optimizers.Adam(0.05, global_clipnorm=1.0)
    return model, {"optimizer": optimizer, "reduction": "mean", "label_smoothing": 0.1, "clip_elements": 2.0}


def sgd_model(dropout=0.0):
    model = RecurrentEncoderDecoder(20, 20, cell="gru", input_feeding=False, dropout=dropout, **ATTENTION)
    return model, {"optimizer": keras.optimizers.SGD(0.5, global_clipnorm=1.0)}


def character_model(dropout=0.0):
    model = hybrid(dropout=dropout)
    return model, {"optimizer": keras.optimizers.Adam(0.05, global_clipnorm=1.0)}


def language_model(dropout=0.0):
    model = RecurrentLanguageModel(20, cell="gru", layers=1, dropout=dropout, **SIZES)
    return model, {"optimizer": keras.optimizers.Adam(0.05, clipnorm=1.0)}


MAKERS = [phrase_model, attention_model, sgd_model, character_model, language_model]


def compiled(make, **arguments):
    """A model with weights from one seed, compiled."""
    keras.utils.set_random_seed(1)
    model, settings = make(**arguments)
    model.compile(**settings)
    return model


def batches(make, number, width=4):
    rng = np.random.default_rng(0)
    for _ in range(number):
        source, target = rng.integers(3, 20, (2, 4, width)).astype("int32")
        source[1, 2:] = target[2, 1:] = 0
        batch = {"source": source, "target": target}
        if make is character_model:
            spellings = rng.integers(3, 6, (14, SPELLING_WIDTH)) * (np.arange(SPELLING_WIDTH) < 4)
            batch = {
                **with_source_characters(source, 6, spellings, (24, 0, 0)),
                **with_target_characters(target, 6, spellings, (24, 0, 0)),
            }
        yield {name: keras.ops.convert_to_tensor(ids) for name, ids in batch.items()}


def assert_same(model, other):
    for mine, its in zip(model.variables, other.variables, strict=True):
        np.testing.assert_allclose(numpy(mine), numpy(its), atol=1e-6, err_msg=mine.path)


@pytest.mark.parametrize("make", MAKERS)
def test_a_step_can_be_replayed_with_other_batches(make):
    first, recorded, *others = batches(make, 4)
    model, replayed = compiled(make), compiled(make)
    for batch in (first, recorded, *others):
        logs = model.train_step((batch,))
    replayed.train_step((first,))

    def step(*parts):
        with NumbersOnDevice():
            return list(replayed.train_step((dict(zip(first, parts, strict=True)),)).values())

    graph = make_fx(step)(*recorded.values())  # runs the step
    with torch.no_grad():
        for batch in others:
            values = graph(*batch.values())
    assert_same(model, replayed)
    assert list(map(float, values)) == pytest.approx(list(map(float, logs.values())), rel=1e-5)


class _WaitingOperations(TorchDispatchMode):
    """Collects the operations that would wait for a GPU: those that copy a number to it or from it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket in (torch.ops.aten.lift_fresh, torch.ops.aten._local_scalar_dense):
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("make", MAKERS)
def test_a_step_waits_for_nothing(make):
    model, (first, second) = compiled(make, dropout=0.2), batches(make, 2)
    model.train_step((first,))
    with _WaitingOperations() as waiting, NumbersOnDevice():
        model.train_step((second,))
    assert not waiting.found
    with _WaitingOperations() as waiting:
        model.train_step((second,))
    assert waiting.found, "without the context"


@needs_gpu
@pytest.mark.parametrize("make", MAKERS)
def test_recorded_steps_train_as_steps_without_a_recording(make):
    both = [compiled(make, dropout=0.2) for _ in range(2)]
    for model, mode in zip(both, ("false", "auto"), strict=True):
        StepCompilation(mode).apply(model)
        model.make_train_function()
        keras.utils.set_random_seed(2)
        for width in (4, 6, 4, 6, 4, 6, 4):
            for batch in batches(make, 2, width):
                model.train_function([(batch,)])
    assert_same(*both)


@needs_gpu
def test_a_step_that_waits_is_not_recorded():
    from keras_encdec.backend.cuda_graphs import RecordedSteps

    seen = []

    def step(batch):
        seen.append(int(batch.sum()))
        return {}

    steps = RecordedSteps(step)
    for value in (1, 2, 3):
        steps(torch.full((2,), value))
    assert seen == [2, 4, 6]

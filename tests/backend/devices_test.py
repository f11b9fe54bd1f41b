"""A warning appears where fewer bits than those of float32 gain nothing."""

import re
import warnings

import keras
import pytest
from keras import ops
from tiny_trainings import train_tiny

from keras_encdec.backend import devices
from keras_encdec.backend.devices import is_from_intel, on_cpu, processor_flags, speed_against_float32, warn_if_slow
from keras_encdec.decoding import Generator
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.scoring import Scorer
from keras_encdec.trainers import TrainingData

pytestmark = pytest.mark.skipif(not on_cpu(), reason="nothing is said on a GPU")
# What Linux says of three processors.
OLD, NEW = "processor\t: 0\nflags\t\t: fpu avx2\n\n", "flags\t\t: avx2 avx512_bf16\n" * 2
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16 asimdhp\n"


@pytest.fixture(autouse=True)
def anew():
    warn_if_slow.cache_clear()
    yield
    warn_if_slow.cache_clear()


@pytest.fixture
def processor(monkeypatch, tmp_path):
    """A function that imitates another processor: its /proc/cpuinfo, and the measured speed of its products."""

    def become(text, speed=None):
        monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "cpuinfo")
        if text is not None:
            (tmp_path / "cpuinfo").write_text(text)
        # Without a speed, measuring one is an error.
        monkeypatch.setattr(devices, "speed_against_float32", {"bfloat16": speed, "float16": speed}.__getitem__)

    return become


def warned(dtype):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_slow(dtype)
    return [str(warning.message) for warning in caught if warning.category is EncdecWarning]


@pytest.mark.parametrize(
    "text, speed, said",
    [
        (OLD, None, "bfloat16 gains nothing here.*no instructions for it .AVX512_BF16.*; compute in float32"),
        (NEW, 0.1, "products of .* reach 0.1 times the speed"),  # the libraries do not use them
        (NEW, 2.0, None),
        (ARM, 2.0, None),
        (None, 2.0, None),  # no Linux
        (None, 1.0, "reach 1 times the speed"),
    ],
)
def test_a_slow_dtype_warns_once(processor, text, speed, said):
    processor(text, speed)
    lines = warned("bfloat16")
    assert len(lines) == (said is not None)
    assert all(re.search(said, line) for line in lines)
    assert warned("bfloat16") == []


def test_each_dtype_has_its_own_instructions(processor):
    processor(NEW, 2.0)
    assert "AVX512_FP16" in warned("float16")[0]
    assert not warned("bfloat16") and not warned("float32") and not warned("float64")


def test_a_gpu_gets_no_warning_and_no_measurement(processor, monkeypatch):
    processor(OLD)
    monkeypatch.setattr(devices, "on_cpu", lambda: False)
    assert not warned("bfloat16")


def test_a_product_is_measured_where_it_is_computed(monkeypatch):
    # A fake clock: on a busy machine, a real one may find the slow products fast.
    multiply, clock, costs = ops.matmul, [0.0], {"bfloat16": 4.0, "float32": 1.0}

    def slow_matmul(a, b):
        clock[0] += costs[keras.backend.standardize_dtype(a.dtype)]
        return multiply(a, b)

    monkeypatch.setattr(devices.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(devices, "_LARGE", 16)
    monkeypatch.setattr(devices, "_SMALL", 8)
    monkeypatch.setattr(ops, "matmul", slow_matmul)
    assert speed_against_float32("bfloat16") == 1 / 4
    costs.update(bfloat16=1.0, float32=2.0)
    assert speed_against_float32("bfloat16") == 2.0


def test_scoring_generating_and_training_warn(processor, tmp_path):
    processor(OLD)
    model = RNNEncoderDecoder(5, 6, embedding_dim=4, units=8, maxout_units=4, output_rank=4, dtype="mixed_bfloat16")
    missing = TrainingData(phrase_table=tmp_path / "none")

    def train_on_nothing():
        with pytest.raises(InputError, match="none"):
            train_tiny(missing, tmp_path / "model", dtype_policy="mixed_bfloat16", updates=1)

    for compute in (lambda: Scorer(model), lambda: Generator(model), train_on_nothing):
        with pytest.warns(EncdecWarning, match="bfloat16 gains nothing"):
            compute()
        warn_if_slow.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", EncdecWarning)
        Scorer(model, "float32")


def test_the_flags_of_this_processor_are_words():
    assert all(flag.isprintable() and " " not in flag for flag in processor_flags())


@pytest.mark.parametrize("maker, expected", [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_the_maker_of_the_processor_is_known(maker, expected, processor):
    processor(f"processor\t: 0\nvendor_id\t: {maker}\n{NEW}")
    is_from_intel.cache_clear()
    try:
        assert is_from_intel() is expected
    finally:
        is_from_intel.cache_clear()


def test_one_interrupted_measurement_does_not_count(monkeypatch):
    measured = iter([0.04, 2.0, 0.9, 2.0])
    monkeypatch.setattr(devices, "backend_name", lambda: "torch")
    monkeypatch.setattr(devices, "_speed_of_products", lambda dtype, size: next(measured))
    assert speed_against_float32("bfloat16") == 2.0

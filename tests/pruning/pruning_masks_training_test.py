"""Pruned weights stay zero in training with every optimizer, against updates in NumPy float64."""

import keras
import numpy as np
import pytest
import toy_models
from keras import ops

from keras_encdec.models import build_model
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.pruning import PruningMasks
from keras_encdec.pruning.pruning_masks import prune_weights
from keras_encdec.pruning.pruning_options import SCHEMES

RANDOM = np.random.default_rng(0)
PAIRS = {side: np.array([[4, 5, 6, 2], [7, 2, 0, 0], [8, 3, 2, 0]], np.int32) for side in ("source", "target")}
ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}


def pruned_model(optimizer, dtype="float32", share=0.6, **arguments):
    keras.utils.set_random_seed(1)
    model = build_model("encdec", 10, 10, **toy_models.SIZES, initial_stddev=0.3, dtype=dtype)
    prune_weights(model, share, "class_blind")
    model.compile(optimizer, **arguments)
    return model


def numpy(variables):
    return [np.array(ops.convert_to_numpy(variable), np.float64) for variable in variables]


def adam_update(weight, gradient, slots, rate):
    m, v, t = slots.setdefault("m", 0), slots.setdefault("v", 0), slots.get("t", 0) + 1
    m, v = m + (gradient - m) * 0.1, v + (gradient**2 - v) * 0.001
    slots.update(m=m, v=v, t=t)
    rate = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return weight - rate * m / (np.sqrt(v) + 1e-7)


def adadelta_update(weight, gradient, slots, rate):
    squares = 0.95 * slots.get("g", 0) + 0.05 * gradient**2
    step = np.sqrt(slots.get("d", 0) + 1e-6) / np.sqrt(squares + 1e-6) * gradient
    slots.update(g=squares, d=0.95 * slots.get("d", 0) + 0.05 * step**2)
    return weight - rate * step


def momentum_update(weight, gradient, slots, rate):
    slots["m"] = 0.9 * slots.get("m", 0) - rate * gradient
    return weight + slots["m"]


@pytest.mark.parametrize(
    ("optimizer", "update", "rate"),
    [
        (lambda: keras.optimizers.Adam(0.01), adam_update, 0.01),
        (lambda: keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-6), adadelta_update, 1.0),
        (lambda: keras.optimizers.SGD(0.05, momentum=0.9), momentum_update, 0.05),
    ],
    ids=["adam", "adadelta", "momentum"],
)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_updates_are_those_of_the_weights_that_are_left(optimizer, update, rate, clip):
    """Each update gets a gradient of all weights; the oracle masks it, clips it by its norm, and updates."""
    made = optimizer()
    made.global_clipnorm = clip
    model = pruned_model(made)
    PruningMasks(model)
    weights = numpy(model.trainable_variables)
    masks = [weight != 0 if weight.ndim > 1 else np.ones(weight.shape, bool) for weight in weights]
    for weight, mask, variable in zip(weights, masks, model.trainable_variables, strict=True):
        if variable.name == "embeddings":
            mask[0] = True  # the row of padding is not pruned
        assert weight.ndim > 1 or mask.all()
    slots = [{} for _ in weights]
    made.build(model.trainable_variables)
    for _ in range(3):
        gradients = [RANDOM.normal(size=weight.shape) for weight in weights]
        made.apply([ops.convert_to_tensor(each, "float32") for each in gradients])
        gradients = [gradient * mask for gradient, mask in zip(gradients, masks, strict=True)]
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        scale = min(1.0, clip / norm) if clip else 1.0
        weights = [
            update(weight, gradient * scale, slot, rate) * mask
            for weight, gradient, slot, mask in zip(weights, gradients, slots, masks, strict=True)
        ]
    for weight, mask, variable in zip(weights, masks, numpy(model.trainable_variables), strict=True):
        np.testing.assert_allclose(variable, weight, atol=2e-5)
        assert not variable[~mask].any()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("adam", "float32"), ("adadelta", "float32"), ("rmsprop", "float32"), ("adamw", "float32")]
    + [("adam", "mixed_bfloat16"), ("adam", "mixed_float16"), ("sgd", "bfloat16")],
)
def test_fit_keeps_zeros_and_changes_the_others(name, dtype):
    optimizer = keras.optimizers.get({"class_name": name, "config": {"learning_rate": 0.05}})
    model = pruned_model(optimizer, dtype, run_eagerly=keras.backend.backend() == "tensorflow")
    masks = PruningMasks(model)
    share, before = masks.share, numpy(model.trainable_variables)
    model.fit(PAIRS, batch_size=3, epochs=2, verbose=0)
    model.compile(model.optimizer, run_eagerly=model.run_eagerly)
    model.fit(PAIRS, batch_size=3, epochs=1, verbose=0)
    assert PruningMasks.of(model) is masks
    assert masks.share == share == pytest.approx(0.6, abs=0.01)
    after = numpy(model.trainable_variables)
    changed = [(a != b).any() for a, b in zip(before, after, strict=True)]
    assert sum(changed) > len(changed) / 2
    for old, new in zip(before, after, strict=True):
        if old.ndim > 1:
            assert not new[1:][old[1:] == 0].any()


def test_without_masks_zeros_grow(request):
    model = pruned_model("adam", run_eagerly=keras.backend.backend() == "tensorflow")
    before = numpy(model.trainable_variables)
    model.fit(PAIRS, batch_size=3, verbose=0)
    assert any(
        new[1:][old[1:] == 0].any()
        for old, new in zip(before, numpy(model.trainable_variables), strict=True)
        if old.ndim > 1
    )


def test_masks_are_not_saved_with_the_optimizer(tmp_path):
    model = pruned_model("adam")
    masks = PruningMasks(model)
    model.optimizer.build(model.trainable_variables)
    masks.prune(0.8, "class_uniform")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert PruningMasks.of(again) is None and GradientNorms.of(again.optimizer)
    assert len(again.optimizer.variables) + len(masks.to_arrays()) - 1 == len(model.optimizer.variables)
    restored = PruningMasks(again, masks.to_arrays())
    assert restored.share == masks.share == pytest.approx(0.8, abs=0.01)
    assert restored.first_share == masks.first_share == pytest.approx(0.6, abs=0.01)
    with pytest.raises(ValueError, match="its mask has 1 bytes"):
        PruningMasks(again, {**masks.to_arrays(), "0": np.zeros(1, np.uint8)})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_masks_have_a_share_until_there_are_more_weights_to_prune(scheme):
    model = pruned_model("adam", share=0.0)
    masks = PruningMasks(model)
    for share in (0.3, 0.501, 1.0):
        assert not masks.has_share(share, scheme)
        masks.prune(share, scheme)
        before = masks.share
        assert masks.has_share(share, scheme)
        masks.prune(share, scheme)
        assert masks.share == before and not (share < 1 and masks.has_share(share + 0.01, scheme))

"""What a training step does to the gradient: loss scaling, and clipping by element, by norm or by both."""

import warnings

import keras
import numpy as np
import pytest
from layer_checks import numpy
from recurrent_toys import SOURCE, TARGET
from recurrent_toys import toy as any_toy

from keras_encdec.models.gradient_clipping import GradientNorms, exact_clipping

BOUND, NORM = 0.3, 0.8


def toy(**arguments):
    """A model that compiles quickly."""
    return any_toy(cell="rnn", layers=1, **arguments)


def step(model, clip_norm=None, optimizer=None, **arguments):
    """What a step of SGD with step size 1 subtracts from the weights."""
    model.compile(optimizer or keras.optimizers.SGD(1.0, global_clipnorm=clip_norm), **arguments)
    return fitted(model)


def fitted(model):
    before = [numpy(weight) for weight in model.trainable_weights]
    model.fit({"source": SOURCE, "target": TARGET}, batch_size=len(SOURCE), verbose=0)
    return [one - numpy(weight) for one, weight in zip(before, model.trainable_weights, strict=True)]


def norm(gradients):
    return np.sqrt(sum((gradient**2).sum() for gradient in gradients))


def assert_alike(found, expected, atol=1e-5):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=atol)


@pytest.mark.usefixtures("eager")
def test_elements_are_clipped_and_then_the_norm():
    gradient = step(toy())
    clipped = [np.clip(array, -BOUND, BOUND) for array in gradient]
    assert max(abs(array).max() for array in gradient) > 2 * BOUND and norm(clipped) > 1.2 * NORM
    assert_alike(step(toy(), clip_elements=BOUND), clipped)
    assert_alike(step(toy(), clip_norm=NORM), [array * NORM / norm(gradient) for array in gradient])
    both = step(toy(), clip_norm=NORM, clip_elements=BOUND)
    assert_alike(both, [array * NORM / norm(clipped) for array in clipped])


@pytest.mark.usefixtures("eager")
@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_a_model_that_is_frozen_as_a_whole_is_fitted_without_a_change():
    model = toy()
    model.trainable = False
    before = model.get_weights()
    assert step(model) == []
    for one, other in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("eager")
def test_without_clipping_an_optimizer_squares_the_sum_of_the_gradients_of_a_repeated_word():
    gradient = step(toy())
    update = step(toy(), optimizer=keras.optimizers.RMSprop(1.0, rho=0.0, epsilon=1.0))
    assert_alike(update, [one / np.sqrt(one**2 + 1) for one in gradient])


@pytest.mark.parametrize("share, clipped, scaled", [(0.9, 2, False), (1.1, 0, True), (None, None, False)])
def test_norms_are_those_before_the_norm_is_clipped(share, clipped, scaled, tmp_path):
    """In a compiled step. A saved model does not contain the sums of the norms."""
    model = toy()
    gradient = step(toy(), optimizer=keras.optimizers.SGD(1.0, loss_scale_factor=4.0), clip_elements=BOUND)
    optimizer = keras.optimizers.SGD(0.0, global_clipnorm=share and share * norm(gradient))
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
    model.compile(optimizer, clip_elements=BOUND)
    for _ in range(2):
        fitted(model)
    assert GradientNorms.of(model.optimizer).totals == (pytest.approx(2 * norm(gradient), rel=1e-4), clipped)
    model.save(tmp_path / "m.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Keras warns if the file has other variables
        again = keras.saving.load_model(tmp_path / "m.keras")
    assert len(again.optimizer.variables) == len(model.optimizer.variables)
    assert int(numpy(again.optimizer.iterations)) == int(numpy(model.optimizer.iterations))
    assert GradientNorms.of(again.optimizer).totals[0] == 0


@pytest.mark.usefixtures("eager")
def test_the_loss_is_the_sum_over_the_batch_or_the_mean():
    gradient = step(toy())
    assert_alike(step(toy(), reduction="mean"), [array / len(SOURCE) for array in gradient])
    model = toy()
    model.compile("sgd", reduction="mean")
    loss = model.evaluate({"source": SOURCE, "target": TARGET}, verbose=0, return_dict=True)
    assert loss["log_likelihood"] == pytest.approx(numpy(model.score(SOURCE, TARGET)).mean(), abs=1e-4)


# The same step of the same model in float16 differs by 1.2e-4 from run to run under JAX: threads add in any order.
@pytest.mark.parametrize("dtype, atol", [("float32", 1e-6), ("mixed_float16", 1e-3)])
def test_a_loaded_model_trains_as_the_saved_one_would_have(dtype, atol, tmp_path):
    model = toy(dtype=dtype)
    model.compile(keras.optimizers.SGD(1.0, global_clipnorm=NORM), reduction="mean", clip_elements=0.02)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert (again.reduction, again.clip_elements) == ("mean", 0.02)
    steps, expected = fitted(again), fitted(model)
    assert 0 < max(abs(array).max() for array in steps) < 0.0201  # float16's steps are coarser than the bound
    assert_alike(steps, expected, atol)


@pytest.mark.usefixtures("eager")
def test_an_optimizer_that_is_compiled_again_clips_by_its_last_setting():
    optimizer = keras.optimizers.SGD(1.0)
    gradient = step(toy(), optimizer=optimizer, clip_elements=0.01)
    assert max(abs(array).max() for array in gradient) <= 0.0101
    optimizer = keras.optimizers.SGD(1.0)
    for bound in (0.01, None):
        toy().compile(optimizer, clip_elements=bound)
    assert_alike(step(toy(), optimizer=optimizer), step(toy()))


def test_a_scaled_loss_is_clipped_at_its_own_scale():
    gradient = step(toy(), optimizer=keras.optimizers.SGD(1.0, loss_scale_factor=8.0), clip_elements=BOUND)
    assert_alike(gradient, step(toy(), clip_elements=BOUND))
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
    assert_alike(step(toy(), optimizer=scaled, clip_elements=BOUND), gradient)


def test_an_uncompiled_model_loads_uncompiled(tmp_path):
    toy().save(tmp_path / "m.keras")
    assert keras.saving.load_model(tmp_path / "m.keras").compiled is False


def test_invalid_reductions_and_bounds_are_refused():
    with pytest.raises(ValueError, match='found reduction=\'max\', expected "sum" or "mean"'):
        toy().compile("sgd", reduction="max")
    for bound in (0, float("nan"), "1"):
        with pytest.raises(ValueError, match=f"found clip_elements={bound!r}, expected a positive number"):
            exact_clipping(keras.optimizers.SGD(), bound)
    accumulating = keras.optimizers.SGD(gradient_accumulation_steps=2)
    for optimizer in (accumulating, keras.optimizers.LossScaleOptimizer(accumulating)):
        with pytest.raises(ValueError, match="found clip_elements=0.1 with gradient_accumulation_steps=2, expected"):
            toy().compile(optimizer, clip_elements=0.1)
    toy().compile(accumulating)  # without clipping of elements

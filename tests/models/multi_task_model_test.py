"""A model of several tasks: every update equals that of a single-task model, and leaves the other tasks alone."""

import itertools
import pickle

import keras
import numpy as np
import pytest

from keras_encdec.backend.task_steps import update_tasks_between
from keras_encdec.backend.training_step import Compilation, StepCompilation, training_stream
from keras_encdec.decoding import Generator
from keras_encdec.models import MultiTaskModel, TaskParts, build_model
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.scoring import Scorer

SIZES = {"units": 4, "embedding_dim": 3, "layers": 1, "cell": "gru"}
SHARED_ENCODER = {"fr": TaskParts("en", "fr", 7, 8), "de": TaskParts("en", "de", 7, 6)}
SHARED_DECODER = {"fr": TaskParts("en", "fr", 7, 8), "from_de": TaskParts("de", "fr", 6, 8)}
NOTHING_SHARED = {"fr": TaskParts("en", "fr", 7, 8), "de": TaskParts("cs", "de", 6, 6)}
UNCOMPILED = StepCompilation("false")
# What is traced for TensorFlow is tested by training runs, in tests/trainers/task_training_test.py.
pytestmark = pytest.mark.usefixtures("eager")


def batches(task, number, seed=0):
    """Batches of two pairs of a task, all of one shape."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(number):
        sides = {"source": (task.source_words, 4), "target": (task.target_words, 3)}
        ids = {side: random.integers(1, words + 3, (2, width)) for side, (words, width) in sides.items()}
        for rows in ids.values():
            rows[rows == 2] = 1
            rows[:, -1] = 2
            rows[0, -2:] = (2, 0)
        made.append({side: rows.astype(np.int32) for side, rows in ids.items()})
    return made


def compiled(model, optimizer, **options):
    arguments = {"global_clipnorm": 1.0, **({"weight_decay": 0.1} if optimizer == "adamw" else {})}
    chosen = keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": 0.1, **arguments}})
    model.compile(chosen, jit_compile=UNCOMPILED.jit_compile, **options)
    return model


def fit(model, main_batches, updates=()):
    """Trains on the batches of the main task, with the updates of other tasks before each of them."""
    if updates:
        compilation = UNCOMPILED.apply(model)
        update_tasks_between(model, iter(updates), UNCOMPILED, compilation or Compilation())
    stream = training_stream(lambda: iter([*main_batches, *main_batches[-1:]]))
    model.fit(stream, steps_per_epoch=len(main_batches), epochs=1, shuffle=False, verbose=0)


def alone(model, name):
    """The ordinary model of a task, with its weights."""
    return model.task_models()[name]


def weights(layer):
    return [np.array(weight) for weight in layer.get_weights()]


def assert_all_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def assert_all_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("architecture", "sizes", "tasks"),
    [
        ("recurrent", {**SIZES, "attention": "global", "bidirectional": "concat"}, SHARED_ENCODER),
        ("recurrent", SIZES, SHARED_DECODER),
        ("encdec", {"units": 4, "embedding_dim": 3, "maxout_units": 2, "output_rank": 2}, SHARED_ENCODER),
    ],
)
def test_an_update_of_each_task_is_that_of_a_single_task_model(architecture, sizes, tasks):
    """With plain gradient descent, equal weights after an update are equal gradients, clipped by an equal norm."""
    model = compiled(MultiTaskModel(architecture, tasks, **sizes), "sgd", label_smoothing=0.1, clip_elements=0.2)
    main, other = tasks
    (other_batch,), (main_batch,) = batches(tasks[other], 1, seed=1), batches(tasks[main], 1, seed=2)

    single = compiled(alone(model, other), "sgd", label_smoothing=0.1, clip_elements=0.2)
    fit(single, [other_batch])
    after_other = {"encoder": weights(single.encoder), "decoder": weights(single.decoder)}
    expected = alone(model, main)
    if tasks[main].encoder == tasks[other].encoder:
        expected.encoder.set_weights(after_other["encoder"])
    if tasks[main].decoder == tasks[other].decoder:
        expected.decoder.set_weights(after_other["decoder"])
    fit(compiled(expected, "sgd", label_smoothing=0.1, clip_elements=0.2), [main_batch])

    fit(model, [main_batch], [[(other, other_batch)]])
    assert_all_close(weights(alone(model, main)), weights(expected))
    private = "decoder" if tasks[main].encoder == tasks[other].encoder else "encoder"
    assert_all_close(weights(getattr(alone(model, other), private)), after_other[private])


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adadelta", "rmsprop"])
def test_tasks_that_share_nothing_are_trained_as_if_each_were_alone(optimizer):
    """The moments of a task, and Adam's number of updates, do not change with the updates of others."""
    keras.utils.set_random_seed(1)  # with some weights, a gradient is so small that Adam's steps show its rounding
    model = compiled(MultiTaskModel("recurrent", NOTHING_SHARED, **SIZES), optimizer)
    main, other = batches(NOTHING_SHARED["fr"], 4, seed=1), batches(NOTHING_SHARED["de"], 3, seed=2)
    expected = {name: compiled(alone(model, name), optimizer) for name in NOTHING_SHARED}
    fit(expected["fr"], main)
    fit(expected["de"], other)
    fit(model, main, [[], [("de", other[0])], [], [("de", other[1]), ("de", other[2])]])
    for name, single in expected.items():
        assert_all_close(weights(alone(model, name)), weights(single))
    assert int(keras.ops.convert_to_numpy(model.optimizer.iterations)) == 7
    norms, alone_norms = (GradientNorms.of(each.optimizer).totals[0] for each in (model, expected["fr"]))
    assert norms == pytest.approx(alone_norms, rel=1e-3), "those of the main task"


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_an_update_of_one_task_changes_nothing_that_it_does_not_use(optimizer):
    model = compiled(MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES), optimizer)
    main, other = batches(SHARED_ENCODER["fr"], 2, seed=1), batches(SHARED_ENCODER["de"], 1, seed=2)
    fit(model, main[:1], [[("de", other[0])], [], []])  # both decoders now have moments
    before, english = weights(model.decoders["de"]), weights(model.encoders["en"])
    fit(model, main)
    assert_all_equal(weights(model.decoders["de"]), before)
    assert any((a != b).any() for a, b in zip(weights(model.encoders["en"]), english, strict=True))


def test_a_failed_update_leaves_the_optimizer_its_own_number_of_updates():
    optimizer = compiled(MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES), "adam").optimizer
    number, variable = optimizer.iterations, optimizer._trainable_variables[0]
    with pytest.raises(Exception):  # noqa: B017, each backend has its own
        optimizer.apply([keras.ops.ones((2, 3, 5))], [variable])
    assert optimizer.iterations is number


def test_optimizers_that_cannot_update_the_parts_of_one_task_are_refused():
    """An update of one task would drop what another has accumulated, or overwrite weights that it does not use."""
    model = MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES)
    accumulating = keras.optimizers.Adam(gradient_accumulation_steps=2)
    overwriting = keras.optimizers.SGD(use_ema=True, ema_overwrite_frequency=3)
    several = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(keras.optimizers.SGD()))
    for optimizer, found in (
        (accumulating, "gradient_accumulation_steps=2"),
        (overwriting, "ema_overwrite_frequency=3"),
        (several, "MultiOptimizer"),
    ):
        for given in (optimizer, keras.optimizers.LossScaleOptimizer(optimizer)):
            with pytest.raises(ValueError, match=f"found {found}, expected .* model of several tasks"):
                model.compile(given)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow compiles by shape")
def test_a_shape_of_a_task_is_counted_before_its_step_is_compiled_and_only_once():
    """Reports of a long first update can then say that it is being compiled."""
    model = compiled(MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES), "sgd")
    main, other = batches(SHARED_ENCODER["fr"], 2, seed=1), batches(SHARED_ENCODER["de"], 2, seed=2)
    compilation, counts = Compilation(), []
    updates = iter([[("de", other[0])], [("de", other[1])]])
    update_tasks_between(
        model, updates, StepCompilation("true"), compilation, lambda shapes: counts.append(compilation.shapes)
    )
    model.fit(training_stream(lambda: iter(main)), steps_per_epoch=2, epochs=1, shuffle=False, verbose=0)
    assert counts == [1] and compilation.shapes == 1 and compilation.seconds > 0


def test_measurements_are_those_of_the_main_task():
    model = compiled(MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES), "sgd")
    main, other = batches(SHARED_ENCODER["fr"], 1, seed=1), batches(SHARED_ENCODER["de"], 1, seed=2)
    with model.task("de"):
        log_probs = np.array(keras.ops.convert_to_numpy(model.score(**other[0])))
    tokens = (other[0]["target"] != 0).sum()
    fit(model, main, [[("de", other[0])]])
    measured = {metric.name: float(keras.ops.convert_to_numpy(metric.result())) for metric in model.metrics}
    assert measured["de_perplexity"] == pytest.approx(np.exp(-log_probs.sum() / tokens), rel=1e-4)
    assert measured["perplexity"] != pytest.approx(measured["de_perplexity"])
    assert set(model.evaluate(main[0], return_dict=True, verbose=0)) == {"loss", "perplexity", "log_likelihood"}
    for method in (model.train_on_batch, model.fit, model.evaluate, model.predict):
        with model.task("de"), pytest.raises(ValueError, match="found the task 'de', expected the main task 'fr'"):
            method(other[0])


def test_a_saved_model_of_several_tasks_has_their_weights_and_the_state_of_its_optimizer(tmp_path):
    model = compiled(MultiTaskModel("recurrent", SHARED_DECODER, **SIZES), "adam")
    main, other = batches(SHARED_DECODER["fr"], 1), batches(SHARED_DECODER["from_de"], 2)
    fit(model, main, [[("from_de", other[0]), ("from_de", other[1])]])
    model.save(tmp_path / "all.keras")
    loaded = keras.saving.load_model(tmp_path / "all.keras")
    assert loaded.tasks == SHARED_DECODER and loaded.main_task == "fr"
    assert_all_equal(weights(loaded), weights(model))
    values = [
        [np.array(keras.ops.convert_to_numpy(v)) for v in one.optimizer.variables if "gradient" not in v.name]
        for one in (loaded, model)
    ]
    assert_all_equal(*values)
    counts = [int(keras.ops.convert_to_numpy(v)) for v in model.optimizer.variables if v.name.startswith("updates_")]
    assert sorted(counts) == [1, 2, 3]  # the encoder en, the encoder de and the shared decoder fr


def test_a_task_is_scored_as_by_its_ordinary_model():
    model = MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES)
    for name, task in SHARED_ENCODER.items():
        pairs = batches(task, 1)[0]
        with model.task(name):
            found = keras.ops.convert_to_numpy(model.score(**pairs))
        np.testing.assert_allclose(found, keras.ops.convert_to_numpy(alone(model, name).score(**pairs)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_scorers_and_generators_stay_with_the_task_in_which_they_were_made(dtype):
    keras.utils.set_random_seed(0)
    model = MultiTaskModel("recurrent", NOTHING_SHARED, **SIZES, attention="global", initial_scale=1.0)
    sources, pairs = [[5, 6, 2], [4, 2]], [([5, 6, 2], [8, 2]), ([4, 2], [3, 5, 2])]
    made = {}
    for name in ("fr", "de"):
        with model.task(name):
            made[name] = Scorer(model, dtype), Generator(model, dtype=dtype)

    def expected():
        return {
            name: (
                Scorer(task_model, dtype).score(pairs),
                [best.ids for [best] in Generator(task_model, dtype=dtype).generate(sources)],
            )
            for name, task_model in model.task_models().items()
        }

    def check(used, expected):
        for name, (scorer, generator) in used.items():
            scores, ids = expected[name]
            np.testing.assert_allclose(scorer.score(pairs), scores, rtol=1e-5)
            assert [best.ids for [best] in generator.generate(sources)] == ids

    before = expected()
    check(made, before)
    with model.task("de"):
        check(made, before)
        check(pickle.loads(pickle.dumps(made)), before)
    model.set_weights([-2 * weight for weight in model.get_weights()])
    check(made, expected())


def test_contradictory_tasks_are_refused():
    with pytest.raises(ValueError, match=r"found source_words=9 of the task 'de', expected 7 as in 'fr', with"):
        MultiTaskModel("recurrent", {**SHARED_ENCODER, "de": TaskParts("en", "de", 9, 6)}, **SIZES)
    for tasks in (None, [TaskParts("en", "fr", 7, 8)], {"fr": ["en", "fr", 7, 8]}):
        with pytest.raises(ValueError, match="found the tasks .*, expected a dict from name to TaskParts"):
            MultiTaskModel("recurrent", tasks)
    with pytest.raises(ValueError, match="found no task, expected at least one"):
        MultiTaskModel("recurrent", {}, **SIZES)
    model = MultiTaskModel("recurrent", SHARED_ENCODER, **SIZES)
    with pytest.raises(ValueError, match="found the task 'cs', expected one of fr, de"), model.task("cs"):
        pass


def test_many_to_many_has_each_encoder_and_decoder_once():
    names = ("en", "de"), ("fr", "cs")
    sizes = {"en": 7, "de": 6, "fr": 8, "cs": 5}
    tasks = {f"{a}-{b}": TaskParts(a, b, sizes[a], sizes[b]) for a, b in itertools.product(*names)}
    model = MultiTaskModel("recurrent", tasks, **SIZES)
    ordinary = [build_model("recurrent", sizes[a], sizes[b], **SIZES) for a, b in zip(*names, strict=True)]
    assert model.count_params() == sum(each.count_params() for each in ordinary)

"""The sparse form of arrays and of `.keras` files."""

import errno
import io
import shutil
import tempfile
import zipfile

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest
import toy_models
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from keras_encdec.errors import InputError
from keras_encdec.model_directory import load_model
from keras_encdec.pruning.pruning_masks import prune_weights
from keras_encdec.sparse_weights import (
    SPARSE,
    count_zeros,
    decoded,
    dense_file,
    encoded,
    is_half,
    is_sparse,
    store_half,
    store_sparse,
)


@st.composite
def sparse_arrays(draw):
    """Arrays of any rank in the dtypes of weights; most elements are zero, others may be -0.0, infinite or NaN."""
    dtype = draw(st.sampled_from([np.float32, np.float64, np.float16, np.int32]))
    shape = draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=40))
    seed, share = draw(st.integers(0, 2**31)), draw(st.sampled_from([0.0, 0.5, 0.8, 0.97, 1.0]))
    random = np.random.default_rng(seed)
    array = (100 * random.normal(size=shape)).astype(dtype)
    array[random.random(shape) < share] = 0
    if array.size > 3 and np.issubdtype(dtype, np.floating):
        array.flat[:3] = -0.0, np.nan, np.inf
    return array


@given(sparse_arrays())
@settings(max_examples=100)
def test_arrays_come_back_bit_by_bit_and_are_smaller(array):
    parts = encoded(array)
    if parts is None:
        stored = np.count_nonzero(array.view(f"u{array.itemsize}"))
        assert stored * array.itemsize + -(-array.size // 8) >= array.nbytes
        return
    again = decoded(parts, array.shape)
    assert again.dtype == array.dtype and again.tobytes() == array.tobytes()
    assert sum(part.nbytes for part in parts.values()) < array.nbytes


@pytest.mark.parametrize(("share", "part", "most"), [(0.8, "mask", 0.24), (0.99, "columns", 0.035)])
def test_the_smaller_of_mask_and_columns_is_taken(share, part, most):
    random = np.random.default_rng(0)
    array = np.where(random.random((300, 200)) < share, 0, random.normal(size=(300, 200))).astype(np.float32)
    parts = encoded(array)
    assert part in parts and sum(each.nbytes for each in parts.values()) < most * array.nbytes


@pytest.mark.parametrize("share", [0.8, 0.99])
@pytest.mark.parametrize("damage", ["short values", "long values", "short index", "other index", "no values"])
def test_parts_that_contradict_each_other_are_errors(share, damage):
    random = np.random.default_rng(0)
    array = np.where(random.random((30, 20)) < share, 0, random.normal(size=(30, 20))).astype(np.float32)
    parts = dict(encoded(array))
    index = "mask" if "mask" in parts else "columns"
    if damage == "other index":
        parts[index] = parts[index] ^ np.uint8(255)
    elif damage == "no values":
        del parts["values"]
    else:
        name = index if damage == "short index" else "values"
        parts[name] = np.concatenate([parts[name]] * 2) if damage == "long values" else parts[name][:-1]
    with pytest.raises((ValueError, KeyError)):
        decoded(parts, array.shape)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A dense `.keras` file of a model with most weights zero, and the same in sparse form."""
    words = [f"w{i}" for i in range(30)]
    folder = toy_models.save_model(tmp_path_factory.mktemp("sparse") / "model", words, words, units=48)
    model = load_model(folder / "best.keras")
    random = np.random.default_rng(0)
    model.set_weights([np.where(random.random(w.shape) < 0.8, 0, w) for w in model.get_weights()])
    dense, sparse = folder / "dense.keras", folder / "sparse.keras"
    model.save(dense)
    shutil.copy(dense, sparse)
    assert store_sparse(sparse)
    return dense, sparse


def test_a_sparse_file_loads_as_the_dense_one(files):
    dense, sparse = files
    assert is_sparse(sparse) and not is_sparse(dense)
    matrices = [np.asarray(weight) for weight in load_model(dense).weights if len(weight.shape) > 1]
    counted = [array if array[0].any() else array[1:] for array in matrices]
    expected = sum(int((array == 0).sum()) for array in counted), sum(array.size for array in counted)
    assert count_zeros(sparse) == count_zeros(dense) == expected and expected[0] > 0
    for one, other in zip(load_model(dense).weights, load_model(sparse).weights, strict=True):
        np.testing.assert_array_equal(one, other)
    before = sparse.read_bytes()
    assert store_sparse(sparse) and sparse.read_bytes() == before, "once more"


def test_weights_without_zeros_keep_keras_own_file(tmp_path):
    folder = toy_models.save_model(tmp_path / "model", ["a"], ["b"])
    before = (folder / "best.keras").read_bytes()
    assert count_zeros(folder / "best.keras")[0] == 0, "the first rows of embeddings are zero"
    assert not store_sparse(folder / "best.keras") and (folder / "best.keras").read_bytes() == before
    with dense_file(folder / "best.keras") as path:
        assert path == folder / "best.keras"


def test_bfloat16_is_stored_small_and_comes_back(tmp_path):
    path = tmp_path / "w.keras"
    array = np.where(np.arange(10_000).reshape(100, 100) % 5, 0, 1.5).astype(ml_dtypes.bfloat16)
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file.create_dataset("layer/vars/0", data=array).attrs["dtype"] = "bfloat16"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights.h5", made.getvalue())
    assert count_zeros(path) == (8_000, 10_000)
    assert store_sparse(path) and count_zeros(path) == (8_000, 10_000)
    with dense_file(path) as dense, zipfile.ZipFile(dense) as archive:
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            again = file["layer/vars/0"]
            assert again.attrs["dtype"] == "bfloat16"
            np.testing.assert_array_equal(np.array(again, dtype=ml_dtypes.bfloat16), array)


@pytest.mark.parametrize("kind", ["cut", "flip"])
@given(where=st.floats(0, 0.999), bit=st.integers(0, 7))
@settings(max_examples=12)
def test_a_damaged_file_is_an_error_or_the_same_weights(files, tmp_path_factory, kind, where, bit):
    dense, sparse = files
    content = bytearray(sparse.read_bytes())
    position = int(where * len(content))
    if kind == "cut":
        del content[position:]
    else:
        content[position] ^= 1 << bit
    path = tmp_path_factory.mktemp("damaged") / "best.keras"
    path.write_bytes(content)
    try:
        damaged = load_model(path)
    except InputError as error:
        assert str(error).startswith(f"{path}: found ")
        return
    for one, other in zip(load_model(dense).weights, damaged.weights, strict=True):
        np.testing.assert_array_equal(one, other)  # a byte that nothing reads, such as a date


def test_a_full_temporary_folder_is_not_taken_for_damage(files, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("keras_encdec.sparse_weights._write", full)
    with pytest.raises(InputError, match=f"{tempfile.gettempdir()}: found the disk full when trying to expand the w"):
        load_model(files[1])


def test_a_missing_temporary_folder_is_not_taken_for_damage(files, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with pytest.raises(FileNotFoundError, match="No usable temporary directory"):
        load_model(files[1])


def test_contradictory_arrays_are_named(files, tmp_path):
    _, sparse = files
    path = tmp_path / "best.keras"
    with zipfile.ZipFile(sparse) as archive, zipfile.ZipFile(path, "w") as written:
        for name in archive.namelist():
            content = archive.read(name)
            if name == SPARSE:
                buffer = io.BytesIO(content)
                with h5py.File(buffer, "a") as file:
                    group = file.visititems(lambda _, item: item if "sparse" in item.attrs else None)
                    values = group["values"][()]
                    del group["values"]
                    group["values"] = values[:-1]
                content = buffer.getvalue()
            written.writestr(name, content)
    with pytest.raises(InputError, match="its sparse weights .* are damaged: its mask marks"):
        load_model(path)


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_in_half_precision_load_as_float32(tmp_path, sparse):
    words = [f"w{i}" for i in range(500)]
    path = toy_models.save_model(tmp_path / "model", words, words) / "best.keras"
    if sparse:
        model = load_model(path)
        prune_weights(model, 0.5, "class_blind")
        model.save(path)
        assert store_sparse(path)
    smaller = shutil.copyfile(path, tmp_path / "smaller.keras")
    store_half(smaller)
    assert is_half(smaller) and not is_half(path) and is_sparse(smaller) == sparse
    assert smaller.stat().st_size < 0.7 * path.stat().st_size
    for weight, before in zip(load_model(smaller).weights, load_model(path).weights, strict=True):
        assert keras.backend.standardize_dtype(weight.dtype) == "float32"
        halved = keras.ops.convert_to_numpy(before).astype("float16").astype("float32")
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), halved)

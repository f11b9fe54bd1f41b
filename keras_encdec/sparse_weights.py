"""Makes files of weights smaller: leaves out the zeros of arrays with many zeros, or stores numbers in float16.

A sparse array is stored as its values that are not zero, with a bit mask or column indices that say where they are.

A `.keras` file is a zip archive with the weights in an HDF5 file, `model.weights.h5`. In a sparse file its name is
`sparse.weights.h5`, and each array that becomes smaller this way is an HDF5 group instead of a dataset:

    mask          one bit per element in row-major order, the highest bit of a byte first: 1 if the element is stored;
                  or, in place of mask:
    row_counts    the number of stored elements of each row, in the smallest unsigned type
    columns       the position in its row of each stored element, in the smallest unsigned type
    values        the stored elements, in row-major order
    sparse        an attribute with the shape of the array, in addition to the attributes of the dataset

An array of any rank is treated as a matrix `(rows, columns)` whose columns are its last axis. Only elements whose bits
are all zero are left out (not -0.0), so that the array that is read equals the original bit for bit. Reading does not
need Keras.
"""

import contextlib
import io
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterator, Mapping

import h5py
import numpy as np

from keras_encdec.errors import FilePath
from keras_encdec.runtime.unfinished import temporary_folder

DENSE, SPARSE = "model.weights.h5", "sparse.weights.h5"
_MARK = "sparse"
# Bytes that the groups of HDF5 take for a sparse array: encoding must save more than this.
_GROUP = 2048


def encoded(array: np.ndarray) -> dict[str, np.ndarray] | None:
    """Encodes an array by the smaller of a bit mask and column indices.

    Args:
        array: array of any shape and of a numeric dtype, including bfloat16, which NumPy reads as an opaque dtype.

    Returns:
        dict of "values", and "mask" or "row_counts" and "columns"; `None` if the array itself is no larger than these.

    Example:

    >>> {name: part.tolist() for name, part in encoded(np.array([[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 5.0]])).items()}
    {'values': [2.0, 5.0], 'mask': [65]}
    >>> encoded(np.ones(4)) is None
    True
    """
    if array.dtype.itemsize not in (1, 2, 4, 8) or not array.size:
        return None
    rows = np.ascontiguousarray(array).reshape(-1, array.shape[-1] if array.ndim else 1)
    present = rows.view(f"u{array.dtype.itemsize}") != 0
    counts = present.sum(axis=1)
    stored = int(counts.sum())
    if (array.size - stored) * array.dtype.itemsize <= min(array.size // 8, stored):
        return None  # the zeros take less than a bit mask, and less than a byte for each column index
    values = rows[present]
    indices = {
        "row_counts": counts.astype(np.min_scalar_type(int(counts.max()))),
        "columns": np.nonzero(present)[1].astype(np.min_scalar_type(rows.shape[1] - 1)),
    }
    mask = {"mask": np.packbits(present)}
    smaller = min(mask, indices, key=stored_size)
    parts = {"values": values, **smaller}
    return parts if stored_size(parts) < array.nbytes else None


def decoded(parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Returns the array that `encoded` was given.

    Args:
        parts: dict, as from `encoded`.
        shape: tuple of int.

    Raises:
        ValueError: if the parts contradict each other or the shape.
    """
    columns = shape[-1] if shape else 1
    size = int(np.prod(shape, dtype=np.int64))
    values = parts["values"]
    flat = np.zeros(size, values.dtype)
    if "mask" in parts:
        if len(parts["mask"]) != -(-size // 8):
            raise ValueError(f"its mask has {len(parts['mask'])} bytes, expected {-(-size // 8)} for {size} weights")
        bits = np.unpackbits(parts["mask"])
        if bits[size:].any() or int(bits.sum()) != len(values):
            raise ValueError(f"its mask marks {int(bits.sum())} weights, but it has {len(values)} values")
        flat[bits[:size].view(bool)] = values
        return flat.reshape(shape)
    counts, indices = parts["row_counts"].astype(np.int64), parts["columns"].astype(np.int64)
    if len(counts) * columns != size or not counts.sum() == len(indices) == len(values):
        raise ValueError(
            f"it has {len(indices)} column indices and {len(values)} values, but its {len(counts)} rows count "
            f"{counts.sum()} elements"
        )
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError(f"it has a column index of {indices.max()} in rows of {columns} columns")
    flat[np.repeat(np.arange(len(counts)) * columns, counts) + indices] = values
    return flat.reshape(shape)


def stored_size(parts: Mapping[str, np.ndarray]) -> int:
    """Returns the number of bytes of the arrays that `encoded` returned."""
    return sum(part.nbytes for part in parts.values())


def store_sparse(path: FilePath) -> bool:
    """Makes a `.keras` file sparse, in place, if that makes any of its arrays smaller.

    Args:
        path: path of the file. It is replaced when the new file is complete.

    Returns:
        bool. Whether the file is sparse now.
    """
    path = pathlib.Path(path)
    with zipfile.ZipFile(path) as archive:
        if DENSE not in archive.namelist():
            return SPARSE in archive.namelist()
        with archive.open(DENSE) as member, h5py.File(member, "r") as weights:
            if not _any_item(weights, lambda item: _parts(item) is not None):
                return False
        _write(archive, path, SPARSE, _copy_sparse)
    return True


def store_half(path: FilePath) -> None:
    """Stores the float32 arrays of a `.keras` file in float16, compressed, in place.

    A model that is loaded from it has the dtypes of its configuration, with every backend.

    Args:
        path: path of the file, sparse or not. It is replaced when the new file is complete.
    """
    path = pathlib.Path(path)
    with zipfile.ZipFile(path) as archive:
        _write(archive, path, _member(archive), _copy_half, zipfile.ZIP_DEFLATED)


def is_half(path: FilePath) -> bool:
    """Returns whether a `.keras` file has arrays in float16."""
    with zipfile.ZipFile(path) as archive, archive.open(_member(archive)) as member, h5py.File(member, "r") as weights:
        return _any_item(weights, lambda item: isinstance(item, h5py.Dataset) and item.dtype == np.float16)


@contextlib.contextmanager
def dense_file(path: FilePath) -> Iterator[pathlib.Path]:
    """Makes a `.keras` file that may be sparse available to Keras, which loads only dense ones.

    Yields:
        pathlib.Path: the file itself if it is not sparse; otherwise a temporary one, removed at the end of the block.

    Raises:
        ValueError: if the parts of a sparse array in it contradict each other.
        KeyError, OSError, zipfile.BadZipFile: for other damage.
    """
    path = pathlib.Path(path)
    if not is_sparse(path):
        yield path
        return
    with temporary_folder() as folder:
        dense = pathlib.Path(folder) / "dense.keras"
        with zipfile.ZipFile(path) as archive:
            _write(archive, dense, DENSE, _copy_dense)
        yield dense


def is_sparse(path: FilePath) -> bool:
    """Returns whether a file is a `.keras` file with sparse weights."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return SPARSE in archive.namelist()


def count_zeros(path: FilePath) -> tuple[int, int]:
    """Counts the weights that are zero in the matrices of a `.keras` file.

    If all weights in the first row of a matrix are zero, that row is left out: in an embedding, it is the row for
    padding. In another matrix, a first row whose weights are all pruned is left out, too, although it should count.

    Returns:
        tuple of the number of zeros and the number of weights.

    Raises:
        KeyError, OSError, ValueError, zipfile.BadZipFile: for damage.
    """
    zeros = size = 0

    def count(item: h5py.Group | h5py.Dataset) -> bool:
        nonlocal zeros, size
        shape = item.attrs.get(_MARK, getattr(item, "shape", ()))
        if len(shape) > 1:
            array = item[()] if isinstance(item, h5py.Dataset) else _dense(item)
            if array.dtype.kind == "V":  # bfloat16
                array = array.view(f"u{array.dtype.itemsize}")
            counted = array if array[:1].any() else array[1:]
            zeros += counted.size - int(np.count_nonzero(counted))
            size += counted.size
        return False

    with zipfile.ZipFile(path) as archive, archive.open(_member(archive)) as member, h5py.File(member, "r") as weights:
        _any_item(weights, count)
    return zeros, size


def _member(archive: zipfile.ZipFile) -> str:
    """Returns the name of the member that has the weights."""
    return SPARSE if SPARSE in archive.namelist() else DENSE


def _write(
    archive: zipfile.ZipFile, path: pathlib.Path, name: str, copy: "_Copy", compression: int = zipfile.ZIP_STORED
) -> None:
    """Writes an archive to a file, which may be its own, with its weights copied by `copy` under the given name."""
    partial, weights = path.with_name(f"{path.name}.new"), _member(archive)
    try:
        with zipfile.ZipFile(partial, "w", compression) as written:
            for member in archive.namelist():
                content = archive.read(member)
                is_weights = member == weights
                written.writestr(name if is_weights else member, _copied(content, copy) if is_weights else content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _any_item(weights: h5py.File, holds: Callable[[h5py.Group | h5py.Dataset], bool]) -> bool:
    """Returns whether a condition holds for any item of a file; the first one ends the search."""
    return bool(weights.visititems(lambda _, item: holds(item) or None))


_Copy = Callable[[h5py.File, str, h5py.Group | h5py.Dataset], bool]


def _copied(content: bytes, copy: _Copy) -> bytes:
    """Copies an HDF5 file. `copy` copies an item in its own way and returns `True`, or returns `False`."""
    made, done = io.BytesIO(), []
    with h5py.File(io.BytesIO(content), "r") as weights, h5py.File(made, "w") as target:

        def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if any(name.startswith(f"{group}/") for group in done):
                return
            if copy(target, name, item):
                done.append(name)
            elif isinstance(item, h5py.Group):
                target.require_group(name).attrs.update(item.attrs)
            else:
                target.create_dataset(name, data=item[()]).attrs.update(item.attrs)

        target.attrs.update(weights.attrs)
        weights.visititems(visit)
    return made.getvalue()


def _parts(item: h5py.Group | h5py.Dataset) -> dict[str, np.ndarray] | None:
    """Encodes a dataset if that makes its file smaller; otherwise returns `None`."""
    if not isinstance(item, h5py.Dataset) or item.nbytes < _GROUP:
        return None
    parts = encoded(item[()])
    return parts if parts and stored_size(parts) + _GROUP < item.nbytes else None


def _copy_sparse(target: h5py.File, name: str, item: h5py.Group | h5py.Dataset) -> bool:
    parts = _parts(item)
    if parts is None:
        return False
    group = target.require_group(name)
    group.attrs.update({**item.attrs, _MARK: list(item.shape)})
    for part, array in parts.items():
        group.create_dataset(part, data=array)
    return True


def _copy_half(target: h5py.File, name: str, item: h5py.Group | h5py.Dataset) -> bool:
    if not isinstance(item, h5py.Dataset) or not item.ndim:
        return False
    array = item[()]
    array = array.astype(np.float16) if array.dtype == np.float32 else array
    target.create_dataset(name, data=array).attrs.update(item.attrs)
    return True


def _copy_dense(target: h5py.File, name: str, item: h5py.Group | h5py.Dataset) -> bool:
    if not (isinstance(item, h5py.Group) and _MARK in item.attrs):
        return False
    attributes = {key: value for key, value in item.attrs.items() if key != _MARK}
    target.create_dataset(name, data=_dense(item)).attrs.update(attributes)
    return True


def _dense(group: h5py.Group) -> np.ndarray:
    try:
        parts = {part: dataset[()] for part, dataset in group.items()}
        return decoded(parts, tuple(int(size) for size in group.attrs[_MARK]))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"its sparse weights {group.name.removeprefix('/')} are damaged: {error}") from error

"""The symbols of the equations, by which the weights of a model are read and set."""

import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import ops

if TYPE_CHECKING:
    from keras_encdec.models.translation_model import TranslationModel


def to_symbols(model: "TranslationModel") -> dict[str, np.ndarray]:
    """Reads the weights of a model as arrays.

    Each matrix of the equations is one array, even if a layer stores several matrices in one variable: "source.E",
    "encoder.U_r", "decoder.C_z", "readout.G_l" and so on. Symbols of stacked layers end in the layer's number, as in
    "encoder.W_i.1". Vectors are rows, so the shape of a weight is `(inputs, outputs)`.
    `numpy.savez(path, **to_symbols(model))` saves the weights in a file.

    Args:
        model: one of the package's models.

    Returns:
        dict from str to array, copies, in the dtype of the variables.

    Raises:
        ValueError: for another object, such as a model directory, and for weights of your own layers that their method
            `symbols` does not name.
    """
    return {
        symbol: np.array(ops.convert_to_numpy(variable)[..., columns])
        for symbol, (variable, columns) in _columns_by_symbol(model).items()
    }


def from_symbols(model: "TranslationModel", arrays: Mapping[str, np.ndarray]) -> "TranslationModel":
    """Sets the weights of a model from arrays.

    Args:
        model: one of the package's models, changed in place.
        arrays: mapping of every symbol of `to_symbols` to an array of its shape, for example an open `.npz` file. Row 0
            of "source.E" and "target.E" is set to zero; the model never reads it.

    Returns:
        the model.

    Raises:
        ValueError: for missing or unknown symbols or a shape that does not fit, and for an object that is not a model.
            The model is then unchanged.
    """
    columns_by_symbol = _columns_by_symbol(model)
    missing, unknown = sorted(columns_by_symbol.keys() - set(arrays)), sorted(set(arrays) - columns_by_symbol.keys())
    if missing or unknown:
        raise ValueError(
            f"found arrays without the symbols {missing} and with the unknown symbols {unknown}, expected exactly the "
            "symbols that to_symbols(model) returns"
        )
    new = {}
    for symbol, (variable, columns) in columns_by_symbol.items():
        values = new.setdefault(id(variable), (variable, np.array(ops.convert_to_numpy(variable))))[1]
        array = np.asarray(arrays[symbol])
        if array.shape != values[..., columns].shape:
            raise ValueError(f"{symbol}: found shape {array.shape}, expected {values[..., columns].shape}")
        values[..., columns] = array
        if symbol.endswith(".E"):
            values[0] = 0
    for variable, values in new.values():
        variable.assign(values)
    return model


def _columns_by_symbol(model: "TranslationModel") -> dict[str, tuple[keras.Variable, slice]]:
    """Returns the variable of each symbol, and the symbol's columns in it."""
    check_model(model)
    columns_by_symbol = {**model.encoder.symbols(), **model.decoder.symbols()}
    named = {id(variable) for variable, _ in columns_by_symbol.values()}
    weights = [*model.encoder.weights, *model.decoder.weights]
    if unnamed := [weight.path for weight in weights if id(weight) not in named]:  # they would be lost
        raise ValueError(
            f"found weights without symbols, {', '.join(unnamed)}, expected one for each; define symbols() in the layer"
        )
    return columns_by_symbol


def check_model(model: object) -> None:
    """Raises ValueError for an object that is not a built model with an encoder and a decoder."""
    if not hasattr(model, "encoder"):
        raise ValueError(
            f"found {reprlib.repr(model)}, expected a model with an encoder and a decoder; "
            "keras_encdec.model_directory.ModelDirectory.load(path).model is the model of a directory"
        )
    if not getattr(model, "built", True):
        raise ValueError(
            f"found {type(model).__name__} without weights, expected self.build() at the end of its constructor"
        )

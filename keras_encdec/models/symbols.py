"""Reads and sets a model's weights as arrays named by the symbols of the equations."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_encdec.models.translation_model import TranslationModel


def to_symbols(model: TranslationModel) -> dict[str, np.ndarray]:
    """Reads the weights of a model as arrays.

    Each matrix of the equations is one array, even if a layer stores several matrices in one variable: "source.E",
    "encoder.U_r", "decoder.C_z", "readout.G_l" and so on. Symbols of stacked layers end in the layer's number, as
    "encoder.W_i.1". Vectors are rows, so the shape of a weight is `(inputs, outputs)`.
    `numpy.savez(path, **to_symbols(model))` saves the weights in a file.

    Args:
        model: one of the package's models.

    Returns:
        dict of str to array, copies, in the dtype of the variables.
    """
    return {
        symbol: np.array(ops.convert_to_numpy(variable)[..., columns])
        for symbol, (variable, columns) in _columns_by_symbol(model).items()
    }


def from_symbols(model: TranslationModel, arrays: Mapping[str, np.ndarray]) -> TranslationModel:
    """Sets the weights of a model from arrays.

    Args:
        model: one of the package's models, changed in place.
        arrays: mapping of every symbol of `to_symbols` to an array of its shape, for example an open `.npz` file. Row 0
            of "source.E" and "target.E" is set to zero; the model never reads it.

    Returns:
        the model.

    Raises:
        ValueError: for missing or unknown symbols, or a shape that does not fit. The model is then unchanged.
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
        whole = new.setdefault(id(variable), (variable, np.array(ops.convert_to_numpy(variable))))[1]
        array = np.asarray(arrays[symbol])
        if array.shape != whole[..., columns].shape:
            raise ValueError(f"{symbol}: found shape {array.shape}, expected {whole[..., columns].shape}")
        whole[..., columns] = array
        if symbol.endswith(".E"):
            whole[0] = 0
    for variable, whole in new.values():
        variable.assign(whole)
    return model


def _columns_by_symbol(model: TranslationModel) -> dict[str, tuple[keras.Variable, slice]]:
    """Returns the variable of each symbol, and its columns in it."""
    return {**model.encoder.symbols(), **model.decoder.symbols()}

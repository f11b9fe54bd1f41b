"""A model's weights as arrays under the symbols of the equations, the way in and out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from keras_encdec.models.rnn_encoder_decoder import RNNEncoderDecoder


def to_symbols(model: RNNEncoderDecoder) -> dict[str, np.ndarray]:
    """Reads the weights.

    Whatever the layers fuse inside, each matrix of the equations is one array: "source.E",
    "encoder.U_r", "decoder.C_z", "readout.G_l", .... Row vectors are multiplied from the left, so a
    weight is `(inputs, outputs)`. `numpy.savez(path, **to_symbols(model))` keeps them in a file.

    Args:
        model: `RNNEncoderDecoder`.

    Returns:
        dict of str to array, copies, in the dtype of the variables.
    """
    return {
        symbol: np.array(ops.convert_to_numpy(variable)[..., columns])
        for symbol, (variable, columns) in _columns_by_symbol(model).items()
    }


def from_symbols(model: RNNEncoderDecoder, arrays: Mapping[str, Any]) -> RNNEncoderDecoder:
    """Sets the weights.

    Args:
        model: `RNNEncoderDecoder`, changed in place.
        arrays: mapping of every symbol of `to_symbols` to an array of its shape, an opened `.npz` for
            instance. Row 0 of "source.E" and "target.E" is set to zero, as the model never reads it.

    Returns:
        the model.

    Raises:
        ValueError: naming symbols that are missing or unknown, or a shape that does not fit; the
            model is then unchanged.
    """
    columns_by_symbol = _columns_by_symbol(model)
    missing, unknown = sorted(columns_by_symbol.keys() - set(arrays)), sorted(set(arrays) - columns_by_symbol.keys())
    if missing or unknown:
        raise ValueError(f"The weights lack {missing or 'nothing'} and have {unknown or 'nothing'} unknown.")
    new = {}
    for symbol, (variable, columns) in columns_by_symbol.items():
        whole = new.setdefault(id(variable), (variable, np.array(ops.convert_to_numpy(variable))))[1]
        array = np.asarray(arrays[symbol])
        if array.shape != whole[..., columns].shape:
            raise ValueError(f"{symbol}: found shape {array.shape}, expected {whole[..., columns].shape}.")
        whole[..., columns] = array
        if symbol.endswith(".E"):
            whole[0] = 0
    for variable, whole in new.values():
        variable.assign(whole)
    return model


def _columns_by_symbol(model):
    """Each symbol's variable and the columns it takes there."""
    encoder, decoder = model.encoder, model.decoder
    cell, context_cell, readout = encoder.gru.cell, decoder.cell, decoder.readout
    units = model.config.units
    everything = slice(None)
    r, z, n = (slice(i * units, (i + 1) * units) for i in range(3))

    def gates(letter, variable, names=("{}_r", "{}_z", "{}")):
        return {name.format(letter): (variable, columns) for name, columns in zip(names, (r, z, n), strict=False)}

    parts = {
        "source": {"E": (encoder.embedding.embeddings, everything)},
        "encoder": {
            **gates("W", cell.kernel),
            **gates("U", cell.gate_recurrent_kernel, ("{}_r", "{}_z")),
            "U": (cell.candidate_recurrent_kernel, everything),
            **gates("b", cell.bias),
            "V": (encoder.summary.kernel, everything),
            "b_V": (encoder.summary.bias, everything),
        },
        "target": {"E": (decoder.embedding.embeddings, everything)},
        "decoder": {
            "V": (decoder.initial_state.kernel, everything),
            "b_V": (decoder.initial_state.bias, everything),
            **gates("W", context_cell.kernel),
            **gates("U", context_cell.recurrent_kernel),
            **gates("C", context_cell.context_kernel),
            **gates("b", context_cell.bias),
        },
        "readout": {
            "O_h": (readout.state_kernel, everything),
            "O_y": (readout.previous_kernel, everything),
            "O_c": (readout.context_kernel, everything),
            "b_O": (readout.bias, everything),
            "G_r": (readout.right_factor, everything),
            "G_l": (readout.left_factor, everything),
            "b_G": (readout.output_bias, everything),
        },
    }
    return {f"{part}.{name}": where for part, names in parts.items() for name, where in names.items()}

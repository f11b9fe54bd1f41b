"""Small recurrent models with random weights, and these as the oracles take them."""

import keras
import numpy as np

from keras_encdec.models import RecurrentEncoderDecoder, RecurrentLanguageModel

SIZES = {"layers": 2, "units": 4, "embedding_dim": 3}
PAIRS = [([4, 1, 6, 2], [5, 3, 2]), ([2], [2]), ([3, 3, 7, 5, 4, 2], [1, 6, 4, 4, 2]), ([5, 2], [7, 8, 3, 2])]


def padded(sequences, width=None):
    width = width or max(map(len, sequences))
    return np.array([s + [0] * (width - len(s)) for s in sequences], "int32")


SOURCE, TARGET = padded([s for s, _ in PAIRS]), padded([t for _, t in PAIRS])


def toy(**arguments):
    """A model of 6 source words and 7 target words; its weights are large enough that every term counts."""
    return stirred(RecurrentEncoderDecoder(6, 7, **{**SIZES, **arguments}))


def toy_language_model(**arguments):
    return stirred(RecurrentLanguageModel(7, **{**SIZES, **arguments}))


def stirred(model, scale=0.5, seed=0):
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        values = random.normal(0, scale, variable.shape)
        if variable.name == "embeddings":
            values[0] = 0
        variable.assign(values)
    return model


def nested_weights(model):
    """What `recurrent_oracle` takes: arrays that are the model's weights, or its gradients if these stand there."""
    encoder, decoder = model.encoder, model.decoder
    attention = {}
    if decoder.has_attention:
        layer = decoder.attention_layer
        attention = {
            "score": arrays(layer.scores),
            "position": [array(layer.position_kernel), array(layer.position_vector)]
            if decoder.attention == "local_p"
            else [],
            "W_c": array(decoder.context_projection.kernel),
            "W_h": array(decoder.state_projection.kernel),
            "feeding": array(decoder.feeding.kernel) if decoder.input_feeding else np.zeros(0),
        }
    return {
        **attention,
        "source": array(encoder.embedding.embeddings),
        "encoder": [[arrays(cell) for cell in cells] for cells in encoder.cells],
        "projections": [[arrays(layer) for layer in layers] for layers in encoder.projections],
        "target": array(decoder.embedding.embeddings),
        "decoder": [arrays(cell) for cell in decoder.cells],
        "first_states": [arrays(layer) for layer in decoder.first_states] if decoder.summary else [],
        "context": array(decoder.context.kernel) if decoder.summary else np.zeros(0),
        "output": arrays(decoder.output_matrix),
    }


def thesis_weights(model):
    """What `thesis_oracle` takes: columns where the layers have rows."""
    sides = {"decoder": (model.decoder, model.decoder.cells)}
    if model.has_source:
        sides["encoder"] = (model.encoder, [cell for (cell,) in model.encoder.cells])
    weights = {"W_hy": array(model.decoder.output_matrix.kernel).T, "b_y": array(model.decoder.output_matrix.bias)}
    for side, (part, cells) in sides.items():
        weights[f"{side}.W_e"] = array(part.embedding.embeddings).T
        for layer, cell in enumerate(cells):
            weights[f"{side}.T_x.{layer}"] = array(cell.kernel).T
            weights[f"{side}.T_h.{layer}"] = array(cell.recurrent_kernel).T
            weights[f"{side}.b.{layer}"] = array(cell.bias)
    return weights


def plain_weights(model):
    """What algorithm 1 takes, of a language model of one plain layer."""
    names = {"decoder.W_e": "W_e", "decoder.T_x.0": "W_xh", "decoder.T_h.0": "W_hh", "decoder.b.0": "b_h"}
    return {names.get(name, name): weights for name, weights in thesis_weights(model).items()}


def array(variable):
    return np.array(keras.ops.convert_to_numpy(variable))


def arrays(layer):
    return [array(variable) for variable in layer.trainable_variables]

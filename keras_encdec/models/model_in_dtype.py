"""A model that computes in another dtype."""

from keras import ops

from keras_encdec.models.translation_model import TranslationModel


def model_in_dtype(model: TranslationModel, dtype: str) -> TranslationModel:
    """The model itself, or one that holds its weights in another dtype and computes in it.

    A model of a mixed dtype policy computes in one dtype only within Keras's calls: who calls the encoder's and the
    decoder's own methods takes the model that this gives.

    Args:
        model: TranslationModel.
        dtype: str, such as "float32" or "bfloat16".
    """
    if model.dtype_policy.name == dtype:
        return model
    other = type(model).from_config({**model.get_config(), "dtype": dtype})
    copy_weights(model, other)
    return other


def copy_weights(model: TranslationModel, other: TranslationModel) -> None:
    """Gives another model of the same sizes the weights of a model, in its own dtype."""
    for weight, original in zip(other.weights, model.weights, strict=True):
        weight.assign(ops.cast(original, weight.dtype))

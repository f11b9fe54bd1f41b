"""What is in a folder of exports."""

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2


def names(folder):
    """All that is in a folder, hidden or not."""
    return sorted(path.name for path in folder.iterdir())


def models_config(folder):
    """The models in the file models.config of a folder."""
    config = model_server_config_pb2.ModelServerConfig()
    return text_format.Parse((folder / "models.config").read_text(), config).model_config_list.config


def labels(folder):
    """The labels of versions in that file: dict, label to version."""
    return dict(models_config(folder)[0].version_labels)


def served(folder, version=1):
    """The signatures of a version, loaded."""
    return tf.saved_model.load(str(folder / str(version))).signatures

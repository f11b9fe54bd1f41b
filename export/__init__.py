"""Exports a trained model for TensorFlow Serving, verifies the export, and scores files with a server."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

# The imports are lazy so that a client imports neither TensorFlow nor Keras.
if TYPE_CHECKING:
    from keras_encdec.export.client.connection import ClientOptions as ClientOptions
    from keras_encdec.export.client.connection import ConnectionOptions as ConnectionOptions
    from keras_encdec.export.client.connection import server_health as server_health
    from keras_encdec.export.client.connection import server_metadata as server_metadata
    from keras_encdec.export.client.load_test import LoadResult as LoadResult
    from keras_encdec.export.client.load_test import measure_server as measure_server
    from keras_encdec.export.client.model_server import ModelStatus as ModelStatus
    from keras_encdec.export.client.model_server import ServedSignatures as ServedSignatures
    from keras_encdec.export.client.score_file_with_server import ServedScoreSummary as ServedScoreSummary
    from keras_encdec.export.client.score_file_with_server import score_file_with_server as score_file_with_server
    from keras_encdec.export.comparison import ScoreDifference as ScoreDifference
    from keras_encdec.export.exporting import ExportResult as ExportResult
    from keras_encdec.export.exporting import export_model as export_model
    from keras_encdec.export.models_config import move_stable_label as move_stable_label
    from keras_encdec.export.models_config import remove_version as remove_version
    from keras_encdec.export.serving_config import ExportOptions as ExportOptions
    from keras_encdec.export.serving_config import ServingConfig as ServingConfig
    from keras_encdec.export.serving_config import VerificationOptions as VerificationOptions
    from keras_encdec.export.verification import VerificationReport as VerificationReport
    from keras_encdec.export.verification import verify_export as verify_export

lazy_imports(__name__)

"""Calls of a served model as any client makes them: with the official stubs, and nothing of this package."""

import grpc
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc, regression_pb2

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Calls:
    """A client of the model "encdec".

    Args:
        address: str, such as "localhost:8500".
    """

    def __init__(self, address):
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(address, OPTIONS))

    def predict(self, signature="", spec=None, **inputs):
        """The outputs of a signature, dict of name to array; lists of str become vectors of strings."""
        request = predict_pb2.PredictRequest(inputs={name: _tensor(value) for name, value in inputs.items()})
        _ask(request.model_spec, signature, spec)
        outputs = self.stub.Predict(request, timeout=60).outputs
        return {name: tf.make_ndarray(tensor) for name, tensor in outputs.items()}

    def regress(self, examples):
        """What `regress` gives for a list of dict of name to text."""
        request = regression_pb2.RegressionRequest()
        _ask(request.model_spec, "regress", None)
        for features in examples:
            example = request.input.example_list.examples.add()
            for name, text in features.items():
                example.features.feature[name].bytes_list.value.append(text.encode())
        return [regression.value for regression in self.stub.Regress(request, timeout=60).result.regressions]

    def metadata(self):
        """The signatures: dict of name to SignatureDef."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        _ask(request.model_spec, "", None)
        found = get_model_metadata_pb2.SignatureDefMap()
        self.stub.GetModelMetadata(request, timeout=60).metadata["signature_def"].Unpack(found)
        return dict(found.signature_def)


def refusal(call, *arguments, **keywords):
    """Returns the status code and the message with which a call fails."""
    try:
        call(*arguments, **keywords)
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("the call was answered")


def _tensor(value):
    if isinstance(value, tf.make_tensor_proto(0).__class__):
        return value
    return tf.make_tensor_proto(value, tf.string, (len(value),))


def _ask(model, signature, spec):
    model.name, model.signature_name = "encdec", signature
    for field, value in (spec or {}).items():
        if field == "version":
            model.version.value = value
        else:
            setattr(model, field, value)

"""One loaded version of a model in the peer of TensorFlow Serving."""

import math
import os
import threading

import numpy as np
import tensorflow as tf
from serving_peer_status import Refusal
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, regression_pb2

_DEFAULT_SIGNATURE = "serving_default"
_WARMUP_RECORDS = 1000
# A few bytes can declare a tensor of any size; one larger than this is refused, so that the peer survives.
_MAX_ELEMENTS = 2**26
# The stock server answers in these fields, where TensorFlow's Python prefers `tensor_content`.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int8: "int_val",
    tf.uint8: "int_val",
    tf.int16: "int_val",
    tf.int32: "int_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
}


class Servable:
    """A version of a model: a SavedModel in its own graph and session, warmed up.

    Args:
        version: int.
        path: str. Folder of the SavedModel.
        scheduler: BatchScheduler; `None` for no batching.

    Raises:
        Refusal or tf.errors.OpError: if it cannot be loaded, or a warm-up request fails.
    """

    def __init__(self, version, path, scheduler):
        self.version = version
        self._scheduler = scheduler
        self._unused = threading.Condition()
        self._users = 0
        if not os.path.exists(os.path.join(path, "saved_model.pb")):
            raise Refusal(
                "NOT_FOUND", f"Could not find SavedModel .pb or .pbtxt at supplied export directory path: {path}"
            )
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=self._graph)
        try:
            with self._graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], path)
            self._session._extend_graph()  # which `_call_tf_sessionrun` does not do itself
            self.signatures = meta_graph.signature_def
            self._warm_up(os.path.join(path, "assets.extra", "tf_serving_warmup_requests"))
        except Exception:
            self._session.close()
            raise

    def acquire(self):
        """Keeps the version loaded until `release`."""
        with self._unused:
            self._users += 1

    def release(self):
        with self._unused:
            self._users -= 1
            self._unused.notify_all()

    def unload(self):
        """Waits for the requests that are running, and then frees the session."""
        with self._unused:
            self._unused.wait_for(lambda: not self._users)
        self._session.close()

    def run(self, inputs, outputs):
        """Runs the graph without batching.

        Args:
            inputs: dict of arrays, by the name of the tensor.
            outputs: list of str, names of tensors.

        Returns:
            list of arrays.
        """
        # `Session.run` would check the shapes of the inputs against the placeholders'. The C++ session of the stock
        # server does not: a tensor of another rank reaches the graph, as it does with this call. Types are checked by
        # the C++ session in both cases.
        feeds = {self._tensor(name): array for name, array in inputs.items()}
        fetches = [self._tensor(name) for name in outputs]
        found = self._session._call_tf_sessionrun(None, feeds, fetches, [], None)
        # A single string comes as bytes, from which NumPy would remove zeros at the end.
        return [np.asarray(output, object if isinstance(output, bytes) else None) for output in found]

    def predict(self, request):
        """Answers a `PredictRequest` with a `PredictResponse`."""
        name = request.model_spec.signature_name or _DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise Refusal("FAILED_PRECONDITION", f'Serving signature key "{name}" not found.')
        signature = self.signatures[name]
        inputs = _inputs(signature, request)
        aliases = _aliases(signature, request.output_filter)
        response = predict_pb2.PredictResponse()
        self._fill(response.model_spec, request.model_spec.name, name)
        outputs = self._run_batched(inputs, [signature.outputs[alias].name for alias in aliases])
        for alias, output in zip(aliases, outputs, strict=True):
            response.outputs[alias].CopyFrom(_tensor_proto(output))
        return response

    def regress(self, request):
        """Answers a `RegressionRequest` with a `RegressionResponse`."""
        name = request.model_spec.signature_name or _DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise Refusal("INVALID_ARGUMENT", f"No signature was found with the name: {name}")
        signature = self.signatures[name]
        for tensors, kind, alias in ((signature.inputs, "input", "inputs"), (signature.outputs, "output", "outputs")):
            if len(tensors) != 1:
                raise Refusal("INVALID_ARGUMENT", f"Expected one {kind} Tensor.")
            if alias not in tensors:
                raise Refusal("FAILED_PRECONDITION", f"No regression {alias} found in SignatureDef: {signature}")
        examples = _examples(request.input)
        (output,) = self._run_batched(
            {signature.inputs["inputs"].name: np.array(examples, object)}, [signature.outputs["outputs"].name]
        )
        if output.ndim != 1 and output.shape[1:] != (1,):
            raise Refusal(
                "INVALID_ARGUMENT",
                "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
                f"[{','.join(map(str, output.shape))}]",
            )
        if len(output) != len(examples):
            raise Refusal(
                "INVALID_ARGUMENT",
                f"Input batch size did not match output batch size: {len(examples)} vs. {len(output)}",
            )
        if output.dtype != np.float32:
            raise Refusal("INVALID_ARGUMENT", f"Expected output Tensor of DT_FLOAT.  Got: {output.dtype}")
        response = regression_pb2.RegressionResponse()
        self._fill(response.model_spec, request.model_spec.name, name)
        for value in output.flat:
            response.result.regressions.add(value=value)
        return response

    def _fill(self, model_spec, model, signature):
        model_spec.name, model_spec.signature_name, model_spec.version.value = model, signature, self.version

    def _tensor(self, name):
        return self._graph.get_tensor_by_name(name)._as_tf_output()

    def _run_batched(self, inputs, outputs):
        return self._scheduler.run(self, inputs, outputs) if self._scheduler else self.run(inputs, outputs)

    def _warm_up(self, path):
        if not os.path.exists(path):
            return
        records = tf.compat.v1.io.tf_record_iterator(path)
        try:
            for number, record in enumerate(records, 1):
                self._replay(record, path)
                if number > _WARMUP_RECORDS:
                    raise Refusal(
                        "INVALID_ARGUMENT",
                        f"Number of warmup records exceeds the maximum ({_WARMUP_RECORDS}) at {path}",
                    )
        except tf.errors.DataLossError as error:
            message = f"{error.message}. Please verify your warmup data is in TFRecord format."
            raise Refusal("DATA_LOSS", message) from error

    def _replay(self, record, path):
        try:
            log = prediction_log_pb2.PredictionLog.FromString(record)
        except Exception as error:
            raise Refusal("INVALID_ARGUMENT", f"Failed to parse warmup record: {record} from {path}") from error
        kind = log.WhichOneof("log_type")
        if kind == "predict_log":
            self.predict(log.predict_log.request)
        elif kind == "regress_log":
            self.regress(log.regress_log.request)
        elif kind:
            raise Refusal("UNIMPLEMENTED", f"Unsupported log_type for warmup: {kind}")


def _inputs(signature, request):
    """Returns the inputs of a `PredictRequest`: dict from the name of the tensor to an array."""
    sent, expected = sorted(request.inputs), sorted(signature.inputs)
    if len(sent) > len(expected) or (len(sent) < len(expected) and not signature.defaults):
        extra, missing = sorted({*sent} - {*expected}), sorted({*expected} - {*sent})
        raise Refusal(
            "INVALID_ARGUMENT",
            f"input size does not match signature: {len(sent)}!={len(expected)} "
            f"len({{{','.join(sent)}}}) != len({{{','.join(expected)}}}). "
            f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}.",
        )
    inputs = {}
    for alias in expected:
        info = signature.inputs[alias]
        if alias not in sent and alias not in signature.defaults:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"Signature input alias: {alias}(feed name: {info.name}) not found in request and no default value "
                f"provided. Inputs expected to be in the request {{{','.join(sent)}}}, or default input alias set: "
                f"{','.join(sorted(signature.defaults))}",
            )
        inputs[info.name] = _array((request.inputs if alias in sent else signature.defaults)[alias], alias)
    if not {*sent} <= {*expected}:
        used = ",".join(sorted({*sent} & {*expected}))
        raise Refusal(
            "INVALID_ARGUMENT",
            f"Inputs contains invalid name. Used request inputs: {used}, request input: {','.join(sent)}",
        )
    return inputs


def _aliases(signature, output_filter):
    """Returns the names of the outputs to return: those in the filter, or all if it is empty."""
    for position, alias in enumerate(output_filter):
        if alias not in signature.outputs:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"output tensor alias not found in signature: {alias} Outputs expected to be in the set "
                f"{{{','.join(sorted(signature.outputs))}}}.",
            )
        if alias in output_filter[:position]:
            raise Refusal("INVALID_ARGUMENT", f"duplicate output tensor alias: {alias}")
    return list(output_filter) or sorted(signature.outputs)


def _array(proto, alias):
    """Converts a `TensorProto` to an array."""
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    try:
        if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0 or math.prod(sizes) > _MAX_ELEMENTS:
            raise ValueError(f"a tensor of shape {sizes}")
        return tf.make_ndarray(proto)
    except Exception as error:
        raise Refusal("INVALID_ARGUMENT", f"tensor parsing error: {alias}") from error


def _tensor_proto(array):
    """Converts an array to a `TensorProto` with the values in the field for their type."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _FIELDS:
        return tf.make_tensor_proto(array)
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(array.ravel().tolist())
    return proto


def _examples(input_proto):
    """Returns the serialized examples of an `Input`, each after the context that they share."""
    kind = input_proto.WhichOneof("kind")
    examples = [example.SerializeToString() for example in getattr(input_proto, kind).examples] if kind else []
    if not examples:
        raise Refusal("INVALID_ARGUMENT", "Input is empty.")
    context = b"" if kind == "example_list" else input_proto.example_list_with_context.context.SerializeToString()
    return [context + example for example in examples]

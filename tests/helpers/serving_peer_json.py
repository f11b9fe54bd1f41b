"""Converts JSON to requests, and responses to JSON, for the peer of TensorFlow Serving."""

import base64
import json

import numpy as np
import tensorflow as tf
from serving_peer_status import Refusal
from tensorflow.core.framework import types_pb2

# The JSON values that each kind of tensor takes.
_KINDS = {"string": str, "float": (int, float), "double": (int, float), "bool": bool}
_JSON_TYPES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number", type(None): "Null"}


def parse(body):
    """Parses the body of a request, a JSON object; bytes that are not UTF-8 are kept, as the stock server keeps them.

    Raises:
        Refusal: if it is not a JSON object.
    """
    try:
        document = json.loads(body.decode(errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise Refusal("INVALID_ARGUMENT", f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise Refusal("INVALID_ARGUMENT", f"JSON Value: {_shown(document)} Is not object")
    if not isinstance(document.get("signature_name", ""), str):
        raise Refusal(
            "INVALID_ARGUMENT",
            f"JSON Value: {_shown(document)} not formatted correctly. 'signature_name' key must be a string value.",
        )
    return document


def fill_predict_request(document, infos, request):
    """Fills the inputs of a `PredictRequest`.

    Args:
        document: dict, with "instances" or "inputs".
        infos: map of `TensorInfo`, the signature's inputs.
        request: PredictRequest.

    Returns:
        bool. Whether the request is in rows; the answer must then be in rows, too.
    """
    rows = "instances" in document
    if rows and "inputs" in document:
        raise Refusal(
            "INVALID_ARGUMENT",
            f"JSON Value: {_shown(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist ",
        )
    if not rows and "inputs" not in document:
        raise Refusal("INVALID_ARGUMENT", "Missing 'inputs' or 'instances' key")
    values = _columns(document["instances"], infos) if rows else document["inputs"]
    if not rows and (not isinstance(values, dict) or _is_base64(values)):
        if len(infos) > 1:
            raise Refusal(
                "INVALID_ARGUMENT",
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map",
            )
        values = {next(iter(infos)): values}
    for name in infos:
        if name not in values:
            raise Refusal("INVALID_ARGUMENT", f"Missing named input: {name} in 'inputs' object.")
        dtype = tf.as_dtype(infos[name].dtype)
        leaves, shape = [], _shape(values[name])
        _flatten(values[name], shape, types_pb2.DataType.Name(infos[name].dtype)[3:].lower(), leaves)
        try:
            with np.errstate(over="raise"):
                array = np.array(leaves, object if dtype == tf.string else dtype.as_numpy_dtype).reshape(shape)
        except (OverflowError, FloatingPointError) as error:
            message = f"Cannot convert JSON value to {dtype.name} without loss of precision."
            raise Refusal("INVALID_ARGUMENT", message) from error
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array, dtype))
    return rows


def fill_regression_request(document, request):
    """Fills the examples of a `RegressionRequest`."""
    examples = document.get("examples")
    if not isinstance(examples, list) or not examples:
        raise Refusal(
            "INVALID_ARGUMENT", f"JSON Value: {_shown(document)} Expecting 'examples' value to be an list/array"
        )
    target = request.input.example_list
    if "context" in document:
        target = request.input.example_list_with_context
        _fill_example(document["context"], target.context)
    for example in examples:
        _fill_example(example, target.examples.add())


def answer(outputs, rows):
    """Makes the document that answers a request.

    Args:
        outputs: map of `TensorProto`, from a `PredictResponse`.
        rows: bool. Whether the answer is in rows, not in columns.
    """
    names = sorted(outputs)
    arrays = {name: tf.make_ndarray(outputs[name]) for name in names}
    columns = {name: _values(arrays[name], name.endswith("_bytes")) for name in names}
    if not rows:
        return {"outputs": columns if len(names) > 1 else columns[names[0]]}
    for name in names:
        if not arrays[name].ndim:
            raise Refusal("INVALID_ARGUMENT", f"Tensor name: {name} has no shape information ")
        if len(arrays[name]) != len(arrays[names[0]]):
            raise Refusal(
                "INVALID_ARGUMENT",
                f"Tensor name: {name} has inconsistent batch size: {len(arrays[name])} "
                f"expecting: {len(arrays[names[0]])}",
            )
    if len(names) == 1:
        return {"predictions": columns[names[0]]}
    return {"predictions": [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def number(value):
    """Converts a number for JSON. A float32 has as many digits as in the stock server: 6, or 9 if 6 are not exact."""
    if not isinstance(value, np.float32):
        return value.item() if isinstance(value, np.generic) else value
    short = f"{value:.6g}"
    return float(short if np.float32(short) == value else f"{value:.9g}")


def _columns(instances, infos):
    """Returns a dict from the name of each input to the list of its values in the instances."""
    if not isinstance(instances, list):
        raise Refusal("INVALID_ARGUMENT", "JSON Value: Excepting 'instances' to be an list/array")
    if not instances:
        raise Refusal("INVALID_ARGUMENT", "JSON Value: No values in 'instances' array")
    objects = [isinstance(instance, dict) and not _is_base64(instance) for instance in instances]
    if not objects[0] and len(infos) > 1:
        raise Refusal(
            "INVALID_ARGUMENT",
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        )
    for position, instance in enumerate(instances):
        if objects[position] != objects[0]:
            kinds = "object but got list" if objects[0] else "value/list but got object"
            raise Refusal("INVALID_ARGUMENT", f"Expecting {kinds} at item {position} of input list")
        if objects[0] and instance.keys() != {*infos}:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"Failed to process element: {position} of 'instances' list. JSON object: {_shown(instance)} keys must "
                f"be equal to: {','.join(sorted(infos))}",
            )
    if not objects[0]:
        return {next(iter(infos)): instances}
    return {name: [instance[name] for instance in instances] for name in infos}


def _shape(value):
    return (len(value), *_shape(value[0])) if isinstance(value, list) and value else (0,) if value == [] else ()


def _flatten(value, shape, dtype, leaves):
    """Checks the leaves of a nested list of this shape, and appends them to `leaves`."""
    if isinstance(value, list) and shape:
        if len(value) != shape[0]:
            raise Refusal(
                "INVALID_ARGUMENT", f"Encountered list at unexpected size: {len(value)} expected size: {shape[0]}"
            )
        for element in value:
            _flatten(element, shape[1:], dtype, leaves)
    elif isinstance(value, list) or shape:
        raise Refusal("INVALID_ARGUMENT", f"JSON Value: {_shown(value)} found at incorrect level")
    elif dtype == "string" and _is_base64(value):
        leaves.append(_decoded(value))
    elif not isinstance(value, _KINDS.get(dtype, int)) or (isinstance(value, bool) and dtype != "bool"):
        kind = str(value) if isinstance(value, bool) else _JSON_TYPES[type(value)]
        raise Refusal("INVALID_ARGUMENT", f"JSON Value: {_shown(value)} Type: {kind} is not of expected type: {dtype}")
    else:
        leaves.append(_bytes(value) if isinstance(value, str) else value)


def _fill_example(value, example):
    if not isinstance(value, dict):
        raise Refusal(
            "INVALID_ARGUMENT", f"Example must be JSON object but got JSON {_JSON_TYPES.get(type(value), value)}"
        )
    for name, content in value.items():
        feature = example.features.feature[name]
        for element in content if isinstance(content, list) else [content]:
            if isinstance(element, str) or _is_base64(element):
                feature.bytes_list.value.append(_bytes(element) if isinstance(element, str) else _decoded(element))
            elif isinstance(element, (bool, int)):
                feature.int64_list.value.append(element)
            elif isinstance(element, float):
                feature.float_list.value.append(element)
            else:
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"Feature: {name} has element with unexpected JSON type: {_JSON_TYPES[type(element)]}",
                )


def _values(array, as_base64):
    """Converts an array to nested lists of values that JSON can hold."""
    if array.ndim:
        return [_values(np.asarray(row, array.dtype), as_base64) for row in array]
    value = array[()]
    if not isinstance(value, bytes):
        return number(value)
    return {"b64": base64.b64encode(value).decode()} if as_base64 else value.decode(errors="surrogateescape")


def _bytes(text):
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        message = "JSON Parse error: The surrogate pair in string is invalid."
        raise Refusal("INVALID_ARGUMENT", message) from error


def _is_base64(value):
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _decoded(value):
    try:
        return base64.b64decode(value["b64"], validate=True)
    except ValueError as error:
        raise Refusal("INVALID_ARGUMENT", "Unable to base64 decode") from error


def _shown(value):
    return json.dumps(value)

"""What a server says of a model, for people."""

from collections.abc import Iterable
from typing import Any


def describe_status(versions: Iterable[dict[str, Any]]) -> str:
    """The versions of a model and their states.

    Args:
        versions: list of ModelVersionStatus, each a dict in protocol buffers' JSON form.

    Returns:
        str, a line a version.

    Example:

    >>> print(describe_status([{"version": "2", "state": "END", "status": {"error_message": "out of memory"}}]))
    version 2: END (out of memory)
    """
    lines = []
    for version in versions:
        message = version.get("status", {}).get("error_message")
        lines.append(f"version {version['version']}: {version['state']}" + f" ({message})" * bool(message))
    return "\n".join(lines)


def describe_signatures(signatures: dict[str, Any]) -> str:
    """The signatures of a model, their inputs and outputs.

    Args:
        signatures: dict of name to SignatureDef, as a dict in protocol buffers' JSON form.

    Returns:
        str, a line a signature, an input and an output; "?" is a dimension that calls choose.

    Example:

    >>> shape = {"dim": [{"size": "-1"}, {"size": "8"}]}
    >>> print(describe_signatures({"encode": {"outputs": {"summary": {"dtype": "DT_FLOAT", "tensor_shape": shape}}}}))
    encode
      output  summary           float   (?, 8)
    """
    lines = []
    for name, signature in sorted(signatures.items()):
        if name.startswith("__saved_model"):
            continue  # TensorFlow's own, which nobody calls
        lines.append(name)
        for kind in ("input", "output"):
            for tensor, info in sorted(signature.get(kind + "s", {}).items()):
                dtype = info["dtype"].removeprefix("DT_").lower()
                lines.append(f"  {kind:6}  {tensor:16}  {dtype:6}  {_shape(info.get('tensor_shape', {}))}")
    return "\n".join(lines)


def _shape(shape):
    if shape.get("unknown_rank"):
        return "any shape"
    sizes = [str(dimension.get("size", 0)) for dimension in shape.get("dim", [])]
    return f"({', '.join('?' if size == '-1' else size for size in sizes)})"

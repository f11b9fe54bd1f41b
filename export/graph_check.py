"""What a SavedModel's graph asks of the server that loads it."""

import os
import pathlib

from tensorflow.core.protobuf import saved_model_pb2

# A stock server neither compiles with XLA nor runs Python.
UNSERVED = ("Xla", "PyFunc", "EagerPyFunc")
# Of tensorflow-text, which a server may have been built without.
TEXT = ("TFText", "NormalizeUTF8", "CaseFoldUTF8")


def unserved(path: str | os.PathLike, text: bool = False) -> list[str]:
    """Operations and attributes that a stock TensorFlow Serving may lack, or refuses.

    Args:
        path: of a version's folder.
        text: bool. Whether operations of tensorflow-text are expected. Defaults to `False`.

    Returns:
        sorted list of str.
    """
    saved = saved_model_pb2.SavedModel.FromString((pathlib.Path(path) / "saved_model.pb").read_bytes())
    names = set()
    for graph in saved.meta_graphs:
        library = graph.graph_def.library.function
        nodes = [*graph.graph_def.node, *(node for function in library for node in function.node_def)]
        prefixes = UNSERVED if text else (*UNSERVED, *TEXT)
        names |= {node.op for node in nodes if node.op.startswith(prefixes)}
        names |= {name for owner in (*nodes, *library) for name in owner.attr if name.startswith("_Xla")}
    return sorted(names)

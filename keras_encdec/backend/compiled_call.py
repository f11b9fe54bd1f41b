"""Compiled calls of a layer or a function without gradients, and when to shrink a batch."""

import collections
import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple

import keras

from keras_encdec.backend.devices import backend_name, on_cpu, xla_on_cpu
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.configuration import ConfigurationError
from keras_encdec.runtime.workers import available_processors

# Compiles a call for the shapes of its inputs, given as a structure and as the list of its leaves. The result takes
# other leaves of these shapes.
Compiler = Callable[[Structure, list[Tensor]], Callable[[list[Tensor]], Structure]]


def compiled_call(layer: keras.layers.Layer) -> Callable[..., Structure]:
    """Compiles a built layer for repeated calls on arrays of few shapes; several threads may call it at once.

    TensorFlow (with XLA) and JAX compile the layer once for each combination of shapes. PyTorch runs it uncompiled.
    No gradients are recorded.

    Products of float32 are computed in float32 on a GPU, too, so that a score does not depend on the device: by
    default, JAX and TensorFlow round their factors to 10 bits there (TF32). The user's choice of JAX's option
    `jax_default_matmul_precision` takes precedence. TensorFlow has one setting for the whole process, which also
    applies to a training run that translates or scores in between.

    Args:
        layer: built `keras.layers.Layer` whose call takes structures of tensors (dicts, lists, tuples, nested) by
            position, and no training argument.

    Returns:
        callable: structures of arrays, by position, to the layer's output, tensors of the backend.
    """
    compiler = _COMPILERS[backend_name()](layer)
    # Two threads must not compile the same shapes. With PyTorch, they would only wait for one another.
    compiling = threading.Lock() if compiles_shapes() else contextlib.nullcontext()
    calls: dict[Hashable, Callable[[list[Tensor]], Structure]] = {}

    def call(*inputs: Structure) -> Structure:
        leaves = keras.tree.flatten(inputs)
        # Shapes and dtypes identify a compiled call: with the same ones, a layer gets the same structure.
        shapes = tuple((tuple(leaf.shape), keras.backend.standardize_dtype(leaf.dtype)) for leaf in leaves)
        if shapes in calls:
            return calls[shapes](leaves)
        with compiling:
            compiled = calls.get(shapes) or compiler(inputs, leaves)
            outputs = compiled(leaves)
            calls[shapes] = compiled
            return outputs

    return call


# More threads would take more memory, as each computes a batch of its own.
MAX_CALL_THREADS = 4


class CallThreads(NamedTuple):
    """Threads for compiled calls that compute at the same time.

    Attributes:
        number: int. Number of threads.
        begin: function that each thread calls first; `None` for none.
    """

    number: int
    begin: Callable[[], object] | None = None


def call_threads(with_xla: int = 2) -> CallThreads:
    """Returns the threads in which compiled calls use this machine best.

    With PyTorch on a CPU, up to four threads share the processors, because the work of a call between its products is
    too small to be divided. On a GPU, and with a single processor, there is one thread.

    Args:
        with_xla: int. Number of threads on a CPU if XLA compiles the calls. Defaults to `2`: one call computes while
            the other waits for memory.
    """
    if not on_cpu() or available_processors() == 1:
        return CallThreads(1)
    if xla_on_cpu():
        return CallThreads(with_xla)
    import torch

    processors = torch.get_num_threads()
    number = min(processors, MAX_CALL_THREADS)
    return CallThreads(number, functools.partial(_use, processors // number, processors))


_SETTING = threading.Lock()


def _use(processors: int, others: int) -> None:
    """Makes PyTorch use a number of processors in this thread, and another in threads that begin to use PyTorch."""
    import torch

    # When a thread first asks for the number or computes, it gets the last number that was set in any thread.
    with _SETTING:
        torch.get_num_threads()
        torch.set_num_threads(processors)
        thread = threading.Thread(target=torch.set_num_threads, args=(others,))
        thread.start()
        thread.join()


class LayerFunction(keras.layers.Layer):
    """A layer for `compiled_call` that calls a function, and has no weights except those of the function's layers.

    Args:
        function: callable that takes structures of tensors by position.
        *layers: `keras.layers.Layer`, those whose weights it uses.
    """

    def __init__(self, function: Callable[..., Structure], *layers: keras.layers.Layer) -> None:
        # No autocast: the tensors of a state have different dtypes.
        super().__init__(name="function", dtype="float32", autocast=False)
        self.function, self.layers = function, list(layers)
        self.built = True

    def call(self, *inputs: Structure) -> Structure:
        return self.function(*inputs)


def compiles_shapes() -> bool:
    """Returns whether a call is compiled for each shape of its inputs, which takes seconds; not under PyTorch."""
    return backend_name() != "torch"


def power_of_two(number: int, minimum: int = 1) -> int:
    """Rounds a number of rows or steps up to a power of two, so that a layer is compiled for few shapes.

    Args:
        number: int.
        minimum: int. The smallest result, a power of two. Defaults to `1`.

    Example:

    >>> power_of_two(5), power_of_two(16), power_of_two(3, minimum=8)
    (8, 16, 8)
    """
    return max(minimum, 1 << (number - 1).bit_length())


def _with_tensorflow(layer: keras.layers.Layer) -> Compiler:
    import tensorflow as tf

    if not on_cpu():
        tf.config.experimental.enable_tensor_float_32_execution(False)  # for the process: there is no narrower option

    def compiler(inputs: Structure, leaves: list[Tensor]) -> Callable[[list[Tensor]], Structure]:
        structure = keras.tree.map_structure(lambda _: 0, inputs)  # keeps no tensor alive

        def function(*tensors: Tensor) -> Structure:
            return layer(*keras.tree.pack_sequence_as(structure, list(tensors)))

        # A concrete function for each shape: tf.function would warn about retracing, or trace one for all shapes.
        compiled = tf.function(function, autograph=False, jit_compile=True)
        concrete = compiled.get_concrete_function(*map(tf.convert_to_tensor, leaves))
        return lambda leaves: concrete(*map(tf.convert_to_tensor, leaves))

    return compiler


def _with_jax(layer: keras.layers.Layer) -> Compiler:
    import jax

    @jax.jit
    def stateless(trainable: list[Tensor], non_trainable: list[Tensor], inputs: Structure) -> Structure:
        return layer.stateless_call(trainable, non_trainable, *inputs)[0]

    def compiler(inputs: Structure, leaves: list[Tensor]) -> Callable[[list[Tensor]], Structure]:
        structure = keras.tree.map_structure(lambda _: 0, inputs)
        variables = layer.trainable_variables, layer.non_trainable_variables  # collecting them takes time
        needs_precision = not on_cpu() and jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]

        def call(leaves: list[Tensor]) -> Structure:
            # The weights are arguments. As constants they would be compiled into the function of every shape.
            weights = [[variable.value for variable in each] for each in variables]
            with jax.default_matmul_precision("highest") if needs_precision else contextlib.nullcontext():
                return stateless(*weights, keras.tree.pack_sequence_as(structure, leaves))

        return call

    return compiler


def _with_torch(layer: keras.layers.Layer) -> Compiler:
    import torch

    from keras_encdec.backend.torch_int8 import Int8Products
    from keras_encdec.backend.torch_products import PackedMatrices, onednn_matmul

    @functools.cache  # at the first call, `compute_in_int8` has marked the layer's weights
    def int8_products() -> Int8Products | None:
        return Int8Products(layer) if any(getattr(weight, "in_int8", False) for weight in layer.variables) else None

    @functools.cache
    def packed() -> PackedMatrices:
        return PackedMatrices(layer)

    # Without autocast, Keras's `__call__` would only take longer: the inputs are converted below.
    function = layer if layer.autocast else layer.call

    def compiler(inputs: Structure, leaves: list[Tensor]) -> Callable[[list[Tensor]], Structure]:
        structure = keras.tree.map_structure(lambda _: 0, inputs)

        def call(leaves: list[Tensor]) -> Structure:
            leaves = [leaf if isinstance(leaf, torch.Tensor) else keras.ops.convert_to_tensor(leaf) for leaf in leaves]
            with torch.inference_mode(), int8_products() or onednn_matmul(packed()):
                outputs = function(*keras.tree.pack_sequence_as(structure, leaves))
            # PyTorch's tree functions leave reference cycles that hold the tensors of the call, often many megabytes.
            # Python collects cycles after a number of new objects, and commands raise that number: too late for these.
            gc.collect(0)
            return outputs

        return call

    return compiler


def compute_in_int8(layer: keras.layers.Layer) -> None:
    """Makes compiled calls of layers that use this layer's weights compute their products in 8 bits.

    Raises:
        ConfigurationError: unless the backend is PyTorch on a CPU that has instructions for 8 bits.
    """
    available = False
    if backend_name() == "torch" and on_cpu():
        from keras_encdec.backend.torch_int8 import int8_is_available

        available = int8_is_available()
    if not available:
        raise ConfigurationError(
            "found {dtype}=int8 with the backend %s on this machine, expected KERAS_BACKEND=torch on a CPU with "
            "instructions for 8 bits (VNNI or AMX); give {dtype}=float32",
            backend_name(),
        )
    for variable in layer.variables:
        variable.in_int8 = True


_COMPILERS = {"tensorflow": _with_tensorflow, "jax": _with_jax, "torch": _with_torch}


# Compiling a step for one more size takes about as long as this number of multiplications: a second on two cores.
COMPILING = 3e10


class BatchReduction:
    """Decides when a batch shrinks, as more and more of its rows are finished.

    A batch shrinks by halves, so that few sizes have to be compiled. A new size is compiled only when the needless
    rows that were computed without it have taken about as long as compiling it takes. A search over few sources
    then compiles little, a search over many sources gains the full benefit of smaller batches, and the total time
    is never much more than twice the best possible time (the ski rental problem). The decision depends on the rows
    computed before, not on the clock, so that it can be repeated.

    Where nothing is compiled, finished rows are dropped once they are an eighth of the batch. `benchmarks/decoding.py`
    measures the benefit ("rows computed per token").

    Args:
        multiplications: int. Multiplications per row, roughly.
        minimum: int. Smallest number of rows: smaller batches take no less time.
    """

    def __init__(self, multiplications: int, minimum: int) -> None:
        self._minimum = minimum
        self._compiles = compiles_shapes()
        self._rows_of_compiling = COMPILING / max(1, multiplications)
        self._rows_wasted: collections.Counter[tuple[Hashable, int]] = collections.Counter()

    def reduced(self, function: Hashable, size: int, needed: int, copies: int = 1) -> int:
        """Returns the size for the next step of a batch.

        Args:
            function: hashable. Identifies the function that is compiled for each size.
            size: int. Items of the batch, such as sources.
            needed: int. Unfinished items.
            copies: int. Rows per item. Defaults to `1`.

        Returns:
            int, at least `needed`; `size` if shrinking is not worth its cost.
        """
        if not self._compiles:
            return needed if needed <= size * 7 // 8 else size
        sizes = [size]
        while needed <= sizes[-1] // 2 and sizes[-1] // 2 * copies >= self._minimum:
            sizes.append(sizes[-1] // 2)
        smallest = sizes[-1]
        computed = min(each for each in sizes if each == size or self._is_worth_it(function, each))
        self._rows_wasted[function, smallest] += (computed - smallest) * copies
        return smallest if self._is_worth_it(function, smallest) else computed

    def _is_worth_it(self, function: Hashable, size: int) -> bool:
        return self._rows_wasted[function, size] >= self._rows_of_compiling

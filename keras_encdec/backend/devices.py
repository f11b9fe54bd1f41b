"""Names the backend and the kind of its device, and warns where bfloat16 or float16 is not faster than float32."""

import contextlib
import functools
import importlib.util
import math
import pathlib
import platform
import time
import warnings
from collections.abc import Sequence

from keras_encdec.backend.startup import quietly
from keras_encdec.errors import EncdecWarning

# For each dtype, the processor flags, in Linux's names, of instructions that multiply it; one of them is enough.
_FLAGS = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
_INSTRUCTIONS = {
    "bfloat16": "AVX512_BF16 or AMX-BF16, on ARM BF16",
    "float16": "AVX512_FP16 or AMX-FP16, on ARM FP16",
}
# Speed relative to float32; below it, casts cost more than the products gain.
WORTHWHILE = 1.2
# Rows and columns of the products that are timed. Without these instructions, PyTorch takes a second for a large one.
_SMALL, _LARGE = 128, 512
_CPU_INFO = pathlib.Path("/proc/cpuinfo")


def backend_name() -> str:
    """Returns the name of the backend that Keras runs on: "tensorflow", "jax" or "torch"."""
    import keras  # here, so that commands can read the declarations without Keras

    return keras.backend.backend()


def device_names() -> list[str]:
    """Returns the names of the devices that the backend can compute on, such as "CPU" or "GPU NVIDIA H100"."""
    if backend_name() == "jax":
        import jax

        kinds = [(device.platform.upper(), device.device_kind) for device in jax.devices()]
        return [platform if kind == "cpu" else f"{platform} {kind}" for platform, kind in kinds]
    if backend_name() == "tensorflow":
        import tensorflow as tf

        described = tf.config.experimental.get_device_details
        devices = [
            (device.device_type, described(device).get("device_name", ""))
            for device in tf.config.list_physical_devices()
        ]
        return [f"{kind} {model}".strip() for kind, model in devices]
    import torch

    graphics = [f"GPU {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count())]
    return ["CPU", *graphics, *(["MPS"] if torch.backends.mps.is_available() else [])]


def on_cpu() -> bool:
    """Returns whether the backend computes on a CPU, not on a GPU or TPU."""
    if backend_name() == "jax":
        import jax

        return jax.default_backend() == "cpu"
    if backend_name() == "tensorflow":
        import tensorflow as tf

        return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())
    from keras import ops

    return ops.zeros(()).device.type == "cpu"


def torch_on_cuda() -> bool:
    """Returns whether the backend is PyTorch, on an NVIDIA GPU."""
    if backend_name() != "torch":
        return False
    from keras import ops

    return ops.zeros(()).device.type == "cuda"


def xla_on_cpu() -> bool:
    """Returns whether XLA compiles the compiled calls for a CPU."""
    return backend_name() != "torch" and on_cpu()


def keep_tensorflow_off_the_gpu() -> None:
    """Hides the GPU from TensorFlow when another backend runs, and does not show TensorFlow's start-up messages.

    Whatever its backend, Keras imports TensorFlow for data pipelines if it is installed, and raw text is tokenized with
    TensorFlow, which would reserve the GPU's memory. If the program has used TensorFlow before, nothing changes.
    """
    if backend_name() != "tensorflow" and importlib.util.find_spec("tensorflow"):
        with quietly(), contextlib.suppress(RuntimeError):
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")


@functools.cache  # once for each dtype, however many models compute in it
def warn_if_slow(dtype: str) -> None:
    """Warns once if a CPU gains nothing by computing in a dtype of fewer bits than float32.

    If Linux says that the processor has no instructions for the dtype, nothing is measured. Otherwise small products
    are timed, because a library may not use the instructions.

    Args:
        dtype: str. The compute dtype. Only "bfloat16" and "float16" can cause a warning.
    """
    if dtype not in _FLAGS or not on_cpu():
        return
    known = processor_flags()
    if known and not known & _FLAGS[dtype]:
        reason = f"this processor has no instructions for it ({_INSTRUCTIONS[dtype]})"
    elif (speed := speed_against_float32(dtype)) < WORTHWHILE:
        reason = f"matrix products of {backend_name()} reach {speed:.2g} times the speed of those in float32"
    else:
        return
    warnings.warn(
        f"{dtype} gains nothing here, and may take more memory and many times as long as float32: {reason}; compute "
        "in float32, or on a GPU.",
        EncdecWarning,
        stacklevel=2,
    )


def processor_flags() -> set[str]:
    """Returns the processor's instruction sets, in Linux's names; an empty set if they are not known."""
    lines = _processor_description().splitlines()
    return next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())


@functools.cache
def is_from_intel() -> bool:
    """Returns whether Intel made the processor."""
    return "GenuineIntel" in _processor_description()


def _processor_description() -> str:
    """Describes the processor: Linux's list of its properties; elsewhere a line, which may be empty."""
    try:
        return _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()


def speed_against_float32(dtype: str) -> float:
    """Measures the speed of matrix products in a dtype relative to float32, on the backend and device in use."""
    speed = 1.0
    for size in (_LARGE,) if backend_name() == "jax" else (_SMALL, _LARGE):  # JAX compiles a product for each size
        speed = _speed_of_products(dtype, size)
        if speed < WORTHWHILE:  # once more: another process may have taken the processor
            speed = max(speed, _speed_of_products(dtype, size))
        if speed < 1 / 3:
            break
    return speed


def _speed_of_products(dtype: str, size: int) -> float:
    seconds = seconds_of_products((dtype, "float32"), size)
    return seconds["float32"] / seconds[dtype]


def seconds_of_products(dtypes: Sequence[str], size: int) -> dict[str, float]:
    """Measures how long the product of two square matrices takes, on the backend and device in use.

    Args:
        dtypes: list of str. The dtypes of the matrices to multiply.
        size: int. Rows and columns of the matrices.

    Returns:
        dict from dtype to the shortest time in seconds.
    """
    from keras import ops

    matrices = {dtype: ops.ones((size, size), dtype) for dtype in dtypes}
    seconds = dict.fromkeys(matrices, math.inf)
    for trial in range(4):  # alternating, as the machine's speed drifts; the first trial warms up
        for dtype, matrix in matrices.items():
            start = time.perf_counter()
            ops.convert_to_numpy(ops.matmul(matrix, matrix)[0])
            taken = time.perf_counter() - start
            if trial:
                seconds[dtype] = min(seconds[dtype], taken)
    return seconds

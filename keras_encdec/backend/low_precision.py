"""Whether a CPU computes faster in a dtype of fewer bits than float32."""

import functools
import pathlib
import time
import warnings

import numpy as np

from keras_encdec.backend.devices import name, on_cpu
from keras_encdec.errors import EncdecWarning

# By dtype, the processor's flags of the instructions that multiply it, as Linux names them: any of them.
_FLAGS = {
    "bfloat16": {"avx512_bf16", "amx_bf16", "bf16"},
    "float16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}
_INSTRUCTIONS = {
    "bfloat16": "AVX512_BF16 or AMX-BF16, on ARM BF16",
    "float16": "AVX512_FP16 or AMX-FP16, on ARM FP16",
}
# Times float32's speed: with less, what is gained is lost in casts.
WORTHWHILE = 1.2
# Rows and columns of the products that are timed. Without instructions PyTorch takes a second for the larger ones.
_SMALL, _LARGE = 128, 512
_CPU_INFO = pathlib.Path("/proc/cpuinfo")


@functools.cache  # once for each dtype, however many models compute in it
def warn_if_slow(dtype: str) -> None:
    """Warns, the first time, where to compute in a dtype of fewer bits than float32 gains nothing: on a CPU.

    Where Linux tells that the processor has no instructions for it, nothing is measured. Where it has them, the
    libraries may still be kept from using them, and small products are timed.

    Args:
        dtype: str. What is computed in, such as "bfloat16"; of others than bfloat16 and float16 nothing is said.
    """
    if dtype not in _FLAGS or not on_cpu():
        return
    known = processor_flags()
    if known and not known & _FLAGS[dtype]:
        reason = f"this processor has no instructions for it ({_INSTRUCTIONS[dtype]})"
    elif (speed := speed_against_float32(dtype)) < WORTHWHILE:
        reason = f"matrix products of {name()} reach {speed:.2g} times the speed of those in float32"
    else:
        return
    warnings.warn(
        f"{dtype} gains nothing here, and may take many times as long as float32 and more memory: {reason}; compute "
        "in float32, or on a GPU.",
        EncdecWarning,
        stacklevel=2,
    )


def processor_flags() -> set[str]:
    """What instructions the processor has, as Linux names them; empty where that is not known."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())


def speed_against_float32(dtype: str) -> float:
    """The speed of matrix products in a dtype, divided by that in float32: on the backend, where it computes."""
    speed = 1.0
    for size in (_LARGE,) if name() == "jax" else (_SMALL, _LARGE):  # JAX compiles each
        speed = _speed_of_products(dtype, size)
        if speed < 1 / 3:
            break
    return speed


def _speed_of_products(dtype, size):
    from keras import ops

    matrices = {kind: ops.ones((size, size), kind) for kind in (dtype, "float32")}
    seconds = dict.fromkeys(matrices, np.inf)
    for trial in range(4):  # in turns, as the machine's speed drifts; the first is to warm up
        for kind, matrix in matrices.items():
            start = time.perf_counter()
            ops.convert_to_numpy(ops.matmul(matrix, matrix)[0])
            taken = time.perf_counter() - start
            if trial:
                seconds[kind] = min(seconds[kind], taken)
    return seconds["float32"] / seconds[dtype]

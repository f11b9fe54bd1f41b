"""Compares matrix products of PyTorch, which MKL computes, with those of oneDNN, on one core.

    KERAS_BACKEND=torch python benchmarks/products.py

Prints the time of oneDNN divided by that of MKL for the product of rows and a matrix and for both of its gradients, in
float32. `keras_encdec/backend/torch_products.py` chooses between the two by the processor's maker. Then, in float32 and
bfloat16, the time of a product with a packed matrix divided by that of oneDNN with the matrix as it is. A line has the
geometric means. The last line has the time of oneDNN's tanh divided by that of PyTorch's, for some numbers of elements.
"""

import functools
import statistics
import time

import torch

from keras_encdec.backend.torch_products import can_pack, onednn_product, onednn_tanh, packed_matrix, packed_product

# Rows, inner dimension and columns: of a search, of scoring and of training, with the published and with small sizes.
SHAPES = (
    (12, 512, 2048),
    (12, 512, 8000),
    (64, 100, 1000),
    (64, 1000, 3000),
    (64, 512, 2048),
    (512, 1000, 3000),
    (512, 500, 4000),
    (1024, 512, 8000),
    (2048, 256, 768),
)
REPEATS = 30
# Elements of a tanh.
SIZES = 1 << 14, 1 << 16, 1 << 20


def ratio(first, second):
    """Times two functions in turn; returns the least time of the second divided by that of the first."""
    products = first, second
    seconds = [float("inf")] * 2
    for _ in range(REPEATS):
        for number, product in enumerate(products):
            start = time.process_time()
            product()
            seconds[number] = min(seconds[number], time.process_time() - start)
    return seconds[1] / seconds[0]


def compared(left, right):
    """Returns the time of a product by oneDNN divided by that by MKL."""
    return ratio(functools.partial(torch.matmul, left, right), functools.partial(onednn_product, left, right))


def packed(rows, matrix, dtype):
    """Returns the time of a product with a packed matrix divided by that with the matrix itself."""
    rows, matrix = rows.to(dtype), matrix.to(dtype)
    pack = packed_matrix(matrix)
    return ratio(functools.partial(onednn_product, rows, matrix), functools.partial(packed_product, rows, pack))


def main():
    """Prints a line for each shape, and the means."""
    torch.set_num_threads(1)
    dtypes = [dtype for dtype in (torch.float32, torch.bfloat16) if can_pack(dtype)]
    names = ["product", "of rows", "of matrix", *(f"packed {dtype}".replace("torch.", "") for dtype in dtypes)]
    print("rows x inner x columns  " + "".join(f"{name:>17}" for name in names))
    ratios = []
    with torch.inference_mode():
        for rows, inner, columns in SHAPES:
            x, w, g = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)
            of_dtypes = [packed(x, w, dtype) for dtype in dtypes]
            ratios.append((compared(x, w), compared(g, w.t()), compared(x.t(), g), *of_dtypes))
            print(f"{f'{rows} x {inner} x {columns}':24}" + "".join(f"{each:17.2f}" for each in ratios[-1]))
        tanhs = [torch.randn(size) for size in SIZES]
        of_tanh = [ratio(functools.partial(torch.tanh, x), functools.partial(onednn_tanh, x)) for x in tanhs]
    print(f"{'mean':24}" + "".join(f"{statistics.geometric_mean(each):17.2f}" for each in zip(*ratios, strict=True)))
    named = ", ".join(f"{each:.2f} of {size:,}" for each, size in zip(of_tanh, SIZES, strict=True))
    print(f"tanh: {named} elements")


if __name__ == "__main__":
    main()

"""Compares float32 matrix products of PyTorch, which MKL computes, with those of oneDNN, on one core.

    KERAS_BACKEND=torch python benchmarks/products.py

Prints the time of oneDNN divided by that of MKL for the product of rows and a matrix and for both of its gradients, and
the geometric mean of each. `keras_encdec/backend/torch_products.py` chooses between the two by the processor's maker.
"""

import functools
import statistics
import time

import torch

from keras_encdec.backend.torch_products import onednn_product

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


def ratio(left, right):
    """Times both products in turn; returns the least time with oneDNN by that with MKL."""
    products = functools.partial(torch.matmul, left, right), functools.partial(onednn_product, left, right)
    seconds = [float("inf")] * 2
    for _ in range(REPEATS):
        for number, product in enumerate(products):
            start = time.process_time()
            product()
            seconds[number] = min(seconds[number], time.process_time() - start)
    return seconds[1] / seconds[0]


def main():
    """Prints a line for each shape, and the means."""
    torch.set_num_threads(1)
    print("rows x inner x columns     product  of rows  of matrix")
    ratios = []
    with torch.inference_mode():
        for rows, inner, columns in SHAPES:
            x, w, g = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)
            ratios.append((ratio(x, w), ratio(g, w.t()), ratio(x.t(), g)))
            print(f"{f'{rows} x {inner} x {columns}':24}" + "".join(f"{each:10.2f}" for each in ratios[-1]))
    print(f"{'mean':24}" + "".join(f"{statistics.geometric_mean(each):10.2f}" for each in zip(*ratios, strict=True)))


if __name__ == "__main__":
    main()

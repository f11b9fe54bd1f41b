import contextlib
import functools

import keras
import numpy as np
import pytest

if keras.backend.backend() != "torch":
    pytest.skip("only PyTorch multiplies so, and its import takes seconds", allow_module_level=True)
import torch  # noqa: E402

from keras_encdec.backend import torch_products  # noqa: E402  it imports torch
from keras_encdec.backend.compiled_call import compiled_call  # noqa: E402
from keras_encdec.backend.operations import tanh  # noqa: E402

CASES = {
    "rows": ((5, 7), (7, 11)),
    "sequences": ((3, 4, 7), (7, 11)),
    "no rows": ((0, 7), (7, 11)),
    "one word": ((5, 7), (7, 1)),
    "vector": ((7,), (7, 11)),
    "batches": ((3, 5, 7), (3, 7, 11)),
}


@pytest.fixture
def calls(monkeypatch):
    """What the operation is called with, also on a processor of Intel."""
    monkeypatch.setattr(torch_products, "is_from_intel", lambda: False)
    found, operation = [], torch.ops.mkldnn._linear_pointwise
    pack = staticmethod(torch.ops.mkldnn._reorder_linear_weight)
    packet = type(
        "Packet",
        (),
        {"_linear_pointwise": lambda *a: found.append(a) or operation(*a), "_reorder_linear_weight": pack},
    )
    monkeypatch.setattr(torch_products.torch.ops, "mkldnn", packet)
    return found


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_equal_those_of_pytorch(case, dtype, calls):
    random, (rows, matrix) = np.random.default_rng(0), CASES[case]
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-12}
    left, right = random.normal(size=rows).astype(dtype), random.normal(size=matrix).astype(dtype)
    # Whole, as a part of more columns, as a transposed matrix, and as a weight.
    wide = torch.nn.Parameter(torch.tensor(np.concatenate([right, right], axis=-1)))
    turned = torch.tensor(np.ascontiguousarray(np.swapaxes(right, -1, -2)))
    for given in (torch.tensor(right), wide[..., : matrix[-1]], turned.transpose(-1, -2)):
        with torch.inference_mode(), torch_products.onednn_matmul():
            found = torch_products.matmul(torch.tensor(left), given)
        assert found.dtype == getattr(torch, dtype)
        np.testing.assert_allclose(found.numpy(), left @ right, **tolerance)
    taken = dtype == "float32" and case in ("rows", "sequences", "one word")
    assert len(calls) == (3 if taken else 0)


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("case", ["rows", "sequences", "no rows", "one word"])
@pytest.mark.parametrize("constant", [None, "rows", "matrix"])
def test_gradients_equal_those_of_pytorch(case, constant, calls):
    random = np.random.default_rng(0)

    matmul = torch_products.matmul

    def gradients(context):
        with context:
            # The gradient of a sum is one number, expanded. The matrix is used transposed, too.
            there_and_back = matmul(matmul(rows, matrix), matrix.T)
            (matmul(rows, matrix).sum() + there_and_back.cos().sum()).backward()
        return [tensor.grad for tensor in (rows, matrix) if tensor.requires_grad]

    found = []
    left, right = (random.normal(size=shape).astype("float32") for shape in CASES[case])
    for context in (contextlib.nullcontext(), torch_products.onednn_matmul()):
        rows = torch.tensor(left, requires_grad=constant != "rows")
        matrix = torch.tensor(right, requires_grad=constant != "matrix")
        assert not calls
        found.append(gradients(context))
    # Three products, and of each the gradients of the rows and of the matrix.
    assert len(calls) == {"no rows": 0}.get(case, {None: 9, "rows": 7, "matrix": 6}[constant])
    for plain, own in zip(*found, strict=True):
        np.testing.assert_allclose(own.numpy(), plain.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("columns", [1, 11], ids=["one column", "many columns"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_bias_is_added_to_each_row_in_value_and_gradient(columns, dtype, calls):
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(dtype) for shape in ((3, 4, 17), (17, columns), (columns,))]
    left, right, bias = arrays
    upstream = random.normal(size=(3, 4, columns)).astype(dtype)
    factors = [torch.tensor(array, requires_grad=True) for array in arrays]
    with torch_products.onednn_matmul():
        found = torch_products.matmul(*factors)
        found.backward(torch.tensor(upstream))
        with torch.inference_mode():
            again = torch_products.matmul(*map(torch.tensor, arrays))
    assert len(calls) == (4 if dtype == "float32" else 0)
    np.testing.assert_allclose(found.detach(), left @ right + bias, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(again, left @ right + bias, rtol=1e-5, atol=1e-5)
    gradients = upstream @ right.T, np.einsum("bti,bto->io", left, upstream), upstream.sum((0, 1))
    for factor, gradient in zip(factors, gradients, strict=True):
        np.testing.assert_allclose(factor.grad, gradient, rtol=1e-4, atol=1e-4)


class Projection(keras.layers.Layer):
    def __init__(self, units, inputs, dtype):
        super().__init__(dtype=dtype)
        self.kernel = self.add_weight((inputs, units), "random_normal", dtype)
        self.built = True

    def call(self, rows):
        return torch_products.matmul(rows, self.kernel.value)


@pytest.mark.skipif(not torch_products.can_pack(torch.float32), reason="PyTorch cannot pack weights here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_packed_once_until_they_change(dtype, calls, monkeypatch):
    if not torch_products.can_pack(getattr(torch, dtype)):
        pytest.skip(f"this processor has no instructions for {dtype}")
    calls.clear()
    packed, pack = [], torch_products.packed_matrix
    monkeypatch.setattr(torch_products, "packed_matrix", lambda matrix: packed.append(matrix) or pack(matrix))
    layer = Projection(70, 50, dtype)
    call, rows = compiled_call(layer), torch.randn(3, 9, 50).to(getattr(torch, dtype))
    for changes in (1, 2):
        for times in (1, 2):
            found = call(rows)
            assert calls[-1][1].layout == torch._mkldnn and len(calls) == 2 * (changes - 1) + times
            assert found.dtype == rows.dtype and len(packed) == changes
            torch.testing.assert_close(found, rows @ layer.kernel.value.detach())
        layer.kernel.assign(3 * layer.kernel.value)


@pytest.mark.skipif(not torch_products.can_pack(torch.float32), reason="PyTorch cannot pack weights here")
def test_only_weights_are_packed_unless_they_are_told_to_be(calls):
    layer, rows, other = Projection(8, 16, "float32"), torch.randn(4, 16), torch.randn(16, 8)
    context = functools.partial(torch_products.onednn_matmul, torch_products.PackedMatrices(layer))
    with torch.inference_mode(), context():
        torch_products.matmul(rows, other)
        assert calls[-1][1].layout == torch.strided
        product = torch_products.product_with(other)
        torch.testing.assert_close(product(rows), rows @ other)
        assert calls[-1][1].layout == torch._mkldnn
    with context():  # as gradients may be asked for
        torch_products.matmul(rows, layer.kernel.value)
    assert calls[-1][1].layout == torch.strided


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
def test_large_matrices_of_two_stacks_are_multiplied_one_by_one(calls):
    left, right = torch.randn(3, 64, 256), torch.randn(3, 256, 300)
    with torch.inference_mode(), torch_products.onednn_matmul():
        found = torch_products.matmul(left, right)
        assert len(calls) == 3
        torch.testing.assert_close(found, torch.matmul(left, right), rtol=1e-4, atol=1e-4)
        torch_products.matmul(left[:1], right)  # one matrix for all
        torch_products.matmul(left[:, :2], right)
    assert len(calls) == 3


def test_mkl_multiplies_on_processors_of_intel(calls, monkeypatch):
    monkeypatch.setattr(torch_products, "is_from_intel", lambda: True)
    with torch.inference_mode(), torch_products.onednn_matmul():
        torch_products.matmul(torch.ones(2, 3), torch.ones(3, 4))
    assert not calls


@pytest.fixture
def tanh_calls(monkeypatch):
    """What oneDNN computes the tanh of, also on a processor of Intel."""
    monkeypatch.setattr(torch_products, "is_from_intel", lambda: False)
    found, computed = [], torch_products.onednn_tanh
    monkeypatch.setattr(torch_products, "onednn_tanh", lambda tensor: found.append(tensor) or computed(tensor))
    return found


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_tanh_equals_that_of_pytorch(dtype, tanh_calls):
    torch.manual_seed(0)
    special = torch.tensor([0.0, -0.0, 1e-30, -1e-4, 9.0, -30.0, float("inf"), -float("inf"), float("nan")])
    numbers = torch.cat([special, 3 * torch.randn(2 * torch_products._MANY)]).to(getattr(torch, dtype))
    with torch.inference_mode(), torch_products.onednn_matmul():
        found = tanh(numbers)
        # A number gives the same result wherever it is.
        np.testing.assert_array_equal(tanh(numbers[3:]).double(), found[3:].double())
        wide = torch.stack([numbers, numbers], 1)
        np.testing.assert_array_equal(tanh(wide[:, 1]).double(), found.double())
    computes = torch_products._computes_tanh(numbers.dtype)
    assert computes or dtype != "float32"
    assert found.dtype == numbers.dtype and len(tanh_calls) >= 3 * computes
    # An ulp of the result; both round to bfloat16.
    np.testing.assert_allclose(
        found.double(), torch.tanh(numbers).double(), rtol=2.0**-7 if dtype == "bfloat16" else 2.0**-22
    )


@pytest.mark.skipif(not torch_products._AVAILABLE, reason="PyTorch has no oneDNN here")
def test_gradients_of_tanh_equal_those_of_pytorch(tanh_calls):
    numbers = torch.randn(torch_products._MANY, requires_grad=True)
    upstream = torch.randn(torch_products._MANY)
    [expected] = torch.autograd.grad(torch.tanh(numbers), numbers, upstream)
    with torch_products.onednn_matmul():
        [found] = torch.autograd.grad(tanh(numbers), numbers, upstream)
    assert len(tanh_calls) == 1
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_tanh_of_few_numbers_or_outside_the_context_is_pytorchs(tanh_calls):
    tanh(torch.ones(torch_products._MANY))
    with torch_products.onednn_matmul():
        tanh(torch.ones(torch_products._MANY - 1))
    assert not tanh_calls

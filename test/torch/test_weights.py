"""Products by packed weights in torch: values, results without memory, and gradients to a."""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.torch as ct  # noqa: E402

M, N, K, GROUP = 16, 48, 160, 64


@pytest.fixture
def weights():
    """Packed weights, their scales and zeros, and what they stand for."""
    generator = torch.Generator().manual_seed(3)
    q = torch.randint(0, 16, (K, N), generator=generator)
    zero = torch.randint(0, 16, (3, N), generator=generator, dtype=torch.uint8)
    scale = torch.rand((3, N), generator=generator) + 0.5
    integers = (q[0::2] | q[1::2] << 4).to(torch.uint8).T.contiguous().T
    wide = q - zero.repeat_interleave(GROUP, 0)[:K].double()
    return integers, scale, zero, wide * scale.repeat_interleave(GROUP, 0)[:K]


def test_gradients_go_through_groups_of_packed_weights(weights):
    integers, scale, zero, wide = weights
    x = torch.randn(2, M, K).to(torch.bfloat16).requires_grad_()
    y = ct.gemm(x, cute.packed(integers, "u4", 0), scale_b=scale, zero_b=zero, alpha=0.5)
    exact = x.detach().double().requires_grad_()
    want = 0.5 * exact @ wide
    torch.testing.assert_close(y.double(), want, atol=0.05 * want.abs().max().item(), rtol=0)
    slopes = torch.randn(2, M, N)
    (found,) = torch.autograd.grad(y, x, slopes.to(y.dtype))
    (expected,) = torch.autograd.grad(want, exact, slopes.double())
    assert found.dtype == x.dtype
    assert (found - expected).abs().max() <= 0.02 * expected.abs().max()


def test_the_operator_keeps_torchs_rules(weights):
    integers, scale, zero, _ = weights
    x = torch.randn(M, K).to(torch.bfloat16).requires_grad_()
    options = {"scale_b": scale, "zero_b": zero, "packed_b": "u4 -2"}
    opcheck(torch.ops.cutedialect.gemm, (x, integers), options)
    columns = torch.randint(0, 256, (K, N // 2), dtype=torch.uint8)
    result = torch.ops.cutedialect.gemm.default(x.to("meta"), columns.to("meta"), packed_b="u4 -1")
    assert result.shape == (M, N)


def test_a_zero_that_is_a_number_costs_no_array(weights):
    integers, _, _, _ = weights
    x = torch.ones(M, K, dtype=torch.float16, requires_grad=True)
    y = ct.gemm(x, integers, zero_b=8.0, packed_b="u4 -2", out_dtype=torch.float32)
    q = torch.stack((integers & 15, integers >> 4), 1).reshape(K, N).double() - 8
    assert torch.equal(y.double(), x.double() @ q)
    (found,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(found.double(), q.sum(1).half().double().expand(M, K))


def test_gradients_of_several_packed_products_are_refused(weights):
    integers, _, _, _ = weights
    x = torch.ones(M, K, dtype=torch.float16, requires_grad=True)
    with pytest.raises(ValueError, match=r"take cutedialect\.torch\.gemm for each"):
        ct.grouped_gemm([x], [cute.packed(integers, "u4", 0)])


def test_tensors_are_packed_where_they_live(weights):
    integers, scale, zero, wide = weights
    q = torch.stack((integers & 15, integers >> 4), 1).reshape(K, N)
    w = cute.pack(q)
    assert isinstance(w.array, torch.Tensor)
    x = torch.ones(M, K, dtype=torch.float16)
    y = ct.gemm(x, w, zero_b=zero, scale_b=scale, out_dtype=torch.float32)
    torch.testing.assert_close(y.double(), x.double() @ wide, atol=1e-3, rtol=1e-5)
    shifts = 4 * torch.arange(8)
    qweight = (q.long().reshape(K // 8, 8, N) << shifts[:, None]).sum(1).to(torch.int32)
    qzeros = (zero.long().reshape(3, N // 8, 8) << shifts).sum(-1).to(torch.int32)
    order = torch.randperm(K)
    layer = cute.from_gptq(qweight, qzeros, scale, torch.arange(K) // GROUP, zero_offset=0)
    again = ct.gemm(layer.rows_of(x), layer.b, out_dtype=torch.float32, **layer.options)
    assert torch.equal(again, y)
    assert layer.rows_of(x[:, order]).shape == x.shape

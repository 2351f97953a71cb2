"""`cutedialect.torch.routed_gemm`: the gradient of the rows, in front of each matrix, and what is
refused where one is required.
"""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect.torch as ct  # noqa: E402

OFFSETS = torch.tensor([0, 3, 3, 12], dtype=torch.int32)
ROWS = torch.tensor([0, 5, 2, 2, 1, 0, 4, 5, 3, 1, 0, 2], dtype=torch.int32)
TARGETS = torch.tensor([2, 0, 1, 1, 0, 0, 3, -1, 3, 2, 2, 1], dtype=torch.int32)
WEIGHTS = torch.arange(12) / 8


def drawn(grad=False):
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(6, 16, generator=generator).half().requires_grad_(grad)
    return a, torch.randn(3, 8, 16, generator=generator).half().mT


def formula(a, b, added):
    groups = torch.bucketize(torch.arange(12), OFFSETS[1:], right=True)
    found = torch.einsum("rk,rkn->rn", a.double()[ROWS.long()], b.double()[groups])
    if not added:
        return found
    there = TARGETS >= 0
    weighted = found[there] * WEIGHTS[there, None]
    return torch.zeros(4, 8).double().index_add(0, TARGETS[there].long(), weighted)


@pytest.mark.parametrize("added", [False, True])
def test_the_gradient_of_the_rows(added):
    a, b = drawn(grad=True)
    more = {"scatter": TARGETS, "weights": WEIGHTS, "count": 4} if added else {}
    result = ct.routed_gemm(a, b, OFFSETS, rows=ROWS, **more)
    result.float().pow(2).sum().backward()
    wide = a.detach().double().requires_grad_()
    want = formula(wide, b, added)
    torch.testing.assert_close(result.double(), want, atol=2e-2, rtol=2e-2)
    want.pow(2).sum().backward()
    assert (a.grad.double() - wide.grad).abs().max() <= 1e-2 * wide.grad.abs().max()


def test_the_operator_and_whole_graphs():
    a, b = drawn()
    operator = torch.ops.cutedialect.routed_gemm.default
    opcheck(operator, (a, b, OFFSETS, None, ROWS))
    opcheck(operator, (a, b, OFFSETS, None, ROWS, TARGETS), {"count": 4})

    def program(a, b):
        return ct.routed_gemm(a * 2, b, OFFSETS, rows=ROWS, scatter=TARGETS, count=4)

    torch._dynamo.reset()
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(a, b), program(a, b))


def test_what_is_refused():
    a, b = drawn(grad=True)
    places = TARGETS.view(4, 3)
    for options, name in (
        ({"activation": "relu"}, "activation"),
        ({"gated": b}, "gated"),
        ({"scatter": places}, "scatter"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            ct.routed_gemm(a, b, OFFSETS, rows=ROWS, **options)
    with pytest.raises(ValueError, match=r"^b: expected matrices without gradient"):
        ct.routed_gemm(a, b.requires_grad_(), OFFSETS, rows=ROWS)


def test_deterministic_algorithms():
    """Products that are added in order are what torch's mode takes."""
    a, b = drawn()
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=r"^scatter: expected the products of each row"):
            ct.routed_gemm(a, b, OFFSETS, rows=ROWS, scatter=TARGETS, count=4)
        places = TARGETS.view(4, 3)
        assert ct.routed_gemm(a, b, OFFSETS, rows=ROWS, scatter=places).shape == (4, 8)
    finally:
        torch.use_deterministic_algorithms(False)

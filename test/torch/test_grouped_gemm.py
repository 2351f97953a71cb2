"""`cutedialect.torch.grouped_gemm`: values and gradients problem by problem, and torch's checks."""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect.torch as ct  # noqa: E402

SIZES = ((16, 8, 24), (1, 16, 8), (8, 8, 8))


def drawn(grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = [((m, k), (k, n), (m, n), (n,)) for m, n, k in SIZES]
    return [
        [torch.randn(s, generator=generator).half().requires_grad_(grad) for s in column]
        for column in zip(*pairs, strict=True)
    ]


@pytest.mark.parametrize("activation", [None, "relu"])
def test_gradients_are_those_of_each_problem(activation):
    as_, bs, c, bias = drawn(grad=True)
    results = ct.grouped_gemm(as_, bs, c=c, bias=bias, beta=0.5, alpha=2.0, activation=activation)
    torch.stack([result.float().pow(2).sum() for result in results]).sum().backward()
    for place, result in enumerate(results):
        wide = [x[place].detach().double().requires_grad_() for x in (as_, bs, c, bias)]
        want = 2 * wide[0] @ wide[1] + 0.5 * wide[2] + wide[3]
        want = torch.relu(want) if activation else want
        torch.testing.assert_close(result.double(), want, atol=2e-2, rtol=2e-2)
        want.pow(2).sum().backward()
        for mine, theirs in zip((as_, bs, c, bias), wide, strict=True):
            scale = theirs.grad.abs().max()
            assert (mine[place].grad.double() - theirs.grad).abs().max() <= 1e-2 * scale


@pytest.mark.long
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(grad):
    as_, bs, _, bias = drawn(grad=grad)
    opcheck(torch.ops.cutedialect.grouped_gemm.default, (as_, bs, None, bias))


def test_some_problems_without_gradient_in_a_whole_graph():
    as_, bs, *_ = drawn()
    again = [x.clone() for x in as_]
    for each in (as_[0], again[0]):
        each.requires_grad_()

    def program(as_, bs):
        return sum(x.sum() for x in ct.grouped_gemm([a * 2 for a in as_], bs))

    torch._dynamo.reset()
    program(as_, bs).backward()
    torch.compile(program, fullgraph=True, backend="aot_eager")(again, bs).backward()
    torch.testing.assert_close(again[0].grad, as_[0].grad)


def test_the_direct_call_and_what_is_refused():
    as_, bs, c, _ = drawn()
    want = [a @ b for a, b in zip(as_, bs, strict=True)]
    torch.testing.assert_close(ct.grouped_gemm(as_, bs), want, atol=2e-2, rtol=2e-2)
    assert ct.grouped_gemm(as_, bs, out=c)[0] is c[0]
    as_[1].requires_grad_()
    for options in ({"out": c}, {"activation": "gelu"}, {"scale_a": 2.0}):
        with pytest.raises((TypeError, ValueError), match=f"{next(iter(options))}.*: expected"):
            ct.grouped_gemm(as_, bs, **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = ct.grouped_gemm([a.float() for a in as_], [b.float() for b in bs])
    assert {result.dtype for result in results} == {torch.bfloat16}

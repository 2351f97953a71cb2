"""`cutedialect.torch.attention`: the operator is the call, its gradients are those of float64."""

import sys

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.torch as ct  # noqa: E402

ops = torch.ops.cutedialect


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


Q, K, V = drawn(1, 2, 16, 16), drawn(1, 1, 32, 16, seed=1), drawn(1, 1, 32, 16, seed=2)
LENGTHS = torch.tensor([20], dtype=torch.int32)
PACKED = (torch.tensor([0, 5, 16]), torch.tensor([0, 12, 32]))
OPTIONS = [
    {},
    {"causal": True, "softcap": 8.0, "scale": 0.5},
    {"window": (4, 2), "scale_k": 2.0, "out_dtype": torch.float32},
    {"lengths": LENGTHS},
    {"cu_seqlens": PACKED},
]


SOME = [OPTIONS[0], *(pytest.param(options, marks=pytest.mark.long) for options in OPTIONS[1:])]


@pytest.mark.parametrize("options", SOME, ids=lambda options: " ".join(options) or "plain")
def test_a_whole_graph_is_the_direct_call(options):
    def program(q, k, v):
        out, lse = ct.attention(q * 2, k, v, return_lse=True, **options)
        return ct.attention(q, k, v, **options), out, lse

    torch._dynamo.reset()
    found = torch.compile(program, fullgraph=True, backend="aot_eager")(Q, K, V)
    want = cute.attention(Q, K, V, **options)
    out, lse = cute.attention(Q * 2, K, V, return_lse=True, **options)
    torch.testing.assert_close(found, (want, out, lse))


@pytest.mark.long
def test_opcheck():
    opcheck(ops.attention.default, (Q, K, V), {"causal": True})
    opcheck(ops.attention_lse.default, (Q, K, V), {"window": [4, 2], "lengths": LENGTHS})
    opcheck(ops.attention_out.default, (torch.zeros_like(Q), True, Q, K, V))


def leaves(dtype=torch.float16):
    return [x.to(dtype, copy=True).requires_grad_() for x in (Q, K, V)]


def exact(causal=False):
    """(result, logarithms) in float64, and the tensors that they come from."""
    q, k, v = leaves(torch.float64)
    s = q @ k.expand(1, 2, 32, 16).mT / 4
    if causal:
        s = s.masked_fill(torch.ones(16, 32).tril(16) == 0, -torch.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1), (q, k, v)


def close(found, wanted):
    for mine, other in zip(found, wanted, strict=True):
        assert (mine - other).abs().max() <= 2e-3 * other.abs().max()


def squared(program, *tensors):
    """Gradients of the sum of the squared results."""
    return torch.autograd.grad(program(*tensors).float().square().sum(), tensors)


@pytest.mark.some(1)
@pytest.mark.parametrize("way", ["plain", "compiled", "dynamic", "checkpointed"])
def test_gradients(way):
    def program(q, k, v):
        return ct.attention(q, k, v, causal=True)

    run = program
    if way in ("compiled", "dynamic"):
        torch._dynamo.reset()
        dynamic = way == "dynamic"
        run = torch.compile(program, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    elif way == "checkpointed":
        run = lambda *x: checkpoint(program, *x, use_reentrant=False)  # noqa: E731
    out, _, tensors = exact(causal=True)
    close(squared(run, *leaves()), torch.autograd.grad(out.square().sum(), tensors))


def test_gradients_through_the_logarithms_and_of_some():
    q, k, v = leaves()
    out, lse = ct.attention(q, k.detach(), v, return_lse=True)
    found = torch.autograd.grad(out.float().sum() + lse.square().sum(), (q, v))
    out, lse, (q, _, v) = exact()
    close(found, torch.autograd.grad(out.sum() + lse.square().sum(), (q, v)))
    q, k, v = leaves()
    _, lse = ct.attention(q, k, v, return_lse=True)
    found = torch.autograd.grad(lse.sum(), (q, k))
    _, lse, (q, k, _) = exact()
    close(found, torch.autograd.grad(lse.sum(), (q, k)))


@pytest.mark.long
def test_gradients_of_packed_rows_of_autocast_and_of_elements():
    q, k, v = leaves()
    offsets = torch.tensor([0, 5, 14]), torch.tensor([0, 12, 30])
    out = ct.attention(q, k, v, cu_seqlens=offsets)
    found = torch.autograd.grad(out[:, :, :14].float().sum(), (q, k, v))
    assert all(x.isfinite().all() for x in found)
    assert not any(x[:, :, end:].any() for x, end in zip(found, (14, 30, 30), strict=True))
    tensors = leaves(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = ct.attention(*tensors)
    assert out.dtype == torch.bfloat16
    assert {x.dtype for x in torch.autograd.grad(out.sum(), tensors)} == {torch.float32}
    many = [x.detach().expand(2, *x.shape) for x in leaves()]
    one = squared(ct.attention, *leaves())[0]
    each = torch.func.grad(lambda *x: ct.attention(*x).float().square().sum())
    assert torch.equal(torch.func.vmap(each)(*many)[1], one)


@pytest.mark.long
def test_opcheck_of_gradients():
    out, lse = cute.attention(Q, K, V, return_lse=True)
    opcheck(ops.attention_lse.default, leaves(), {"causal": True})
    opcheck(ops.attention_backward.default, (torch.ones_like(out), Q, K, V, out, lse))


def test_equal_bits_are_asked_for(monkeypatch):
    module = sys.modules["cutedialect.torch.attention"]
    asked = []
    run = module.direct_backward
    monkeypatch.setattr(
        module, "direct_backward", lambda **given: asked.append(given) or run(**given)
    )
    torch.use_deterministic_algorithms(True)
    try:
        squared(ct.attention, *leaves())
    finally:
        torch.use_deterministic_algorithms(False)
    assert asked[0]["deterministic"]


def test_what_has_no_gradient_is_refused_with_a_remedy():
    q, k, v = leaves()
    with pytest.raises(ValueError, match=r"call cutedialect\.torch\.attention"):
        ops.attention(q, K, V)
    with pytest.raises((RuntimeError, ValueError), match="gradient"):
        ct.attention(q, K, V, out=torch.zeros_like(Q))
    scale = torch.ones(2).requires_grad_()
    with pytest.raises(ValueError, match=r"scale_q: expected no gradient through it"):
        ct.attention(q, K, V, scale_q=scale)
    (first,) = torch.autograd.grad(
        ct.attention(q, k, v).float().square().sum(), q, create_graph=True
    )
    with pytest.raises(RuntimeError, match=r"do: expected no gradient through it.*detach"):
        torch.autograd.grad(first.float().sum(), q)
    with torch.no_grad():
        torch.testing.assert_close(ct.attention(q, K, V), cute.attention(Q, K, V))


def test_autocast_fake_tensors_and_outputs():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ct.attention(Q.float(), K.float(), V.float()).dtype == torch.bfloat16
    meta = ct.attention(*(x.to("meta") for x in (Q, K, V)), return_lse=True)
    assert [(tuple(x.shape), x.dtype) for x in meta] == [
        ((1, 2, 16, 16), torch.float16), ((1, 2, 16), torch.float32),
    ]  # fmt: skip
    out = torch.zeros_like(Q)
    ops.attention_out(out, False, Q, K, V)
    torch.testing.assert_close(out, cute.attention(Q, K, V))
    assert ct.attention(Q, K, V, out=out) is out

"""`cutedialect.torch.attention`: the operator is the call, and where a gradient is required it says
that it has none.
"""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

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


def test_a_gradient_is_refused_with_a_remedy():
    q = Q.clone().requires_grad_()
    for call in (
        lambda: ct.attention(q, K, V),
        lambda: ops.attention(q, K, V),
        lambda: ops.attention_lse(q, K, V),
        lambda: torch.compile(ct.attention, fullgraph=True, backend="aot_eager")(q, K, V),
    ):
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=r"no backward yet; take torch\.no_grad"):
            call()
    with torch.no_grad():
        torch.testing.assert_close(ct.attention(q, K, V), cute.attention(Q, K, V))
    with pytest.raises((RuntimeError, ValueError), match="without gradient"):
        ops.attention_out(torch.zeros_like(Q), False, q, K, V)


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

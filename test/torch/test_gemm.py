"""`cutedialect.torch.gemm`: values and gradients against float64, and torch's own checks."""

import random
import sys

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect.torch as ct  # noqa: E402

ops = torch.ops.cutedialect
ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def drawn(*shape, dtype=torch.float16, seed=0, grad=False):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad)


A, B, BIAS = drawn(16, 32), drawn(32, 16, seed=1), drawn(16, seed=2)


def reference(tensors, alpha, beta, activation):
    a, b, c, bias = tensors
    result = alpha * (a @ b)
    result = result if c is None else result + beta * c
    return ACTIVATIONS[activation](result if bias is None else result + bias)


def compare(tensors, alpha=1.0, beta=0.0, activation=None, tolerance=2e-2, call=ct.gemm):
    """Value and gradients of a call against those of torch in float64."""
    a, b, c, bias = tensors
    result = call(a, b, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation)
    wide = [None if x is None else x.detach().double().requires_grad_() for x in tensors]
    want = reference(wide, alpha, beta, activation)
    torch.testing.assert_close(result.double(), want, atol=tolerance, rtol=tolerance)
    weights = drawn(*result.shape, dtype=result.dtype, seed=9)
    given = [x for x in tensors if x is not None and x.requires_grad]
    found = torch.autograd.grad(result, given, weights)
    expected = torch.autograd.grad(
        want, [y for x, y in zip(tensors, wide, strict=True) if x is not None and x.requires_grad],
        weights.double(),
    )  # fmt: skip
    for mine, theirs, tensor in zip(found, expected, given, strict=True):
        assert mine.dtype == tensor.dtype
        assert mine.shape == tensor.shape
        scale = theirs.abs().max().item() or 1
        assert (mine.double() - theirs).abs().max() <= tolerance * scale


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 8))]
)
def test_gradients_of_drawn_problems(seed):
    generator = random.Random(seed)
    m, n, k = (generator.choice((1, 7, 16, 24)) for _ in range(3))
    activation = generator.choice(list(ACTIVATIONS))
    dtype = generator.choice((torch.float16, torch.bfloat16, torch.float32))
    beta = generator.choice((0.0, 0.5))
    shape = generator.choice(((), (2,)))
    a = drawn(*shape, m, k, dtype=dtype, seed=seed, grad=True)
    b = drawn(k, n, dtype=dtype, seed=seed + 1, grad=generator.random() < 0.8)
    c = drawn(m, n, dtype=dtype, seed=seed + 2, grad=True) if beta else None
    bias = drawn(n, dtype=dtype, seed=seed + 3, grad=True) if generator.random() < 0.5 else None
    tolerance = 4e-2 if dtype == torch.bfloat16 else 1e-2
    compare((a, b, c, bias), generator.choice((1.0, -0.75)), beta, activation, tolerance)


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((16, 8), (3, 8, 16)),
        ((3, 16, 8), (8, 16)),
        ((2, 1, 16, 8), (3, 8, 16)),
        ((1, 16, 8), (8, 8)),
    ],
)
def test_gradients_of_broadcast_operands_are_summed(left, right):
    compare((drawn(*left, grad=True), drawn(*right, seed=1, grad=True), None, None))


@pytest.mark.long
def test_gradients_of_views_and_zero_extents():
    a, b = drawn(32, 16, grad=True), drawn(16, 32, seed=1, grad=True)
    compare((a.T, b.T, None, None))
    for m, n, k in ((0, 16, 16), (16, 0, 16), (16, 16, 0)):
        a, b = drawn(m, k, grad=True), drawn(k, n, grad=True)
        ct.gemm(a, b).sum().backward()
        assert a.grad.shape == a.shape
        assert not b.grad.any() or m


@pytest.mark.long
def test_a_gradient_of_a_gradient():
    def second(call, a, b):
        (first,) = torch.autograd.grad(call(a, b).pow(2).sum(), a, create_graph=True)
        return torch.autograd.grad(first.sum(), (a, b))

    a, b = (drawn(8, 8, dtype=torch.float32, seed=s, grad=True) for s in (0, 1))
    found = second(ct.gemm, a, b)
    want = second(torch.matmul, *(x.detach().double().requires_grad_() for x in (a, b)))
    for mine, theirs in zip(found, want, strict=True):
        torch.testing.assert_close(mine.double(), theirs, atol=0.1, rtol=1e-2)


def test_a_call_without_gradient_goes_to_the_kernel_directly(monkeypatch):
    want = ct.gemm(A, B)
    module = sys.modules["cutedialect.torch.declared"]
    monkeypatch.setattr(module, "needs_gradient", lambda tensors: pytest.fail("the operator"))
    torch.testing.assert_close(ct.gemm(A, B), want)
    with torch.no_grad():
        assert not ct.gemm(A.clone().requires_grad_(), B).requires_grad


GRAD = {"requires_grad": True}
SAMPLES = {
    "gemm": (ops.gemm.default, lambda t: (t(A), t(B), t(drawn(16, 16)), t(BIAS)), {"beta": 0.5}),
    "relu": (ops.gemm.default, lambda t: (t(A), t(B), None, t(BIAS)), {"activation": "relu"}),
    "aux": (ops.gemm_aux.default, lambda t: (t(A), t(B), None, t(BIAS)), {"activation": "gelu"}),
    "batch": (ops.gemm.default, lambda t: (t(A[None]), t(drawn(2, 32, 16))), {"alpha": 0.5}),
}


@pytest.mark.parametrize(
    "sample", ["gemm", *(pytest.param(name, marks=pytest.mark.long) for name in list(SAMPLES)[1:])]
)
@pytest.mark.parametrize("grad", [True, pytest.param(False, marks=pytest.mark.long)])
def test_opcheck(sample, grad):
    operator, args, options = SAMPLES[sample]
    opcheck(operator, args(lambda x: x.clone().requires_grad_(grad)), options)


@pytest.mark.long
def test_opcheck_of_outputs():
    out, aux = torch.zeros(2, 16, 16, dtype=torch.float16)
    opcheck(ops.gemm_out.default, (out, aux, A, B, None, BIAS), {"activation": "silu"})


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("eager", marks=pytest.mark.long)])
def test_a_whole_graph_with_gradients(backend, dynamic):
    def program(a, b, bias):
        x = ct.gemm(a * 2, b, bias=bias, activation="gelu", alpha=0.5)
        return ct.gemm(x, x.mT, out_dtype=torch.float32).sin()

    torch._dynamo.reset()
    compiled = torch.compile(program, fullgraph=True, backend=backend, dynamic=dynamic)
    for m in (16, 24, 8) if dynamic else (16,):
        inputs = [x.clone().requires_grad_() for x in (drawn(m, 32, seed=m), B, BIAS)]
        again = [x.detach().clone().requires_grad_() for x in inputs]
        want, found = program(*inputs), compiled(*again)
        torch.testing.assert_close(found, want)
        want.sum().backward()
        found.sum().backward()
        for mine, theirs in zip(again, inputs, strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_whole_graph_with_an_output_of_the_caller():
    def program(a, b, out):
        ct.gemm(a, b, out=out)
        return out + 1

    torch._dynamo.reset()
    out = torch.zeros(16, 16, dtype=torch.float16)
    found = torch.compile(program, fullgraph=True, backend="aot_eager")(A, B, out)
    torch.testing.assert_close(out, ct.gemm(A, B))
    torch.testing.assert_close(found, out + 1)


def test_fake_and_meta_tensors_get_shapes():
    with torch._subclasses.FakeTensorMode():
        result = ct.gemm(torch.empty(3, 5, 7, dtype=torch.bfloat16),
                         torch.empty(7, 11, dtype=torch.bfloat16))  # fmt: skip
    assert (tuple(result.shape), result.dtype) == ((3, 5, 11), torch.bfloat16)
    for dtype, want in (
        (torch.int8, torch.int32), (torch.float8_e4m3fn, torch.bfloat16),
        (torch.float32, torch.float32),
    ):  # fmt: skip
        a = torch.empty(16, 16, dtype=dtype, device="meta")
        assert ct.gemm(a, a).dtype == want
    a = torch.empty(16, 8, dtype=torch.float16, device="meta")
    with pytest.raises((ValueError, RuntimeError), match="b: expected 8 rows"):
        ct.gemm(a, a)


@pytest.mark.long
def test_autocast_casts_what_is_added_too():
    a, b, bias = A.float().requires_grad_(), B.float(), BIAS.float()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            result = ct.gemm(a, b, bias=bias)
            wide = ct.gemm(a.double(), b.double())
            operator = ops.gemm(a, b, None, bias)
        assert result.dtype == operator.dtype == dtype
        assert wide.dtype == torch.float64
        want = ct.gemm(a.detach().to(dtype), b.to(dtype), bias=bias.to(dtype))
        torch.testing.assert_close(result, want)
        result.float().sum().backward()
        assert a.grad.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = torch.compile(ct.gemm, fullgraph=True, backend="aot_eager")
        assert compiled(a, b).dtype == torch.bfloat16


def test_an_output_of_the_caller_is_refused_where_autograd_would_be_wrong():
    a = A.clone().requires_grad_()
    for options in ({"out": torch.zeros(16, 16, dtype=torch.float16)},
                    {"aux": torch.zeros(16, 16, dtype=torch.float16)}):  # fmt: skip
        with pytest.raises(ValueError, match=f"{next(iter(options))}: expected None where a grad"):
            ct.gemm(a, B, **options)
        with torch.no_grad():
            ct.gemm(a, B, **options)
    out = torch.zeros(16, 16, dtype=torch.float16)
    before = out._version
    ops.gemm_out(out, None, A, B)
    assert out._version > before
    with pytest.raises((ValueError, RuntimeError), match="without gradient"):
        ops.gemm_out(out, None, a, B)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: ct.gemm(a, B, scale_a=2.0), "scale_a, scale_b: expected None"),
        (lambda a: ct.gemm(a, B, activation=lambda t: t * t), "activation: expected 'relu'"),
        (lambda a: ops.gemm(a, B, activation="gelu"), "cutedialect::gemm_aux"),
    ],
)
def test_what_has_no_backward_is_refused_with_a_remedy(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(A.clone().requires_grad_())
    call(A)


def test_gradients_pass_weights_of_8_bits():
    a, scale = drawn(20, 32, grad=True), torch.arange(1, 17) / 16
    weights = torch.arange(-256, 256).view(32, 16).to(torch.int8)
    result = ct.gemm(a, weights, scale_b=scale)
    wide = weights.double() * scale
    torch.testing.assert_close(result.double(), a.detach().double() @ wide, rtol=2e-3, atol=0.1)
    slope = drawn(20, 16, seed=4)
    result.backward(slope)
    torch.testing.assert_close(a.grad.double(), slope.double() @ wide.T, rtol=5e-3, atol=0.5)
    opcheck(ops.gemm.default, (a.detach(), weights, None, BIAS))
    with pytest.raises(ValueError, match="scale_a, scale_b: expected None"):
        ct.gemm(a, weights, scale_b=scale.clone().requires_grad_())


def test_deterministic_mode_refuses_sums_in_any_order():
    schedule = "split_k = 2, reduction = atomic"
    try:
        torch.use_deterministic_algorithms(True)
        ct.gemm(A, B)
        for a in (A, A.clone().requires_grad_()):
            with pytest.raises(RuntimeError, match="schedule: expected reduction = ordered"):
                ct.gemm(a, B, schedule=schedule)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="reduction = ordered"):
            ct.gemm(A, B, schedule=schedule)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_negated_views_and_vmap_are_resolved_by_the_operator():
    negated = torch._neg_view(A)
    torch.testing.assert_close(ct.gemm(negated, B), -ct.gemm(A, B))
    batch = torch.stack([A, A + 1])
    mapped = torch.vmap(lambda a: ct.gemm(a, B))(batch)
    torch.testing.assert_close(mapped, ct.gemm(batch, B))


def test_a_subclass_that_dispatches_sees_the_operator():
    class Logged(torch.Tensor):
        seen = []

        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(str(func))
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {}))

    torch.testing.assert_close(ct.gemm(Logged(A), B), ct.gemm(A, B))
    assert Logged.seen == ["cutedialect.gemm.default"]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_of_torch_func_and_checkpoints():
    def mine(a):
        return ct.gemm(a, b, bias=b[0], activation="silu").pow(2).sum()

    def theirs(a):
        wide = b.double()
        return torch.nn.functional.silu(a.double() @ wide + wide[0]).pow(2).sum()

    a, b = (drawn(8, 8, dtype=torch.float32, seed=s) for s in (0, 1))
    batch = torch.stack([a, a + 1])
    found = torch.vmap(torch.func.grad(mine))(batch)
    want = torch.stack([torch.func.grad(theirs)(each) for each in batch])
    torch.testing.assert_close(found, want, atol=0.2, rtol=1e-2)
    twice = torch.func.grad(lambda x: torch.func.grad(mine)(x).sum())(a)
    want = torch.func.grad(lambda x: torch.func.grad(theirs)(x).sum())(a)
    torch.testing.assert_close(twice, want, atol=0.5, rtol=2e-2)
    x = a.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(mine, x, use_reentrant=False).backward()
    torch.testing.assert_close(x.grad, found[0])


def test_a_tangent_is_refused_by_the_operator():
    with pytest.raises(NotImplementedError, match="expected tensors without a tangent"):
        torch.func.jvp(lambda a: ct.gemm(a, B), (A,), (A,))


def test_a_trace_records_the_operator():
    traced = torch.jit.trace(lambda a: ct.gemm(a, B), (A,))
    torch.testing.assert_close(traced(A + 1), ct.gemm(A + 1, B))


def test_the_precision_of_products_and_of_their_gradients():
    """3xtf32 is a thousand times as close as tf32, in eager calls, operators and backwards."""
    a, b = (drawn(8, 40, dtype=torch.float32, seed=n) for n in (3, 4))
    wide = [x.double().requires_grad_() for x in (a, b)]
    want = wide[0] @ wide[1].mT
    weights = drawn(8, 8, dtype=torch.float32, seed=5)
    wanted = torch.autograd.grad(want, wide, weights.double())
    for precision, most in (("tf32", 3e-2), ("3xtf32", 3e-5)):
        one, other = (x.clone().requires_grad_() for x in (a, b))
        made = ct.gemm(one, other.mT, precision=precision)
        found = torch.autograd.grad(made, (one, other), weights)
        direct = ct.gemm(a, b.mT, precision=precision)
        for got, exact in zip((made, direct, *found), (want, want, *wanted), strict=True):
            error = (got.double() - exact).abs().max().item()
            assert error < most
            assert precision == "3xtf32" or error > 3e-5
    with pytest.raises(ValueError, match="precision: expected None, 'tf32' or '3xtf32', got 'iee"):
        ct.gemm(a, b.mT, precision="ieee")


OF_TWO_DEVICES = {
    "gemm": lambda a, b: ct.gemm(a, b),
    "gemm with aux": lambda a, b: ct.gemm(a, a.mT, c=b, beta=1.0),
    "attention": lambda a, b: ct.attention(a[None, None], b[None, None], a[None, None]),
    "grouped_gemm": lambda a, b: ct.grouped_gemm([a, a], [a.mT, b]),
}


@pytest.mark.parametrize("entry", OF_TWO_DEVICES)
def test_tensors_of_two_devices_are_refused(entry):
    """torch takes the fake kernel where one is on the meta device, which computes nothing."""
    a = torch.ones(16, 16, dtype=torch.float16)
    with torch.no_grad(), pytest.raises(ValueError, match="expected a tensor on cpu like"):
        OF_TWO_DEVICES[entry](a, a.to("meta"))

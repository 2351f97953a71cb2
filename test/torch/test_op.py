"""`cutedialect.torch.op`: kernels as operators, whatever their parameters are."""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.torch as ct  # noqa: E402

X = torch.arange(40, dtype=torch.float32).reshape(5, 8)


def program(X, Y, factor, tile):
    at = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * factor, cute.local_tile(Y, tile, at))


@cute.kernel
def scale(X, Y, factor: float, *, tile=(16, 16), twice=False):
    program(X, Y, factor * 2 if twice else factor, tile)


@cute.kernel
def both(X, Y, Z, bias=None, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    value = cute.load(cute.local_tile(X, tile, at))
    if bias is not None:
        value = value + cute.row_vector(bias, at[1], tile[1])
    cute.copy(value * 2.0, cute.local_tile(Y, tile, at))
    cute.copy(value * 3.0, cute.local_tile(Z, tile, at))


scaled = ct.op("cutedialect_test::scaled", outputs={"Y": torch.empty_like})(scale)
scaled_into = ct.op("cutedialect_test::scaled_into", mutates=("Y",))(scale)
two = ct.op(
    "cutedialect_test::two",
    outputs={"Y": lambda X: torch.empty_like(X), "Z": lambda X, bias: X.new_empty(X.shape)},
)(both)


def test_a_result_is_made_and_returned():
    torch.testing.assert_close(scaled(X, 3.0), X * 3)
    torch.testing.assert_close(scaled(X, 3.0, tile=[32, 8], twice=True), X * 6)
    for found, factor in zip(two(X), (2, 3), strict=True):
        torch.testing.assert_close(found, X * factor)
    bias = torch.ones(8)
    torch.testing.assert_close(two(X, bias)[1], (X + bias) * 3)


def test_opcheck_and_whole_graphs():
    opcheck(scaled, (X, 3.0))
    opcheck(scaled_into, (X, torch.zeros_like(X), 3.0))
    opcheck(two, (X, torch.ones(8)))

    def program(x):
        y = torch.zeros_like(x)
        scaled_into(x, y, 2.0)
        return scaled(x + 1, 3.0) + y, two(x)[1]

    torch._dynamo.reset()
    found = torch.compile(program, fullgraph=True, backend="aot_eager")(X)
    torch.testing.assert_close(found, ((X + 1) * 3 + X * 2, X * 3))
    with torch._subclasses.FakeTensorMode():
        assert scaled(torch.empty(3, 4), 2.0).shape == (3, 4)


def test_a_backward_is_registered_as_torchs():
    doubled = ct.op("cutedialect_test::doubled", outputs={"Y": torch.empty_like})(scale)
    with pytest.raises(RuntimeError, match="autograd"):
        doubled(X.clone().requires_grad_(), 2.0).sum().backward()

    def keep(ctx, inputs, output):
        ctx.factor = inputs[1]

    doubled.register_autograd(
        lambda ctx, gradient: (doubled(gradient.contiguous(), ctx.factor), None, None, None, None,
                               None, None),
        setup_context=keep,
    )  # fmt: skip
    x = X.clone().requires_grad_()
    doubled(x, 2.0).pow(2).sum().backward()
    torch.testing.assert_close(x.grad, 8 * X)


def test_a_mutated_argument_has_a_new_version():
    y = torch.zeros_like(X)
    before = y._version
    scaled_into(X, y, 2.0)
    assert y._version > before
    torch.testing.assert_close(y, X * 2)


def test_groups_of_tensors():
    @ct.op("cutedialect_test::each", mutates=("Ys",), lists=("Xs", "Ys"))
    @cute.kernel
    def each(Xs, Ys):
        problem, m, n = cute.tile_index(Ys, (16, 16))
        value = cute.load(cute.local_tile(Xs[problem], (16, 16), (m, n)))
        cute.copy(value * 2.0, cute.local_tile(Ys[problem], (16, 16), (m, n)))

    xs, ys = [X, X[:2] + 1], [torch.zeros(5, 8), torch.zeros(2, 8)]
    each(xs, ys)
    torch.testing.assert_close(ys, [x * 2 for x in xs])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mutates": ("W",)}, r"mutates: expected parameters of scale \(X, Y, factor\), got 'W'"),
        ({"outputs": {"Q": torch.empty_like}}, "outputs: expected parameters"),
        ({"mutates": ("Y",), "outputs": {"Y": torch.empty_like}}, "got 'Y' in both"),
    ],
)
def test_names_that_are_no_parameters_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ct.op("cutedialect_test::wrong", **arguments)(scale)


def test_what_is_written_and_not_declared_is_refused():
    hidden = ct.op("cutedialect_test::hidden", mutates=("X",))(scale)
    with pytest.raises(ValueError, match="mutates: expected 'Y', which scale writes"):
        hidden(X, torch.zeros_like(X), 2.0)
    with pytest.raises(TypeError, match=r"expected a @cute\.kernel function, got function"):
        ct.op("cutedialect_test::plain")(program)


@cute.kernel
def kept(X, M, Y, N, *, tile=(16, 16)):
    """Y: X where M holds, else 7; N: not M."""
    at = cute.tile_index(Y, tile)
    x, m = (cute.load(cute.local_tile(each, tile, at)) for each in (X, M))
    cute.copy(cute.where(m, x, 7), cute.local_tile(Y, tile, at))
    cute.copy(~m, cute.local_tile(N, tile, at))


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint16, torch.uint32, torch.uint64])
def test_integers_of_any_width_and_conditions(dtype):
    m = X > 11
    x, y, n = X.to(dtype), torch.zeros_like(X, dtype=dtype), torch.zeros_like(m)
    kept(x, m, y, n, arch="sm_80", backend="emulator")
    assert y.tolist() == torch.where(m, X, 7).tolist()
    assert torch.equal(n, ~m)

"""`cutedialect.jax.gemm` and `grouped_gemm`: values and gradients against JAX in float32."""

import random

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import cutedialect.jax as cj  # noqa: E402

ACTIVATIONS = {
    None: lambda x: x,
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
}


def drawn(*shape, dtype=jnp.float16, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


A, B, BIAS = drawn(16, 32), drawn(32, 16, seed=1), drawn(16, seed=2)


def close(mine, theirs, tolerance):
    theirs = np.asarray(theirs, np.float64)
    scale = max(1.0, np.abs(theirs).max(initial=0))
    assert np.abs(np.asarray(mine, np.float64) - theirs).max(initial=0) <= tolerance * scale


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 6))]
)
def test_values_and_gradients_of_drawn_problems(seed):
    generator = random.Random(seed)
    m, n, k = (generator.choice((1, 7, 16, 24)) for _ in range(3))
    activation = generator.choice(list(ACTIVATIONS))
    dtype = generator.choice((jnp.float16, jnp.bfloat16, jnp.float32))
    alpha, beta = generator.choice((1.0, -0.75)), generator.choice((0.0, 0.5))
    shape = generator.choice(((), (2,)))
    a, b = drawn(*shape, m, k, dtype=dtype, seed=seed), drawn(k, n, dtype=dtype, seed=seed + 1)
    c, bias = drawn(m, n, dtype=dtype, seed=seed + 2), drawn(n, dtype=dtype, seed=seed + 3)
    weights = drawn(*shape, m, n, dtype=jnp.float32, seed=9)

    def mine(a, b, c, bias):
        result = cj.gemm(a, b, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation)
        assert result.dtype == dtype
        return (result.astype(jnp.float32) * weights).sum()

    def theirs(a, b, c, bias):
        product = jnp.matmul(a, b, precision="highest")
        return (ACTIVATIONS[activation](alpha * product + beta * c + bias) * weights).sum()

    given = (a, b, c, bias)
    found = jax.jit(jax.value_and_grad(mine, (0, 1, 2, 3)))(*given)
    want = jax.value_and_grad(theirs, (0, 1, 2, 3))(*(x.astype(jnp.float32) for x in given))
    tolerance = 6e-2 if dtype == jnp.bfloat16 else 2e-2
    close(found[0], want[0], 5 * tolerance)
    for x, y, array in zip(found[1], want[1], given, strict=True):
        assert (x.dtype, x.shape) == (array.dtype, array.shape)
        close(x, y, tolerance)


@pytest.mark.long
@pytest.mark.parametrize(("left", "right"), [((8, 8), (3, 8, 16)), ((2, 1, 8, 8), (3, 8, 8))])
def test_gradients_of_broadcast_operands_are_summed(left, right):
    a, b = drawn(*left), drawn(*right, seed=1)
    found = jax.grad(lambda a, b: cj.gemm(a, b).astype(jnp.float32).sum(), (0, 1))(a, b)
    want = jax.grad(lambda a, b: jnp.matmul(a, b).sum(), (0, 1))(
        a.astype(jnp.float32), b.astype(jnp.float32)
    )
    for x, y in zip(found, want, strict=True):
        assert x.shape == y.shape
        close(x, y, 1e-2)


@pytest.mark.long
def test_a_gradient_of_a_gradient_and_zero_extents():
    def second(call):
        first = jax.grad(lambda a: (call(a, x) ** 2).sum())
        return jax.grad(lambda a: first(a).sum())(x)

    x = drawn(8, 8, dtype=jnp.float32)
    close(second(cj.gemm), second(lambda a, b: jnp.matmul(a, b, precision="highest")), 1e-2)
    for m, n, k in ((0, 8, 8), (8, 0, 8), (8, 8, 0)):
        a, b = drawn(m, k), drawn(k, n)
        of_a, of_b = jax.grad(lambda a, b: cj.gemm(a, b).sum(), (0, 1))(a, b)
        assert (of_a.shape, of_b.shape) == (a.shape, b.shape)


@pytest.mark.long
def test_vmap_calls_once_for_each_element():
    batch = jnp.stack([A, A + 1, A - 1])
    mapped = jax.vmap(lambda a, bias: cj.gemm(a, B, bias=bias))(batch, jnp.stack([BIAS] * 3))
    np.testing.assert_array_equal(mapped, cj.gemm(batch, B, bias=BIAS))
    per_example = jax.vmap(jax.grad(lambda a: cj.gemm(a, B).astype(jnp.float32).sum()))(batch)
    assert per_example.shape == batch.shape


@pytest.mark.long
def test_scales_small_types_and_functions():
    a, b = A.astype(jnp.float8_e4m3fn), B.astype(jnp.float8_e4m3fn)
    rows = jnp.linspace(0.5, 2, 16, dtype=jnp.float32)
    found = jax.jit(lambda *x: cj.gemm(*x[:2], scale_a=x[2], scale_b=2.0, arch="sm_89"))(a, b, rows)
    want = rows[:, None] * 2 * (a.astype(jnp.float32) @ b.astype(jnp.float32))
    assert found.dtype == jnp.bfloat16
    close(found, want, 2e-2)
    small = jnp.asarray([[1, -2] * 8] * 16, jnp.int8)
    assert cj.gemm(small, small).dtype == jnp.int32

    def square(tile):
        return tile * tile

    found = jax.jit(lambda a, b: cj.gemm(a, b, activation=square, out_dtype="f32"))(A, B)
    close(found, (A.astype(jnp.float32) @ B.astype(jnp.float32)) ** 2, 1e-2)
    with pytest.raises(TypeError, match="activation: expected 'relu'"):
        jax.grad(lambda a: cj.gemm(a, B, activation=square).sum())(A)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cj.gemm(A, A), "b: expected 32 rows"),
        (lambda: jax.jit(cj.gemm)(A, B.astype(jnp.float32)), "b: expected f16 as in a, got f32"),
        (lambda: jax.jit(lambda x: cj.gemm(A, B, alpha=x))(2.0), "alpha: expected a number"),
        (lambda: jax.grad(lambda a: cj.gemm(a, B, scale_a=2.0).sum())(A), "scale_a, scale_b: exp"),
        (lambda: cj.gemm(A, B, activation="tan"), "activation: expected 'relu'"),
        (lambda: cj.grouped_gemm([A], [A]), r"bs\[0\]: expected 32 rows"),
        (lambda: cj.grouped_gemm([A, A], [B]), "bs: expected 2 arrays"),
    ],
)
def test_wrong_arguments_are_refused_while_tracing(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_fault_in_the_kernel_is_an_error_of_the_call(monkeypatch):
    monkeypatch.setattr(
        "cutedialect.backend.runtime.emulated.EmulatedLauncher.launch",
        lambda *args: (_ for _ in ()).throw(ValueError("broken on purpose")),
    )
    with pytest.raises(Exception, match="ValueError: broken on purpose"):
        jax.block_until_ready(cj.gemm(A, B))


@pytest.mark.long
@pytest.mark.parametrize("activation", [None, "relu"])
def test_grouped_values_and_gradients(activation):
    sizes = ((16, 8, 24), (1, 16, 8), (8, 8, 8))
    as_ = [drawn(m, k, seed=i) for i, (m, _, k) in enumerate(sizes)]
    bs = [drawn(k, n, seed=i + 5) for i, (_, n, k) in enumerate(sizes)]
    bias = [drawn(n, seed=i + 9) for i, (_, n, _) in enumerate(sizes)]

    def mine(as_, bs, bias):
        results = cj.grouped_gemm(as_, bs, bias=bias, activation=activation, alpha=0.5)
        return sum((x.astype(jnp.float32) ** 2).sum() for x in results)

    def theirs(as_, bs, bias):
        return sum(
            (ACTIVATIONS[activation](0.5 * a @ b + c) ** 2).sum()
            for a, b, c in zip(as_, bs, bias, strict=True)
        )

    found = jax.jit(jax.value_and_grad(mine, (0, 1, 2)))(as_, bs, bias)
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), (as_, bs, bias))
    want = jax.value_and_grad(theirs, (0, 1, 2))(*wide)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        close(x, y, 2e-2)


def test_the_precision_of_products_and_of_their_gradients():
    """3xtf32 is a thousand times as close as tf32, under jit and in gradients."""
    a, b, weights = (drawn(8, k, dtype=jnp.float32, seed=n) for n, k in ((3, 40), (4, 40), (5, 8)))
    x, y, w = (np.asarray(each, np.float64) for each in (a, b, weights))
    wanted = (x @ y.T, w @ y, w.T @ x)
    for precision, most in (("tf32", 3e-2), ("3xtf32", 3e-5)):

        @jax.jit
        def run(a, b, weights, precision=precision):
            made, back = jax.vjp(lambda a, b: cj.gemm(a, b.T, precision=precision), a, b)
            return made, *back(weights)

        for got, exact in zip(run(a, b, weights), wanted, strict=True):
            error = np.abs(np.asarray(got, np.float64) - exact).max()
            assert error < most
            assert precision == "3xtf32" or error > 3e-5
    with pytest.raises(ValueError, match="precision: expected None, 'tf32' or '3xtf32', got 'iee"):
        cj.gemm(a, b.T, precision="ieee")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_elements_of_half_a_byte_are_refused(dtype):
    weights = jnp.ones((32, 16), getattr(jnp, dtype))
    with pytest.raises(TypeError, match=r"^b: expected elements of whole bytes, got .*jnp\.int8"):
        jax.jit(cj.gemm)(A, weights)
    whole = cj.gemm(A, weights.astype(jnp.int8), backend="emulator")
    close(whole, A.astype(jnp.float32) @ jnp.ones((32, 16)), 1e-3)

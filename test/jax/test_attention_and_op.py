"""`cutedialect.jax.attention` is the direct call under jit; `op` makes a function of a kernel."""

import os
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.jax as cj  # noqa: E402


def drawn(*shape, dtype=jnp.float16, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


Q, K, V = drawn(1, 2, 16, 16), drawn(1, 1, 32, 16, seed=1), drawn(1, 1, 32, 16, seed=2)
LONG = pytest.mark.long
X = jnp.arange(40, dtype=jnp.float32).reshape(5, 8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "softcap": 8.0, "scale": 0.5},
        pytest.param({"window": (4, 2), "scale_k": 2.0, "out_dtype": "f32"}, marks=LONG),
        pytest.param({"lengths": jnp.asarray([20], jnp.int32)}, marks=LONG),
        pytest.param(
            {"cu_seqlens": (jnp.asarray([0, 5, 16]), jnp.asarray([0, 12, 32]))}, marks=LONG
        ),
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_attention_is_the_direct_call(options):
    given = {name: x for name, x in options.items() if isinstance(x, jax.Array | tuple)}
    given.pop("window", None)
    rest = {name: x for name, x in options.items() if name not in given}

    @jax.jit
    def program(q, k, v, given):
        out, lse = cj.attention(q, k, v, return_lse=True, **given, **rest)
        return cj.attention(q, k, v, **given, **rest), out, lse

    alone, out, lse = program(Q, K, V, given)
    want, want_lse = cute.attention(
        *map(np.asarray, (Q, K, V)), return_lse=True, **jax.tree.map(np.asarray, given), **rest
    )
    for mine, theirs in ((alone, want), (out, want), (lse, want_lse)):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def loss(q, k, v):
    out, lse = cj.attention(q, k, v, causal=True, return_lse=True)
    return (out.astype(jnp.float32) ** 2).sum() + (lse**2).sum()


def loss_of_jax(q, k, v):
    k, v = (jnp.broadcast_to(x, (1, 2, 32, 16)) for x in (k, v))
    s = jnp.einsum("bhsd,bhtd->bhst", q, k) / 4
    s = jnp.where(np.tril(np.ones((16, 32)), 16) > 0, s, -jnp.inf)
    out = jnp.einsum("bhst,bhte->bhse", jax.nn.softmax(s, -1), v)
    return (out**2).sum() + (jax.nn.logsumexp(s, -1) ** 2).sum()


def test_gradients_of_attention():
    found = jax.jit(jax.grad(loss, (0, 1, 2)))(Q, K, V)
    wanted = jax.grad(loss_of_jax, (0, 1, 2))(*(x.astype(jnp.float32) for x in (Q, K, V)))
    for mine, other in zip(found, wanted, strict=True):
        assert jnp.abs(mine - other).max() <= 2e-3 * jnp.abs(other).max()


@LONG
def test_gradients_of_attention_computed_again_and_of_elements():
    found = jax.grad(loss, (0, 1, 2))(Q, K, V)
    again = jax.grad(jax.remat(loss), (0, 1, 2))(Q, K, V)
    for mine, other in zip(again, found, strict=True):
        np.testing.assert_array_equal(mine, other)
    many = jax.vmap(jax.grad(loss))(*(jnp.stack([x, x]) for x in (Q, K, V)))
    np.testing.assert_array_equal(many[1], found[0])


def test_what_has_no_gradient_is_refused_with_a_remedy():
    with pytest.raises(NotImplementedError, match=r"do: expected no gradient.*stop_gradient"):
        jax.grad(lambda q: jax.grad(loss)(q, K, V).astype(jnp.float32).sum())(Q)
    small = [x.astype(jnp.float8_e4m3fn) for x in (Q, K, V)]
    with pytest.raises(TypeError, match=r"q: expected f16 or bf16 where a gradient is taken"):
        jax.grad(lambda q: cj.attention(q, *small[1:]).astype(jnp.float32).sum())(small[0])
    with pytest.raises(ValueError, match="q: expected 4 dimensions"):
        jax.jit(cj.attention)(Q[0], K, V)


@cj.op({"Y": lambda X: jax.ShapeDtypeStruct(X.shape, X.dtype)})
@cute.kernel
def scaled(X, Y, factor, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * factor, cute.local_tile(Y, tile, at))


def test_a_kernel_is_a_function():
    np.testing.assert_array_equal(scaled(X, 3.0), X * 3)
    np.testing.assert_array_equal(jax.jit(lambda x: scaled(x + 1, 2.0, tile=(8, 32)))(X), X * 2 + 2)
    np.testing.assert_array_equal(jax.vmap(lambda x: scaled(x, 2.0))(jnp.stack([X, X])),
                                  jnp.stack([X, X]) * 2)  # fmt: skip


@cj.op({"Y": lambda X, M: X, "N": lambda X, M: M})
@cute.kernel
def kept(X, M, Y, N, *, tile=(16, 16)):
    """Y: X where M holds, else 7; N: not M."""
    at = cute.tile_index(Y, tile)
    x, m = (cute.load(cute.local_tile(each, tile, at)) for each in (X, M))
    cute.copy(cute.where(m, x, 7), cute.local_tile(Y, tile, at))
    cute.copy(~m, cute.local_tile(N, tile, at))


@pytest.mark.parametrize("dtype", [jnp.int16, jnp.uint16, jnp.uint32])
def test_integers_of_any_width_and_conditions(dtype):
    m = X > 11
    y, n = jax.jit(kept)(X.astype(dtype), m)
    assert (y.dtype, n.dtype) == (dtype, jnp.bool_)
    np.testing.assert_array_equal(y, jnp.where(m, X, 7))
    np.testing.assert_array_equal(n, ~m)


def test_outputs_that_are_not_declared_are_refused():
    with pytest.raises(ValueError, match="outputs: expected parameters of"):
        cj.op({"Q": lambda X: X})(cute.kernel(lambda X, Y: None))

    @cj.op({"Z": lambda X: jax.ShapeDtypeStruct(X.shape, X.dtype)})
    @cute.kernel
    def two(X, Y, Z):
        at = cute.tile_index(Y, (16, 16))
        value = cute.load(cute.local_tile(X, (16, 16), at))
        cute.copy(value, cute.local_tile(Y, (16, 16), at))
        cute.copy(value, cute.local_tile(Z, (16, 16), at))

    with pytest.raises(Exception, match=r"outputs: expected 'Y', which two writes|read-only"):
        jax.block_until_ready(two(X, X))


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
import cutedialect.jax as cj
a = jnp.ones((16, 16), jnp.float16)
np.testing.assert_array_equal(jax.jit(lambda a: cj.gemm(a, a, alpha=0.5))(a), 8)
"""


@pytest.mark.long
def test_an_executable_kept_on_disk_means_the_same_in_another_process(tmp_path):
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            env=os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)},
        )

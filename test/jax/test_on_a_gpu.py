"""The functions of JAX on a GPU: where there is one that JAX sees."""

import pytest

jax = pytest.importorskip("jax")
if jax.default_backend() != "gpu":
    pytest.skip("needs a GPU that JAX sees", allow_module_level=True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.jax as cj  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.long]
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_gpu(on_the_host, monkeypatch):
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)


def drawn(*shape):
    return jnp.asarray(RANDOM.integers(-2, 3, shape), jnp.float16)


def test_values_and_gradients_under_jit():
    a, b = drawn(96, 64), drawn(64, 80)
    want = a.astype(jnp.float32) @ b.astype(jnp.float32)
    assert (jax.jit(cj.gemm)(a, b) == want).all()

    def loss(b):
        return cj.gemm(a, b, activation="relu").astype(jnp.float32).sum()

    gradient = jax.jit(jax.grad(loss))(b)
    assert (gradient == a.astype(jnp.float32).T @ (want > 0).astype(jnp.float32)).all()
    batched = jax.jit(jax.vmap(lambda x: cj.gemm(x, b)))(jnp.stack([a, 2 * a]))
    assert (batched[1] == 2 * want).all()


def test_attention_and_an_operator():
    q = drawn(1, 2, 64, 64)
    found = jax.jit(lambda q: cj.attention(q, q, q, causal=True))(q)
    assert (np.asarray(found) == np.asarray(cute.attention(q, q, q, causal=True))).all()

    @cj.op({"Y": lambda X: jax.ShapeDtypeStruct(X.shape, X.dtype)})
    @cute.kernel
    def doubled(X, Y, *, tile=(16, 16)):
        at = cute.tile_index(Y, tile)
        cute.copy(cute.load(cute.local_tile(X, tile, at)) * 2.0, cute.local_tile(Y, tile, at))

    assert (jax.jit(doubled)(q[0, 0]) == 2 * q[0, 0]).all()


def test_direct_calls():
    a, b = drawn(96, 64), drawn(64, 80)
    result = cute.gemm(a, b)
    assert isinstance(result, jax.Array)
    assert result.devices() == a.devices()
    assert (result == a.astype(jnp.float32) @ b.astype(jnp.float32)).all()
    with pytest.raises(ValueError, match="immutable"):
        cute.gemm(a, b, out=result)
    with pytest.raises(TypeError, match=r"cutedialect\.jax"):
        jax.jit(lambda a: cute.gemm(a, b))(a)

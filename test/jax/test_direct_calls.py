"""JAX arrays in calls that JAX does not know of: they are read where they lie and never written,
results are JAX arrays, and what JAX traces is refused with a remedy.
"""

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import cutedialect as cute  # noqa: E402


def drawn(*shape, dtype=jnp.float16, seed=0):
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), dtype)


A, B = drawn(16, 32), drawn(32, 16, seed=1)
Q = drawn(1, 2, 16, 16)


@cute.kernel
def doubled(X, Y):
    at = cute.tile_index(Y, (16, 16))
    cute.copy(cute.load(cute.local_tile(X, (16, 16), at)) * 2.0, cute.local_tile(Y, (16, 16), at))


def test_results_are_jax_arrays_on_the_device_of_the_operands():
    result = cute.gemm(A, B)
    assert isinstance(result, jax.Array)
    assert result.devices() == A.devices()
    np.testing.assert_array_equal(result, A @ B)
    for each in cute.grouped_gemm([A, A], [B, B]):
        assert isinstance(each, jax.Array)
    out, lse = cute.attention(Q, Q, Q, return_lse=True)
    assert isinstance(out, jax.Array)
    assert isinstance(lse, jax.Array)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_types_keep_their_type(dtype):
    a, b = drawn(16, 32, dtype=dtype), drawn(32, 16, dtype=dtype, seed=1)
    result = cute.gemm(a, b, out_dtype=dtype, arch="sm_89")
    assert result.dtype == getattr(ml_dtypes, dtype)
    if dtype == "bfloat16":
        np.testing.assert_array_equal(result, a @ b)


def test_views_of_operands_are_no_copies_of_jax():
    stacked = jnp.stack([A, A + 1])
    np.testing.assert_array_equal(cute.gemm(stacked, B), stacked @ B)
    np.testing.assert_array_equal(cute.gemm(A, B, bias=B[0], activation="relu"),
                                  jnp.maximum(A @ B + B[0], 0))  # fmt: skip


@pytest.mark.parametrize("name", ["out", "aux"])
def test_an_immutable_output_is_refused(name):
    out = jnp.zeros((16, 16), jnp.float16)
    with pytest.raises(ValueError, match=f"{name}: expected no JAX array, which is immutable"):
        cute.gemm(A, B, **{name: out})
    with pytest.raises(ValueError, match=f"{name}: expected no JAX array, which is immutable"):
        cute.gemm(np.asarray(A), np.asarray(B), **{name: out})
    with pytest.raises(ValueError, match=f"{name}: expected no JAX array"):
        cute.grouped_gemm([A], [B], **{name: [out]})
    assert not out.any()


def test_a_kernel_reads_jax_arrays_and_does_not_write_them():
    x, y = drawn(16, 16), np.zeros((16, 16), np.float16)
    doubled(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    frozen = jnp.zeros((16, 16), jnp.float16)
    with pytest.raises(ValueError, match="Y: expected a writable array, got a read-only one"):
        doubled(x, frozen)
    assert not frozen.any()


def test_an_output_of_another_library_is_handed_back():
    out = np.zeros((16, 16), np.float16)
    assert cute.gemm(A, B, out=out) is out
    np.testing.assert_array_equal(out, A @ B)


@pytest.mark.parametrize(
    "transform", [jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum()), jax.make_jaxpr]
)
@pytest.mark.parametrize("call", [lambda a: cute.gemm(a, B), lambda a: cute.grouped_gemm([a], [B])])
def test_tracing_is_refused_with_a_remedy(transform, call):
    with pytest.raises(TypeError, match=r"^a\w*(\[0\])?: expected an array, .* cutedialect\.jax"):
        transform(call)(A[None])


def test_names_are_those_of_the_call():
    with pytest.raises(TypeError, match=r"^b: expected f16 as in a, got f32"):
        cute.gemm(A, B.astype(jnp.float32))


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.float16, jnp.float8_e4m3fn])
def test_a_scale_of_the_host_is_a_scale(dtype):
    """It decides the result's type, though it is multiplied as part of alpha."""
    a, b = drawn(16, 32).astype(dtype), drawn(32, 16, seed=1).astype(dtype)
    options = {"alpha": 3.0, "arch": "sm_89"}
    want = cute.gemm(np.asarray(a), np.asarray(b), scale_a=0.5, **options)
    made = cute.gemm(a, b, scale_a=0.5, **options)
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(made), want)
    (made,) = cute.grouped_gemm([a], [b], scale_b=0.5, **options)
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(made), want)


def test_a_mistake_is_shown_where_it_was_made():
    with pytest.raises(TypeError) as caught:
        cute.gemm(A, B.astype(jnp.float32))
    assert not any("jax_arrays" in str(entry.path) for entry in caught.traceback)


@pytest.mark.parametrize("made", [lambda: A.astype(jnp.int4), lambda: jax.random.key(0)])
def test_elements_that_dlpack_does_not_hand_out_are_refused(made):
    odd = made()
    with pytest.raises(
        TypeError, match=r"^a: expected elements that DLPack hands out, got an array of"
    ):
        cute.gemm(odd, B)
    with pytest.raises(TypeError, match=r"^as_\[1\]: expected elements that DLPack hands out"):
        cute.grouped_gemm([A, odd], [B, B])


def test_results_beside_tensors_of_torch_belong_to_the_library_of_the_first():
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(np.array(each)) for each in (A, B))
    for first, second, kind in ((a, B, torch.Tensor), (A, b, jax.Array)):
        (listed,) = cute.grouped_gemm([first], [second], backend="emulator")
        for result in (cute.gemm(first, second, backend="emulator"), listed):
            assert isinstance(result, kind)
            np.testing.assert_array_equal(np.asarray(result), A @ B)

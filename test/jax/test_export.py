"""`jax.export` with symbols for extents: one exported program for many shapes."""

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export  # noqa: E402

import cutedialect.jax as cj  # noqa: E402

CHECKS = [export.DisabledSafetyCheck.custom_call("cutedialect_call")]


def exported(function, *shapes):
    """The program for symbolic shapes, as it is read back where JAX can write it."""
    given = [jax.ShapeDtypeStruct(shape, jnp.float16) for shape in shapes]
    made = export.export(jax.jit(function), disabled_checks=CHECKS)(*given)
    try:
        return export.deserialize(made.serialize())
    except ImportError:  # flatbuffers is no requirement of JAX
        return made


def test_a_product_of_any_rows_and_depth(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    m, k = export.symbolic_shape("m, k")
    program = exported(lambda a, b: cj.gemm(a, b, activation="relu"), (m, 8 * k), (8 * k, 48))
    rng = np.random.default_rng(0)
    for rows, depth in ((16, 32), (40, 16)):
        a = rng.integers(-2, 3, (rows, depth)).astype(np.float16)
        b = rng.integers(-2, 3, (depth, 48)).astype(np.float16)
        np.testing.assert_array_equal(program.call(a, b), np.maximum(a.astype(float) @ b, 0))


def test_attention_of_any_lengths(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    s, t = export.symbolic_shape("s, t")
    program = exported(cj.attention, (1, 2, s, 16), (1, 2, t, 16), (1, 2, t, 16))
    rng = np.random.default_rng(0)
    for rows, keys in ((8, 16), (24, 40)):
        q, k, v = (
            rng.standard_normal((1, 2, length, 16)).astype(np.float16)
            for length in (rows, keys, keys)
        )
        weights = np.exp(q.astype(float) @ k.astype(float).swapaxes(2, 3) / 4)
        exact = weights / weights.sum(-1, keepdims=True) @ v.astype(float)
        np.testing.assert_allclose(np.asarray(program.call(q, k, v)), exact, atol=2e-3)

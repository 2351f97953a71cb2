"""A made-up call of two operands: of its declaration and its program follow the function, what is
compiled without running, operators of torch, a function of JAX, stubs and the reference.
"""

import inspect
import runpy
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend import calls
from cutedialect.frontend.rules import default_rules
from cutedialect.frontend.signature import (
    ARCH,
    BACKEND,
    DTYPE,
    NUMBER,
    OUTPUT,
    REQUIRED,
    SCHEDULE,
    STREAM,
    TENSOR,
    Call,
    Output,
    Parameter,
)

ROOT = Path(__file__).parents[2]
DECLARED = Call(
    "weighted",
    """x + weight y of x and y (R, C).""",
    (
        Parameter("x", TENSOR, REQUIRED, "the first term (R, C)", modes="R C",
                  rank="2 dimensions (rows, columns)", dtypes=("f16", "f32")),
        Parameter("y", TENSOR, REQUIRED, "the second term (R, C)", modes="R C"),
        Parameter("weight", NUMBER, 1.0, "the factor of y"),
        Parameter("out", OUTPUT, None, "what gets the result", modes="R C"),
        Parameter("out_dtype", DTYPE, None, "the element type of the result"),
        Parameter("arch", ARCH, None, "the target"),
        Parameter("schedule", SCHEDULE, None, "how it is computed"),
        Parameter("backend", BACKEND, "auto", "what runs it"),
        Parameter("stream", STREAM, None, "the stream of the launch"),
    ),
    outputs=(Output("out", "R C"),),
    program=f"{__name__}:program",
    fits={"C": "{want} columns as in {of}, got {got}"},
)  # fmt: skip


@cute.kernel
def program(X, Y, Z, weight):
    tile = (16, 32)
    at = cute.tile_index(Z, tile)
    x, y = (cute.load(cute.local_tile(each, tile, at)).to(cute.f32) for each in (X, Y))
    cute.copy((x + y * weight).to(Z.dtype), cute.local_tile(Z, tile, at))


DOOR = calls.plain_doors([DECLARED])["weighted"]
weighted = calls.weighted  # pyright: ignore[reportAttributeAccessIssue]
X, Y = np.arange(600, dtype=np.float32).reshape(20, 30) % 7, np.full((20, 30), 3, np.float32)
HOST = {"arch": "sm_80", "backend": "emulator"}


def test_the_function():
    assert list(inspect.signature(weighted).parameters) == list(DECLARED.by_name)
    assert (weighted(X, Y, **HOST) == X + Y).all()
    out = np.zeros((20, 30), np.float16)
    for weight in (2, 0.5):
        assert weighted(X, Y, weight=weight, out=out, **HOST) is out
        assert (out == X + weight * Y).all()
    assert weighted(X[:0], Y[:0], **HOST).shape == (0, 30)
    assert weighted(X, Y, out_dtype="f16", **HOST).dtype == np.float16


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": Y[:, :8]}, ValueError, "y: expected 30 columns as in x, got 8"),
        ({"y": Y[:8]}, ValueError, r"y: expected shape \(20, 30\), got \(8, 30\)"),
        ({"x": X[0]}, ValueError, r"x: expected 2 dimensions \(rows, columns\), got shape \(30,\)"),
        ({"x": X.astype(np.int32)}, TypeError, "x: expected f16 or f32, got i32"),
        ({"y": 3}, TypeError, "y: expected an array, got int"),
        ({"weight": "2"}, TypeError, "weight: expected a number, got str"),
        ({"out": X[:8]}, ValueError, r"out: expected shape \(20, 30\), got \(8, 30\)"),
        ({"out": Y}, ValueError, "out: expected memory of its own, got an array that overlaps y"),
        ({"out": X.T}, ValueError, r"out: expected shape \(20, 30\), got \(30, 20\)"),
        ({"arch": "sm_1"}, ValueError, "arch: expected one of"),
    ],
)
def test_mistakes_have_the_words_of_the_declaration(given, error, message):
    with pytest.raises(error, match=f"^{message}"):
        weighted(**({"x": X, "y": Y} | HOST | given))


def test_what_is_compiled_without_running():
    spec = cute.TensorSpec((None, 64), "f16")
    kernel = cute.compile(weighted, spec, spec, arch="sm_90a")
    assert ".target sm_90a" in kernel.ptx
    with pytest.raises(ValueError, match="y: expected 64 columns as in x, got 32"):
        cute.compile(weighted, spec, cute.TensorSpec((None, 32), "f16"))


def test_stubs_and_the_reference(monkeypatch):
    monkeypatch.setattr("cutedialect.frontend.declarations.CALLS", (DECLARED,))
    made = runpy.run_path(str(ROOT / ".ci" / "typed_calls.py"))
    assert "x: torch.Tensor, y: torch.Tensor, *, weight: float = 1.0," in made["stubs"]("torch")
    assert "- `weight = 1.0`: the factor of y." in made["page"]()


def test_rows_of_a_call_without_rows_of_its_own():
    names = [rule.name for rule in default_rules(DECLARED)]
    assert names == ["x", "y", "x", "y", "out_dtype", "out"]


def test_torch_and_its_operators(monkeypatch):
    torch = pytest.importorskip("torch")
    declared = pytest.importorskip("cutedialect.torch.declared")
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    names = {"__name__": __name__}
    function = declared.Operator(DOOR, declared.Own()).function(names)
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    torch.testing.assert_close(function(x, y, weight=2.0), x + 2 * y)
    compiled = torch.compile(lambda x, y: function(x, y) * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), 2 * (x + y))
    torch.library.opcheck(torch.ops.cutedialect.weighted.default, (x, y))
    with pytest.raises(ValueError, match="y: expected 30 columns as in x, got 8"):
        function(x.to("meta"), y[:, :8].to("meta"))
    with pytest.raises(RuntimeError, match="expected tensors without gradient"):
        function(x.clone().requires_grad_(), y)


def test_jax(monkeypatch):
    jax = pytest.importorskip("jax")
    declared = pytest.importorskip("cutedialect.jax.declared")
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    monkeypatch.setitem(calls.DOORS, "weighted", DOOR)
    function = declared.Function(DOOR, declared.Own()).function(__name__)
    made = jax.jit(lambda x, y: function(x, y, weight=2.0))(X, Y)
    np.testing.assert_array_equal(made, X + 2 * Y)
    with pytest.raises(ValueError, match="y: expected 30 columns as in x, got 8"):
        jax.jit(function)(X, Y[:, :8])
    with pytest.raises(NotImplementedError, match="expected no gradient to be taken"):
        jax.grad(lambda x: function(x, Y).sum())(X)

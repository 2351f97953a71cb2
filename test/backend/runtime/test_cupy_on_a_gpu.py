"""Launches through CuPy on a real device: PTX and machine code, compared with the driver's launch
of the same kernel, bit for bit. Where there is a GPU and CuPy.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.driver import driver, find_driver

if find_driver() is None:
    pytest.skip("needs a GPU", allow_module_level=True)
cupy = pytest.importorskip("cupy")

pytestmark = [pytest.mark.gpu, pytest.mark.long]

CAPABILITY = driver().capability(0)
FORMS = ["cupy", "cupy-cubin"]
ARCHS = ["sm_80", pytest.param("sm_90a", marks=pytest.mark.skipif(CAPABILITY != "90", reason="no"))]


@cute.kernel
def raised(X, Y, amount, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, at)) + amount, cute.local_tile(Y, tile, at))


@cute.kernel
def bounded(X):
    mine = cute.local_tile(X, (64,), (0,))
    tile = mine.load()
    cute.assert_(tile < 100.0, "expected small numbers")  # noqa: PT009
    cute.copy(tile + 1.0, mine)


def drawn(seed: int, *shape: int, dtype: Any = np.float16) -> Any:
    generator = np.random.default_rng(seed)
    return cupy.asarray(generator.standard_normal(shape).astype(np.float32).astype(dtype))


def alike(got: Any, wanted: Any) -> bool:
    """Whether all bits are the same."""
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    return cupy.array_equal(got.view(bits), wanted.view(bits))


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "schedule",
    [
        None,
        "split_k = 4, reduction = ordered",
        "split_k = 2, reduction = atomic",
        "scheduler = persistent",
        "scheduler = stream",
    ],
)
def test_a_multiply(backend: Any, arch: str, schedule: str | None) -> None:
    """Workspaces, zeroed ones too, and dynamic shared memory above 48 KB."""
    a, b = drawn(0, 500, 1024), drawn(1, 1024, 264)
    if schedule is not None and arch == "sm_80":
        # Four warps, the default, leave a thread no register: assembled for sm_90 they spill.
        schedule += ", warps = (4,2)"
    if schedule is not None and "atomic" in schedule:  # sums in an order of their own
        a, b = cupy.rint(a), cupy.rint(b)
    options = {"arch": arch, "schedule": schedule, "out_dtype": cute.f32}
    wanted = cute.gemm(a, b, backend="cuda", **options)
    for _ in range(3):
        assert alike(cute.gemm(a, b, backend=backend, **options), wanted)
    exact = a.astype(cupy.float64) @ b.astype(cupy.float64)
    assert cupy.abs(wanted - exact).max() < 0.05


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.skipif(CAPABILITY != "90", reason="a schedule of sm_90a")
@pytest.mark.parametrize(
    "schedule",
    [
        "roles = specialized, warps = (8,1), cluster = (2,1), stages = 4, epilogue = tma",
        "roles = specialized, warps = (8,1), scheduler = dynamic, early_launch = no",
        "roles = specialized, warps = (4,1), tile = (64,128,64), cluster = (4,4)",
        "roles = specialized, warps = (8,1), early_launch = yes",
    ],
)
def test_clusters_maps_and_early_launches(backend: Any, schedule: str) -> None:
    a, b = drawn(2, 1024, 512), drawn(3, 512, 1024)
    wanted = cute.gemm(a, b, backend="cuda", schedule=schedule)
    got = [cute.gemm(a, b, backend=backend, schedule=schedule) for _ in range(3)]
    assert all(alike(each, wanted) for each in got)
    kernel = cute.compile(cute.gemm, a, b, backend=backend, schedule=schedule)
    said = [each for each in kernel.remarks if each.pass_name == "cupy"]
    assert bool(said) == (cute.Schedule.parse(kernel.schedule).early_launch == "yes")


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize(
    ("queries", "keys", "options"),
    [
        ((2, 4, 300, 128), (2, 2, 300, 128), {"causal": True}),
        ((1, 8, 1, 128), (1, 2, 4000, 128), {}),
        ((1, 2, 256, 64), (1, 2, 256, 64), {"return_lse": True}),
    ],
)
def test_attention(backend: Any, queries: Any, keys: Any, options: Any) -> None:
    """One kernel, or two of which the second one merges what the first one left in a workspace."""
    q, k, v = drawn(4, *queries), drawn(5, *keys), drawn(6, *keys)
    wanted = cute.attention(q, k, v, backend="cuda", **options)
    got = cute.attention(q, k, v, backend=backend, **options)
    if not options.get("return_lse"):
        wanted, got = (wanted,), (got,)
    assert all(map(alike, got, wanted))


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_group(backend: Any, arch: Any) -> None:
    """Tables in device memory, of tensor maps where the target has them."""
    sizes = ((300, 200, 96), (64, 64, 64), (129, 72, 200))
    a = [drawn(at, m, k) for at, (m, _, k) in enumerate(sizes)]
    b = [drawn(at + 9, k, n) for at, (_, n, k) in enumerate(sizes)]
    wanted = cute.grouped_gemm(a, b, backend="cuda", arch=arch)
    got = cute.grouped_gemm(a, b, backend=backend, arch=arch)
    assert all(map(alike, got, wanted))


@pytest.mark.parametrize("backend", FORMS)
def test_cupys_current_stream(backend: Any) -> None:
    x, y = drawn(7, 4096, 4096, dtype=np.float32), cupy.zeros((4096, 4096), cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    kernel = cute.compile(raised, x, y, 1.0, tile=(32, 64))
    kernel.launch(x, y, 1.0, backend=backend)
    cupy.cuda.runtime.deviceSynchronize()
    wanted = x + 5
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(5):  # each behind the one before, and behind CuPy's own work
            kernel.launch(x, y, 1.0, backend=backend)
            x[...] = y
        stream.synchronize()
    assert cupy.allclose(x, wanted, atol=1e-5)
    other = cupy.cuda.Stream(non_blocking=True)
    kernel.launch(x, y, 2.0, stream=other, backend=backend)
    other.synchronize()
    assert alike(y, x + cupy.float32(2))


@pytest.mark.parametrize("backend", FORMS)
def test_a_graph(backend: Any) -> None:
    x, y = drawn(8, 64, 48, dtype=np.float32), cupy.zeros((64, 48), cupy.float32)
    kernel = cute.compile(raised, x, y, 1.0, backend=backend).warmup()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        kernel.launch(x, y, 3.0)
        graph = stream.end_capture()
        x[...] = 1
        graph.launch()
        stream.synchronize()
    assert (y == 4).all()


@pytest.mark.parametrize("backend", FORMS)
def test_out_of_the_context_of_somebody_else(backend: Any) -> None:
    found, x, y = driver(), drawn(9, 64, 48, dtype=np.float32), drawn(10, 64, 48, dtype=np.float32)
    kernel = cute.compile(raised, x, y, 1.0, backend=backend)
    kernel.launch(x, y, 1.0)
    other = ctypes.c_void_p()
    found.call("cuCtxCreate_v2", ctypes.byref(other), ctypes.c_uint(0), ctypes.c_int(0))
    try:
        kernel.launch(x, y, 2.0)
        assert found.current_context() == other.value
    finally:
        found.call("cuCtxDestroy_v2", other)
    assert alike(y, x + cupy.float32(2))


@pytest.mark.parametrize("backend", FORMS)
def test_a_failed_assertion(backend: Any) -> None:
    x = np.zeros(64, np.float32)
    kernel = cute.compile(bounded, x, backend=backend)
    kernel.launch(x)
    assert (x == 1).all()
    x[5] = 200
    with pytest.raises(cute.KernelAssertionError, match="expected small numbers"):
        kernel.launch(x)


@pytest.mark.parametrize("form", ["ptx", "cubin"])
@pytest.mark.parametrize("arch", ["sm_80", None])
def test_by_hand(form: Any, arch: Any) -> None:
    spec = cute.TensorSpec((64, 48), cute.f32)
    kernel = cute.compile(raised, spec, spec, 1.0, arch=arch)
    x, y = drawn(11, 64, 48, dtype=np.float32), cupy.zeros((64, 48), cupy.float32)
    (entry,) = kernel.program.entries.values()
    function = kernel.raw_module(form).get_function(entry.name)
    # What the driver counted of that kernel, which adds and copies without a spill.
    assert 0 < function.num_regs <= 255
    assert function.local_size_bytes == 0
    row_major = [(array, (64, 48), (48, 1)) for array in (x, y)]
    (launch,) = kernel.program.plan.run([*row_major, 2.0], 1)
    types = {"ptr": lambda array: array, "i32": np.int32, "i64": np.int64, "f32": np.float32}
    given = zip(kernel.program.plan.types[entry.name], launch.arguments, strict=True)
    arguments = tuple(types[type_](value) for type_, value in given)
    function(launch.grid, (launch.block,), arguments, shared_mem=launch.smem)
    assert alike(y, x + cupy.float32(2))


@pytest.mark.parametrize("form", ["ptx", "cubin"])
def test_kernels_of_a_module_have_opted_in(form: Any) -> None:
    """Whoever asks for a kernel gets it with the shared memory that it is launched with."""
    q, k, v = drawn(12, 1, 8, 1, 128), drawn(13, 1, 2, 4000, 128), drawn(14, 1, 2, 4000, 128)
    a, b = drawn(15, 512, 512), drawn(16, 512, 512)
    two = cute.compile(cute.attention, q, k, v)
    assert len(two.program.plan.types) == 2
    for kernel in (two, cute.compile(cute.gemm, a, b, arch="sm_80")):
        module = kernel.raw_module(form)
        for name, size in kernel.program.plan.smem.items():
            allowed = module.get_function(name).max_dynamic_shared_size_bytes
            assert allowed >= size
    assert max(kernel.program.plan.smem.values()) > 48 * 1024


TUNES = """
import sys
sys.modules["cupy"] = None
import cutedialect as cute
try:
    import torch
except ImportError:
    a = b = cute.TensorSpec((512, 512), cute.f16)
else:
    a, b = (torch.randn(512, 512, dtype=torch.float16, device="cuda") for _ in range(2))
configs = [None, "warps = (2,2), stages = 3"]
best = cute.autotune(cute.gemm, a, b, configs=configs, rounds=5, again=True, arch="sm_80")
print(type(best).__name__)
"""


def test_schedules_are_timed_without_cupy() -> None:
    done = subprocess.run([sys.executable, "-c", TUNES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Schedule\n"
    assert "autotune:" not in done.stderr

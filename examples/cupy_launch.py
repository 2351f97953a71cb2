"""Kernels that CuPy loads and launches, on its arrays: a matrix multiply for sm_80 and for sm_90a,
causal attention, and a kernel that is launched by hand.

With `backend="cupy"` the PTX text goes to `cupy.RawModule`, and the kernel, a `cupy.RawKernel`,
gets its arguments by value: addresses, extents, and for sm_90a tensor maps of 128 bytes; clusters
and shared memory are asked for as well. Without CuPy or a GPU the same PTX runs in the emulator.
"""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec

import numpy as np

import cutedialect as cute
from cutedialect.backend import emulator

# TMA, wgmma, and clusters of two CTAs that share their tiles of B; cp.async and mma.sync.
SCHEDULES = {
    "sm_90a": "roles = specialized, warps = (4,1), cluster = (2,1), stages = 3",
    "sm_80": "warps = (2,2), stages = 3",
}


@cute.kernel
def gemm_relu(A, B, C, *, tile=(64, 64, 32)):
    """C = max(A B, 0); every tile of C is one work item."""
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    gA, gB = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gA.tiles):
        cute.gemm(gA[k], gB[k], acc)
    cute.copy(cute.relu(acc).to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


@cute.kernel
def saxpy(x, y, a, *, tile=1024):
    """y = a x + y."""
    i = cute.tile_index(y, (tile,))
    mine = cute.local_tile(y, (tile,), (i,))
    cute.copy(a * cute.load(cute.local_tile(x, (tile,), (i,))) + mine.load(), mine)


class Place:
    """Where kernels run: on CuPy's current device, or in the emulator, for want of one."""

    def __init__(self):
        self.cupy, self.capability = None, ""
        if find_spec("cupy") is None:
            self.name = "the emulator, as CuPy is not installed"
            return
        import cupy  # pyright: ignore[reportMissingImports]

        if not cupy.cuda.is_available():
            self.name = "the emulator, as CuPy finds no GPU"
            return
        self.cupy, self.capability = cupy, cupy.cuda.Device().compute_capability
        self.name = f"device {cupy.cuda.Device().id}, through CuPy {cupy.__version__}"

    @property
    def backend(self):
        return "emulator" if self.cupy is None else "cupy"

    def runs(self, arch):
        """sm_90a is for compute capability 9.0 alone; the driver assembles sm_80 for later ones."""
        return self.cupy is None or arch == "sm_80" or self.capability == "90"

    def array(self, host):
        return host if self.cupy is None else self.cupy.asarray(host)

    def host(self, array):
        return array if self.cupy is None else self.cupy.asnumpy(array)


def multiply(place, arch, m=200, n=136, k=104):
    """Whether integers are multiplied exactly, on a stream that is not the default one."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    A, B, C = (place.array(each) for each in (a, b, np.zeros((m, n), np.float16)))
    kernel = cute.compile(gemm_relu, A, B, C, arch=arch, schedule=SCHEDULES[arch])
    if place.cupy is None:
        kernel.launch(A, B, C, backend="emulator")
    else:
        # Launches go to CuPy's current stream, or to `stream=`.
        with place.cupy.cuda.Stream(non_blocking=True) as stream:
            stream.wait_event(place.cupy.cuda.Stream.null.record())
            kernel.launch(A, B, C, backend="cupy")
            stream.synchronize()
    return np.array_equal(place.host(C), np.maximum(a.astype(np.float64) @ b, 0))


def attend(place, heads=2, tokens=100, d=64):
    """The largest error of causal attention; a function of the library is called alike."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, heads, tokens, d)).astype(np.float16) for _ in range(3))
    out = cute.attention(*map(place.array, (q, k, v)), causal=True, backend=place.backend)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / math.sqrt(d)
    p = np.exp(np.where(np.tri(tokens, dtype=bool), s, -np.inf))
    return np.abs(place.host(out) - p @ v.astype(np.float64) / p.sum(-1, keepdims=True)).max()


def by_hand(place, n=5000):
    """Whether a kernel that CuPy launches alone is right: an array goes as its address and, where
    its extent is a run-time value, a number of 32 bits.
    """
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    X, Y = place.array(x), place.array(y.copy())
    spec = cute.TensorSpec((None,), cute.f32)
    kernel = cute.compile(saxpy, spec, spec, 2.0, arch="sm_80", schedule="warps = (2,1)")
    grid, block = (-(-n // 1024),), (64,)
    arguments = (X, np.int32(n), Y, np.int32(n), np.float32(2))
    if place.cupy is None:
        emulator.launch(kernel.ptx, "saxpy", grid, block, arguments)
    else:
        kernel.raw_module().get_function("saxpy")(grid, block, arguments)
    return np.array_equal(place.host(Y), 2 * x + y)


def main() -> int:
    place = Place()
    print(f"on {place.name}:")
    good = True
    for arch in SCHEDULES:
        if not place.runs(arch):
            print(f"  GEMM for {arch}: not for compute capability {place.capability}")
            continue
        exact = multiply(place, arch)
        good &= exact
        print(f"  GEMM for {arch}: {'exact' if exact else 'WRONG'}")
    error = attend(place)
    good &= bool(error < 4e-3)
    print(f"  causal attention: error {error:.1e}")
    right = by_hand(place)
    good &= right
    print(f"  saxpy, launched by hand: {'exact' if right else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

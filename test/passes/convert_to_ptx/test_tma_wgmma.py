"""Roles, rings, TMA copies and wgmma: a persistent matrix multiply at thread level, for each layout
of its operands, run on the emulator against numpy.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cutedialect.backend.emulator import launch
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import PtxasNotFoundError

# Per operand: strides of (rows, depth) in memory, box, layout of a 64 x 64 tile in a ring of 3.
ROWS = "(?,?):(?{i64 div=8},1)"
COLUMNS = "(?,?):(1,?{i64 div=8})"
STAGED = "(64,64,3):(64,1,4096)"
STAGED_MN = "(64,64,3):(1,64,4096)"
TILE = "(64,64):(64,1)"
TILE_MN = "(64,64):(1,64)"
FRAGMENT = "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),64,4096))"


def operand(major: str, element: str) -> SimpleNamespace:
    """Types of an operand of (rows, depth), K- or MN-major."""
    whole = ROWS if major == "K" else COLUMNS
    local = whole.replace("(?,?)", "(64,64)")
    staged, tile = (STAGED, TILE) if major == "K" else (STAGED_MN, TILE_MN)
    smem = f"!cute.memref<{element}, smem, align<1024>, S<3,4,3>, "
    return SimpleNamespace(
        whole=f'!cute.memref<{element}, gmem, align<16>, "{whole}">',
        local=f'!cute.memref<{element}, gmem, align<16>, "{local}">',
        ring=f'{smem}"{staged}">',
        stage=f'{smem}"{tile}">',
    )


def gemm_kernel(a_major: str = "K", b_major: str = "K", element: str = "f16", cluster: int = 1):
    """D (M,N) = A (M,K) B (N,K)^T: a work item is a tile of 64 x 64; `cluster` CTAs share B."""
    a, b = operand(a_major, element), operand(b_major, element)
    d = operand("K", element)
    smem = f'!cute.memref<{element}, smem, align<1024>, S<3,4,3>, "{TILE}">'
    # CTAs divide the mode that is not contiguous.
    part = 64 // cluster
    box_b = f"({part},64)" if b_major == "K" else f"(64,{part})"
    map_ = f"!cute_nvgpu.tma_descriptor<{element}, (64,64), S<3,4,3>>"
    map_b = f"!cute_nvgpu.tma_descriptor<{element}, {box_b}, S<3,4,3>>"
    share = f", multicast = {cluster}:1" if cluster > 1 else ""
    peers = f", peers = array<i64: {cluster}, 1>" if cluster > 1 else ""
    attributes = f", cluster = {cluster} : i32" if cluster > 1 else ""
    acc = f'!cute.fragment<f32, "(64,64)", "{FRAGMENT}">'
    packed = f'!cute.fragment<{element}, "(64,64)", "{FRAGMENT}">'
    atom = f"!cute_nvgpu.sm90.mma<64x64x16, elem_type = ({element}, {element}, f32), a = smem>"
    ring, state = "!pipeline.ring<3>", "!pipeline.state<3>"
    scalars = f"""
    %size = arith.constant {cluster} : i32
    %block = cute.block_idx x
    %grid = cute.grid_dim x
    %columns = cute.dim %B, 0 : {b.whole}
    %depth = cute.dim %A, 1 : {a.whole}
    %c64 = arith.constant 64 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %trips = arith.ceildivsi %depth, %c64 : i32
    %items = arith.ceildivsi %columns, %c64 : i32
    %first = arith.divsi %block, %size : i32
    %rank = arith.remsi %block, %size : i32
    %step = arith.divsi %grid, %size : i32"""
    return f"""
cute.kernel @k(%A: {a.whole}, %B: {b.whole}, %D: {d.whole}, %tA: {map_}, %tB: {map_b}, %tD: {map_})
    attributes {{threads = 256 : i32{attributes}}} {{
  %sA = cute.alloc_smem : {a.ring}
  %sB = cute.alloc_smem : {b.ring}
  %sD = cute.alloc_smem : {smem}
  %ab = pipeline.create {{kind = "tma", producers = 1 : i32, consumers = {4 * cluster} : i32,
    bytes = 16384 : i32{peers}}} : {ring}
  pipeline.role "load" attributes {{first = 0 : i32, warps = 1 : i32, elect}} {{
    %st = pipeline.state "producer" %ab : {ring} -> {state}{scalars}
    scf.for %w = %first to %items step %step : i32 {{
      scf.for %k = %zero to %trips step %one : i32 {{
        %a = cute.local_tile %A, [64, 64], (%rank, %k) : {a.whole} -> {a.local}
        %b = cute.local_tile %B, [64, 64], (%w, %k) : {b.whole} -> {b.local}
        pipeline.producer_acquire %ab at %st : {ring}, {state}
        %bar = pipeline.barrier %ab at %st : {ring}, {state}
        %i = pipeline.index %st : {state}
        %da = cute.stage %sA[%i] : {a.ring} -> {a.stage}
        cute.copy %a, %da tma %tA : {map_} signal %bar : !pipeline.barrier
          {{atom = !cute_nvgpu.atom.tma_load<{element}>}} : {a.local} -> {a.stage}
        %db = cute.stage %sB[%i] : {b.ring} -> {b.stage}
        cute.copy %b, %db tma %tB : {map_b} signal %bar : !pipeline.barrier
          {{atom = !cute_nvgpu.atom.tma_load<{element}{share}>}} : {b.local} -> {b.stage}
        pipeline.producer_commit %ab at %st : {ring}, {state}
        pipeline.advance %st : {state}
      }}
    }}
  }}
  pipeline.role "mma" attributes {{first = 4 : i32, warps = 4 : i32}} {{
    %st = pipeline.state "consumer" %ab : {ring} -> {state}{scalars}
    scf.for %w = %first to %items step %step : i32 {{
      %acc = cute.alloc_fragment : {acc}
      %nought = arith.constant 0.0 : f32
      cute.fill %acc, %nought : {acc}
      scf.for %k = %zero to %trips step %one : i32 {{
        pipeline.consumer_wait %ab at %st : {ring}, {state}
        %i = pipeline.index %st : {state}
        %a = cute.stage %sA[%i] : {a.ring} -> {a.stage}
        %b = cute.stage %sB[%i] : {b.ring} -> {b.stage}
        cute_nvgpu.wgmma_fence
        cute.gemm %a, %b, %acc {{atom = {atom}}} : {a.stage}, {b.stage}, {acc}
        cute_nvgpu.wgmma_commit
        cute_nvgpu.wgmma_wait {{pending = 0 : i32}}
        pipeline.consumer_release %ab at %st : {ring}, {state}
        pipeline.advance %st : {state}
      }}
      %d = cute.map (%v = %acc : {acc}) -> {packed} {{
        %t = arith.truncf %v : f32 to {element}
        cute.yield %t : {element}
      }}
      cute_nvgpu.tma_store_wait {{pending = 0 : i32, read}}
      cute.barrier
      cute.copy %d, %sD {{atom = !cute_nvgpu.atom.stsm<val_type = {element}, num_matrices = 4, n>}}
        : {packed} -> {smem}
      cute_nvgpu.fence_proxy_async
      cute.barrier
      %gD = cute.local_tile %D, [64, 64], (%rank, %w) : {d.whole} -> {d.local}
      cute.copy %sD, %gD tma %tD : {map_} {{atom = !cute_nvgpu.atom.tma_store<{element}>}}
        : {smem} -> {d.local}
      cute_nvgpu.tma_store_commit
    }}
    cute_nvgpu.tma_store_wait {{pending = 0 : i32, read}}
  }}
}}"""


def tensor_map(array: np.ndarray, major: str, box: tuple[int, int]) -> SimpleNamespace:
    """A map of a (rows, depth) operand that lies row after row, or column after column."""
    stored = array if major == "K" else array.T
    return SimpleNamespace(
        array=stored,
        dtype="f16",
        dims=stored.shape[::-1],
        strides=(stored.strides[0],),
        box=box if major == "MN" else box[::-1],
        element_strides=(1, 1),
        swizzle="128B",
        interleave="none",
        oob_fill="zero",
    )


def run_gemm(ptx: str, sizes, a_major="K", b_major="K", cluster=1, grid=1, seed=0) -> None:
    m, n, k = sizes
    rng = np.random.default_rng(7)

    def matrix(rows: int, depth: int, major: str) -> np.ndarray:
        made = rng.integers(-3, 4, (rows, depth)).astype(np.float16)
        # A tensor of no element is encoded as one of a single element, and never read.
        made = made if made.size else np.zeros((max(rows, 1), max(depth, 8)), np.float16)
        return made if major == "K" else np.asfortranarray(made)

    a, b = matrix(m, k, a_major), matrix(n, k, b_major)
    d = np.full((m, n), 9, np.float16)
    slice_ = 64 // cluster
    maps = [
        tensor_map(a, a_major, (64, 64)),
        tensor_map(b, b_major, (slice_, 64) if b_major == "K" else (64, slice_)),
        tensor_map(d, "K", (64, 64)),
    ]
    scalars: list = []
    for array, extents in ((a, (m, k)), (b, (n, k)), (d, (m, n))):
        stride = np.int64(max(array.strides) // 2)
        scalars += [array, *map(np.int32, extents), stride]
    report = launch(
        ptx, "k", grid * cluster, 256, [*scalars, *maps], 100_000, cluster=cluster, seed=seed
    )
    del report
    wanted = a[:, :k].astype(np.float32) @ b[:, :k].astype(np.float32).T
    assert np.array_equal(d, wanted.astype(np.float16))


@pytest.mark.some(4)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("a_major", ["K", "MN"])
@pytest.mark.parametrize("b_major", ["K", "MN"])
def test_gemm_of_each_major(compile_ptx, a_major, b_major, cluster) -> None:
    ptx = compile_ptx(gemm_kernel(a_major, b_major, cluster=cluster), "sm_90a")
    run_gemm(ptx, (64 * cluster, 128, 200), a_major, b_major, cluster)


@pytest.mark.some(6)
@pytest.mark.parametrize("cluster", [1, 2, 4])
@pytest.mark.parametrize("depth", [0, 64, 192, 200])
def test_gemm_of_each_trip_count(compile_ptx, depth, cluster) -> None:
    ptx = compile_ptx(gemm_kernel(cluster=cluster), "sm_90a")
    for seed in range(2):
        run_gemm(ptx, (64 * cluster, 192, depth), cluster=cluster, grid=2, seed=seed)


@pytest.mark.parametrize("cluster", [1, 2])
def test_ptxas_finds_nothing_to_say(lower, cluster) -> None:
    from cutedialect.backend.ptx import ptx_text

    try:
        ptxas.find("sm_90a")
    except PtxasNotFoundError:
        pytest.skip("no ptxas is installed")
    text = ptx_text(lower(gemm_kernel(cluster=cluster), "sm_90a"))
    assembly = ptxas.assemble(text, "sm_90a", strict=True)
    assert assembly.messages == ()
    assert assembly.spill_stores == assembly.spill_loads == assembly.stack == 0

"""What a role changes for the ops inside it: thread numbers, block size, barriers, scratch memory;
products of A in registers, and zeros of a loop without a trip.
"""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import launch

WHOLE = '!cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">'
# The fragments of one wgmma with 32 columns, and of A for two of its k steps.
LEFT = '!cute.fragment<f16, "(64,32)", "((4,8,4),((2,2,2),1,2)):((128,1,16),((64,8,512),64,1024))">'
SUMS = '!cute.fragment<f32, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),64,2048))">'


def role_kernel(body: str, arguments: str, first: int = 4, warps: int = 4, more: str = "") -> str:
    return f"""
cute.kernel @k({arguments}) attributes {{threads = 384 : i32}} {{
  pipeline.role "work" attributes {{first = {first} : i32, warps = {warps} : i32}} {{
    {body}
  }}
  {more}
}}"""


@pytest.mark.parametrize("first", [0, 2, 4, 8])
def test_copies_count_threads_from_the_first_of_the_role(compile_ptx, first) -> None:
    fragment = '!cute.fragment<f32, "(64,32)", "((8,16),(4,4)):((256,1),(64,16))">'
    body = f"""%x = cute.load %a : {WHOLE} -> {fragment}
    cute.copy %x, %c : {fragment} -> {WHOLE}"""
    ptx = compile_ptx(role_kernel(body, f"%a: {WHOLE}, %c: {WHOLE}", first), "sm_90a")
    a = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    c = np.zeros_like(a)
    launch(ptx, "k", 1, 384, [a, c], 0)
    assert np.array_equal(a, c)


def test_roles_reduce_side_by_side(compile_ptx) -> None:
    """Each has a barrier and scratch memory of its own: one may be in its next reduction."""
    fragment = '!cute.fragment<f32, "(16,64)", "((16,8),8):((1,128),16)">'
    sums = '!cute.fragment<f32, "(16,1)", "((16,8),1):((1,0),0)">'
    whole = '!cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">'
    total = '!cute.memref<f32, gmem, align<16>, "(16,1):(1,16)">'

    def body(kind: str, target: str) -> str:
        return f"""%x = cute.load %a : {whole} -> {fragment}
        %r = cute.reduce "{kind}", %x {{mode = 1 : i64}} : {fragment} -> {sums}
        cute.copy %r, {target} : {sums} -> {total}"""

    other = f"""pipeline.role "other" attributes {{first = 8 : i32, warps = 4 : i32}} {{
      {body("max", "%d")}
    }}"""
    text = role_kernel(body("add", "%c"), f"%a: {whole}, %c: {total}, %d: {total}", more=other)
    ptx = compile_ptx(text, "sm_90a")
    assert "bar.sync 1, 128" in ptx
    assert "bar.sync 2, 128" in ptx
    a = np.random.default_rng(3).integers(-9, 9, (16, 64)).astype(np.float32)
    for seed in range(3):
        c, d = np.zeros((2, 16), np.float32)
        launch(ptx, "k", 1, 384, [a, c, d], 4096, seed=seed)
        assert np.array_equal(c, a.sum(1))
        assert np.array_equal(d, a.max(1))


@pytest.mark.parametrize(("warps", "elect"), [(4, ""), (1, ""), (1, ", elect")])
def test_printf_prints_once_in_a_role(compile_ptx, warps, elect) -> None:
    text = f"""
cute.kernel @k(%n: i32) attributes {{threads = 256 : i32}} {{
  pipeline.role "work" attributes {{first = 4 : i32, warps = {warps} : i32{elect}}} {{
    cute.printf "n = %d\\0A", %n : i32
  }}
}}"""
    report = launch(compile_ptx(text, "sm_90a"), "k", 1, 256, [np.int32(7)], 0)
    assert report.output == "n = 7\n"


@pytest.mark.parametrize("depth", [0, 2])
def test_a_in_registers(compile_ptx, depth) -> None:
    """D += A B^T for A read to registers, in a loop that may have no trip."""
    gmem = '!cute.memref<f16, gmem, align<16>, "({0},32):(32,1)">'
    a_mem, b_mem = gmem.format(64), gmem.format(32)
    smem = '!cute.memref<f16, smem, align<1024>, S<2,4,3>, "(32,32):(32,1)">'
    atom = "!cute_nvgpu.sm90.mma<64x32x16, elem_type = (f16, f16, f32), a = rmem>"
    tiled = '#cute.tiled_copy<"((4,32),8):((256,1),32)", tiler = "(32,32)">'
    body = f"""%fa = cute.load %a : {a_mem} -> {LEFT}
    cute.copy %b, %sb {{tiled = {tiled}}} : {b_mem} -> {smem}
    cute_nvgpu.fence_proxy_async
    cute.barrier
    %acc = cute.alloc_fragment : {SUMS}
    %nought = arith.constant 0.0 : f32
    cute.fill %acc, %nought : {SUMS}
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {{
      cute_nvgpu.wgmma_fence
      cute.gemm %fa, %sb, %acc {{atom = {atom}}} : {LEFT}, {smem}, {SUMS}
      cute_nvgpu.wgmma_commit
      cute_nvgpu.wgmma_wait {{pending = 0 : i32}}
    }}
    cute.copy %acc, %c : {SUMS} -> {WHOLE}"""
    arguments = f"%a: {a_mem}, %b: {b_mem}, %c: {WHOLE}, %n: i32"
    memory = f"%sb = cute.alloc_smem : {smem}\n  pipeline.role"
    text = role_kernel(body, arguments).replace("pipeline.role", memory, 1)
    ptx = compile_ptx(text, "sm_90a")
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (rows, 32)).astype(np.float16) for rows in (64, 32))
    c = np.full((64, 32), 5, np.float32)
    launch(ptx, "k", 1, 384, [a, b, c, np.int32(depth)], 8192)
    assert np.array_equal(c, depth * (a.astype(np.float32) @ b.astype(np.float32).T))


def test_registers_move_only_where_some_role_wants_more(lower) -> None:
    def kernel(threads: int) -> str:
        from cutedialect.backend.ptx import ptx_text

        return ptx_text(
            lower(
                f"""
cute.kernel @k() attributes {{threads = {threads} : i32}} {{
  pipeline.role "load" attributes {{first = 0 : i32, warps = 1 : i32, registers = 40 : i32}} {{
    cute.barrier
  }}
  pipeline.role "mma" attributes {{first = 4 : i32, warps = 4 : i32, registers = 232 : i32}} {{
    cute.barrier
  }}
}}""",
                "sm_90a",
            )
        )

    moved = kernel(384)
    assert "setmaxnreg.dec.sync.aligned.u32 40;" in moved
    assert "setmaxnreg.inc.sync.aligned.u32 232;" in moved
    assert "setmaxnreg" not in kernel(256), "each of 256 threads has 255 anyway"

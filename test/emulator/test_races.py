"""Accesses of two warps to one place that nothing orders are errors, though threads step together
here and no number would change. Every race has a twin that is ordered and stays silent.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.emulator import EmulatorError, launch
from cutedialect.backend.emulator.races import granule

THREADS = 128
KERNEL = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p0)
{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .b16 %h<4>; .reg .f32 %f<4>;
.shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar;
ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, sm; mov.u32 %r2, bar;
shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1;
xor.b32 %r5, %r3, 128; add.u32 %r6, %r1, %r5; cvt.u64.u32 %rd2, %r5; add.s64 %rd2, %rd0, %rd2;
shr.u32 %r7, %r0, 5; setp.eq.u32 %p0, %r7, 0; setp.eq.u32 %p1, %r0, 0; mov.u32 %r8, 0;
setp.eq.u32 %p5, %r0, 32; setp.eq.u32 %p6, %r7, 1;
@%p1 mbarrier.init.shared.b64 [%r2], 128;
bar.sync 0;
BODY
ret;
}
"""
SYNC = "bar.sync 0;"
# A thread's own place, and that of its neighbor in the next warp or the one before.
WRITE, READ = "st.shared.b32 [%r4], %r0;", "ld.shared.b32 %r9, [%r6];"
WRITE_GLOBAL, READ_GLOBAL = "st.global.b32 [%rd1], %r0;", "ld.global.b32 %r9, [%rd2];"
MEET = """mbarrier.arrive.shared.b64 %rd3, [%r2];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"""
ASYNC = "cp.async.ca.shared.global [%r4], [%rd1], 4; cp.async.commit_group;"
LANDED = "cp.async.wait_group 0;"
# One thread copies what all have written to global memory, and waits until that has been read.
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 512;"
STORED = f"""fence.proxy.async.shared::cta; bar.sync 0; @%p1 {STORE}
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"""
MATRIX = "and.b32 %r10, %r5, 0x3f0; add.u32 %r10, %r10, %r1;"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r10];"

# The steps of a program, of which only those with a barrier (or what stands for it) are in order.
TWINS = {
    "shared, read behind write": (WRITE, SYNC, READ),
    "shared, write behind read": (WRITE + SYNC + READ, SYNC, WRITE),
    "global, read behind write": (WRITE_GLOBAL, SYNC, READ_GLOBAL),
    "global, write behind read": (READ_GLOBAL, SYNC, WRITE_GLOBAL),
    "generic addresses": (
        "cvta.shared.u64 %rd4, sm; cvt.u64.u32 %rd5, %r3; add.s64 %rd5, %rd4, %rd5;"
        "st.b32 [%rd5], %r0;",
        SYNC,
        READ,
    ),
    "an mbarrier": (WRITE, MEET, READ),
    "a named barrier of two warps": (
        "setp.lt.u32 %p3, %r0, 64; @!%p3 bra END;" + WRITE,
        "bar.sync 1, 64;",
        READ + "END:",
    ),
    "cp.async": (ASYNC + LANDED, SYNC, READ),
    "cp.async over what is read": (WRITE + SYNC + READ, SYNC, ASYNC + LANDED),
    "global, the last bytes of cp.async behind a write": (
        "and.b32 %r9, %r0, 3; setp.eq.u32 %p3, %r9, 3; @%p3 st.global.b32 [%rd1], %r0;" + MATRIX,
        SYNC,
        "and.b32 %r9, %r5, 0x3f0; cvt.u64.u32 %rd4, %r9; add.s64 %rd4, %rd0, %rd4;"
        "cp.async.cg.shared.global [%r10], [%rd4], 16; cp.async.commit_group;" + LANDED,
    ),
    "a bulk copy has read": (WRITE + STORED, SYNC, WRITE),
    "bulk copies of two warps have read": (
        WRITE + STORED + STORED.partition("bar.sync 0;")[2].replace("%p1", "%p5"),
        SYNC,
        "@%p6 " + WRITE,
    ),
    "ldmatrix": (WRITE + MATRIX, SYNC, LDMATRIX),
    "writes of two warps": (WRITE, SYNC, "st.shared.b32 [%r6], %r0;"),
    "half a word": ("st.shared.b16 [%r4+2], %h0;", SYNC, "ld.shared.b16 %h1, [%r6+2];"),
    "a vector": (
        "st.shared.b32 [%r4], %r0; bar.sync 0; and.b32 %r11, %r5, 0x3f0; add.u32 %r11, %r11, %r1;"
        "ld.shared.v4.b32 {%r12, %r13, %r14, %r15}, [%r11];",
        SYNC,
        WRITE,
    ),
    "an atomic behind a write": (
        "@%p0 st.global.b32 [%rd0], %r8;",
        SYNC,
        "@!%p0 red.global.add.u32 [%rd0], 1;",
    ),
}


def run(body: str) -> None:
    text = KERNEL.replace("BODY", "mov.b16 %h0, 1;\n" + body.replace(";", ";\n"))
    launch(text, "k", 2, THREADS, [np.zeros(2 * THREADS, np.int32)])


@pytest.mark.parametrize("name", TWINS)
def test_a_race_is_told_and_its_ordered_twin_is_not(name):
    before, barrier, after = TWINS[name]
    run(before + barrier + after)
    with pytest.raises(EmulatorError, match=r"^error\[CD-I5\]: race: warp \d of CTA") as caught:
        run(before + after)
    assert "expected a barrier between them" in str(caught.value)
    assert re.search(r"which warp \d of CTA .* (wrote|read) at PTX line \d+", str(caught.value))
    space = "p0" if name.startswith("global") or "atomic" in name else "sm"
    assert space in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        # What one warp does alone is in order.
        "st.shared.b32 [%r4], %r0; ld.shared.b32 %r9, [%r4]; st.shared.b32 [%r4], %r9;",
        "@%p0 st.shared.b32 [%r1], %r8; @%p0 ld.shared.b32 %r9, [%r1];",
        # All write the same.
        "st.shared.b32 [%r1], %r8; bar.sync 0; ld.shared.b32 %r9, [%r1];",
        "st.global.b32 [%rd0], %r8;",
        # Atomics are in some order.
        "red.global.add.u32 [%rd0], 1; atom.global.add.u32 %r9, [%rd0], 1;",
        # CTAs are not compared.
        "mov.u32 %r9, %ctaid.x; @%p1 st.global.b32 [%rd0], %r9;",
        # The halves of a word are two warps'.
        "shl.b32 %r9, %r0, 1; add.u32 %r9, %r9, %r1; st.shared.b16 [%r9], %h0; "
        "ld.shared.b16 %h1, [%r9];",
        # A flag orders what stands before it.
        "@%p1 st.global.b32 [%rd0+4], %r0; @%p1 st.release.gpu.global.b32 [%rd0], 1; "
        "F: ld.acquire.gpu.global.b32 %r9, [%rd0]; setp.eq.u32 %p4, %r9, 0; @%p4 bra F;"
        "ld.global.b32 %r9, [%rd0+4];",
    ],
)
def test_what_is_in_order_is_not_told(body):
    run(body)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
def test_cp_async_reads_no_more_than_it_is_told(size):
    """Up to the last byte of an allocation that ends within a word."""
    body = (
        f"@%p1 ld.global.b8 %h1, [%rd0]; @%p1 cp.async.ca.shared.global [%r1], [%rd0], 4, {size};"
    )
    body += LANDED
    text = KERNEL.replace("BODY", body.replace(";", ";\n"))
    launch(text, "k", 1, THREADS, [np.zeros(max(1, size), np.int8)])


def test_the_smallest_access_says_what_is_told_apart():
    assert granule({"ld.shared.v4.b32", "st.global.b8"}, "shared") == 16
    assert granule({"ld.shared.v4.b32", "st.u16", "st.global.b8"}, "shared") == 2
    assert granule({"st.global.v2.f32", "red.global.add.noftz.bf16x2"}, "global") == 4
    assert granule({"cp.async.cg.shared.global", "ldmatrix.sync.aligned"}, "shared") == 4
    assert granule({"ld.global.nc.L1::no_allocate.v4.f32"}, "global") == 16


# Kernels of ours, of which barriers are taken away


@cute.kernel
def column_softmax(X, Y):
    i, j = cute.tile_index(Y, (64, 32))
    x = cute.local_tile(X, (64, 32), (i, j)).load()
    e = cute.exp(x - cute.column_max(x))
    cute.copy(e / cute.column_sum(e), cute.local_tile(Y, (64, 32), (i, j)))


@cute.kernel
def stored_again(X, Y):
    i, j = cute.tile_index(Y, (64, 32))
    y = cute.local_tile(Y, (64, 32), (i, j))
    cute.copy(cute.local_tile(X, (32, 64), (j, i)).T.load(), y)
    cute.copy(cute.row_sum(y.load()) + y.load(), y)


@cute.kernel
def product(X, Y):
    i, j = cute.tile_index(Y, (64, 32))
    acc = cute.zeros((64, 32), cute.f32)
    x, y = cute.local_tile(X, (64, 32), (i, None)), cute.local_tile(X, (32, 32), (None, j))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], y[k], acc)
    cute.copy(acc.to(cute.f16), cute.local_tile(Y, (64, 32), (i, j)))


# The barrier in front of the first write of a buffer waits for readers that there are in later
# trips or work items alone.
FIRST_WRITES = {("column_softmax", at): 0 for at in ("sm_75", "sm_80", "sm_90a")}


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("program", [column_softmax, stored_again, product])
def test_each_barrier_of_a_kernel_is_needed(monkeypatch, program, arch):
    """Without any one of them a race is told, or that mbarriers and TMA are not ordered."""
    dtype = np.float16 if program is product else np.float32
    x = np.random.default_rng(0).integers(-3, 4, (128, 128)).astype(dtype)
    codes = []

    def launch_without(ptx, *arguments):
        for taken in re.finditer(r"^\s*bar\.sync .*;.*$", ptx, re.MULTILINE):
            try:
                launch(ptx[: taken.start()] + ptx[taken.end() :], *arguments)
                codes.append("")
            except EmulatorError as error:
                codes.append(error.code)
        return launch(ptx, *arguments)

    monkeypatch.setattr(emulator, "launch", launch_without)
    program(x, np.zeros_like(x), arch=arch, backend="emulator")
    spare = FIRST_WRITES.get((program.__name__, arch))
    silent = [at for at, code in enumerate(codes) if not code]
    assert silent == ([] if spare is None else [spare])
    assert set(codes) <= {"", "CD-I5", "CD-A1", "CD-A8"}
    assert "CD-I5" in codes or (program, arch) == (product, "sm_90a")

"""tcgen05 for CTA pairs: each CTA holds half of A's rows and half of B's columns, the even one
issues, and both find their part of D in their own tensor memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

IDESC = {"f32": 1 << 4, "f16": 0}
N = 64


def text(multiply: str, commit: str | None = None, end: str | None = None) -> str:
    """Rank 0 multiplies; each CTA stores 64 columns of all its lanes."""
    if commit is None:
        commit = (
            "mov.b16 %h0, 3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
            ".multicast::cluster.b64 [bar], %h0;"
        )
    if end is None:
        end = (
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
            "tcgen05.fence::after_thread_sync;\n"
        )
    v = "{" + ", ".join(f"%v{i}" for i in range(64)) + "}"
    fill = "".join(
        f"ld.global.b32 %r7, [%rd0+{4 * i}]; st.shared.b32 [%r6+{4 * i}], %r7;" for i in range(32)
    )
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 tin, .param .u64 out, .param .u32 idesc)
.reqnctapercluster 2, 1, 1
{{
.reg .pred %p<8>, %first, %lead; .reg .b32 %r<32>, %v<64>, %a, %w, %sa, %sb; .reg .b64 %rd<16>;
.reg .b16 %h<2>;
.shared .align 8 .b64 bar; .shared .align 4 .b32 slot; .shared .align 1024 .b8 data[16384];
mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, %cluster_ctarank;
setp.eq.u32 %first, %r0, 0; setp.eq.u32 %lead, %r1, 0;
ld.param.u64 %rd0, [image]; ld.param.u64 %rd1, [tin]; ld.param.u64 %rd2, [out];
ld.param.u32 %r3, [idesc];
mul.wide.u32 %rd3, %r2, 16384; add.s64 %rd0, %rd0, %rd3;
mul.wide.u32 %rd3, %r0, 128; add.s64 %rd0, %rd0, %rd3;
mad.lo.u32 %r4, %r2, 128, %r0; mul.wide.u32 %rd3, %r4, 256;
add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
mov.u32 %r5, data; mad.lo.u32 %r6, %r0, 128, %r5;
{fill}
fence.proxy.async.shared::cta;
@%lead tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 128;
@%first mbarrier.init.shared.b64 [bar], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.shared.b32 %a, [slot];
shl.b32 %r8, %r1, 21; add.u32 %w, %a, %r8;
{"".join(f"ld.global.b32 %v{i}, [%rd1+{4 * i}];" for i in range(64))}
tcgen05.st.sync.aligned.32x32b.x64.b32 [%w+64], {v};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
tcgen05.fence::after_thread_sync;
shr.u32 %r9, %r5, 4; cvt.u64.u32 %rd4, %r9;
or.b64 %rd4, %rd4, 0x0000400800800000;
add.s64 %rd5, %rd4, 512;
add.u32 %r10, %a, 64; add.u32 %sa, %a, 72; add.u32 %sb, %a, 80;
setp.ne.u32 %p1, %r0, %r0;
setp.eq.and.u32 %p2, %r2, 0, %first;
@!%p2 bra ISSUED;
{multiply}
{commit}
ISSUED:
WAIT:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra WAIT;
tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x64.b32 {v}, [%w];
tcgen05.wait::ld.sync.aligned;
{"".join(f"st.global.b32 [%rd2+{4 * i}], %v{i};" for i in range(64))}
tcgen05.fence::before_thread_sync;
{end}
@%lead tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
@%lead tcgen05.dealloc.cta_group::2.sync.aligned.b32 %a, 128;
ret;
}}
"""


MULTIPLY = "tcgen05.mma.cta_group::2.kind::f16 [%a], %rd4, %rd5, %r3, %p1;"


def put(image: np.ndarray, base: int, matrix: np.ndarray) -> None:
    """K-major without swizzle: core matrices of 8 rows by 16 bytes, LBO 2048, SBO 128."""
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), 2, 16)
    for row in range(len(matrix)):
        for half in range(2):
            at = base + row % 8 * 16 + row // 8 * 128 + half * 2048
            image[at : at + 16] = raw[row, half]


def problem(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, (m, 16)).astype(np.float16)
    b = rng.integers(-4, 5, (N, 16)).astype(np.float16)
    image = np.zeros((2, 16384), np.uint8)
    for rank in range(2):
        put(image[rank], 0, a[rank * m // 2 :][: m // 2])
        put(image[rank], 8192, b[rank * N // 2 :][: N // 2])
    return a, b, image


def idesc(m: int, d: str = "f32") -> Any:
    return np.uint32(IDESC[d] | (N >> 3) << 17 | (m >> 4) << 24)


def result(out: np.ndarray, m: int) -> np.ndarray:
    """``out [2, 128, 64]`` words to D, by CUTLASS's tmem_frg_2sm."""
    values = out.view(np.float32)
    if m == 256:
        return values.reshape(256, N)
    parts = [np.concatenate((v[:64, : N // 2], v[64:, : N // 2]), axis=1) for v in values]
    return np.concatenate(parts)


def run(
    source: str, image: np.ndarray, m: int, tin: np.ndarray | None = None, seed: int = 0
) -> Any:
    out = np.zeros((2, 128, 64), np.uint32)
    given = np.zeros((2, 128, 64), np.uint32) if tin is None else tin
    report = launch(source, "k", 2, 128, [image, given, out, idesc(m)], cluster=2, seed=seed)
    return out, report


def filled(source: str) -> str:
    """Writes all columns first, so that those outside of D are not poison."""
    v = "{" + ", ".join(f"%v{i}" for i in range(64)) + "}"
    store = f"tcgen05.st.sync.aligned.32x32b.x64.b32 [%w], {v};\n"
    return source.replace("tcgen05.wait::st", store + "tcgen05.wait::st", 1)


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_pair_multiplies(m: int, seed: int) -> None:
    a, b, image = problem(m)
    out, report = run(filled(text(MULTIPLY)), image, m, seed=seed)
    np.testing.assert_array_equal(result(out, m), a.astype(np.float32) @ b.astype(np.float32).T)
    assert report.notes == []


@pytest.mark.parametrize("m", [128, 256])
def test_a_in_tensor_memory(m: int) -> None:
    """For M = 128 the 64 rows of each CTA lie twice, in lanes 0-63 and 64-127."""
    a, b, image = problem(m)
    tin = np.zeros((2, 128, 64), np.uint32)
    for rank in range(2):
        rows = np.ascontiguousarray(a[rank * m // 2 :][: m // 2]).view(np.uint32)
        tin[rank, :, :8] = rows if m == 256 else np.concatenate((rows, rows))
    source = filled(text(MULTIPLY.replace("%rd4", "[%r10]")))
    out, _ = run(source, image, m, tin)
    np.testing.assert_array_equal(result(out, m), a.astype(np.float32) @ b.astype(np.float32).T)
    if m == 128:
        tin[1, 100, 3] += 1
        with pytest.raises(EmulatorError, match="A twice") as error:
            run(source, image, m, tin)
        assert error.value.code == "CD-D9"


@pytest.mark.parametrize("m", [128, 256])
def test_block_scaling(m: int) -> None:
    """Each CTA has the factors of its rows of A and of all columns of B; for M = 128 the lower two
    quarters of the lanes have those of the first half of N, the upper two those of the second."""
    rng = np.random.default_rng(1)
    codes_a = rng.choice([0x38, 0x40, 0xB8], (m, 32)).astype(np.uint8)  # 1, 2, -1 in e4m3
    codes_b = rng.choice([0x38, 0x40, 0xB8], (N, 32)).astype(np.uint8)
    value = {0x38: 1.0, 0x40: 2.0, 0xB8: -1.0}
    scale_a, scale_b = rng.integers(125, 130, m), rng.integers(125, 130, N)
    image = np.zeros((2, 16384), np.uint8)
    tin = np.zeros((2, 128, 64), np.uint32)
    for rank in range(2):
        rows = codes_a[rank * m // 2 :][: m // 2]
        put(image[rank], 0, rows)
        put(image[rank], 8192, codes_b[rank * N // 2 :][: N // 2])
        for row in range(m // 2):
            for quarter in range(4):
                tin[rank, 32 * quarter + row % 32, 8 + row // 32] = scale_a[rank * m // 2 + row]
        for column in range(N):
            halves = range(4) if m == 256 else (0, 1) if column < N // 2 else (2, 3)
            within = column if m == 256 else column % (N // 2)
            for quarter in halves:
                tin[rank, 32 * quarter + within % 32, 16 + within // 32] = scale_b[column]
    scaled = "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale [%a], %rd4, %rd5, %r3, [%sa], [%sb], %p1;"  # noqa: E501
    source = filled(text(scaled))
    out = np.zeros((2, 128, 64), np.uint32)
    bits = np.uint32((N >> 3) << 17 | 1 << 23 | (m >> 4) << 24)
    launch(source, "k", 2, 128, [image, tin, out, bits], cluster=2)
    left = np.vectorize(value.get)(codes_a) * np.exp2(scale_a - 127.0)[:, None]
    right = np.vectorize(value.get)(codes_b) * np.exp2(scale_b - 127.0)[:, None]
    np.testing.assert_array_equal(result(out, m), (left @ right.T).astype(np.float32))


def test_lanes_of_both_ctas_may_be_disabled() -> None:
    _, _, image = problem(256)
    moves = "".join(f"mov.b32 %r{16 + i}, {0xFFFFFFFF if i == 5 else 0};" for i in range(8))
    regs = "{" + ", ".join(f"%r{16 + i}" for i in range(8)) + "}"
    source = filled(text(moves + MULTIPLY.replace("%r3, ", f"%r3, {regs}, ")))
    tin = np.full((2, 128, 64), 77, np.uint32)
    out, _ = run(source, image, 256, tin)
    kept = (out == 77).all(axis=2)
    assert kept[1, 32:64].all()
    assert kept.sum() == 32


def test_d4_columns_are_given_back_once_the_peer_has_read_them() -> None:
    """CTA 0 gives back tensor memory of the pair while CTA 1 may still load from it."""
    _, _, image = problem(256)
    with pytest.raises(EmulatorError, match="given back") as error:
        run(
            filled(text(MULTIPLY, end="bar.sync 0;\ntcgen05.fence::after_thread_sync;\n")),
            image,
            256,
        )
    assert error.value.code == "CD-D4"
    assert "dealloc" in str(error.value.instruction)


def test_d5_a_commit_to_one_cta_tells_that_one_alone() -> None:
    _, _, image = problem(256)
    alone = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar];"
    with pytest.raises(EmulatorError, match="hang") as error:
        run(filled(text(MULTIPLY, alone)), image, 256)
    assert error.value.code in ("CD-B5", "CD-H4")
    assert any("mbarrier bar+0 of CTA (1, 0, 0)" in note for note in error.value.notes)


def test_d10_a_commit_without_instructions_tells_the_own_cta_alone() -> None:
    _, _, image = problem(256)
    with pytest.raises(EmulatorError, match="hang"):
        run(filled(text("")), image, 256)


COMMIT = (
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
    "[bar], %h0;\n"
)


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_commits_behind_each_other_signal_both_ctas(commits: int) -> None:
    """As CUTLASS and DeepGEMM release the last stage of operands and pass on the accumulator."""
    a, b, image = problem(256)
    source = filled(text(MULTIPLY, "mov.b16 %h0, 3;\n" + COMMIT * commits))
    init = "mbarrier.init.shared.b64 [bar], "
    assert f"{init}1;" in source
    for seed in range(3):
        out, _ = run(source.replace(f"{init}1;", f"{init}{commits};"), image, 256, seed=seed)
        want = a.astype(np.float32) @ b.astype(np.float32).T
        np.testing.assert_array_equal(result(out, 256), want)


def test_d10_a_commit_behind_a_wait_for_all_tells_the_own_cta_alone() -> None:
    """Both CTAs wait for the multiply, and for another signal that only one of them gets."""
    _, _, image = problem(256)

    def wait(parity: int, name: str) -> str:
        return (
            f"{name}:\nmbarrier.try_wait.parity.shared.b64 %p3, [bar], {parity};\n"
            f"@!%p3 bra {name};\n"
        )

    again = f"mov.b16 %h0, 3;\n{COMMIT}{wait(0, 'FIRST')}{COMMIT}"
    source = filled(text(MULTIPLY, again))
    load = "tcgen05.fence::after_thread_sync;\ntcgen05.ld.sync"
    assert source.count(load) == 1
    with pytest.raises(EmulatorError, match="hang") as error:
        run(source.replace(load, wait(1, "SECOND") + load), image, 256)
    assert any("mbarrier bar+0 of CTA (1, 0, 0)" in note for note in error.value.notes)


def test_the_pair_allocates_together() -> None:
    _, _, image = problem(256)
    source = filled(text(MULTIPLY))
    size = "setp.eq.u32 %p6, %r2, 1;\nselp.u32 %r20, 64, 128, %p6;\n@%lead tcgen05.alloc"
    other = source.replace("@%lead tcgen05.alloc", size, 1).replace("[slot], 128", "[slot], %r20")
    with pytest.raises(EmulatorError, match="expected the same number") as error:
        run(other, image, 256)
    assert error.value.code == "CD-D2"
    assert "tcgen05.alloc" in str(error.value.instruction)


def test_d2_pairs_need_a_cluster() -> None:
    source = text(MULTIPLY).replace(".reqnctapercluster 2, 1, 1", "")
    with pytest.raises(EmulatorError, match="CTA pairs") as error:
        launch(source, "k", 2, 128, [np.zeros((2, 16384), np.uint8),
                                     np.zeros((2, 128, 64), np.uint32),
                                     np.zeros((2, 128, 64), np.uint32), idesc(256)])  # fmt: skip
    assert error.value.code == "CD-D2"

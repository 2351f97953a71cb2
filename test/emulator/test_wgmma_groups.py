"""Several warpgroups and CTAs at once: each has its own operands, groups in flight and order, and
shares what lies in the same bytes.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

D = "{%f0, %f1, %f2, %f3}"
E = "{%f4, %f5, %f6, %f7}"


def mma(d: str, b: str, scale: str = "0") -> str:
    return (
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d}, %da, {b}, {scale}, 1, 1, 0, 0;"
    )


def kernel(body: str, size: int, fill: str = "") -> str:
    """Each CTA copies ``size`` bytes from its part of ``p0``; a thread has 8 floats in ``p1``. A of
    warpgroup g lies at 2048 g; B after ``%bytes`` of them; both without swizzle, K-major."""
    return f""".version 8.6
.target sm_90a
.address_size 64
.shared .align 1024 .b8 buffer[{size}];
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 p2)
{{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<8>;
.reg .b64 %da; .reg .b64 %db; .reg .b64 %dc;
ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u32 %r0, [p2];
mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
mul.wide.u32 %rd2, %r3, {size}; add.s64 %rd0, %rd0, %rd2;
mul.lo.u32 %r5, %r1, 16; shl.b32 %r6, %r4, 4;
FILL:
setp.ge.u32 %p0, %r5, {size}; @%p0 bra FILLED;
cvt.u64.u32 %rd3, %r5; add.s64 %rd3, %rd0, %rd3;
ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%rd3];
add.u32 %r7, %r2, %r5; {fill}st.shared.v4.b32 [%r7], {{%r10, %r11, %r12, %r13}};
add.u32 %r5, %r5, %r6; bra FILL;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r8, %r1, 7; setp.eq.u32 %p1, %r8, 0;
mul.lo.u32 %r9, %r8, 2048; add.u32 %r9, %r9, %r2; shr.u32 %r9, %r9, 4; cvt.u64.u32 %rd4, %r9;
or.b64 %da, %rd4, 0x0000000800400000;
add.u32 %r9, %r2, %r0; shr.u32 %r9, %r9, 4; cvt.u64.u32 %rd5, %r9;
or.b64 %db, %rd5, 0x0000000800080000; add.s64 %dc, %db, 16;
{body}
mad.lo.u32 %r9, %r3, %r4, %r1; mul.wide.u32 %rd6, %r9, 32; add.s64 %rd1, %rd1, %rd6;
{" ".join(f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in range(8))}
ret;
}}
"""


def rows(matrix: np.ndarray) -> np.ndarray:
    """K-major without swizzle: 8 rows of 16 bytes together, the second half of K after all rows
    (LBO), groups of 8 rows 128 bytes apart (SBO)."""
    halves = matrix.reshape(len(matrix), 2, 8)
    return np.ascontiguousarray(halves.transpose(1, 0, 2)).view(np.uint8).reshape(-1)


class Problem:
    """``ctas`` with ``groups`` warpgroups: A differs by warpgroup, B and C by CTA."""

    def __init__(self, ctas: int, groups: int) -> None:
        rng = np.random.default_rng(3)

        def draw(*shape: int) -> np.ndarray:
            return rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16)

        self.a, self.b = draw(ctas, groups, 64, 16), draw(ctas, 8, 16)
        self.c = draw(ctas, 8, 16)
        self.ctas, self.groups = ctas, groups
        self.image = np.stack([
            np.concatenate([*map(rows, self.a[i]), rows(self.b[i]), rows(self.c[i])])
            for i in range(ctas)
        ])  # fmt: skip

    def run(self, body: str, seed: int = 0, fill: str = "", threads: int = 0) -> np.ndarray:
        """``[ctas, groups, 2, 64, 8]``: D and E."""
        threads = threads or 128 * self.groups
        out = np.zeros((self.ctas, threads, 8), np.float32)
        text = kernel(body, self.image.shape[1], fill)
        launch(text, "k", self.ctas, threads, [self.image, out, 2048 * self.groups], seed=seed)
        values = out[:, : 128 * self.groups].reshape(-1, self.groups, 4, 8, 4, 2, 2, 2)
        # (cta, group, warp, g, q, operand, row half, column) to rows and columns
        return values.transpose(0, 1, 5, 2, 6, 3, 4, 7).reshape(-1, self.groups, 2, 64, 8)

    def product(self, b: np.ndarray) -> np.ndarray:
        return self.a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)[:, None]


STRAIGHT = f"""wgmma.fence.sync.aligned;
{mma(D, "%db")}
wgmma.commit_group.sync.aligned;
{mma(E, "%dc")}
{mma(D, "%db", "1")}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""


@pytest.mark.parametrize(("ctas", "groups"), [(1, 1), (1, 3), (5, 2), (3, 4), (40, 1)])
def test_every_warpgroup_has_its_own_operands(ctas, groups):
    problem = Problem(ctas, groups)
    found = problem.run(STRAIGHT)
    np.testing.assert_array_equal(found[:, :, 0], 2 * problem.product(problem.b))
    np.testing.assert_array_equal(found[:, :, 1], problem.product(problem.c))


@pytest.mark.parametrize("seed", range(4))
def test_warpgroups_may_go_different_ways(seed):
    problem = Problem(3, 2)
    body = f"""@%p1 bra FIRST;
wgmma.fence.sync.aligned;
{mma(D, "%dc")}
wgmma.commit_group.sync.aligned;
{mma(E, "%dc")}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
add.f32 %f0, %f0, 0f3F800000;
wgmma.wait_group.sync.aligned 0;
bra MEET;
FIRST:
{STRAIGHT}
MEET:"""
    found = problem.run(body, seed)
    b, c = problem.product(problem.b), problem.product(problem.c)
    c_first = c.copy()
    c_first[:, :, [*range(8), *range(16, 24), *range(32, 40), *range(48, 56)], ::2] += 1
    np.testing.assert_array_equal(found[:, 0, 0], 2 * b[:, 0])
    np.testing.assert_array_equal(found[:, 0, 1], c[:, 0])
    np.testing.assert_array_equal(found[:, 1, 0], c_first[:, 1])
    np.testing.assert_array_equal(found[:, 1, 1], c[:, 1])


def test_scale_d_may_differ_by_warpgroup():
    problem = Problem(2, 2)
    body = f"""mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000;
mov.f32 %f3, 0f3F800000; mov.f32 %f4, 0f00000000; mov.f32 %f5, 0f00000000;
mov.f32 %f6, 0f00000000; mov.f32 %f7, 0f00000000;
wgmma.fence.sync.aligned;
{mma(D, "%db", "%p1")}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    found = problem.run(body)[:, :, 0]
    expected = problem.product(problem.b)
    expected[:, 0] += 1
    np.testing.assert_array_equal(found, expected)


def test_a_shared_operand_is_read_until_the_last_warpgroup_has_waited():
    problem = Problem(2, 2)
    body = f"""wgmma.fence.sync.aligned;
{mma(D, "%db")}
wgmma.commit_group.sync.aligned;
FIRST wgmma.wait_group.sync.aligned 0;
bar.sync 1;
add.u32 %r15, %r2, %r0; setp.eq.u32 %p4, %r1, 0;
@%p4 st.shared.b32 [%r15], %r10;
SECOND wgmma.wait_group.sync.aligned 0;
{mma(E, "%dc")}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    problem.run(body.replace("FIRST", "").replace("SECOND", ""))
    with pytest.raises(EmulatorError) as caught:
        problem.run(body.replace("FIRST", "@%p1").replace("SECOND", "@!%p1"))
    assert caught.value.code == "CD-C3"
    assert "warpgroup 1" in str(caught.value)


def test_who_writes_a_shared_operand_knows_of_a_wait_of_each_warpgroup():
    """Its own wait tells a warp of its warpgroup's multiplies, a barrier of the others'."""
    body = f"""wgmma.fence.sync.aligned;
{mma(D, "%db")}
wgmma.commit_group.sync.aligned;
{mma(E, "%dc")}
wgmma.commit_group.sync.aligned;
EARLY wgmma.wait_group.sync.aligned 0; LATE
add.u32 %r15, %r2, %r0; mad.lo.u32 %r15, %r1, 4, %r15; setp.lt.u32 %p4, %r1, 64;
@%p4 st.shared.b32 [%r15], %r10;"""
    meet = "bar.sync 1;"
    Problem(2, 1).run(body.replace("EARLY", meet).replace("LATE", ""))
    Problem(2, 2).run(body.replace("EARLY", "").replace("LATE", meet))
    with pytest.raises(EmulatorError, match=r"warp 4 .* read") as caught:
        Problem(2, 2).run(body.replace("EARLY", meet).replace("LATE", ""))
    assert caught.value.code == "CD-I5"


def test_only_rows_never_written_are_poison():
    problem = Problem(2, 2)
    # Rows 8 to 15 of A of the second warpgroup: 128 bytes of either half of K.
    unset = """sub.u32 %r14, %r5, 2176; setp.lt.u32 %p2, %r14, 128;
sub.u32 %r14, %r5, 3200; setp.lt.or.u32 %p2, %r14, 128, %p2; @!%p2 """
    with pytest.raises(EmulatorError) as caught:
        problem.run(STRAIGHT, fill=unset)
    assert caught.value.code == "CD-I3"
    assert "(128, 0, 0)" in str(caught.value)
    # f2 and f3, f6 and f7 of warp 4 hold those rows.
    settle = """shr.u32 %r16, %r1, 5; setp.eq.u32 %p3, %r16, 4;
@%p3 mov.f32 %f2, 0f00000000; @%p3 mov.f32 %f3, 0f00000000;
@%p3 mov.f32 %f6, 0f00000000; @%p3 mov.f32 %f7, 0f00000000;"""
    found = problem.run(STRAIGHT + settle, fill=unset)
    expected = np.stack((2 * problem.product(problem.b), problem.product(problem.c)), axis=2)
    expected[:, 1, :, 8:16] = 0
    np.testing.assert_array_equal(found, expected)


def test_warps_beyond_the_last_warpgroup_do_other_work():
    problem = Problem(2, 2)
    body = f"""setp.ge.u32 %p4, %r1, 256;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
@%p4 bra DONE;
{STRAIGHT}
DONE:"""
    found = problem.run(body, threads=320)
    np.testing.assert_array_equal(found[:, :, 0], 2 * problem.product(problem.b))


def test_a_wgmma_under_a_guard_runs_for_the_chosen_warpgroup():
    problem = Problem(3, 2)
    body = f"""mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
wgmma.fence.sync.aligned;
@%p1 {mma(D, "%db")}
@!%p1 {mma(E, "%db")}
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""
    found = problem.run(body)
    expected = problem.product(problem.b)
    np.testing.assert_array_equal(found[:, 0, 0], expected[:, 0])
    np.testing.assert_array_equal(found[:, 1, 1], expected[:, 1])
    assert not found[:, 0, 1].any()
    assert not found[:, 1, 0].any()

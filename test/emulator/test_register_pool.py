"""setmaxnreg: a pool of registers for each CTA; asking for more than it holds is a reported hang.
Also griddepcontrol and the named barriers that warp-specialized kernels use beside it.
"""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

NOTES = ".maxntid 384, 1, 1\n.minnctapersm 1"
BODY = """
shr.u32 %r2, %r0, 7; setp.eq.u32 %p1, %r2, 0;
@%p1 bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 INC;
bra DONE;
PRODUCER: setmaxnreg.dec.sync.aligned.u32 DEC;
DONE: mul.wide.u32 %rd9, %r0, 4; add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], 1;
"""


def body(increase: int, decrease: int) -> str:
    return BODY.replace("INC", str(increase)).replace("DEC", str(decrease))


@pytest.mark.parametrize("seed", range(4))
def test_the_pool_of_a_warp_specialized_kernel(run_maps, seed):
    """65536 / 384 gives 168 registers; 40 + 2 * 232 = 3 * 168."""
    out = np.zeros((2, 384), np.uint32)
    run_maps(body(232, 40), [], [out[0]], grid=2, block=384, notes=NOTES, seed=seed)
    assert out[0].all()


def test_more_than_the_pool_holds_hangs(run_maps):
    with pytest.raises(EmulatorError) as caught:
        run_maps(body(240, 40), [], [np.zeros(384, np.uint32)], block=384, notes=NOTES)
    assert caught.value.code == "CD-G1"
    text = str(caught.value)
    assert "168 registers for each of 12 warps, 64512 in all" in text
    assert "wait for 240 registers" in text


@pytest.mark.parametrize("notes", [".maxnreg 128", ".reqntid 384, 1, 1\n.minnctapersm 1"])
def test_how_many_registers_a_thread_begins_with(run_maps, notes):
    out = np.zeros(384, np.uint32)
    base = 128 if "maxnreg" in notes else 168
    run_maps(body(base + 16, base - 32), [], [out], block=384, notes=notes)
    with pytest.raises(EmulatorError):
        run_maps(body(base + 24, base - 32), [], [out], block=384, notes=notes)


def test_without_a_known_count_it_has_no_effect(run_maps):
    report = run_maps(body(256, 24), [], [np.zeros(384, np.uint32)], block=384)
    assert any("setmaxnreg.inc" in note and "no effect" in note for note in report.notes)


@pytest.mark.parametrize(("increase", "decrease"), [(160, 40), (232, 176)])
def test_wrong_directions(run_maps, increase, decrease):
    with pytest.raises(EmulatorError) as caught:
        run_maps(body(increase, decrease), [], [np.zeros(384, np.uint32)], block=384, notes=NOTES)
    assert caught.value.code == "CD-G1"


@pytest.mark.parametrize("count", [16, 264, 100])
def test_counts_that_ptxas_refuses(run_maps, count):
    with pytest.raises(EmulatorError) as caught:
        run_maps(f"setmaxnreg.dec.sync.aligned.u32 {count};", [], [], block=128, notes=NOTES)
    assert caught.value.code == "CD-PTX"


def test_launch_dependencies_and_fences_do_nothing_else(run_maps):
    run_maps(
        """griddepcontrol.wait; griddepcontrol.launch_dependents; fence.proxy.alias;
        fence.mbarrier_init.release.cluster; fence.proxy.async.global;
        fence.proxy.tensormap::generic.release.gpu; prefetch.tensormap [%rd100];
        fence.proxy.tensormap::generic.acquire.gpu [%rd100], 128; nanosleep.u32 20;""",
        [{"array": np.zeros(64, np.float16), "dtype": "f16", "dims": (64,), "strides": (),
          "box": (8,)}],
        [],
    )  # fmt: skip


def test_named_barriers_of_two_warpgroups_in_turn(run_maps):
    """Ping-pong: each half of the CTA lets the other one pass."""
    out = np.zeros((3, 2, 128), np.uint32)
    text = """shr.u32 %r2, %r0, 7; and.b32 %r3, %r0, 127; xor.b32 %r4, %r2, 1;
    setp.eq.u32 %p1, %r2, 1; @%p1 bar.arrive 1, 256;
    add.u32 %r5, %r2, 1; add.u32 %r6, %r4, 1; mov.u32 %r7, 0;
    LOOP: bar.sync %r5, 256;
    atom.global.add.u32 %r8, [%rd1], 1; shr.u32 %r8, %r8, 7;
    mad.lo.u32 %r9, %r7, 2, %r2; mad.lo.u32 %r9, %r9, 128, %r3; mul.wide.u32 %rd9, %r9, 4;
    add.s64 %rd10, %rd0, %rd9; st.global.b32 [%rd10], %r8;
    setp.eq.u32 %p4, %r7, 2; and.pred %p5, %p4, %p1; @!%p5 bar.arrive %r6, 256;
    add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3; @%p2 bra LOOP;"""
    run_maps(text, [], [out, np.zeros(1, np.uint32)], block=256)
    assert (out == np.arange(6).reshape(3, 2, 1)).all()

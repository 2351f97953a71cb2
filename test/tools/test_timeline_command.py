"""`python -m cutedialect timeline`: who waits for whom, in the time of the emulator's model."""

from __future__ import annotations

import textwrap
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from cutedialect import __main__
from cutedialect.backend.emulator import launch
from cutedialect.backend.emulator.timeline import COPIES, recording

TWO_WARPS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
.shared .align 16 .b8 data[64]; .shared .align 8 .b64 bar;
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
setp.ne.u32 %p0, %r0, 0;
@!%p0 mbarrier.init.shared.b64 [bar], 1;
@!%p0 fence.proxy.async;
bar.sync 0;
setp.ge.u32 %p1, %r0, 32;
@%p1 bra READ;
mov.f32 %f0, 0f3F800000;
EXP;
@!%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
@!%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd0], 64, [bar];
bra END;
READ:
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
ld.shared.u32 %r1, [data];
END:
ret;
}
"""


def spans(exponentials):
    ptx = TWO_WARPS.replace("EXP;", "ex2.approx.f32 %f0, %f0;\n" * exponentials)
    with recording() as found:
        launch(ptx, "k", 1, 64, [np.zeros(16, np.uint32)])
    (timeline,) = found
    return timeline.spans


def test_who_waits_waits_until_the_bytes_are_there():
    few, many = spans(0), spans(10)
    waits = [
        next(span for span in each if span.who == 1 and span.waits and span.end > 100)
        for each in (few, many)
    ]
    # The copy is issued 8 cycles later for each exponential.
    assert waits[1].end - waits[0].end == 80
    copy = next(span for span in many if span.who == COPIES)
    assert copy.what == "64 bytes"
    assert copy.end < waits[1].end
    for who in (0, 1):
        mine = sorted((span.start, span.end) for span in many if span.who == who)
        assert all(one[1] <= other[0] for one, other in pairwise(mine))


def test_nothing_is_recorded_unless_asked():
    with recording() as found:
        pass
    launch(TWO_WARPS.replace("EXP;", ""), "k", 1, 64, [np.zeros(16, np.uint32)])
    assert found == []


SCRIPT = """
    import numpy as np
    import cutedialect as cute

    a = np.ones((128, 128), np.float16)
    kernel = cute.compile(cute.gemm, a, a, arch="sm_100a", schedule="tile = (128,128,64)")
    cute.gemm(a, a, arch="sm_100a", schedule="tile = (128,128,64)", backend="emulator")
"""


def test_a_picture_has_a_row_for_each_role(tmp_path, capsys):
    (tmp_path / "gemm.py").write_text(textwrap.dedent(SCRIPT))
    out = tmp_path / "gemm.svg"
    assert __main__.main(["timeline", str(tmp_path / "gemm.py"), "-o", str(out)]) == 0
    head, columns, *rows = capsys.readouterr().out.splitlines()
    assert head.endswith(" cycles")
    assert columns.split()[:3] == ["waits", "copies", "multiplies"]
    assert [row[:13].strip() for row in rows] == [
        "load", "mma", "main", "copies (TMA)", "tensor core",
    ]  # fmt: skip
    # 8 multiplies of 128 x 128 and 32 bytes of depth.
    assert rows[-1].split()[-5] == str(8 * 128 * 128 * 32 // 8192)
    texts = [node.text for node in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}text")]
    assert {"load", "mma", "main", "tensor core"} <= set(texts)


def test_a_script_without_a_launch_is_told(tmp_path, capsys):
    (tmp_path / "nothing.py").write_text("x = 1\n")
    assert __main__.main(["timeline", str(tmp_path / "nothing.py")]) == 1
    assert "expected a launch of 0" in capsys.readouterr().err


@pytest.mark.long
def test_results_are_the_same_with_a_timeline():
    import cutedialect as cute

    q = np.random.default_rng(0).standard_normal((1, 1, 130, 64)).astype(np.float16)
    options = {"arch": "sm_90a", "backend": "emulator", "causal": True}
    plain = cute.attention(q, q, q, **options)
    with recording() as found:
        seen = cute.attention(q, q, q, **options)
    np.testing.assert_array_equal(plain, seen)
    assert found[0].spans

"""`python -m cutedialect timeline`: who waits for whom, in the time of the emulator's model."""

from __future__ import annotations

import os
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cutedialect import __main__
from cutedialect.backend.emulator import launch
from cutedialect.backend.emulator.timeline import COPIES, TENSOR, recording
from cutedialect.tools.timeline import Row, svg

ROOT = Path(__file__).parents[2]

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


@pytest.mark.parametrize(
    ("arch", "flops", "first"), [("sm_80", 2048, "warp 0"), ("sm_90a", 4096, "load")]
)
def test_the_tensor_core_of_every_target_has_its_multiplies(tmp_path, capsys, arch, flops, first):
    """Those of warps and of warpgroups as those into tensor memory, at the target's rate."""
    (tmp_path / "gemm.py").write_text(
        f"import numpy as np\nimport cutedialect as cute\na = np.ones((64, 64), np.float16)\n"
        f"cute.gemm(a, a, arch={arch!r}, schedule='tile = (64,64,64)', backend='emulator')\n"
    )
    out = str(tmp_path / "gemm.svg")
    assert __main__.main(["timeline", str(tmp_path / "gemm.py"), "-o", out]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert rows[0][:13].strip() == first
    busy = 64 * 64 * 64 * 2 // flops
    assert rows[-1].split()[-5] == str(busy)
    # Results wait for it.
    assert int(head.split()[0]) > busy


def test_warps_wait_for_their_groups():
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .b64 %rd<2>; .reg .f32 %f<4>; .reg .pred %p<1>;
.shared .align 1024 .b8 data[4096];
mov.u64 %rd0, 0x1000080040;
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
setp.ne.f32 %p0, %f0, %f0;
ZERO
wgmma.fence.sync.aligned;
MULTIPLY
wgmma.commit_group.sync.aligned;
MULTIPLY
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
wgmma.wait_group.sync.aligned 0;
ret;
}
"""
    multiply = (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, %p0, "
        "1, 1, 0, 0;\n"
    )
    zero = ".reg .u32 %r<3>; mov.u32 %r0, %tid.x; mov.u32 %r1, data; mov.u32 %r2, 0;\n" + (
        "mad.lo.u32 %r1, %r0, 32, %r1;\n"
        + "".join(f"st.shared.u32 [%r1+{4 * n}], %r2;\n" for n in range(8))
        + "fence.proxy.async;\nbar.sync 0;\n"
    )
    with recording() as found:
        launch(text.replace("ZERO", zero).replace("MULTIPLY", multiply * 8), "k", 1, 128, [])
    tensor = sorted((s.start, s.end) for s in found[0].spans if s.who == TENSOR)
    assert sum(end - start for start, end in tensor) == 16 * (64 * 8 * 32 // 4096)
    for warp in range(4):
        waits = [s for s in found[0].spans if s.who == warp and s.waits and s.end > tensor[0][0]]
        assert [wait.end for wait in waits][-1] == tensor[-1][1]


PROGRAM = """
    import sys
    import numpy as np
    import cutedialect as cute
    from beside import shape

    @cute.kernel
    def double(X, Y):
        at = cute.tile_index(Y, (8, 8))
        cute.copy(cute.load(cute.local_tile(X, (8, 8), at)) * 2, cute.local_tile(Y, (8, 8), at))

    def main():
        x = np.ones(shape, np.float32)
        double(x, x)
        if len(sys.argv) > 1:
            unknown
        return int(x[0, 0]) - 2

    if __name__ == "__main__":
        sys.exit(main())
"""


def test_a_script_runs_as_the_main_program(tmp_path, capsys, monkeypatch):
    """With its folder's modules, its arguments and its exit code, and in the emulator."""
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)
    path, out = tmp_path / "doubling.py", tmp_path / "doubling.svg"
    path.write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "beside.py").write_text("shape = (8, 8)\n")
    argv, folders = list(sys.argv), list(sys.path)
    assert __main__.main(["timeline", str(path), "-o", str(out)]) == 0
    assert capsys.readouterr().out.endswith(" 0\n")
    assert "CUTEDIALECT_BACKEND" not in os.environ
    assert (sys.argv, sys.path) == (argv, folders)
    assert __main__.main(["timeline", str(path), "more"]) == 1
    assert f"error: {path}:16: NameError: name 'unknown'" in capsys.readouterr().err
    path.write_text("import sys\nsys.exit(3)\n")
    assert __main__.main(["timeline", str(path)]) == 1
    assert f"expected {path} to end with status 0, got 3" in capsys.readouterr().err


def test_the_picture_is_svg_and_holds_its_labels(tmp_path, capsys):
    (tmp_path / "gemm.py").write_text(textwrap.dedent(SCRIPT))
    assert __main__.main(["timeline", str(tmp_path / "gemm.py"), "-o", "x.png"]) == 1
    assert "-o: expected the name of an .svg file, got 'x.png'" in capsys.readouterr().err
    picture = ElementTree.fromstring(svg([Row("main", ((0, 480, "other"),), {})], 123_456_789))
    width = int(picture.attrib["viewBox"].split()[2])
    for node in picture.iter("{http://www.w3.org/2000/svg}text"):
        assert node.text is not None
        size = 8 * len(node.text)  # wider than a sign of 12 pixels is
        x, anchor = int(node.attrib["x"]), node.attrib.get("text-anchor", "start")
        start = x - {"start": 0, "middle": size // 2, "end": size}[anchor]
        assert start >= 0
        assert start + size <= width


# The two of `from_json` and `cupy_launch` want a GPU, or say that they have none.
EXAMPLES = sorted(
    path.stem for path in (ROOT / "examples").glob("*.py")
    if path.stem not in ("from_json", "cupy_launch")
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_has_a_timeline(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert __main__.main(["timeline", str(ROOT / "examples" / f"{name}.py")]) == 0
    assert " cycles\n" in capsys.readouterr().out
    assert (tmp_path / "timeline.svg").read_text().startswith("<svg ")


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

"""The ``cute-emu`` command."""

from __future__ import annotations

import numpy as np
import pytest

from cutedialect.tools.cute_emu import main

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 s)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [s];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
  setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE;
  mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f2, %f1; st.global.f32 [%rd5], %f3;
DONE: ret;
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "k.ptx").write_text(PTX)
    np.save(tmp_path / "a.npy", np.arange(100, dtype=np.float32))
    np.save(tmp_path / "b.npy", np.zeros(100, np.float32))
    return tmp_path


def command(files, *extra, n="100:u32", block="64"):
    return main([
        str(files / "k.ptx"), "--entry", "scale", "--grid", "2", "--block", block, *extra,
        str(files / "a.npy"), f"{files / 'b.npy'}:rw", n, "-2.5:f32",
    ])  # fmt: skip


def test_runs_and_saves(files, capsys):
    assert command(files, "--out", str(files / "out")) == 0
    assert (np.load(files / "out" / "b.npy") == -2.5 * np.arange(100)).all()
    assert not np.load(files / "b.npy").any()
    assert "warp instructions" in capsys.readouterr().out
    assert command(files) == 0
    assert (np.load(files / "b.npy") == -2.5 * np.arange(100)).all()


def test_findings_exit_1(files, capsys):
    assert command(files, n="101:u32") == 1
    text = capsys.readouterr().err
    assert "error[CD-I1]" in text
    assert "PTX line 11" in text
    (files / "k.ptx").write_text(PTX.replace("mul.f32", "mull.f32"))
    assert command(files) == 1
    assert "CD-UNSUPPORTED" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": "100:u33"}, "expected FILE.npy"),
        ({"n": "-1:u32"}, "does not fit u32"),
        ({"n": "x:u32"}, "expected a number"),
        ({"n": "gone.npy"}, "cannot read"),
        ({"n": "tma:gone.npy,box=64x128"}, "cannot read"),
        ({"n": "tma:7:u32,box=64"}, "expected an array"),
        ({"n": "tma:zeros:4x64:f16"}, "expected a box"),
        ({"n": "tma:zeros:4x64:f16,box=8xb"}, "extents such as"),
        ({"n": "tma:zeros:4x64:f16,bux=8x4"}, "expected box=, swizzle="),
        ({"block": "0"}, "expected 1 to 3 positive ints"),
        ({"block": "2048"}, "at most 1024"),
    ],
)
def test_wrong_usage_exits_2(files, capsys, change, message):
    assert command(files, **change) == 2
    assert message in capsys.readouterr().err


def test_missing_ptx_and_options(files, capsys):
    assert main(["nowhere.ptx", "--entry", "k", "--grid", "1", "--block", "1"]) == 2
    assert "cannot read nowhere.ptx" in capsys.readouterr().err
    assert main(["--entry", "k"]) == 2
    assert main(["--help"]) == 0


def test_fresh_arrays_and_seed(files):
    status = main([
        str(files / "k.ptx"), "--entry", "scale", "--grid", "2", "--block", "64", "--seed", "3",
        str(files / "a.npy"), "zeros:10x10:f32", "100:u32", "2:f32", "--out", str(files / "out"),
    ])  # fmt: skip
    assert status == 0
    assert (np.load(files / "out" / "arg1.npy") == 2 * np.arange(100).reshape(10, 10)).all()


MAPPED = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry box(.param .align 64 .b8 m[128], .param .align 64 .b8 n[128])
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
  .shared .align 1024 .b8 sm[1024]; .shared .align 8 .b64 bar;
  mov.b64 %rd1, m; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, n; cvta.param.u64 %rd2, %rd2;
  mov.u32 %r1, bar; mov.u32 %r2, sm; mov.u32 %r3, 64; mov.u32 %r4, 4;
  mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {%r3, %r4}], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
  @!%p1 bra WAIT;
  mov.u32 %r3, 0;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r3, %r4}], [%r2];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  ret;
}
"""


def test_tensor_maps(tmp_path):
    (tmp_path / "k.ptx").write_text(MAPPED)
    a = np.arange(16 * 128).reshape(16, 128).astype(np.float16)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "c.npy", np.zeros((16, 64), np.float16))
    status = main([
        str(tmp_path / "k.ptx"), "--entry", "box", "--grid", "1", "--block", "1",
        f"tma:{tmp_path / 'a.npy'},box=64x8,swizzle=128B",
        f"tma:{tmp_path / 'c.npy'}:rw,box=64x8,swizzle=128B",
    ])  # fmt: skip
    assert status == 0
    c = np.load(tmp_path / "c.npy")
    assert (c[4:12] == a[4:12, 64:]).all()
    assert not c[:4].any()
    assert not c[12:].any()

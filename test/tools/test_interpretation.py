"""`cute-opt --run` and `--validate`."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.passes.bind import defer_sums
from cutedialect.tools.cute_opt import CuteOpt

TENSOR = '!cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">'
VIEW = '!cute.memref<f32, gmem, align<16>, "(4,4):(?{i64 div=4},1)">'
TILE = '!cute.fragment<f32, "(4,4)">'
SCALE = f"""\
cute.kernel @scale(%x: {TENSOR}, %s: f32) {{
  %i, %j = cute.tile_index %x, [4, 4] : {TENSOR}
  %t = cute.local_tile %x, [4, 4], (%i, %j) : {TENSOR} -> {VIEW}
  %v = cute.load %t : {VIEW} -> {TILE}
  %y = cute.map (%e = %v : {TILE}) -> {TILE} {{
    %r = arith.mulf %e, %s : f32
    cute.yield %r : f32
  }}
  cute.copy %y, %t : {TILE} -> {VIEW}
}}
"""
TILED = "cute-tile{arch=sm_80},cute-partition{arch=sm_80}"


def cute_opt(*argv, stdin=SCALE):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt([str(word) for word in argv], io.StringIO(stdin), out, err).run()
    return code, out.getvalue(), err.getvalue()


def test_run_shows_what_changed(tmp_path):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.save(tmp_path / "x.npy", x)
    code, out, err = cute_opt("--run", "--arg", f"x={tmp_path}/x.npy", "--arg", "s=0.5")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "x: 3x5 float32",
        "[[0.  0.5 1.  1.5 2. ]",
        " [2.5 3.  3.5 4.  4.5]",
        " [5.  5.5 6.  6.5 7. ]]",
    ]
    assert np.array_equal(np.load(tmp_path / "x.npy"), x)


def test_run_at_any_stage_and_compare(tmp_path):
    flags = ("--run", "--arg", "x=70x36", "--arg", "s=0.5", "--seed", "3", "--save", tmp_path)
    code, drawn, _ = cute_opt(*flags)
    assert code == 0
    assert drawn.startswith("x: 70x36 float32\n")
    expected = ("--expect", f"x={tmp_path}/x.npy")
    assert cute_opt(*flags[:-2], *expected, "-p", TILED) == (0, drawn, "")
    assert cute_opt("--run", "--arg", "x=70x36", "--seed", "4", *expected)[0] == 1


def test_types_without_a_name_in_files(tmp_path):
    text = SCALE.replace("f32", "bf16").replace("align<16>", "align<16>")
    np.save(tmp_path / "x.npy", np.ones((2, 8), ml_dtypes.bfloat16))
    code, out, _ = cute_opt("--run", "--arg", f"x={tmp_path}/x.npy", "--arg", "s=3.0", stdin=text)
    assert code == 0
    assert "2x8 bfloat16\n[[3. 3." in out


def test_nothing_changed():
    text = SCALE.replace("  cute.copy", "  // cute.copy")
    assert cute_opt("--run", stdin=text) == (0, "no tensor changed\n", "")


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--run", "--arg", "y=3x3"), 1, r"expected an argument (x, s), got 'y'"),
        (("--run", "--arg", "x"), 2, "expected NAME=64x32, NAME=FILE.npy or NAME=0.5, got 'x'"),
        (("--run", "--expect", "x=3"), 2, "expected NAME=FILE.npy, got 'x=3'"),
        (("--run", "--arg", "x=3x3x3"), 1, "expected 2 extents for"),
        (("--run", "--arg", "x=no.npy"), 1, "cannot read no.npy"),
        (("--run", "--expect", "y=no.npy"), 1, "expected a tensor of the module (x, s), got 'y'"),
        (("--run", "-p", "cute-to-ptx"), 1, "expected a cute.kernel @scale, of a stage before"),
        (("--validate", "--seed", "x"), 2, "option '--seed': invalid int value"),
    ],
)
def test_wrong_flags(flags, code, message):
    found, out, err = cute_opt(*flags)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_validation_writes_the_module():
    plain = cute_opt("-p", TILED)
    assert plain[0] == 0
    assert cute_opt("-p", TILED, "--validate") == plain


@cute.kernel
def softmax(X, D, *, tile=(32, 64)):
    i, j = cute.tile_index(D, tile)
    total = cute.zeros((32, 1), cute.f32)
    for k in cute.range(4):
        x = cute.local_tile(X, (32, 64), (i, k)).load()
        total.assign(total * 2.0 + cute.row_sum(x))
    x = cute.local_tile(X, tile, (i, j)).load()
    cute.copy(x * total, cute.local_tile(D, tile, (i, j)))


@pytest.mark.parametrize("flags", ["cute-to-ptx{arch=sm_90a}", "one by one"])
def test_the_pass_that_changes_the_result_is_named(flags, monkeypatch):
    x = np.zeros((64, 256), np.float32)
    text = str(cute.compile(softmax, x, x).traced())
    if flags == "one by one":
        flags = "cute-fuse,cute-tile,cute-partition,cute-defer-sums,cute-assign-warp-roles"
    assert cute_opt("-p", flags, "--validate", stdin=text)[0] == 0

    original = defer_sums.DeferSumsPass.apply

    def broken(self, ctx, op):
        original(self, ctx, op)
        fill = next(each for each in op.walk() if each.name == "cute.fill")
        fill.detach()
        fill.erase()

    monkeypatch.setattr(defer_sums.DeferSumsPass, "apply", broken)
    code, out, err = cute_opt("-p", flags, "--validate", stdin=text)
    assert (code, out) == (1, "")
    assert "'cute-defer-sums' changed the result: D[0, 0] was" in err
    code, _, err = cute_opt("-p", flags, stdin=text)
    assert (code, err) == (0, "")


def test_help_tells_of_it():
    _, out, _ = cute_opt("--help")
    for flag in ("--run", "--validate", "--arg NAME=VALUE", "--expect", "--save DIR", "--seed N"):
        assert flag in out

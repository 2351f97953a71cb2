"""Options of passes that cannot be meant: refused where the pipeline names them, or at the op."""

from __future__ import annotations

import io

import pytest

from cutedialect.tools.cute_opt import CuteOpt

GEMM = """
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">,
               %b: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">,
               %c: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
  %z = arith.constant 0 : i32
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
  %0 = arith.constant 0.0 : f32
  cute.fill %acc, %0 : !cute.fragment<f32, "(64,32)">
  %ta = cute.local_tile %a, [64, 16], (%z, %z) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,16):(?{i64 div=8},1)">
  %tb = cute.local_tile %b, [32, 16], (%z, %z) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,16):(?{i64 div=8},1)">
  cute.gemm %ta, %tb, %acc : !cute.memref<f16, gmem, align<16>, "(64,16):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(32,16):(?{i64 div=8},1)">, !cute.fragment<f32, "(64,32)">
}
"""  # noqa: E501
TILED = "cute-tile{arch=sm_80},cute-partition{arch=sm_80},cute-assign-warp-roles"


def cute_opt(pipeline):
    err = io.StringIO()
    code = CuteOpt(["-", "-p", pipeline], io.StringIO(GEMM), io.StringIO(), err).run()
    return code, err.getvalue()


def test_the_program_compiles():
    assert cute_opt("cute-to-ptx{arch=sm_80}") == (0, "")
    assert cute_opt('cute-to-ptx{arch=sm_80 schedule="tile = (64,32,16), stages = 2"}') == (0, "")


@pytest.mark.parametrize(
    ("pipeline", "place", "message"),
    [
        ("cute-tile{arch=sm_81}", "<passes>:1:1", "got target 'sm_81'; did you mean"),
        ("cute-fuse,cute-partition{arch=sm80}", "<passes>:1:11", "got target 'sm80'"),
        ("cute-to-ptx{arch=sm_9}", "<passes>:1:1", "got target 'sm_9'"),
        ('cute-tile{schedule="stagse = 3"}', "<passes>:1:1", "did you mean 'stages'?"),
        (
            TILED + ",cute-schedule-loops{stages=0}",
            "<passes>:1:73",
            "stages to be an int in 1..16, got 0",
        ),
        (
            TILED + ",cute-schedule-loops{stages=many}",
            "<passes>:1:100",
            "expected an integer, got many",
        ),
        (
            "cute-tile{arch=sm_80},cute-partition{arch=sm_90a}",
            "<stdin>:1:1",
            "expected the target that cute-tile was given, sm_80, got sm_90a",
        ),
        (
            'cute-to-ptx{arch=sm_80 schedule="tile = (32,32,16)"}',
            "<stdin>:11:3",
            "'cute.gemm': expected the schedule's tile to be the program's (64, 32, 16), got",
        ),
    ],
)
def test_what_is_refused(pipeline, place, message):
    code, err = cute_opt(pipeline)
    first = err.split("\n", 1)[0]
    assert code == (2 if place.startswith("<passes>") else 1)
    assert first.startswith(f"{place}: error: "), err
    assert message in first

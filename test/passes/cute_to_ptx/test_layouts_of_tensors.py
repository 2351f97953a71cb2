"""A tile program computes with the layouts of its tensors: which tile a block has, by the layout
algebra, as coordinates of tiles that copies, pipelines and multiplies take.
"""

import io

import numpy as np
import pytest
from xdsl.context import Context

from cutedialect.backend.emulator import launch
from cutedialect.backend.interpreter import run
from cutedialect.backend.ptx.printer import ptx_text
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import LaunchOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.cute_to_ptx import CuteToPtxPass
from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.locating_parser import LocatingParser

# Blocks have tiles row by row of those columns of tiles in which they are counted.
GEMM = """
!AB = !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
!D = !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
!ab = !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
!d = !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)">
cute.kernel @gemm(%A: !AB, %B: !AB, %D: !D) {
  %m, %n = cute.tile_index %D, [64, 64] : !D
  %layout = cute.get_layout %D : !D -> !cute.layout<"(?,?):(?{i64 div=4},1)">
  %shape = cute.get_shape(%layout) : !cute.layout<"(?,?):(?{i64 div=4},1)"> -> !cute.shape<"(?,?)">
  %tile = cute.static : !cute.shape<"(64,64)">
  %tiles = cute.ceil_div(%shape, %tile) : (!cute.shape<"(?,?)">, !cute.shape<"(64,64)">) -> !cute.shape<"(?,?)">
  %rows, %columns = cute.get_scalars<{only_dynamic}> (%tiles) : !cute.shape<"(?,?)">
  %stride = cute.make_stride(%columns) : (i32) -> !cute.stride<"(?,1)">
  %by_rows = cute.make_layout(%tiles, %stride) : (!cute.shape<"(?,?)">, !cute.stride<"(?,1)">) -> !cute.layout<"(?,?):(?,1)">
  %mine = cute.make_coord(%m, %n) : (i32, i32) -> !cute.coord<"(?,?)">
  %number = cute.layout_eval(%mine, %by_rows) : (!cute.coord<"(?,?)">, !cute.layout<"(?,?):(?,1)">) -> !cute.int_tuple<"?">
  %at = cute.idx2crd(%number, %tiles) : (!cute.int_tuple<"?">, !cute.shape<"(?,?)">) -> !cute.coord<"(?,?)">
  %i, %j = cute.get_scalars<{only_dynamic}> (%at) : !cute.coord<"(?,?)">
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !cute.fragment<f32, "(64,64)">
  %first = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %step = arith.constant 32 : i32
  %depth = cute.dim %A, 1 : !AB
  %end = arith.ceildivsi %depth, %step : i32
  scf.for %k = %first to %end step %one : i32 {
    %a = cute.local_tile %A, [64, 32], (%i, %k) : !AB -> !ab
    %b = cute.local_tile %B, [64, 32], (%j, %k) : !AB -> !ab
    cute.gemm %a, %b, %acc : !ab, !ab, !cute.fragment<f32, "(64,64)">
  }
  %d = cute.local_tile %D, [64, 64], (%i, %j) : !D -> !d
  cute.copy %acc, %d : !cute.fragment<f32, "(64,64)"> -> !d
}
"""  # noqa: E501


def parsed():
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return context, LocatingParser(context, GEMM, "gemm.mlir").parse_module()


def compiled(arch):
    context, module = parsed()
    CuteToPtxPass(arch=arch).apply(context, module)
    (launched,) = ops_of(module, LaunchOp)
    sizes = {name: launched.properties[name].value.data for name in ("threads", "smem")}
    return ptx_text(module), sizes


def test_coordinates_of_tiles_from_the_layout_of_a_tensor():
    text, sizes = compiled("sm_80")
    assert "cp.async" in text
    m, n, k = 192, 320, 96
    random_ = np.random.default_rng(5)
    a, b = (random_.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    d = np.full((m, n), np.nan, np.float32)
    arguments = []
    for array in (a, b, d):
        arguments += [array, *map(np.int32, array.shape), np.int64(array.shape[1])]
    grid = (m // 64 * (n // 64),)
    launch(text, "gemm", grid, sizes["threads"], arguments, dynamic_smem=sizes["smem"])
    assert np.array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))


def test_the_interpreter_has_them():
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, (rows, 64)).astype(np.float16) for rows in (192, 128))
    d = np.full((192, 128), np.nan, np.float32)
    run(parsed()[1], [a, b, d])
    assert np.array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))


@pytest.mark.parametrize(("arch", "multiply"), [("sm_90a", "wgmma"), ("sm_100a", "tcgen05.mma")])
def test_pipelines_of_other_targets_take_them(arch, multiply):
    text, _ = compiled(arch)
    assert multiply in text
    assert "cp.async.bulk.tensor" in text


@pytest.mark.parametrize(
    ("tensor", "result", "message"),
    [
        (
            'gmem, align<16>, "(8,?):(?{i64},1)"',
            '"(8,?):(?,1)"',
            'type !cute.layout<"(8,?):(?{i64},1)">',
        ),
        ('gmem, align<16>, "((?,4),8):((1,?{i64}),1)"', '"8:1"', "run-time numbers of whole modes"),
        ('smem, align<1024>, S<3,4,3>, "(8,64):(64,1)"', '"8:1"', "a tensor without a swizzle"),
    ],
)
def test_layouts_that_a_tensor_does_not_have(tensor, result, message):
    text = f"""
func.func @f(%t: !cute.memref<f16, {tensor}>) {{
  %l = cute.get_layout %t : !cute.memref<f16, {tensor}> -> !cute.layout<{result}>
  return
}}
"""
    err = io.StringIO()
    assert CuteOpt([], io.StringIO(text), io.StringIO(), err).run() == 1
    assert message in err.getvalue()

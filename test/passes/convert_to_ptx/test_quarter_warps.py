"""`mma.m8n8k4` of f16 in all majors: each quarter of a warp has a product of its own, here the four
of a tile (16,16), which lie where the thread-value layouts of its operands say.
"""

import numpy as np
import pytest

# (thread, value) of a quarter, threads (4 lanes, 2 quarters along M, 2 along N, upper lanes): rows
# in lanes and the depth in values, or the depth in lanes and rows in values.
ROWS = "((4,2,2,2),(4,1,1)):((1,{m},{n},4),(16,0,0))"
COLUMNS = "((4,2,2,2),(4,1,1)):((16,{m},{n},4),(1,0,0))"
SUMS = {
    "f16": "((4,2,2,2),(8,1,1)):((1,8,128,4),(16,0,0))",
    "f32": "(((2,2),2,2,2),((2,2,2),1,1)):(((1,32),8,128,4),((16,2,64),0,0))",
}
MAJORS = {"TN": "row.col", "TT": "row.row", "NN": "col.col", "NT": "col.row"}


@pytest.mark.parametrize("element", SUMS)
@pytest.mark.parametrize("majors", MAJORS)
def test_quarters_of_a_warp_multiply(run_kernel, lower, element, majors):
    a = (ROWS if majors[0] == "T" else COLUMNS).format(m=8, n=0)
    b = (ROWS if majors[1] == "N" else COLUMNS).format(m=0, n=8)
    named = "" if majors == "TN" else f", majors = {majors}"
    text = f"""
!a = !cute.memref<f16, gmem, align<16>, "(16,4):(4,1)">
!c = !cute.memref<{element}, gmem, align<16>, "(16,16):(16,1)">
!fa = !cute.fragment<f16, "(16,4)", "{a}">
!fb = !cute.fragment<f16, "(16,4)", "{b}">
!fc = !cute.fragment<{element}, "(16,16)", "{SUMS[element]}">
cute.kernel @k(%A: !a, %B: !a, %C: !c) attributes {{threads = 32 : i32}} {{
  %a = cute.load %A : !a -> !fa
  %b = cute.load %B : !a -> !fb
  %c = cute.load %C : !c -> !fc
  cute.gemm %a, %b, %c {{
    atom = !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, {element}){named}>
  }} : !fa, !fb, !fc
  cute.copy %c, %C : !fc -> !c
}}
"""
    assert f"m8n8k4.{MAJORS[majors]}." in str(lower(text))
    random_ = np.random.default_rng(8)
    left, right = (random_.integers(-4, 5, (16, 4)).astype(np.float16) for _ in range(2))
    sums = random_.integers(-9, 9, (16, 16)).astype(np.dtype(f"float{element[1:]}"))
    expected = sums + left.astype(np.float32) @ right.T.astype(np.float32)
    run_kernel(text, (1,), [left, right, sums], threads=32)
    assert np.array_equal(sums, expected)

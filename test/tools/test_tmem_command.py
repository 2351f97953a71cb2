"""Maps of tensor memory."""

import pytest

from cutedialect import __main__
from cutedialect.tools.tmem_command import tensor_memory_map


def module(*layouts):
    """A kernel with buffers of (element, layout) in tensor memory."""
    lines = [
        f'  %t{i} = cute.alloc_tmem : !cute.memref<{element}, tmem, align<4>, "{layout}">'
        for i, (element, layout) in enumerate(layouts)
    ]
    return "\n".join(["cute.kernel @k() {", *lines, "}"])


def test_half_of_the_lanes_and_stages_behind_other_tiles():
    drawn = tensor_memory_map(
        module(("f32", "((16,4),32):((65536,2097152),1)"), ("f16", "(128,64,2):(131072,1,64)"))
    ).splitlines()
    assert drawn[0] == "@k: 96 of 512 columns used, 128 allocated"
    assert drawn[1].startswith("  A  columns   0 ..  31  %t0, 64x32 f32")
    assert drawn[2].startswith("  B  columns  32 ..  63  %t1, 128x64 f16, stage 0 of 2")
    assert drawn[3].startswith("  C  columns  64 ..  95")
    assert all("aaaaBBBBCCCC......" in line for line in drawn[4:8])


def test_blocks_of_rows_lie_side_by_side():
    drawn = tensor_memory_map(module(("f32", "((128,2),64):((65536,64),1)"))).splitlines()
    assert "columns   0 .. 127  %t0, 256x64 f32" in drawn[1]
    assert "AAAAAAAAAAAAAAAA...." in drawn[2]


def test_an_operand_over_an_accumulator_has_its_columns():
    under, over = (
        f'!cute.memref<{element}, tmem, align<4>, "{layout}">'
        for element, layout in (
            ("f32", "(128,64,2):(65536,1,64)"),
            ("f16", "(128,64,2):(131072,1,128)"),
        )
    )
    drawn = tensor_memory_map(
        "cute.kernel @k() {\n"
        f"  %s = cute.alloc_tmem : {under}\n"
        f"  %p = cute.alloc_tmem over %s : {under} : {over}\n"
        "}"
    ).splitlines()
    assert drawn[0] == "@k: 128 of 512 columns used, 128 allocated"
    assert drawn[3].startswith("  C  columns   0 ..  31  %p, 128x64 f16, stage 0 of 2, over A")
    assert drawn[4].startswith("  D  columns  64 ..  95  %p, 128x64 f16, stage 1 of 2, over B")
    assert "CCCCAAAADDDDBBBB...." in drawn[5]


def test_a_kernel_without_tensor_memory_and_text_that_is_no_ir(tmp_path, capsys):
    assert tensor_memory_map("cute.kernel @k() {\n}") == "@k: no tensor memory"
    with pytest.raises(ValueError, match="expected IR of a kernel"):
        tensor_memory_map("cute.kernel @k(")
    assert __main__.main(["tmem", str(tmp_path / "none.mlir")]) == 1
    assert "none.mlir" in capsys.readouterr().err

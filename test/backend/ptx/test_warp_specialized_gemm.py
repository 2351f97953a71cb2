"""A kernel written in the ptx dialect by hand, assembled without a word from ptxas: TMA loads with
multicast in a cluster, mbarriers, wgmma, stmatrix and a TMA store.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cutedialect.atoms import legal
from cutedialect.backend.ptx import ptx_text
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import PtxasNotFoundError

SOURCE = Path(__file__).with_name("warp_specialized_gemm.mlir")


def test_it_assembles_as_it_is_written(parse):
    text = ptx_text(parse(SOURCE.read_text()))
    try:
        ptxas.find("sm_90a")
    except PtxasNotFoundError:
        pytest.skip("no ptxas is installed")
    assembly = ptxas.assemble(text, "sm_90a", strict=True)
    assert assembly.messages == (), "no wait is injected and nothing is serialized"
    assert assembly.spill_stores == assembly.spill_loads == assembly.stack == 0
    assert assembly.registers == 168, "65536 registers over 384 threads: setmaxnreg is honored"


def test_a_kernel_that_moves_registers_says_how_many_it_has(parse):
    """Without .minnctapersm and .maxnreg ptxas ignores setmaxnreg, with an info line only."""
    for given, shown in (
        ("", ".minnctapersm 1"),
        (", min_ctas = 2 : i32", ".minnctapersm 2"),
        (", max_regs = 64 : i32", ".maxnreg 64"),
    ):
        text = ptx_text(
            parse(
                f'ptx.kernel @k() attributes {{target = "sm_90a", threads = 128 : i32{given}}} {{\n'
                'ptx.setmaxnreg "dec", 40\n}'
            )
        )
        assert f".reqntid 128, 1, 1\n{shown}\n{{" in text


def test_every_instruction_is_legal_by_the_tables(parse):
    text = ptx_text(parse(SOURCE.read_text()))
    entry = text[text.index("\n{\n") + 3 : text.rindex("}")]
    for line in entry.split("\n"):
        statement = line.split("//")[0].strip()
        if statement and not statement.startswith((".", "$")):
            found = legal(statement, "sm_90a")
            assert found, f"{statement}: {found.reason}"

"""A kernel written in the ptx dialect by hand, assembled without a word from ptxas and run on the
emulator: TMA loads with multicast in a cluster, mbarriers, wgmma, stmatrix and a TMA store.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cutedialect.atoms import legal
from cutedialect.backend.emulator import launch
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


def tensor_map(array: np.ndarray, box: tuple[int, int]) -> SimpleNamespace:
    """A map of a row-major matrix, with boxes of columns x rows in rows of 128 bytes."""
    rows, columns = array.shape
    return SimpleNamespace(
        array=array,
        dtype="f16",
        dims=(columns, rows),
        strides=(columns * 2,),
        box=box,
        element_strides=(1, 1),
        swizzle="128B",
        interleave="none",
        oob_fill="zero",
    )


@pytest.mark.parametrize("trips", [0, 1, 3, 9])
@pytest.mark.parametrize("seed", [0, 1])
def test_gemm_agrees_with_numpy(trips, seed, parse):
    m, n, k = 256, 128, 64 * trips
    rng = np.random.default_rng(trips)
    a = rng.integers(-2, 3, (m, max(k, 64))).astype(np.float16)
    b = rng.integers(-2, 3, (n, max(k, 64))).astype(np.float16)
    c = np.full((m, n), -7, np.float16)
    args = [
        tensor_map(a, (64, 128)),
        tensor_map(b, (64, 64)),
        tensor_map(c, (64, 64)),
        np.int32(trips),
    ]
    launch(
        ptx_text(parse(SOURCE.read_text())),
        "gemm",
        (2, 1),
        384,
        args,
        dynamic_smem=163904,
        cluster=(2, 1, 1),
        seed=seed,
    )
    wanted = a[:, :k].astype(np.float32) @ b[:, :k].astype(np.float32).T
    np.testing.assert_array_equal(c, wanted.astype(np.float16))

"""The yardstick of machine code: loops by control flow, what each trip executes, and resources."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import machine_code
from benchmarks import sass as yardstick
from cutedialect.backend.runtime import ptxas
from cutedialect.model import B200
from cutedialect.tools import sass

KEPT = sorted((Path(yardstick.__file__).parent / "machine_counts").glob("*.json"))
# A loop of exponentials, which stores on one way through, in a loop over work items; two ways
# back, since a wait stands behind the end of the kernel.
TEXT = """
.text.kernel:
        /*0000*/                   UMOV UR6, 0x8 ;
        /*0010*/                   UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR6 ;
        /*0020*/                   SYNCS.EXCH.64 URZ, [UR4], UR6 ;
.L_x_1:
        /*0030*/                   MOV R1, 0x1 ;
.L_x_2:
        /*0040*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3 ;
        /*0050*/              @!P0 BRA `(.L_x_9) ;
.L_x_3:
        /*0060*/                   MUFU.EX2 R4, R5 ;
        /*0070*/                   MUFU.EX2 R6, R7 ;
        /*0080*/                   FFMA2 R8, R4, R6, R8 ;
        /*0090*/                   F2FP.BF16.F32.PACK_AB R4, R6, R4 ;
        /*00a0*/               @P1 BRA `(.L_x_4) ;
        /*00b0*/                   STG.E [R10], R4 ;
.L_x_4:
        /*00c0*/                   BRA.U UP1, `(.L_x_2) ;
        /*00d0*/                   BRA.U UP2, `(.L_x_1) ;
        /*00e0*/                   EXIT ;
.L_x_9:
        /*00f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3 ;
        /*0100*/              @!P0 BRA `(.L_x_9) ;
        /*0110*/                   BRA `(.L_x_3) ;
.L_x_10:
        /*0120*/                   BRA `(.L_x_10);
//--------------------- .nv.shared --------------------------
        /*0000*/                   FADD R1, R2, R3 ;
"""


@pytest.fixture
def assembler():
    """What counts of ours were taken with: the newest ptxas of CUDA 13."""
    if sass.find() is None or not ptxas.version(ptxas.find()).startswith("13.5"):
        pytest.skip("needs nvdisasm and ptxas 13.5")


def kernel_of(text):
    ((name, lines),) = machine_code.parsed(text)
    columns = machine_code.columns_of(lines)
    return machine_code.MachineCode(name, lines, 32, columns)


def test_loops_are_those_of_the_control_flow():
    kernel = kernel_of(TEXT)
    outer, inner, *waits = kernel.loops()
    assert (outer.depth, inner.depth) == (0, 1)
    assert outer.always == Counter({"MOV": 1, "BRA": 1})
    assert inner.always == Counter({"MUFU.EX2": 2, "BRA": 3, "SYNCS": 1, "FFMA2": 1, "F2FP": 1})
    assert inner.sometimes == Counter({"STG": 1, "BRA": 1})
    assert [loop.always for loop in waits] == [Counter(SYNCS=1, BRA=1)]
    assert (kernel.columns, kernel.barriers) == (256, 1)


def test_instructions_are_told_for_each_score(monkeypatch):
    monkeypatch.setattr(yardstick, "_LEAST", 5)
    (role,) = yardstick.roles_of([kernel_of(TEXT)])
    assert (role.name, role.scores, role.total) == ("softmax", 2, 4.0)
    assert yardstick.counts(role)["MUFU.EX2"] == 1.0
    assert role.bounds(B200, []) == {
        "issue": 8.0,
        "fma": 2.0,
        "alu": B200.heavy["alu"],
        "sfu": 2 * B200.heavy["sfu"],
    }
    text = yardstick.shown(role, B200, [], role)
    assert "softmax loop at instruction 4, 8 instructions in every trip (2 in some)" in text
    assert "MUFU.EX2    1.000    1.000" in text


@pytest.mark.parametrize(
    "file", [file for file in KEPT if "fmha" in file.stem or "-4-d" in file.stem],
    ids=lambda file: file.stem,
)  # fmt: skip
def test_counts_of_peers_say_where_they_come_from(file):
    kept = json.loads(file.read_text())
    assert "nvidia-cutlass-dsl" in kept["about"]
    loops = [loop for loop in kept["loops"] if loop["loop"] == "softmax"]
    assert loops
    least = min(sum(loop["always"].values()) / loop["scores"] for loop in loops)
    assert 3.5 < least < 4.5
    roles = [
        yardstick.Role(
            machine_code.MachineCode(loop["kernel"], (), 0, 0),
            machine_code.Loop(0, 0, Counter(loop["always"]), Counter(loop["sometimes"])),
            loop["scores"],
        )
        for loop in kept["loops"]
    ]
    assert least < yardstick.together(roles) < least + 0.2


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize(
    ("heads", "depth", "masks", "most"),
    [(16, 128, {}, 4.4), (16, 128, {"causal": True}, 4.9),
     pytest.param(32, 64, {}, 4.7, marks=pytest.mark.long)],
)  # fmt: skip
def test_attention_takes_few_instructions_a_score(heads, depth, masks, most):
    """Of all warps that compute exponentials and correct sums, by the newest ptxas of CUDA 13."""
    q = cute.TensorSpec((1, heads, 16384, depth), "bf16")
    cubin = cute.attention.compile(q, q, q, arch="sm_100a", **masks).cubin
    found = yardstick.together(yardstick.roles_of(machine_code.read(cubin)))
    assert found is not None
    assert 3.5 < found <= most


def executed(loops, adding):
    """Instructions of all warps of a CTA for a block of keys and rows, of which `loops` are what
    each warp that computes, multiplies and loads executes, and a warp of `adding` that add dQ.
    """
    steady = {
        name: max(loops[name], key=lambda loop: (loop["UTCHMMA"], loop["LDTM"])) for name in loops
    }
    one = {name: loop.total() for name, loop in steady.items()}
    return 8 * one["softmax"] + adding * one["other"] + one["multiply"] + one["load"]


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize(
    ("heads", "depth", "masks"),
    [(16, 128, {}), pytest.param(16, 128, {"causal": True}, marks=pytest.mark.long),
     pytest.param(32, 64, {}, marks=pytest.mark.long)],
)  # fmt: skip
def test_the_backward_pass_executes_no_more_than_the_peer(heads, depth, masks):
    """A block of 128 keys and 128 rows: eight warps compute in both; eight of ours add dQ to
    memory, four of the peer's.
    """
    mask = "causal" if masks else "full"
    (file,) = (file for file in KEPT if f"backward-d{depth}-{mask}" in file.stem)
    kept = json.loads(file.read_text())
    assert "nvidia-cutlass-dsl" in kept["about"]
    theirs = {}
    for loop in kept["loops"]:
        theirs.setdefault(loop["loop"], []).append(Counter(loop["always"]))
    q = cute.TensorSpec((1, heads, 16384, depth), "bf16")
    lse = cute.TensorSpec((1, heads, 16384), "f32")
    kernel = cute.compile(
        cute.attention_backward, q, q, q, q, q, lse, dq=q, dk=q, dv=q, arch="sm_100a", **masks
    )
    codes = machine_code.read(kernel.cubin)
    (code,) = (code for code in codes if code.name == "key_gradients")
    ours = {}
    for role in yardstick.roles_of([code]):
        ours.setdefault(role.name, []).append(role.loop.always)
    # The mask's loops round as much: without it is the least.
    for loops in (ours, theirs):
        loops["softmax"] = [min(loops["softmax"], key=Counter.total)]
    assert ours["softmax"][0].total() > 256
    assert executed(ours, 8) <= 1.15 * executed(theirs, 4)


@pytest.mark.usefixtures("assembler")
def test_products_of_pairs_take_no_more_instructions_than_those_of_the_peer():
    """Of 256 x 256 tiles of two CTAs: the multiplying warp's steps of 64, and what four warps
    execute to store a tile, ours beside factors (`alpha`), which the peer's kernel has not.
    """
    (file,) = (file for file in KEPT if "gemm" in file.stem)
    kept = json.loads(file.read_text())
    assert "nvidia-cutlass-dsl" in kept["about"]
    theirs = {loop["loop"]: Counter(loop["always"]) for loop in kept["loops"]}
    some = {loop["loop"]: Counter(loop["sometimes"]) for loop in kept["loops"]}
    a = cute.TensorSpec((8192, 8192), "bf16")
    b = cute.TensorSpec((8192, 8192), "bf16", strides=(1, 8192))
    kernel = cute.gemm.compile(a, b, arch="sm_100a")
    assert cute.Schedule.parse(kernel.schedule).cluster == (2, 1)
    (code,) = machine_code.read(kernel.cubin)
    assert code.columns == 512
    ours = {role.name: role.loop for role in yardstick.roles_of([code])}
    # Four multiplies are 64 of the depth. Of the peer's two steps ways to wait are 8 instructions.
    multiply = ours["multiply"].always
    both = theirs["multiply"] + some["multiply"]
    assert multiply["UTCHMMA"] == both["UTCHMMA"] / 2 == 4
    assert multiply.total() <= (both.total() - 8) / 2
    # The peer's loop stores 32 columns in a trip: each thread rounds 128 pairs, as ours.
    store, columns = ours["store"].always, theirs["store"]
    trips = store["F2FP"] / columns["F2FP"]
    assert trips == 8
    assert store.total() - store["FMUL2"] <= trips * columns.total()


@pytest.fixture(scope="module")
def cubin():
    if sass.find() is None:
        pytest.skip("needs nvdisasm")
    a = np.zeros((256, 256), np.float16)
    return cute.compile(cute.gemm, a, a.T, arch="sm_90a", backend="emulator").cubin


def test_our_own_machine_code_is_read(cubin, tmp_path, capsys):
    file = tmp_path / "gemm.cubin"
    file.write_bytes(cubin)
    told = tmp_path / "counts.json"
    command = [str(file), "--peer", str(file), "--arch", "sm_90a", "--json", str(told)]
    command += ["--about", "ours"]
    assert yardstick.main([*command, "--multiply", "64x128x16"]) == 0
    out = capsys.readouterr().out
    assert "multiply loop" in out
    assert "tensor" in out
    (kernel,) = machine_code.read(cubin)
    assert 32 <= kernel.registers <= 255
    assert kernel.barriers > 0
    described = json.loads(told.read_text())
    assert described["about"] == "ours"
    loops = [one for one in described["loops"] if one["loop"] == "multiply"]
    assert any(one["always"].get("HGMMA") for one in loops)


def test_what_is_no_cubin_is_one_line(cubin, tmp_path, capsys):
    file = tmp_path / "no.cubin"
    file.write_bytes(b"no")
    assert yardstick.main([str(file)]) == 2
    assert capsys.readouterr().err.startswith("expected a cubin that nvdisasm reads, got:")

"""Broken texts and broken launches of the foreign corpus: each ends in an EmulatorError with its
code and, where the text is at fault, the PTX line.
"""

from pathlib import Path

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, UnsupportedInstruction, launch

FOLDER = Path(__file__).resolve().parent


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.ptx").read_text()


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def run_scan(text: str, **options) -> np.ndarray:
    x, scan, totals = np.ones(64, np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32)
    launch(text, "block_scan", 1, 64, [x, scan, totals, np.int32(64)], **options)
    return scan


def run_collatz(text: str, start: np.ndarray | None = None, count: int = 32, **options) -> None:
    start = np.arange(1, 33, dtype=np.uint32) if start is None else start
    steps, peak = np.zeros(32, np.int32), np.zeros(32, np.uint64)
    launch(text, "collatz", 1, 32, [start, steps, peak, np.int32(count)], **options)


def broken(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


# (what to replace in collatz.ptx, by what, what the message says, code)
TEXTS = {
    "unknown opcode": ("add.s64 ", "frobnicate.s64 ", "frobnicate", "CD-UNSUPPORTED"),
    "unknown modifier": ("mad.lo.s32", "mad.lo.sparkling.s32", "sparkling", "CD-UNSUPPORTED"),
    "unknown type": ("mul.wide.s32", "mul.wide.s33", "s33", None),
    "label is gone": ("$L__BB0_4:", "", "L__BB0_4", "CD-PTX"),
    "label twice": ("$L__BB0_4:", "$L__BB0_4:\n$L__BB0_4:", "L__BB0_4", "CD-PTX"),
    "undeclared register": ("ld.param.u64 \t%rd", "ld.param.u64 \t%rx", "%rx", "CD-PTX"),
    "missing semicolon": ("ret;", "ret", None, "CD-PTX"),
    "operand missing": ("%tid.x;", ";", None, "CD-PTX"),
    "unknown special register": ("%tid.x", "%tidy.x", "tidy", None),
    "unknown parameter": ("[collatz_param_1]", "[collatz_param_9]", "collatz_param_9", "CD-PTX"),
    "bracket left open": ("[collatz_param_1]", "[collatz_param_1", None, "CD-PTX"),
    "stray character": ("ret;", "ret; ?", None, "CD-PTX"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_broken_text(case: str):
    old, new, said, code = TEXTS[case]
    whole = text_of("collatz")
    with pytest.raises(EmulatorError, match=said) as caught:
        run_collatz(broken(whole, old, new))
    assert code in (None, caught.value.code)
    # The report names the line, or (a brace, a label, a semicolon) a place after the edit.
    assert caught.value.ptx_line is not None
    if code == "CD-UNSUPPORTED":
        assert isinstance(caught.value, UnsupportedInstruction)
        assert caught.value.ptx_line == line_of(whole, old)


def test_unknown_name_in_an_initializer():
    text = broken(text_of("function_pointers"), "{_Z5shiftfi", "{_Z5driftfi")
    with pytest.raises(EmulatorError, match="_Z5driftfi") as caught:
        launch(text, "function_pointers", 1, 32, [np.zeros(32, np.float32)] * 3)
    assert caught.value.ptx_line == line_of(text, "_Z5driftfi")


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_truncated_text(part: float):
    whole = text_of("block_reduce").rstrip()
    with pytest.raises(EmulatorError) as caught:
        launch(whole[: int(part * len(whole))], "block_reduce", 1, 32, [])
    assert caught.value.code in ("CD-PTX", "CD-ARG")


def test_array_too_short():
    text = text_of("collatz")
    with pytest.raises(EmulatorError, match="out-of-bounds") as caught:
        run_collatz(text, np.ones(20, np.uint32))
    assert caught.value.code == "CD-I1"
    assert caught.value.ptx_line == line_of(text, "ld.global.u32")


def test_shared_index_out_of_bounds():
    # Bins are found at eight bytes a value instead of four.
    text = broken(
        text_of("histogram"), "mul.wide.u16 \t%r20, %rs1, 4;", "mul.wide.u16 \t%r20, %rs1, 8;"
    )
    arrays = [np.full(32, 200, np.uint8), np.zeros(256, np.uint32)]
    with pytest.raises(EmulatorError, match="out-of-bounds shared") as caught:
        launch(text, "histogram", 1, 32, [*arrays, np.int32(32)])
    assert caught.value.code == "CD-I1"
    assert caught.value.ptx_line == line_of(text, "atom.shared.add")


def test_misaligned_vector():
    text = text_of("vector_copy")
    x, out = np.zeros(65, np.float32), np.zeros(64, np.float32)
    with pytest.raises(EmulatorError, match="misaligned") as caught:
        launch(text, "vector_copy", 1, 16, [x[1:], out, np.int32(64), np.float32(1)])
    assert caught.value.code == "CD-I2"
    assert caught.value.ptx_line == line_of(text, "ld.global.cs.v4.f32")


def test_endless_loop_meets_the_budget():
    zero = np.zeros(32, np.uint32)  # 0 never reaches 1
    with pytest.raises(EmulatorError) as caught:
        run_collatz(text_of("collatz"), zero, max_steps=5000)
    assert caught.value.code == "CD-LIMIT"
    assert caught.value.ptx_line is not None


def test_lost_flag_is_a_hang():
    # The consumer waits for a flag that is now never set.
    text = text_of("producer_consumer")
    stores = [line for line in text.splitlines() if "st.volatile.shared" in line]
    lost = text.replace(stores[-1], "")
    x, sums = np.zeros((2, 32), np.int32), np.zeros(32, np.int64)
    with pytest.raises(EmulatorError) as caught:
        launch(lost, "producer_consumer", 1, 64, [x, sums, np.int32(2)], max_steps=500_000)
    assert caught.value.code in ("CD-HANG", "CD-LIMIT")
    assert caught.value.ptx_line is not None


def test_uninitialized_shared_memory():
    # One store of a warp's sum is gone, and the sum is read all the same.
    text = text_of("block_scan")
    store = next(line for line in text.splitlines() if "st.shared" in line or "st.u32" in line)
    with pytest.raises(EmulatorError) as caught:
        run_scan(text.replace(store, "", 1))
    assert caught.value.code in ("CD-I3", "CD-I4")
    assert caught.value.ptx_line is not None


def test_too_few_dynamic_bytes():
    x, means = np.zeros(32, np.int32), np.zeros(32)
    ranks, size = np.zeros(32, np.int16), np.zeros(1, np.int32)
    args = [x, means, ranks, size]
    with pytest.raises(EmulatorError, match="out-of-bounds shared") as caught:
        launch(text_of("dynamic_shared"), "dynamic_shared", 1, 32, args, 32 * 13)
    assert caught.value.ptx_line is not None


@pytest.mark.parametrize(
    ("grid", "block", "count"),
    [(0, 32, 4), (1, 0, 4), (1, 1025, 4), (1, (32, 64), 4), (1, 32, 3), (1, 32, 5)],
)
def test_wrong_launch(grid, block, count):
    args = [np.ones(32, np.uint32), np.zeros(32, np.int32), np.zeros(32, np.uint64), np.int32(32)]
    with pytest.raises(EmulatorError) as caught:
        launch(text_of("collatz"), "collatz", grid, block, [*args, np.int32(0)][:count])
    assert caught.value.code == "CD-ARG"


def test_unknown_entry():
    with pytest.raises(EmulatorError, match="collatz"):
        launch(text_of("collatz"), "colatz", 1, 32, [])

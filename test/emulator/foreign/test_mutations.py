"""Random damage to foreign PTX: tokens and lines deleted, doubled, swapped, replaced. What comes
out is an EmulatorError or a finished launch: no other exception, no hang. Seeded: failures repeat.
"""

import random
import re
import time
from pathlib import Path

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch

FOLDER = Path(__file__).resolve().parent
TOKEN = re.compile(r"\s+|[%$\w.]+|.", re.DOTALL)
ROUNDS = 60
NOISE = ["", *";{}[],<>_|()!", '"', "/*", "//", "@%p1", "%r1", "%rd1", "%p1", "%tid.x", "0", "-1"]
NOISE += ["0x", "1e", "0f3F800000", "4294967296", "99999999999999999999", "ret", "call", ".u32"]
NOISE += [".b8", ".reg", ".align", "$L__BB0_1", "é", "\x00"]


def ints(*shape: int) -> np.ndarray:
    return (np.arange(int(np.prod(shape)), dtype=np.int32) * 7 % 23).reshape(shape)


# name -> (block, arguments): small launches that reach most families of instructions
def ones(dtype: str, *shape: int) -> np.ndarray:
    return np.ones(shape, dtype)


# name -> (block, arguments): small launches that reach most families of instructions
LAUNCHES = {
    "block_scan": (64, lambda: [ints(64), ints(64), ints(1), 64]),
    "bytecode": (32, lambda: [np.tile(np.uint8([1, 8]), (32, 6)), ints(32), ints(32), 12]),
    "recursion": (32, lambda: [ints(32), ints(32), ones("u4", 32), ones("u1", 32)]),
    "warp_votes": (32, lambda: [ints(32), ints(32), ints(1), ints(32), ints(192), ints(64), 32]),
    "named_barriers": (160, lambda: [ints(128), ints(128)]),
    "function_pointers": (32, lambda: [ones("f4", 32), ints(32), ones("f4", 32)]),
    "bits": (32, lambda: [ints(32), ints(32), ints(32), ints(192), ints(384), ints(128), 32]),
    "tables": (24, lambda: [ones("u1", 24, 9), 9, ints(24), ints(24), ones("f8", 24), ints(25)]),
    "mma_types": (32, lambda: [ones("i1", 16, 32), ones("i1", 8, 32), ints(16, 8)]),
    "wmma_gemm": (32, lambda: [*ones("f2", 2, 16, 16), *ones("f4", 2, 16, 16), 16, 16]),
    "printing": (32, lambda: [ints(32), 4]),
    "vector_copy": (16, lambda: [ones("f4", 70), ones("f4", 70), 70, 2.0]),
}
ENTRIES = {"mma_types": "mma_s8"}


def damaged(text: str, chance: random.Random) -> str:
    """The text with one to three edits of tokens or lines."""
    for _ in range(chance.randint(1, 3)):
        by_line = chance.random() < 0.3
        parts = text.splitlines(keepends=True) if by_line else TOKEN.findall(text)
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        kind = chance.randrange(6)
        if kind == 0:
            del parts[at]
        elif kind == 1:
            parts.insert(at, parts[at])
        elif kind == 2:
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 3:
            parts[at] = parts[other]
        elif kind == 4:
            parts[at] = chance.choice(NOISE)
        else:
            # One character: the way from a known name to an unknown one.
            word = parts[at]
            spot = chance.randrange(len(word) + 1)
            parts[at] = word[:spot] + chance.choice("0x%.,;$abs3-") + word[spot + 1 :]
        text = "".join(parts)
    return text


@pytest.mark.some(6)
@pytest.mark.parametrize("name", LAUNCHES)
def test_only_emulator_errors_come_out(name: str):
    block, args = LAUNCHES[name]
    whole = (FOLDER / f"{name}.ptx").read_text()
    entry = ENTRIES.get(name, name)
    launch(whole, entry, 1, block, args())  # the undamaged text runs
    errors = 0
    for seed in range(ROUNDS):
        text = damaged(whole, random.Random(f"{name} {seed}"))
        begin = time.perf_counter()
        try:
            launch(text, entry, 1, block, args(), max_steps=20_000)
        except EmulatorError as error:
            errors += 1
            if error.ptx_line is None and error.code != "CD-ARG":
                pytest.fail(f"{name}, seed {seed}: no line in: {error}")
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}: {type(error).__name__}: {error}")
        assert time.perf_counter() - begin < 5.0, f"{name}, seed {seed} takes long"
    assert errors > ROUNDS // 4  # the damage is felt

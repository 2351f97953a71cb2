"""Lengths of one head size and mask share kernels: a new length compiles at most one, and few need
one of their own.
"""

import random

import pytest

import cutedialect as cute
from cutedialect.frontend import launch

# Of 400 drawn problems: heads of 64 and 128, three targets, with and without a mask. By tile, order
# of work items, queries packed into rows or not, keys in parts or not, and loops of one block or of
# two, and with a number of keys in front of the queries or none, no more are asked for.
MOST = 28


def lengths(rng):
    """Queries and keys: as many of both, any, few queries, and powers of two."""
    kind = rng.randrange(4)
    if kind == 0:
        return (rng.randint(1, 9000),) * 2
    if kind == 1:
        return rng.randint(1, 4000), rng.randint(4000, 9000)
    if kind == 2:
        return rng.choice((1, 2, 4, 8, 16)), rng.randint(100, 100_000)
    return rng.choice((512, 1024, 2048)), rng.choice((2048, 4096, 8192))


@pytest.mark.some(6)
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_lengths_share_kernels(arch, is_causal, depth, monkeypatch):
    asked = []

    def compiled(kernel, *rest):
        constants = str(sorted(kernel.constants.items(), key=str))
        asked.append((kernel.program, kernel.keys, constants, kernel.text))
        raise LookupError  # what is asked for is enough here

    # Kernels that another test of this process compiled are not asked for anew.
    monkeypatch.setattr(launch, "_kernels", {})
    monkeypatch.setattr(launch, "_compile", compiled)
    rng = random.Random(f"{arch} {is_causal} {depth}")
    for _ in range(400):
        queries, keys = lengths(rng)
        batch = rng.choice((1, 2, 4))
        q = cute.TensorSpec((batch, 16, queries, depth), "bf16")
        k = cute.TensorSpec((batch, 16, max(keys, queries), depth), "bf16")
        before = len(asked)
        with pytest.raises(LookupError):
            cute.compile(cute.attention, q, k, k, causal=is_causal, arch=arch, backend="emulator")
        assert len(asked) == before + 1
    assert 2 <= len(set(asked)) <= MOST

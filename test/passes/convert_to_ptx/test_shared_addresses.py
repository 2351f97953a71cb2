"""Constants that are taken into swizzled addresses by an exclusive or in the place of a sum."""

import random

import pytest

from cutedialect.passes.analysis.coordinates import subset_sums
from cutedialect.passes.lower.addresses import meet

REPEAT = 512


def digits_of(rng):
    """Up to three digits of a thread, of warps that are no power of two among them."""
    return [
        (1, rng.choice([2, 3, 4, 5, 6, 8]), rng.choice([4, 16, 64, 96, 128, 256, 320]))
        for _ in range(rng.randint(1, 3))
    ]


@pytest.mark.parametrize("seed", range(200))
def test_what_does_not_meet_is_a_sum(seed) -> None:
    rng = random.Random(seed)
    digits, constant = digits_of(rng), rng.randrange(0, 2048, 4)
    low = constant % REPEAT
    sums = subset_sums([(extent, weight) for _, extent, weight in digits], REPEAT)
    # Bits that no sum has: then, and only then, each sum plus the constant is an exclusive or.
    assert meet(digits, [constant], REPEAT) == any(at ^ low != at + low for at in sums)


def test_the_second_of_three_warps_has_a_bit_that_the_third_lacks() -> None:
    assert meet([(32, 3, 256)], [768], REPEAT)

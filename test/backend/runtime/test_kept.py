"""Results kept by what decides them."""

import numpy as np

from cutedialect.backend.runtime.kept import Kept


def test_what_was_kept_is_known_until_it_is_replaced_or_forgotten() -> None:
    kept: Kept[object, str] = Kept(3)
    assert kept.known(None) is None
    for number in range(3):
        kept.keep((number, "x"), f"{number}")
        for each in range(number + 1):
            assert [kept.known((each, "x")) for _ in range(2)] == [f"{each}"] * 2
    kept.keep((2, "x"), "again")
    assert kept.known((2, "x")) == "again"
    assert kept.known((9, "x")) is None
    kept.clear()
    assert kept.known((2, "x")) is None


def test_what_was_asked_for_last_goes_when_there_is_no_more_room() -> None:
    kept: Kept[object, int] = Kept(2)
    for number in range(2):
        kept.keep(number, number)
    assert kept.known(1) == 1
    kept.keep(5, 5)
    assert (kept.known(1), kept.known(5)) == (None, 5)


def test_a_key_without_a_hash_or_a_single_answer_is_not_known() -> None:
    kept: Kept[object, int] = Kept(4)
    kept.keep(("a", 1), 1)
    assert kept.known(("a", 1)) == 1
    for odd in ([], np.zeros(2)):
        kept.keep((odd, 1), 2)
        assert kept.known((odd, 1)) is None
    assert len(kept) == 1

"""What compilations leave is collected while the assembler works, if it does."""

import gc
import weakref

import pytest

from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.program import collections_held_back

EMPTY = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


class Node:
    def __init__(self):
        self.me = self


def left_over():
    return weakref.ref(Node())


def test_regions_nest_and_leave_the_collector_as_it_was():
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with collections_held_back():
                assert not gc.isenabled()
                with collections_held_back():
                    pass
                assert not gc.isenabled()
            assert gc.isenabled() is was_on
        finally:
            gc.enable()


def test_only_what_is_held_back_is_collected_meanwhile():
    with collections_held_back():
        node = left_over()
        assert node() is not None
        ptxas._collect_meanwhile()
        assert node() is None
    gc.disable()
    gc.enable()
    counts = []
    gc.callbacks.append(lambda phase, info: counts.append(phase))
    try:
        ptxas._collect_meanwhile()
    finally:
        gc.callbacks.pop()
    assert not counts


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
def test_the_assembler_gives_time_to_collect():
    with collections_held_back():
        node = left_over()
        assembly = ptxas.assemble(EMPTY, "sm_80")
        assert node() is None
    assert assembly.cubin
    with pytest.raises(Exception, match="ptxas"):
        ptxas.assemble("nonsense", "sm_80")

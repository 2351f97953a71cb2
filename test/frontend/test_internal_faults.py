"""What fails inside of a pass is the compiler's fault, and says so at the program's line."""

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError


def test_what_fails_in_a_pass_is_no_fault_of_the_arguments(monkeypatch):
    from cutedialect.passes.tile import tile

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")

    @cute.kernel
    def program(X, Y):
        i = cute.tile_index(Y, (4, None))[0]
        cute.copy(cute.local_tile(X, (4, 4), (i, 0)).load(), cute.local_tile(Y, (4, 4), (i, 0)))

    def failing(*_):
        return 1 << -len("bits")

    monkeypatch.setattr(tile, "walk_rows", failing)
    x = np.ones((4, 4), np.float32)
    with pytest.raises(CompileError, match="negative shift count") as caught:
        program(x, x, backend="emulator")
    error = caught.value
    assert error.code == "CD-INTERNAL"
    assert error.message == "internal error in cute-tile: ValueError: negative shift count"
    assert error.location is not None
    assert error.location.startswith(__file__)
    assert "a fault of cutedialect" in error.notes[0]

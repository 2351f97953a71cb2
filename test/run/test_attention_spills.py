"""What `cute.attention` does where the assembler finds too few registers for a default."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.errors import SPILL, CompileError
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import attention as frontend


def operands(rows, keys, d):
    generator = np.random.default_rng(0)
    return [generator.standard_normal((1, 1, n, d)).astype(np.float16) for n in (rows, keys, keys)]


class Refusing:
    """Launches of kernels whose blocks have more than some keys fail like those that spill."""

    def __init__(self, most, monkeypatch):
        self.most, self.tried = most, []
        monkeypatch.setattr(frontend, "_calls", Kept(8))
        launch = Kernel.launch

        def launched(kernel, *args, **options):
            keys = cute.Schedule.parse(kernel.schedule).tile[1]
            self.tried.append(keys)
            if keys > self.most:
                raise CompileError("expected no spills", code=SPILL)
            return launch(kernel, *args, **options)

        monkeypatch.setattr(Kernel, "launch", launched)


def test_a_default_that_spills_gives_way_to_fewer_keys(monkeypatch):
    refusing = Refusing(100, monkeypatch)
    arrays = operands(70, 400, 128)
    options = {"arch": "sm_90a", "backend": "emulator"}
    found = [cute.attention(*arrays, **options) for _ in range(2)]
    assert refusing.tried == [128, 112, 96, 96]
    refusing.most = 128
    given = cute.attention(*arrays, schedule="tile = (64,96)", **options)
    for each in found:
        np.testing.assert_array_equal(each, given)


@pytest.mark.parametrize(
    ("most", "schedule", "tried"), [(0, None, [128, 112, 96, 80]), (100, "tile = (128,128)", [128])]
)
def test_spills_of_all_defaults_or_of_what_is_given_are_told(most, schedule, tried, monkeypatch):
    refusing = Refusing(most, monkeypatch)
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": schedule}
    with pytest.raises(CompileError, match="expected no spills"):
        cute.attention(*operands(70, 400, 128), **options)
    assert refusing.tried == tried

"""What `cute.gemm` does where the assembler finds too few registers for a default."""

from __future__ import annotations

from math import prod

import pytest

import cutedialect as cute
from cutedialect.backend.runtime.errors import SPILL, CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import gemm_defaults, gemm_tuning


def operands(m, n, k):
    return cute.TensorSpec((m, k), "f16"), cute.TensorSpec((k, n), "f16", (1, k))


def values(kernel):
    """Accumulators that a thread of a kernel holds."""
    schedule = cute.Schedule.parse(kernel.schedule)
    assert schedule.tile is not None
    assert schedule.warps is not None
    return prod(schedule.tile[:2]) // (32 * prod(schedule.warps))


@pytest.fixture
def refusing(monkeypatch):
    """Machine code of kernels whose threads hold more than some accumulators spills."""
    tried = []

    def install(most):
        monkeypatch.setattr(gemm_defaults, "gpu_available", lambda: True)
        monkeypatch.setattr(gemm_tuning, "kept_schedule", lambda *_: None)

        def assembly(kernel):
            tried.append(values(kernel))
            if tried[-1] > most:
                raise CompileError("expected no spills", code=SPILL)

        monkeypatch.setattr(Kernel, "assembly", property(assembly))
        return tried

    return install


def test_a_default_that_spills_gives_way_to_fewer_accumulators(refusing):
    tried = refusing(80)
    kernel = cute.compile(cute.gemm, *operands(4096, 4096, 4096), arch="sm_90a")
    assert tried[0] > 80 >= tried[-1] == values(kernel)
    assert tried == sorted(tried, reverse=True)


def test_attempts_end_and_what_fits_is_assembled_once(refusing):
    tried = refusing(0)
    cute.compile(cute.gemm, *operands(2048, 4096, 1024), arch="sm_90a")
    assert len(tried) == 4
    tried = refusing(128)
    cute.compile(cute.gemm, *operands(2048, 4096, 1032), arch="sm_90a")
    assert len(tried) == 5


def test_a_schedule_that_is_given_stays(refusing):
    tried = refusing(0)
    given = "tile = (128,256,64), roles = specialized"
    kernel = cute.compile(cute.gemm, *operands(512, 512, 512), arch="sm_90a", schedule=given)
    assert tried == []
    assert values(kernel) == 128

"""The emulator announces itself where it takes the place of a GPU, and says what would help."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from cutedialect.backend.runtime import announcements
from cutedialect.backend.runtime import kernel as kernel_module
from cutedialect.backend.runtime.errors import EmulatorWarning
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram


@pytest.fixture(autouse=True)
def nothing_announced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kernel_module, "gpu_available", lambda: False)
    monkeypatch.setattr(announcements, "_announced", set())
    monkeypatch.setattr(announcements, "_has_nvidia_device", lambda: False)
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def launch(kernel: Kernel) -> None:
    kernel.launch(np.ones((4, 8), np.float32), 2)


def test_the_first_fallback_warns_at_the_users_line(scale: CompiledProgram) -> None:
    with pytest.warns(EmulatorWarning, match="expected a CUDA device, got none") as seen:
        launch(Kernel(scale))
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(Kernel(scale))


def test_a_chosen_emulator_says_nothing(
    scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(Kernel(scale, backend="emulator"))
        monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
        launch(Kernel(scale))


def test_a_gpu_that_the_driver_does_not_see_is_one_for_the_doctor(
    scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements, "_has_nvidia_device", lambda: True)
    with pytest.warns(EmulatorWarning, match="cutedialect doctor"):
        launch(Kernel(scale))

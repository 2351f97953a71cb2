"""The benchmark of the cookbook: every page is timed, by kernels that come out of its text."""

import sys

import numpy as np
import pytest

from benchmarks.cookbook import PAGES, WORK, definitions, main

# Pages of notes, without a program of a model.
_NOTES = {"atomics", "lines"}


def test_every_page_is_timed():
    assert set(WORK) == {path.stem for path in PAGES.glob("*.md")} - _NOTES


@pytest.mark.parametrize("page", WORK)
def test_kernels_come_out_of_a_page(page):
    scope = definitions(page)
    assert any(
        type(value).__name__ in ("KernelFunction", "HostFunction") for value in scope.values()
    )


def test_a_kernel_of_a_page_runs():
    x, y = np.ones((16, 128), np.float32), np.zeros((16, 128), np.float32)
    definitions("dropout")["dropout"](x, y, 3, backend="emulator")
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}


def test_without_torch(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["--only", "router"]) == 1
    assert "got none" in capsys.readouterr().err

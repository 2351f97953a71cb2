"""What becomes of a program whose registers spill: a remark, an error, or nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import announcements, ptxas
from cutedialect.backend.runtime.errors import LossWarning

pytestmark = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def assembled_once(monkeypatch, folder):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(folder))


def compiled(**options):
    """A tile of 72 numbers of 64 bits in each thread, twice."""

    @cute.kernel(**options.pop("made_with", {}))
    def program(X, Y):
        i = cute.tile_index(Y, (32,))
        x, y = (cute.local_tile(T, (32, 72), (i, 0)).load() for T in (X, Y))
        cute.copy(x * y + cute.row_sum(x) - cute.row_sum(y), cute.local_tile(Y, (32, 72), (i, 0)))

    x = np.zeros((32, 72))
    options = {"arch": "sm_80", "schedule": "warps = (1, 1)"} | options
    return cute.compile(program, x, x.copy(), **options)


@pytest.mark.parametrize("chosen", [{}, {"spills": "warn"}, {"spills": "allow"}])
def test_a_program_that_spills_runs(chosen) -> None:
    kernel = compiled(**chosen)
    assert kernel.cubin
    told = [each for each in kernel.remarks if each.pass_name == "ptxas"]
    assert len(told) == (chosen.get("spills") != "allow")
    assert all("got" in each.message and "spill" in each.message for each in told)


def test_a_program_that_spills_warns_once_at_the_users_line(monkeypatch) -> None:
    monkeypatch.setattr(announcements, "_announced", set())
    kernel = compiled()
    with pytest.warns(LossWarning, match=r"kernel 'program', got \d+ bytes.*spills='re") as seen:
        assert kernel.cubin
    assert [warning.filename for warning in seen] == [__file__]
    assert "more warps for it leave a thread fewer values" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernel.resources.spills
        assert compiled().cubin
        assert compiled(spills="allow").cubin


@pytest.mark.parametrize("chosen", [{"spills": "refuse"}, {"made_with": {"spills": "refuse"}}])
def test_a_program_that_spills_is_refused(chosen) -> None:
    with pytest.raises(cute.CompileError, match="no spills in kernel 'program'") as caught:
        compiled(**chosen).cubin  # noqa: B018
    assert caught.value.code == "CD-SPILL"


@pytest.mark.parametrize("chosen", [{"spills": "no"}, {"made_with": {"spills": "no"}}])
def test_other_words_are_refused(chosen) -> None:
    with pytest.raises(ValueError, match="spills to be one of refuse, warn, allow, got 'no'"):
        compiled(**chosen)


def test_compiling_says_at_once_what_spills_where_that_is_asked(monkeypatch) -> None:
    monkeypatch.setattr(announcements, "_announced", set())
    with pytest.warns(LossWarning, match=r"kernel 'program', got \d+ bytes") as seen:
        kernel = compiled(spills="warn")
    assert [warning.filename for warning in seen] == [__file__]
    assert [each.pass_name for each in kernel.remarks] == ["ptxas"]
    with pytest.raises(cute.CompileError, match="no spills in kernel 'program'"):
        compiled(spills="refuse")


@pytest.mark.parametrize("spills", ["warn", "allow"])
def test_a_kernel_that_spills_does_not_fit(spills) -> None:
    assert not compiled(made_with={"spills": spills}).fits
    assert compiled(made_with={"spills": spills}, schedule="warps = (8, 1)").fits

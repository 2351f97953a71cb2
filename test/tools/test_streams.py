"""Files and standard streams that a tool cannot read or write: one line and an exit code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cutedialect import __main__ as commands
from cutedialect import environment
from cutedialect.backend.runtime import cache
from cutedialect.tools import cute_emu
from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.diagnostics import Diagnostic, Position

ROOT = Path(__file__).parents[2]
MODULE = "builtin.module {\n}\n"
OPT, EMU, COMMAND = (
    f"'{sys.executable}' -m cutedialect{name}"
    for name in (".tools.cute_opt", ".tools.cute_emu", "")
)
FULL = "cannot write the output: no space left on device\n"
CLOSED = "cannot write the output: bad file descriptor\n"


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (f"{OPT} m.mlir -o /dev/full", 1, f"/dev/full:1:1: error: {FULL}"),
        (f"{OPT} m.mlir > /dev/full", 1, f"<stdout>:1:1: error: {FULL}"),
        (f"{OPT} <&-", 1, "<stdin>:1:1: error: expected an operation, got the end of the text"),
        (f"{COMMAND} cache path >&-", 1, f"error: {CLOSED}"),
        (f"{EMU} --version > /dev/full", 1, f"cute-emu: {FULL}"),
        (f"{OPT} m.mlir >&-", 1, f"<stdout>:1:1: error: {CLOSED}"),
        (f"{OPT} --version > /dev/full", 1, f"<stdout>:1:1: error: {FULL}"),
        (f"{COMMAND} explain CD-P1 > /dev/full", 1, f"error: {FULL}"),
        (f"{COMMAND} --version >&-", 1, f"error: {CLOSED}"),
        (f"{COMMAND} tmem - <&-", 1, "error: expected IR of a kernel: input:1:1"),
    ],
)
def test_streams_that_are_closed_or_full(
    tmp_path: Path, command: str, status: int, said: str
) -> None:
    (tmp_path / "m.mlir").write_text(MODULE)
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr[: len(said)]) == (status, said)
    assert "Traceback" not in done.stderr


def run_opt(*arguments: str, text: str = MODULE) -> tuple[int, str]:
    error = io.StringIO()
    status = CuteOpt(arguments, io.StringIO(text), io.StringIO(), error).run()
    return status, error.getvalue()


def test_a_file_is_no_source_of_the_fault_that_it_cannot_be_written(tmp_path: Path) -> None:
    """Its first line says nothing, and a device may have one without an end."""
    assert run_opt("-", "-o", str(tmp_path)) == (
        1,
        f"{tmp_path}:1:1: error: cannot write the output: is a directory\n",
    )
    shown = Diagnostic("of a line", Position("/dev/zero", 1, 1)).render({})
    assert shown == "/dev/zero:1:1: error: of a line\n"


def test_what_a_message_repeats_is_shortened() -> None:
    status, said = run_opt("-", text="builtin.module { " + "a" * 100_000)
    assert status == 1
    assert said.startswith("<stdin>:1:18: error: unknown operation 'aaaa")
    assert " ... aaaa" in said
    assert len(said) < 2000


def test_shapes_that_no_memory_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensor = '%A : !cute.memref<f32, gmem, align<16>, "(?,?):(?,1)">'
    kernel = f"builtin.module {{\n  cute.kernel @k({tensor}) {{\n  }}\n}}\n"
    status, said = run_opt("-", "--run", "--arg", "A=99999999x99999999", text=kernel)
    assert status == 1
    assert "expected A of at most 268,435,456 elements to draw, got 99999999x99999999" in said
    assert "internal error" not in said
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    given = [str(tmp_path / "k.ptx"), "--entry", "k", "--grid", "1", "--block", "1"]
    assert cute_emu.main([*given, "zeros:99999999x99999999x99999999:f32"]) == 2
    assert "cute-emu: argument 'zeros:99999999x99999999" in capsys.readouterr().err


def test_results_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the emulator as of the interpreter."""
    path = tmp_path / "a.npy"
    np.save(path, np.ones(32, np.float32))
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) { ret; }\n"
    )

    def fails(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(Path, "write_bytes", fails)
    given = [str(tmp_path / "k.ptx"), "--entry", "k", "--grid", "1", "--block", "1"]
    assert cute_emu.main([*given, f"{path}:rw"]) == 2
    assert path.read_bytes() == before


def test_a_map_of_no_kernel(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(MODULE)
    assert commands.main(["tmem", str(tmp_path / "m.mlir")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "got a module without a cute.kernel" in said.err


@pytest.mark.parametrize("action", [["clear"], ["prune", "--size", "1"]])
def test_a_cache_that_is_only_read(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    action: list[str],
) -> None:
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "cache"))
    cache.write("tool", cache.key("one"), b"of some bytes")
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_remove", lambda path: False)
        assert commands.main(["cache", *action]) == 1
    assert "expected a cache that can be written, got entries in " in capsys.readouterr().err
    assert commands.main(["cache", *action]) == 0


def test_misspelled_variables_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in environment.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUTEDIALECT_DUMPDIR", "/tmp")
    said = (
        "warning: expected a variable that cutedialect reads, got CUTEDIALECT_DUMPDIR; did you "
        "mean CUTEDIALECT_DUMP_DIR?\n"
    )
    assert commands.main(["cache", "path"]) == 0
    assert capsys.readouterr().err == said
    assert run_opt("-") == (0, f"<environment>:1:1: {said}")
    monkeypatch.setenv("CUTEDIALECT_CACHE_SIZE", "much")
    assert commands.main(["cache", "path"]) == 1
    assert "CUTEDIALECT_CACHE_SIZE: expected a size" in capsys.readouterr().err
    monkeypatch.delenv("CUTEDIALECT_CACHE_SIZE")
    monkeypatch.setenv("CUTEDIALECT_DEBUG", "true")
    assert commands.main(["cache", "path"]) == 1
    assert capsys.readouterr().err == "error: CUTEDIALECT_DEBUG: expected 0 or 1, got 'true'\n"


def test_the_version_of_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert cute_emu.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cute-emu ")

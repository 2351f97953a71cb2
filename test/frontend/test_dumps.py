"""`cute.dump`, `CUTEDIALECT_DUMP_DIR` and `CUTEDIALECT_VERIFY`."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

STAGES = [
    "00-trace.mlir",
    "01-cute-structure-exits.mlir",
    "02-cute-fuse.mlir",
    "03-cute-tile.mlir",
    "04-cute-partition.mlir",
    "05-cute-defer-sums.mlir",
    "06-cute-assign-warp-roles.mlir",
    "07-cute-schedule-loops.mlir",
    "08-cute-synchronize.mlir",
    "09-cute-split-loops.mlir",
    "10-cute-unroll-loops.mlir",
    "11-cute-expand-rings.mlir",
    "12-cute-expand-roles.mlir",
    "13-cute-check-protocol.mlir",
    "14-convert-to-ptx.mlir",
]


def fresh(shift):
    """A kernel that no test compiled before."""

    @cute.kernel
    def add(X, Y):
        where = (0, 0)
        x = cute.load(cute.local_tile(X, (16, 16), where))
        cute.copy(x + shift, cute.local_tile(Y, (16, 16), where))

    return add


def test_dump_writes_every_stage(tmp_path):
    (tmp_path / "09-old.mlir").write_text("a file of the user")
    x = np.zeros((16, 16), np.float32)
    kernel = cute.compile(fresh(1.0), x, x, arch="sm_80", backend="emulator")
    files = cute.dump(kernel, tmp_path)
    assert [file.name for file in files] == [*STAGES, "kernel.ptx"]
    named = sorted(file.name for file in tmp_path.iterdir())
    assert named == sorted([".cutedialect-files", "09-old.mlir", *STAGES, "kernel.ptx"])
    assert files[-1].read_text() == kernel.ptx


def test_a_dump_replaces_the_one_before(tmp_path):
    x = np.zeros((16, 16), np.float32)
    kernel = cute.compile(fresh(1.5), x, x, arch="sm_80", backend="emulator")
    cute.dump(kernel, tmp_path)
    text = kernel.stages.pop(list(kernel.stages)[-1])
    cute.dump(kernel, tmp_path)
    assert sorted(file.name for file in tmp_path.glob("*.mlir")) == STAGES[:-1]
    # A stage that was edited by hand is no longer what was written.
    kernel.stages["zz-last"] = text
    (last,) = [file for file in cute.dump(kernel, tmp_path) if "zz-last" in file.name]
    last.write_text("edited")
    del kernel.stages["zz-last"]
    cute.dump(kernel, tmp_path)
    assert last.read_text() == "edited"


def test_a_dump_leaves_a_users_file_alone(tmp_path):
    (tmp_path / "kernel.ptx").write_text("a file of the user")
    x = np.zeros((16, 16), np.float32)
    kernel = cute.compile(fresh(2.5), x, x, arch="sm_80", backend="emulator")
    with pytest.raises(FileExistsError, match=r"expected to write .*kernel\.ptx anew"):
        cute.dump(kernel, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["kernel.ptx"]
    assert (tmp_path / "kernel.ptx").read_text() == "a file of the user"


def test_the_environment_asks_for_a_dump(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_DUMP_DIR", str(tmp_path / "here"))
    x = np.zeros((16, 16), np.float32)
    cute.compile(fresh(2.0), x, x, arch="sm_80", backend="emulator")
    assert (tmp_path / "here" / "08-cute-synchronize.mlir").read_text().startswith("builtin.module")


def test_every_kernel_of_a_script_is_dumped(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_DUMP_DIR", str(tmp_path))
    x = np.zeros((16, 16), np.float32)
    kernels = [cute.compile(fresh(shift), x, x, arch="sm_80") for shift in (6.0, 7.0)]

    @cute.kernel
    def double(X, Y):
        at = (0, 0)
        x = cute.load(cute.local_tile(X, (16, 16), at))
        cute.copy(x * 2.0, cute.local_tile(Y, (16, 16), at))

    kernels.append(cute.compile(double, x, x, arch="sm_80"))
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    cute.compile(fresh(7.0), x, x, arch="sm_80")  # with the PTX of the second but for the line
    folders = {path.name: path for path in tmp_path.iterdir() if path.is_dir()}
    assert sorted(folders) == ["add", "add-2", "double"]
    for name, kernel in zip(("add", "add-2", "double"), kernels, strict=True):
        assert (folders[name] / "kernel.ptx").read_text() == kernel.ptx
        stages = sorted(path.name for path in folders[name].glob("*.mlir"))
        assert [*stages, "kernel.ptx"] == [*STAGES, "kernel.ptx"]
    assert (tmp_path / "kernel.ptx").read_text() == kernels[1].ptx


def test_verification_after_each_pass(monkeypatch):
    from cutedialect.passes import verify_dominance

    seen = []
    check = verify_dominance.check_dominance
    monkeypatch.setattr(verify_dominance, "check_dominance", lambda m: (seen.append(m), check(m)))
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    x = np.zeros((16, 16), np.float32)
    cute.compile(fresh(3.0), x, x, arch="sm_80", backend="emulator")
    assert not seen
    monkeypatch.setenv("CUTEDIALECT_VERIFY", "each")
    cute.compile(fresh(4.0), x, x, arch="sm_80", backend="emulator")
    assert len(seen) == len(STAGES) - 1
    monkeypatch.setenv("CUTEDIALECT_VERIFY", "always")
    with pytest.raises(ValueError, match="each"):
        cute.compile(fresh(5.0), x, x, arch="sm_80", backend="emulator")

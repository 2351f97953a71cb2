"""Files of users' folders: whole or as before, nobody else's, and none of another kernel."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cutedialect.backend.runtime.written_files import (
    MANIFEST,
    Owner,
    owners,
    write_files,
    write_whole,
)

F16, BF16 = Owner("gemm", "cute.gemm f16"), Owner("gemm", "cute.gemm bf16")


def never(name: str) -> bool:
    return False


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes 4 bytes of a file."""

    def write_bytes(path: Path, content: bytes) -> int:
        with open(path, "wb") as file:
            file.write(content[:4])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_file_of_before(tmp_path: Path) -> None:
    path = tmp_path / "gemm.ptx"
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"a text that is longer")
    assert names(tmp_path) == []
    path.write_text("the one of before")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"a text that is longer")
    assert path.read_text() == "the one of before"
    assert names(tmp_path) == ["gemm.ptx"]


def test_a_full_disk_leaves_all_files_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"00-trace.mlir": b"old", "gemm.ptx": b"old"}
    write_files(tmp_path, first, lambda name: True)
    listed = (tmp_path / MANIFEST).read_bytes()
    write_bytes = Path.write_bytes

    def fills_up(path: Path, content: bytes) -> int:
        if "gemm.ptx" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", fills_up)
    with pytest.raises(OSError, match="No space left"):
        write_files(tmp_path, {"01-next.mlir": b"new", "gemm.ptx": b"new"}, lambda name: True)
    assert names(tmp_path) == sorted(first)
    assert {name: (tmp_path / name).read_bytes() for name in first} == first
    assert (tmp_path / MANIFEST).read_bytes() == listed


def test_links_modes_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    write_whole(Path(os.devnull), b"nothing")
    assert not Path(os.devnull).is_file()


def test_files_of_another_kernel_are_replaced_by_force_alone(tmp_path: Path) -> None:
    write_files(tmp_path, {"gemm.ptx": b"f16"}, never, F16)
    write_files(tmp_path, {"gemm.ptx": b"f16, edited"}, never, F16)
    with pytest.raises(FileExistsError, match=r"another kernel \(cute.gemm f16\); --name gives"):
        write_files(tmp_path, {"gemm.ptx": b"bf16"}, never, BF16)
    assert (tmp_path / "gemm.ptx").read_bytes() == b"f16, edited"
    write_files(tmp_path, {"gemm.ptx": b"bf16"}, never, BF16, force=True)
    assert owners(tmp_path) == {"gemm.ptx": BF16}


def test_only_the_same_kernels_old_files_go(tmp_path: Path) -> None:
    other = Owner("softmax", "softmax f16")
    write_files(tmp_path, {"00-a.mlir": b"1", "01-b.mlir": b"2"}, never, F16)
    write_files(tmp_path, {"softmax-00-a.mlir": b"1", "softmax-01-b.mlir": b"2"}, never, other)
    write_files(tmp_path, {"00-a.mlir": b"3"}, lambda name: True, F16)
    assert names(tmp_path) == ["00-a.mlir", "softmax-00-a.mlir", "softmax-01-b.mlir"]


def test_a_list_without_kernels_counts(tmp_path: Path) -> None:
    """As runs before there were any wrote it."""
    write_files(tmp_path, {"gemm.ptx": b"old"}, never)
    write_files(tmp_path, {"gemm.ptx": b"new"}, never, F16)
    assert owners(tmp_path) == {"gemm.ptx": F16}

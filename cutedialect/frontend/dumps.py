"""The IR of a kernel after each pass, and its PTX, as files of a folder: of one kernel, or of each
that a process compiles, which has a folder for itself, too.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.written_files import write_files

# By the folder of dumps, and the PTX text of a kernel: the name of the kernel's own folder.
_dumped: dict[Path, dict[str, str]] = {}
_dumping = threading.Lock()
# The file of a stage; that of a kernel which shares its folder has the kernel's name in front.
PLAIN_STAGE = re.compile(r"\d\d-.*\.mlir")


def dump(kernel: Kernel, folder: Path) -> list[Path]:
    """Write the IR after each pass as `NN-pass.mlir`, and the PTX as `kernel.ptx`.

    Stages that an earlier dump left in the folder are removed. Returns the files in order.
    """
    files = {
        f"{number:02d}-{name}.mlir": f"{text}\n".encode()
        for number, (name, text) in enumerate(kernel.stages.items())
    }
    return write_files(folder, files | {"kernel.ptx": kernel.ptx.encode()}, is_stage)


def is_stage(name: str) -> bool:
    """Whether a written file is the IR of a stage, of which another compilation has others."""
    return PLAIN_STAGE.fullmatch(name.partition("-")[2]) is not None or (
        PLAIN_STAGE.fullmatch(name) is not None
    )


def dump_twice(kernel: Kernel, folder: Path) -> None:
    """Dump a kernel to a folder, where the next one takes its place, and to its own inside."""
    dump(kernel, folder)
    dump(kernel, _folder_of(kernel, folder))


def _folder_of(kernel: Kernel, folder: Path) -> Path:
    """Where a kernel has its files for itself, by its name; of kernels of one name those after the
    first have a number.
    """
    with _dumping:
        names = _dumped.setdefault(folder, {})
        if kernel.ptx not in names:
            number = 1 + sum(name.partition("-")[0] == kernel.name for name in names.values())
            names[kernel.ptx] = kernel.name if number == 1 else f"{kernel.name}-{number}"
        return folder / names[kernel.ptx]

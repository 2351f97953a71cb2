"""A tree as this process sees it: its folder, and processes that have its compiler."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..supervisor import Supervisor, WorkerError
from .worker import command

ROOT = Path(__file__).parents[2]
# Seconds for one kernel: scripts of many products take the longest until something is said.
_PATIENCE = 300.0


@dataclass(frozen=True)
class Tree:
    """The compiler of one tree with the programs of the same or of another one."""

    package: Path
    programs: Path
    cache: Path

    def process(self) -> Supervisor:
        """A process of it, to be entered."""
        return Supervisor(_PATIENCE, command(self.package, self.programs, self.cache))

    def kernels(self, **request: Any) -> dict[str, dict[str, str]]:
        """What `Worker._compile` says, by a process of its own: where that fails, of all kernels
        together.
        """
        answer: dict[str, Any]
        try:
            with self.process() as process:
                answer = process.ask({"do": "compile", **request})
        except WorkerError as error:
            answer = {"failure": str(error)}
        if "failure" in answer:
            return {f"{request['kind']} {request['share']}": answer}
        return answer["kernels"]


def exported(revision: str, folder: Path) -> Path:
    """The files of a revision of this repository, written to a folder.

    Raises ValueError where git does not know it.
    """
    done = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode:
        raise ValueError(
            f"expected a revision that git knows in {ROOT}, or --base-path FOLDER, got "
            f"'{revision}': {done.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder

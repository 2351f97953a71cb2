"""The ptxas driver: finds the assembler, runs it, and reads what it says. A dropped `setmaxnreg`
or a serialized wgmma is only an *info* line of `ptxas -v` with exit code 0 (codes C75xx), so every
line is parsed, and `strict` makes an error of each of them, of warnings, and of spills.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from cutedialect import environment
from cutedialect.backend.runtime import cache as disk_cache
from cutedialect.backend.runtime.errors import SPILL, CompileError, PtxasNotFoundError
from cutedialect.backend.runtime.ptx_text import origin

TIMEOUT_SECONDS = 600
DEFAULT_OPTIONS = ("-lineinfo",)
# Of a thread.
_MOST_REGISTERS = 255

_LOCATED = re.compile(
    r"ptxas (?P<file>.*?), line (?P<line>\d+); (?P<severity>\w+)\s*: (?P<text>.*)"
)
_PLAIN = re.compile(r"ptxas (?P<severity>info|warning|error|fatal)\s*: (?P<text>.*)")
_CODE = re.compile(r"\((C\d{4})\)\s*")
_KERNEL = re.compile(r"Compiling entry function '([^']+)' for")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FUNCTION = re.compile(r"function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+) bytes smem")
_ROUTINE = re.compile(r"bytes gmem|Compiling entry|Function properties|Used \d+ reg|Compile time")


@dataclass(frozen=True)
class Message:
    """One diagnostic of ptxas: `severity` is info, warning, error or fatal; `code` such as "C7508"
    or empty; `line` the 1-based PTX line and `kernel` the entry, None where ptxas does not say.
    """

    severity: str
    text: str
    code: str = ""
    line: int | None = None
    kernel: str | None = None

    @property
    def is_loss(self) -> bool:
        """Whether the code runs but is not what was asked for: a warning or a C75xx line."""
        return self.severity == "warning" or self.code.startswith("C75")


@dataclass(frozen=True)
class KernelUsage:
    """Resources of one entry: registers per thread; spills and stack in bytes per thread; static
    shared memory in bytes; named barriers.
    """

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    smem: int = 0
    barriers: int = 0


@dataclass(frozen=True)
class Assembly:
    """A cubin and what ptxas said of it. The figures are the largest over the kernels; `kernels`
    has them one by one.
    """

    cubin: bytes
    kernels: dict[str, KernelUsage] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()

    @property
    def registers(self) -> int:
        return self._largest("registers")

    @property
    def spill_stores(self) -> int:
        return self._largest("spill_stores")

    @property
    def spill_loads(self) -> int:
        return self._largest("spill_loads")

    @property
    def stack(self) -> int:
        return self._largest("stack")

    @property
    def smem(self) -> int:
        return self._largest("smem")

    @property
    def barriers(self) -> int:
        return self._largest("barriers")

    def _largest(self, name: str) -> int:
        return max((getattr(usage, name) for usage in self.kernels.values()), default=0)

    def described(self) -> dict[str, object]:
        """Everything but the cubin, ready for JSON."""
        return {
            "kernels": {name: asdict(usage) for name, usage in self.kernels.items()},
            "messages": [asdict(message) for message in self.messages],
        }

    @staticmethod
    def restore(cubin: bytes, described: dict[str, dict]) -> Assembly:
        """The inverse of `described`."""
        return Assembly(
            cubin,
            {name: KernelUsage(**usage) for name, usage in described["kernels"].items()},
            tuple(Message(**message) for message in described["messages"]),
        )


def find(arch: str | None = None) -> Path:
    """The ptxas to use: CUTEDIALECT_PTXAS, the pip wheel, CUDA_HOME or CUDA_PATH, PATH.

    CUDA 13 dropped targets before sm_75; for those the first ptxas of CUDA 12 is taken. Raises
    PtxasNotFoundError with the ways to get one.
    """
    chosen = environment.ptxas()
    if chosen is not None:
        if not _is_executable(chosen):
            raise PtxasNotFoundError(
                f"CUTEDIALECT_PTXAS: expected an executable file, got '{chosen}'",
                code="CD-NO-PTXAS",
            )
        return chosen
    found = candidates()
    if not found:
        raise PtxasNotFoundError(
            "expected ptxas in the nvidia-cuda-nvcc wheel, CUDA_HOME, CUDA_PATH or PATH, got none; "
            "install it with: pip install 'cutedialect[ptxas]'",
            code="CD-NO-PTXAS",
        )
    number = re.match(r"sm_(\d+)", arch or "")
    if number is None or int(number[1]) >= 75:
        return found[0]
    for path in found:
        if int(version(path).split(".")[0]) < 13:
            return path
    raise PtxasNotFoundError(
        f"expected a ptxas of CUDA 12 for {arch}, got {version(found[0])}; "
        "install one with: pip install 'cutedialect[ptxas-sm70]'",
        code="CD-NO-PTXAS",
    )


def candidates() -> tuple[Path, ...]:
    """Every ptxas in the order of the search, CUTEDIALECT_PTXAS aside."""
    name = "ptxas.exe" if os.name == "nt" else "ptxas"
    paths: list[Path] = []
    for root in _nvidia_roots():
        paths += sorted(root.glob(f"cu[0-9]*/bin/{name}"), reverse=True)
        paths.append(root / "cuda_nvcc" / "bin" / name)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(variable):
            paths.append(Path(folder) / "bin" / name)
    import shutil

    if on_path := shutil.which(name):
        paths.append(Path(on_path))
    return tuple(dict.fromkeys(path for path in paths if _is_executable(path)))


def version(path: Path | None = None) -> str:
    """The release of ptxas, such as "13.5.37". It is kept in the disk cache by the file's size and
    time, because a key needs it on every start and running ptxas costs 15 ms.
    """
    path = find() if path is None else path
    status = path.stat()
    return _version(path, status.st_size, status.st_mtime_ns)


def _collect_meanwhile() -> None:
    """Collect young cycles, while another process works, if collections are held back
    (`program.collections_held_back`).
    """
    if not gc.isenabled():
        gc.collect(0)


def assemble(
    ptx: str,
    arch: str,
    *,
    options: Sequence[str] = DEFAULT_OPTIONS,
    strict: bool = False,
) -> Assembly:
    """Assemble `ptx` for `arch` ("sm_90a"), which may be newer than its `.target`.

    Raises CompileError with the PTX line, its IR op and its Python line. With `strict` also for a
    C75xx line, a warning or a spill, which cost speed without a word otherwise.
    """
    path = find(arch)
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cutedialect-") as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        try:
            with subprocess.Popen(
                [path, f"-arch={arch}", "-v", *options, source.name, "-o", target.name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            ) as process:
                _collect_meanwhile()
                try:
                    said, _ = process.communicate(timeout=TIMEOUT_SECONDS)
                except BaseException:  # whatever ends the wait ends the assembler
                    process.kill()
                    raise
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"expected ptxas to end within {TIMEOUT_SECONDS} s, got no answer",
                code="CD-PTXAS",
            ) from None
        except OSError as error:
            raise PtxasNotFoundError(
                f"expected to run ptxas, got: {error}", code="CD-NO-PTXAS"
            ) from None
        kernels, messages = parse_messages(said)
        if process.returncode != 0 or not target.exists():
            raise _failure(ptx, arch, messages, process.returncode)
        assembly = Assembly(target.read_bytes(), kernels, messages)
    if strict:
        check_strict(assembly, ptx)
    return assembly


def check_strict(assembly: Assembly, ptx: str) -> None:
    """Raise CompileError for the first loss, if there is one."""
    found = loss(assembly, ptx)
    if found is not None:
        raise found


def loss(assembly: Assembly, ptx: str) -> CompileError | None:
    """The first C75xx line or warning, or a spill, as an error that a kernel may be refused with.
    That calls order the `wgmma` of a kernel that prints (C7510) is what printing costs; a remark
    says so.
    """
    allowed = ("C7510",) if "vprintf" in ptx else ()
    losses = [each for each in assembly.messages if each.is_loss and each.code not in allowed]
    if losses:
        return _located(ptx, losses[0], losses[0].code or "CD-PTXAS", tuple(losses[1:]))
    for name, usage in assembly.kernels.items():
        if usage.spill_stores or usage.spill_loads:
            more = (
                "a smaller tile or more warps for it leave a thread fewer values"
                if usage.registers == _MOST_REGISTERS
                else "a smaller tile or fewer warps per CTA leave more registers"
            )
            return CompileError(
                f"expected no spills in kernel '{name}', got {usage.spill_stores} bytes of spill "
                f"stores and {usage.spill_loads} bytes of spill loads at {usage.registers} "
                f"registers; {more}",
                code=SPILL,
            )
    return None


def parse_messages(text: str) -> tuple[dict[str, KernelUsage], tuple[Message, ...]]:
    """What `ptxas -v` printed, as usage by kernel and as diagnostics."""
    figures: dict[str, dict[str, int]] = {}
    compiled: set[str] = set()
    messages: list[Message] = []
    kernel = function = None
    for line in text.splitlines():
        if match := _STACK.search(line):
            if function is not None:
                names = ("stack", "spill_stores", "spill_loads")
                figures.setdefault(function, {}).update(
                    zip(names, map(int, match.groups()), strict=True)
                )
            continue
        match = _LOCATED.match(line) or _PLAIN.match(line)
        if match is None:
            continue
        said = match["text"]
        if entry := _KERNEL.search(said):
            kernel = function = entry[1]
            compiled.add(kernel)
        elif properties := _PROPERTIES.search(said):
            function = properties[1]
        elif kernel is not None and (registers := _REGISTERS.search(said)):
            usage = figures.setdefault(kernel, {})
            usage["registers"] = int(registers[1])
            for name, pattern in (("barriers", _BARRIERS), ("smem", _SMEM)):
                if found := pattern.search(said):
                    usage[name] = int(found[1])
        if match["severity"] != "info" or not _ROUTINE.search(said):
            messages.append(_message(match))
    usages = {name: KernelUsage(**figures.get(name, {})) for name in sorted(compiled)}
    return usages, tuple(messages)


def _message(match: re.Match[str]) -> Message:
    text = match["text"].strip()
    code = _CODE.search(text)
    kernel = _FUNCTION.search(text)
    line = match.groupdict().get("line")
    return Message(
        match["severity"],
        _CODE.sub("", text),
        code[1] if code else "",
        int(line) if line else None,
        kernel[1] if kernel else None,
    )


def _failure(ptx: str, arch: str, messages: tuple[Message, ...], status: int) -> CompileError:
    errors = [message for message in messages if message.severity in ("error", "fatal")]
    said = [message for message in errors if "aborted due to errors" not in message.text]
    if not said:
        return CompileError(
            f"expected ptxas to assemble for {arch}, got exit status {status}", code="CD-PTXAS"
        )
    return _located(ptx, said[0], said[0].code or "CD-PTXAS", tuple(said[1:]))


def _located(ptx: str, message: Message, code: str, others: tuple[Message, ...]) -> CompileError:
    notes = [
        (f"PTX line {other.line}: " if other.line else "") + other.text for other in others[:20]
    ]
    if message.line is None:
        return CompileError(f"ptxas: {message.text}", code=code, notes=tuple(notes))
    lines = ptx.splitlines()
    if message.line <= len(lines):
        notes.insert(0, lines[message.line - 1].strip())
    came_from = origin(ptx, message.line)
    return CompileError(
        f"ptxas: {message.text}",
        code=code,
        location=came_from.location,
        ptx_line=message.line,
        ir=came_from.ir,
        notes=tuple(notes),
    )


def _nvidia_roots() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("nvidia")
    locations = spec.submodule_search_locations if spec is not None else None
    return tuple(Path(location) for location in locations or ())


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@cache
def _version(path: Path, size: int, mtime_ns: int) -> str:
    key = disk_cache.key("ptxas", str(path), str(size), str(mtime_ns))
    if (kept := disk_cache.read("tool", key)) is not None:
        return kept.decode()
    import subprocess

    try:
        said = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=30,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PtxasNotFoundError(
            f"expected to run {path}, got: {error}", code="CD-NO-PTXAS"
        ) from None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", said)
    if match is None:
        raise PtxasNotFoundError(
            f"expected the version of ptxas from '{path} --version', got {said[:80]!r}",
            code="CD-NO-PTXAS",
        )
    disk_cache.write("tool", key, match[1].encode())
    return match[1]

"""Machine code of a cubin as data: the kernels in it with their resources, and the loops of each
with what they execute in every trip. Loops are those of the control flow: the blocks that reach a
branch back without leaving, and of them those that each trip passes.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutedialect.tools import sass

_SECTION = re.compile(r"^\.text\.([\w$.]+):", re.MULTILINE)
_LABEL = re.compile(r"^(\.L\w+):")
_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"`\((\.L\w+)\)")
# Where control does not go on behind an instruction that nothing guards.
_ENDS = ("BRA", "EXIT", "RET", "JMP", "BRX")
# An attribute of `.nv.info`: how many registers a kernel takes, and the kind of its payload.
_REGISTERS, _VALUES = 0x2F, 0x04
_COLUMNS_OF_A_UNIT = 32


@dataclass(frozen=True)
class Line:
    """An instruction: its text without the guard, whether it has one, and where it may branch."""

    text: str
    guarded: bool = False
    label: str = ""
    target: str = ""

    @property
    def kind(self) -> str:
        """What it is counted as: its opcode, of special functions which one.

        >>> Line("FFMA R1, R2, R3, R4").kind, Line("MUFU.EX2 R1, R2").kind, Line("LDTM.x8 R4").kind
        ('FFMA', 'MUFU.EX2', 'LDTM')
        """
        words = self.text.split()[0].split(".")
        return ".".join(words[:2]) if words[0] == "MUFU" else words[0]

    @property
    def goes_on(self) -> bool:
        """Whether the next instruction may come behind it."""
        return self.guarded or self.text.split()[0].split(".")[0] not in _ENDS


@dataclass(frozen=True)
class Loop:
    """What a trip executes: always, and on some ways through it. `first` is the number of its first
    instruction in the kernel, `depth` how many loops are around it.
    """

    first: int
    depth: int
    always: Counter[str]
    sometimes: Counter[str]


@dataclass(frozen=True)
class MachineCode:
    """A kernel of a cubin; `columns` of tensor memory, 0 where it takes none."""

    name: str
    lines: tuple[Line, ...]
    registers: int
    columns: int

    @property
    def barriers(self) -> int:
        """How many mbarriers it sets up, as its code says one by one."""
        return sum(line.text.startswith("SYNCS.EXCH") for line in self.lines)

    def loops(self) -> list[Loop]:
        """All loops in the order of the code."""
        return _loops(self.lines)


def read(cubin: bytes) -> list[MachineCode]:
    """The kernels of a cubin.

    Raises FileNotFoundError without a disassembler, ValueError where it refuses.
    """
    tool = sass.find()
    if tool is None:
        raise FileNotFoundError(
            "expected nvdisasm in PATH or beside ptxas (pip install nvidia-cuda-nvdisasm)"
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "-c", str(file)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ValueError(f"expected a cubin that nvdisasm reads, got: {done.stderr.strip()}")
    registers = registers_of(cubin)
    return [
        MachineCode(name, lines, registers.get(name, 0), columns_of(lines))
        for name, lines in parsed(done.stdout)
    ]


def parsed(text: str) -> Iterator[tuple[str, tuple[Line, ...]]]:
    """Name and instructions of each kernel in what `nvdisasm -c` prints."""
    names, *parts = _SECTION.split(text)[1::2], *_SECTION.split(text)[2::2]
    for name, part in zip(names, parts, strict=True):
        lines: list[Line] = []
        label = ""
        for row in part.split("\n"):
            if found := _LABEL.match(row):
                label = found[1]
            elif found := _LINE.match(row):
                lines.append(_line(found[1], label))
                label = ""
            elif row.startswith("//---"):
                break
        yield name, tuple(lines)


def _line(text: str, label: str) -> Line:
    bare = _GUARD.sub("", text)
    target = _TARGET.search(bare) if bare.startswith("BRA") else None
    # A branch may name its condition as an operand: `BRA.U UP0, ...`.
    guarded = bare != text or ("," in bare and bare.startswith("BRA"))
    return Line(bare, guarded, label, target[1] if target else "")


def columns_of(lines: Sequence[Line]) -> int:
    """Columns of tensor memory that the code asks for: the allocation counts them in units."""
    known: dict[str, int] = {}
    for line in lines:
        words = line.text.replace(",", "").split()
        if words[0] == "UMOV" and words[2].startswith("0x"):
            known[words[1]] = int(words[2], 16)
        elif words[0].startswith("UTCATOMSWS") and ".FIND_AND_SET" in words[0]:
            return known.get(words[-1], 0) * _COLUMNS_OF_A_UNIT
    return 0


def registers_of(cubin: bytes) -> dict[str, int]:
    """Registers of a thread by kernel, from the ELF file's `.nv.info`."""
    place, size, count, names_at = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, place + i * size) for i in range(count)]

    def text(table: tuple, at: int) -> str:
        start = table[4] + at
        return cubin[start : cubin.index(b"\0", start)].decode()

    sections = {text(headers[names_at], header[0]): header for header in headers}
    info, symbols = sections.get(".nv.info"), sections.get(".symtab")
    if info is None or symbols is None:
        return {}
    strings = headers[symbols[6]]
    found: dict[str, int] = {}
    at, end = info[4], info[4] + info[5]
    while at + 4 <= end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        if form == _VALUES:
            if attribute == _REGISTERS:
                symbol, registers = struct.unpack_from("<II", cubin, at + 4)
                (name,) = struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)
                found[text(strings, name)] = registers
            at += length
        at += 4
    return found


@dataclass(frozen=True)
class _Graph:
    """Blocks of a kernel: where they start and end, which follow and come before each."""

    starts: list[int]
    ends: list[int]
    follows: list[list[int]]
    comes: list[list[int]]


def _graph(lines: Sequence[Line]) -> _Graph:
    """The control flow between labels and branches."""
    starts = sorted(
        {0}
        | {at for at, line in enumerate(lines) if line.label}
        | {at + 1 for at, line in enumerate(lines) if line.target or not line.goes_on}
    )
    starts = [at for at in starts if at < len(lines)]
    labels = {lines[at].label: number for number, at in enumerate(starts) if lines[at].label}
    ends = [*starts[1:], len(lines)]
    follows: list[list[int]] = []
    for number, end in enumerate(ends):
        last = lines[end - 1]
        after = [labels[last.target]] if last.target in labels else []
        follows.append([*after, number + 1] if last.goes_on and number + 1 < len(ends) else after)
    comes: list[list[int]] = [[] for _ in ends]
    for number, after in enumerate(follows):
        for other in after:
            comes[other].append(number)
    return _Graph(starts, ends, follows, comes)


def _loops(lines: Sequence[Line]) -> list[Loop]:
    """Natural loops: a branch back to a block that dominates it, and all between."""
    graph = _graph(lines)
    over = _dominators(graph.follows, graph.comes)
    backs: dict[int, list[int]] = {}
    for number, after in enumerate(graph.follows):
        for head in after:
            if head in over[number]:
                backs.setdefault(head, []).append(number)
    bodies = {
        head: set[int]().union(*(_between(head, back, graph.comes) for back in ends))
        for head, ends in sorted(backs.items())
    }
    found: list[Loop] = []
    for head, body in bodies.items():
        inner = set[int]().union(*(b for h, b in bodies.items() if h != head and h in body))
        passed = set.intersection(*(over[back] for back in backs[head])) & body
        always, sometimes = Counter[str](), Counter[str]()
        for block in body - inner:
            kinds = (line.kind for line in lines[graph.starts[block] : graph.ends[block]])
            (always if block in passed else sometimes).update(kinds)
        depth = sum(head in b and h != head for h, b in bodies.items())
        found.append(Loop(graph.starts[head], depth, always, sometimes))
    return found


def _dominators(follows: Sequence[Sequence[int]], comes: Sequence[Sequence[int]]) -> list[set[int]]:
    """The blocks that every way to a block passes, itself among them."""
    order: list[int] = []
    seen, stack = {0}, [0]
    while stack:
        block = stack.pop()
        order.append(block)
        for other in follows[block]:
            if other not in seen:
                seen.add(other)
                stack.append(other)
    everything = set(order)
    over = [set(everything) if block in seen else set() for block in range(len(follows))]
    over[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            ways = [over[before] for before in comes[block] if before in seen]
            now = set.intersection(*ways) | {block} if ways else {block}
            if now != over[block]:
                over[block], changed = now, True
    return over


def _between(head: int, back: int, comes: Sequence[Sequence[int]]) -> set[int]:
    """The blocks from which a branch back is reached without its head."""
    body, stack = {head, back}, [back]
    while stack:
        block = stack.pop()
        if block == head:
            continue
        for before in comes[block]:
            if before not in body:
                body.add(before)
                stack.append(before)
    return body

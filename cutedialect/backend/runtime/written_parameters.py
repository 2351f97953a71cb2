"""Which pointer parameters a kernel may store through, read off the PTX text: a register is tainted
by the parameters that its value was computed from, and a store through a tainted register writes
them. Control flow is ignored, which can only add parameters. An input that is known to stay
unwritten may be read-only or broadcast, and is not copied back.
"""

from __future__ import annotations

import re

from cutedialect.backend.runtime.ptx_text import canonical

_REGISTER = re.compile(r"%\w+")
_BRACKET = re.compile(r"\[([^\]]*)\]")
_STATEMENT = re.compile(r"(?:@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)\s+(?P<operands>.*)", re.DOTALL)
# Blanks, braces and labels in front of a statement.
_BEFORE = re.compile(r"^(?:[\s{}]|[\w$%]+:(?!:))+")
# What stores through its first bracketed operand, unless the address is in another space.
_STORES = ("st", "red", "atom", "cp.async.bulk", "cp.reduce.async.bulk", "multimem.st")
_STORES += ("multimem.red", "sust")
_GROUPS = ("cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk.prefetch")
_NOT_GLOBAL = re.compile(r"\.(shared|local|param)\b")
_BULK_TO_SHARED = re.compile(r"^cp\.(?:reduce\.)?async\.bulk(?:\.tensor\.\w+)?\.shared")


def written_parameters(ptx: str, entry: str) -> frozenset[int] | None:
    """Indices of the parameters of `entry` that it may store through; None when that cannot be told
    (a store through an address that comes from memory, a call), so that all may be written.
    """
    match = re.search(
        rf"\.entry\s+{re.escape(entry)}\s*\((?P<params>[^)]*)\)[^{{;]*\{{",
        ptx := canonical(ptx),
    )
    if match is None:
        return frozenset()
    names = re.findall(r"([\w$%]+)\s*(?:\[\d*\])?\s*(?:,|$)", match["params"].strip())
    index = {name: i for i, name in enumerate(names)}
    taint: dict[str, frozenset[int]] = {}
    stores: list[str] = []
    steps: list[tuple[list[str], list[str]]] = []
    for text in _body(ptx, match.end()).split(";"):
        statement = _STATEMENT.match(_BEFORE.sub("", text))
        if statement is None:
            continue
        opcode, operands = statement["opcode"], statement["operands"]
        family = opcode.partition(".")[0]
        if family == "call":
            return None
        if opcode.startswith("ld.param") or (
            family == "mov" and not _REGISTER.findall(operands)[1:]
        ):
            target = _REGISTER.findall(operands.partition("[")[0])
            found = frozenset(
                index[word] for word in re.findall(r"[\w$%]+", operands) if word in index
            )
            for register in target:
                taint[register] = taint.get(register, frozenset()) | found
        elif _is_store(opcode):
            address = _BRACKET.search(operands)
            registers = _REGISTER.findall(address[1]) if address else []
            if not registers:
                return None
            # A bulk tensor store names its map first: [map, {coordinates}].
            stores.append(registers[0])
        elif family not in ("ld", "ldu", "ldmatrix", "tex"):
            first, _, rest = operands.partition(",")
            if first.lstrip().startswith("{"):
                first, _, rest = operands.partition("}")
            steps.append((_REGISTER.findall(first), _REGISTER.findall(rest)))
    _spread(taint, steps)
    written: set[int] = set()
    for register in stores:
        if not taint.get(register):
            return None
        written |= taint[register]
    return frozenset(written)


def _spread(taint: dict[str, frozenset[int]], steps: list[tuple[list[str], list[str]]]) -> None:
    """Carry taint from sources to targets until nothing changes."""
    changed = True
    while changed:
        changed = False
        for targets, sources in steps:
            found = frozenset[int]().union(*(taint.get(s, frozenset()) for s in sources))
            for target in targets:
                if not found <= taint.get(target, frozenset()):
                    taint[target] = taint.get(target, frozenset()) | found
                    changed = True


def _is_store(opcode: str) -> bool:
    if not any(opcode == name or opcode.startswith(name + ".") for name in _STORES):
        return False
    if opcode.startswith("cp."):
        # The destination space comes first: `.shared::cta.global` loads, `.global.shared` stores.
        return not _BULK_TO_SHARED.match(opcode) and not opcode.startswith(_GROUPS)
    return not _NOT_GLOBAL.search(opcode)


def _body(ptx: str, start: int) -> str:
    """The text from `start` to the brace that closes it."""
    depth = 1
    for match in re.finditer(r"[{}]", ptx[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return ptx[start : start + match.start()]
    return ptx[start:]

"""May this PTX statement stand for this target, and if not, why. The answer is for the newest PTX
version the tables know; what only the run shows (alignment, convergence, descriptor contents) is
not judged, nor are the declarations of the registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from importlib import import_module

from cutedialect.atoms.capability import Target, target
from cutedialect.atoms.forms import Form
from cutedialect.atoms.statement import Statement, StatementError, parse_statement

# Module of the table to the opcodes (up to the first dot) that stand in it.
_TABLES = {
    "legal_mma": "mma",
    "legal_wgmma": "wgmma",
    "legal_tcgen05": "tcgen05",
    "legal_matrix": "ldmatrix stmatrix movmatrix",
    "legal_async_copy": "cp tensormap",
    "legal_memory": (
        "ld st ldu atom red prefetch prefetchu cvta isspacep createpolicy applypriority discard "
        "mapa getctarank"
    ),
    "legal_synchronization": (
        "bar barrier mbarrier fence membar elect griddepcontrol redux shfl vote match activemask "
        "nanosleep setmaxnreg clusterlaunchcontrol"
    ),
    "legal_scalar": (
        "add sub mul mad mul24 mad24 sad div rem abs neg min max fma rcp sqrt rsqrt sin cos lg2 "
        "ex2 tanh testp copysign and or xor not cnot lop3 shl shr shf bfe bfi bfind brev clz popc "
        "fns szext bmsk dp4a dp2a addc subc madc set setp selp slct mov prmt bra brx call ret exit "
        "trap brkpt pmevent"
    ),
    "legal_convert": "cvt",
}


@dataclass(frozen=True)
class Legality:
    """Truthy when the statement may stand; otherwise `reason` says why not."""

    is_legal: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.is_legal


@cache
def _module_of() -> dict[str, str]:
    return {word: module for module, words in _TABLES.items() for word in words.split()}


@cache
def _table(module: str) -> dict[str, list[Form]]:
    result: dict[str, list[Form]] = {}
    for form in import_module(f"cutedialect.atoms.{module}").forms():
        head = _family(form.pattern)
        for family in head.strip("<>").split("|"):
            result.setdefault(family, []).append(form)
    return result


def families() -> tuple[str, ...]:
    """Every opcode, up to its first dot, that the tables know."""
    return tuple(_module_of())


def forms_of(family: str) -> list[Form]:
    """The forms of one opcode; `KeyError` for an unknown one."""
    return _table(_module_of()[family])[family]


def _family(opcode: str) -> str:
    head = opcode.partition(".")[0].partition("[")[0]
    return head.partition("::")[0]


def legal(statement: str, target_name: str | Target) -> Legality:
    """Whether the one PTX instruction `statement` may stand in a kernel for `target_name`.

    Text that is not an instruction, and an instruction that no table knows, are not legal;
    an unknown target is a `ValueError`.

    >>> bool(legal("cp.async.cg.shared.global [%r0], [%rd0], 16;", "sm_80"))
    True
    >>> legal("cp.async.cg.shared.global [%r0], [%rd0], 16;", "sm_75").reason
    'cp.async.cg.shared.global needs sm_80+, got sm_75'
    """
    chip = target(target_name)
    try:
        parsed = parse_statement(statement)
    except StatementError as error:
        return Legality(False, str(error))
    return _judge(parsed, chip)


def _judge(statement: Statement, chip: Target) -> Legality:
    family = _family(statement.opcode)
    if family not in _module_of():
        near = get_close_matches(family, _module_of(), n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return Legality(False, f"unknown instruction {statement.opcode!r}{hint}")
    forms = forms_of(family)
    spelled = [form for form in forms if form.spells(statement.opcode)]
    if not spelled:
        return Legality(False, _misspelled(statement.opcode, forms))
    here = [form for form in spelled if chip.has(form.requires)]
    furthest, reason = -1, ""
    for form in here:
        fitting, why = form.mismatch(statement.operands)
        if not why:
            return Legality(True)
        if fitting > furthest:
            furthest, reason = fitting, why
    elsewhere = [form for form in spelled if form not in here]
    missing = next((f for f in elsewhere if not f.mismatch(statement.operands)[1]), None)
    if missing or not here:
        missing = missing or elsewhere[0]
        wanted = missing.requires.replace(" ", " or ")
        return Legality(False, f"{statement.opcode} needs {wanted}, got {chip.name}")
    return Legality(False, f"{statement.opcode}: {reason}")


def _misspelled(opcode: str, forms: list[Form]) -> str:
    words = opcode.split(".")
    known = frozenset[str]().union(*(form.words for form in forms))
    unknown = [word for word in words[1:] if word not in known]
    # Comparing text is slow: only for the forms that share the most modifiers.
    shared = {form: _shared(words, form) for form in forms}
    most = max(shared.values())
    best = [form for form, count in shared.items() if count == most][:40]
    nearest = max(best, key=lambda form: SequenceMatcher(None, opcode, form.pattern).ratio())
    start = f"unknown modifier .{unknown[0]} in {opcode}" if unknown else f"no form {opcode}"
    return f"{start}; the nearest is {nearest.pattern}"


def _shared(words: list[str], form: Form) -> int:
    """Modifiers of the statement that the form has; the first ones weigh more."""
    same_start = 2 * form.pattern.startswith(".".join(words[:2]))
    return sum(word in form.words for word in words) + same_start

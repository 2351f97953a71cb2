"""`legal` against ptxas: statements drawn from the tables, and statements spoilt in one place, must
get the same verdict from both. ptxas checks a whole file of statements at once and names the lines.

Where ptxas takes more than the manual says, the tables follow the manual: see `is_laxity`.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cutedialect.atoms import legality
from cutedialect.atoms.forms import Form, allowed


@cache
def find_ptxas() -> str | None:
    """The newest: the wheel's, then the one on PATH."""
    wheels = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas")
    return next((str(path) for path in sorted(wheels, reverse=True)), None) or shutil.which("ptxas")


pytestmark = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas found")

# The PTX version of each CUDA release whose ptxas the test may meet; later ones know 9.1 too.
_RELEASES = {(12, 8): "8.7", (12, 9): "8.8", (13, 0): "9.0"}


@cache
def release() -> tuple[int, int]:
    text = subprocess.run([find_ptxas() or "", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"release (\d+)\.(\d+)", text)
    assert found is not None
    return int(found[1]), int(found[2])


_HEADER = """.version {version}
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 smem[];
"""
_ENTRY = """.visible .entry k{index}()
{{
.reg .pred %p<16>; .reg .b16 %rs<140>; .reg .b32 %r<140>; .reg .b64 %rd<140>; .reg .b128 %rq<4>;
"""


def refused(statements: list[str], target: str, folder: Path) -> dict[str, str]:
    """Statements that ptxas does not take, with its message. Lines in error are taken out and the
    rest is tried again, since some errors hide others."""
    result: dict[str, str] = {}
    left = list(dict.fromkeys(statements))
    while left:
        lines = _HEADER.format(version=_RELEASES.get(release(), "9.1"), target=target).splitlines()
        at: dict[int, str] = {}
        for start in range(0, len(left), 200):
            lines += _ENTRY.format(index=start).splitlines()
            for statement in left[start : start + 200]:
                lines.append(statement + ";")
                at[len(lines)] = statement
            lines += ["LABEL: ret;", "}"]
        path = folder / "statements.ptx"
        path.write_text("\n".join(lines) + "\n")
        # A virtual architecture: parse and check only.
        arch = target.replace("sm_", "compute_")
        command = [find_ptxas() or "", "-arch", arch, str(path), "-o", "/dev/null"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode == 0:
            return result
        found: dict[str, str] = {}
        for match in re.finditer(r"line (\d+); (?:error|fatal)\s*: (.*)", run.stdout + run.stderr):
            if int(match[1]) in at:
                found.setdefault(at[int(match[1])], match[2])
        if found:
            result |= found
            left = [statement for statement in left if statement not in found]
        elif len(left) == 1:
            pytest.fail(f"ptxas gave no verdict on {left[0]}: {run.stderr[-300:]}")
        else:
            half = len(left) // 2
            for part in (left[:half], left[half:]):
                result |= refused(part, target, folder)
            return result
    return result


class Draw:
    """Random statements. `@S3` stands for register 3 of a class that is found by trying: a form
    says what an operand is, not how wide, and ptxas is asked for every width."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.address = "[%r3]" if seed.startswith("tcgen05") else "[%rd3]"

    def opcode(self, form: Form) -> str:
        named: dict[str, str] = {}

        def choose(match: re.Match[str]) -> str:
            name, equals, choices = match[1].rpartition("=")
            if not equals and "|" not in choices:
                return named[choices]
            value = self.random.choice(choices.split("|"))
            named[name] = value
            return value

        text = re.sub(r"<([^>]*)>", choose, form.pattern)
        while "[" in text:
            text = re.sub(
                r"\[([^\[\]]*)\]", lambda m: m[1] if self.random.random() < 0.5 else "", text
            )
        return text

    def operand(self, token: str, slot: str) -> str:
        if "|" in token:
            return "|".join(self.operand(part, slot) for part in token.split("|"))
        match = re.fullmatch(r"([a-z]_?|_)(\d*)(?:\{(.*)\})?", token)
        assert match is not None, token
        kind, count, values = match.groups()
        number = self.random.randrange(8)
        if kind in ("v", "w"):
            return "{" + ", ".join(f"@V{i}" for i in range(int(count))) + "}"
        if kind == "m" and count:
            return "[%rd9, {" + ", ".join(f"%r{i}" for i in range(int(count))) + "}]"
        if kind == "u":
            picks = [self.random.choice(allowed(part)) for part in values.split("/")]
            return "{" + ", ".join(map(str, picks)) + "}"
        fixed = {"_": "_", "m": "[%rd9]", "a": "[%r9]", "y": "LABEL", "g": "(%r1)"}
        if kind in fixed:
            return fixed[kind]
        if kind == "i" or (kind in "skqce" and self.random.random() < 0.25):
            return str(self.random.choice(allowed(values or "0,1,2,5")))
        if kind == "f" and self.random.random() < 0.25:
            return "0f3f800000"
        register = {"p": "@P", "p_": "@P", "c": "@P", "h": "%rs", "k": "%r", "e": "@E"}
        return f"{register.get(kind, '@' + slot)}{number}"

    def statement(self, form: Form) -> tuple[str, list[str]]:
        count = self.random.randint(form.required, len(form.operands))
        tokens = [token.rstrip("?") for token in form.operands[:count]]
        sources = [i for i, token in enumerate(tokens) if token[0] in "rsfxnq"]
        operands: list[str] = []
        for i, token in enumerate(tokens):
            slot = "D" if token[0] == "d" else "L" if sources and i == sources[-1] else "S"
            operands.append(self.operand(token, slot))
        return self.opcode(form), operands

    def spoil(self, opcode: str, operands: list[str], words: list[str]) -> tuple[str, list[str]]:
        """Change one thing: a modifier, the number of operands, a vector, a literal."""
        parts, operands = opcode.split("."), list(operands)
        kind = self.random.randrange(6)
        index = self.random.randrange(len(operands)) if operands else 0
        if kind == 0 and len(parts) > 1:
            parts[self.random.randrange(1, len(parts))] = self.random.choice(words)
        elif kind == 1 and len(parts) > 2:
            del parts[self.random.randrange(1, len(parts))]
        elif kind == 2 and operands:
            del operands[index]
        elif kind == 3 and operands:
            operands.append(self.address)
        elif operands and operands[index].startswith("{"):
            elements = operands[index][1:-1].split(", ")
            elements = (
                elements[:-1] if kind == 4 and len(elements) > 1 else [*elements, elements[0]]
            )
            operands[index] = "{" + ", ".join(elements) + "}"
        elif operands and re.fullmatch(r"-?\d+", operands[index]):
            operands[index] = str(self.random.choice([-1, 3, 7, 9, 12, 20, 33, 100]))
        elif operands and not operands[index].startswith("["):
            operands[index] = self.random.choice(["17", self.address])
        return ".".join(parts), operands


_CLASSES = {
    "E": ("%rd", "%r"),
    "P": ("%p", "%r", "%rd", "%rs", "%rq"),
}


def concrete(statement: str) -> list[str]:
    """The statement with every width of register in every slot."""
    slots = sorted(set(re.findall(r"@([VDSLEP])", statement)))
    wide = [
        name
        for word, name in (("b128", "%rq"), ("pred", "%p"), ("red.popc", "%p"))
        if word in statement
    ]
    classes = [_CLASSES.get(slot, ("%r", "%rd", "%rs", *wide)) for slot in slots]
    out: list[str] = []
    for chosen in itertools.product(*classes):
        which = dict(zip(slots, chosen, strict=True))

        def name(match: re.Match[str], which: dict[str, str] = which) -> str:
            number = int(match[2])
            return f"{which[match[1]]}{number % 4 if which[match[1]] == '%rq' else number}"

        out.append(re.sub(r"@([VDSLEP])(\d+)", name, statement))
    return out


def accepted(statements: list[str], target: str, folder: Path) -> dict[str, str]:
    """Statement to "" when ptxas takes it with some width of registers, else to its message."""
    verdicts: dict[str, str] = {}
    tries = {statement: concrete(statement) for statement in statements}
    while tries:
        now = {statement: left[:9] for statement, left in tries.items()}
        messages = refused([c for batch in now.values() for c in batch], target, folder)
        for statement, batch in now.items():
            verdicts[statement] = (
                "" if any(c not in messages for c in batch) else messages[batch[0]]
            )
        tries = {s: left[9:] for s, left in tries.items() if verdicts[s] and left[9:]}
    return verdicts


# In turn: no property, truth tables beyond 8 bits, vectors of one, 256-bit accesses to generic
# addresses and of small elements, bf16 roundings, half of a pair of predicates, no mbarrier, a pair
# for one value.
_TAKEN_WITHOUT_THE_MANUAL = re.compile(
    r"testp\.f|lop3\..*, -1|mov\..*\{[^,]*\}|(ld|st)\..*\.(v8|v4\.[bufs]64)"
    r"|fma\.r[mzp]\.bf16|setp\..*f16x2 %\w+,|(st|red)\.async\..*\], [^\[]*$"
    r"|st\.async\S*[busf](32|64) .*, \{"
)


def is_laxity(statement: str, target: str, reason: str) -> bool:
    """ptxas takes modifiers in another order, twice, or of another instruction in between, wgmma
    without `.aligned`, and a literal where the manual wants a register."""
    if "got literal" in reason and "expected a" in reason:
        return True
    if _TAKEN_WITHOUT_THE_MANUAL.match(statement):
        return True
    opcode, _, rest = statement.partition(" ")
    parts = opcode.split(".")
    for i in range(1, len(parts)):
        if legality.legal(".".join([*parts[:i], "aligned", *parts[i:]]) + f" {rest}", target):
            return parts[0] == "wgmma"
        without = parts[:i] + parts[i + 1 :]
        if legality.legal(f"{'.'.join(without)} {rest}", target):
            return True
        for j in range(1, len(without) + 1):
            moved = ".".join([*without[:j], parts[i], *without[j:]])
            if legality.legal(f"{moved} {rest}", target):
                return True
    return False


def disagreements(family: str, target: str, count: int, folder: Path) -> tuple[list[str], int]:
    """Statements with different verdicts, and how many ptxas took."""
    draw = Draw(f"{family} {target}")
    forms = legality.forms_of(family)
    words = sorted({word for form in forms for word in form.words if word and word != family})
    statements: list[str] = []
    for i in range(count):
        opcode, operands = draw.statement(draw.random.choice(forms))
        opcode = family + opcode[len(opcode.partition(".")[0].partition("::")[0]) :]
        if i % 2:
            opcode, operands = draw.spoil(opcode, operands, words)
        statement = f"{opcode} {', '.join(operands)}"
        if not _UNFIT.match(statement):
            statements.append(statement)
    out: list[str] = []
    verdicts = accepted(list(dict.fromkeys(statements)), target, folder)
    for statement, message in verdicts.items():
        if "PTX ISA" in message or ".version" in message:
            continue
        verdict = legality.legal(concrete(statement)[0], target)
        if bool(verdict) == (not message):
            continue
        if verdict or not is_laxity(concrete(statement)[0], target, verdict.reason):
            ours = verdict.reason or "ok"
            out.append(f"{statement}\n  ptxas: {message or 'ok'}\n  legal: {ours}")
    return out, sum(not message for message in verdicts.values())


# What the harness cannot ask. In turn: parameters of functions, calls and jump tables need
# declarations; 8-bit halves need 8-bit registers; sizes of a range must be ordered; ptxas takes no
# literal for bf16 where it does for f16; the quad-pair product is a call on later chips, which an
# error elsewhere upsets.
_UNFIT = re.compile(
    r"\S*param::func|call|brx|\S*e2m1x2|mov\.(b16|b32) .*\{|createpolicy\.range.* -?\d+, -?\d+$"
    r"|setp?\S*bf16\S* .*, \d+$|mma\S*m8n8k4\S*f16\.f16"
)


SHORT = (
    "mma",
    "ldmatrix",
    "stmatrix",
    "cp",
    "mbarrier",
    "fence",
    "barrier",
    "ld",
    "cvt",
    "add",
    "shfl",
)
SHORT_TARGETS = ("sm_80", "sm_90a", "sm_100a")
LONG_TARGETS = (
    "sm_75",
    "sm_80",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_100f",
    "sm_103a",
    "sm_120a",
)


@pytest.mark.some(5)
@pytest.mark.parametrize("family", SHORT)
def test_common_families(family: str, tmp_path: Path) -> None:
    taken = 0
    for target in SHORT_TARGETS:
        wrong, legal_ones = disagreements(family, target, 48, tmp_path)
        assert not wrong, "\n".join([f"{target}:", *wrong])
        taken += legal_ones
    assert taken >= 10, "the draw must hold statements that ptxas takes"


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("family", "target"), [("wgmma", "sm_90a"), ("wgmma", "sm_100a"), ("tcgen05", "sm_100f")]
)
def test_tensor_core_families(family: str, target: str, tmp_path: Path) -> None:
    wrong, taken = disagreements(family, target, 80, tmp_path)
    assert not wrong, "\n".join(wrong)
    assert (taken > 0) is ((family, target) != ("wgmma", "sm_100a"))


@pytest.mark.long
@pytest.mark.parametrize("target", LONG_TARGETS)
@pytest.mark.parametrize("family", legality.families())
def test_every_family(family: str, target: str, tmp_path: Path) -> None:
    wrong, _ = disagreements(family, target, 300, tmp_path)
    assert not wrong, "\n".join(wrong)

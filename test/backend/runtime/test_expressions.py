"""The expressions of descriptions: what the grammar has, Python's values, and the same in C."""

from __future__ import annotations

import ast
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from cutedialect.backend.runtime.expressions import (
    FUNCTIONS,
    GRAMMAR,
    evaluated,
    in_c,
    parsed,
    rewritten,
)

TENSOR = SimpleNamespace(pointer=4096, shape=(7, 300), stride=(300, 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceildiv(T.shape[1], 128) * 2 - -n", 11),
        ("floordiv(-7, 2) + floormod(-7, 2)", -3),
        ("quotient(-7, 2) * 10 + remainder(-7, 2)", -31),
        ("T.stride[0] == 3 * 100", True),
        ("select(n > 4, T.pointer, 0)", 4096),
        ("min(3, n, 1) + max(2, n)", 6),
        ("i8(200) + i32(3000000000)", -56 + 3000000000 - 2**32),
        ("bitor(bitand(n, 4), bitxor(shl(1, 3), shr(-8, 1)))", 4 | (8 ^ -4)),
        ("0.5", 0.5),
        ("inf", float("inf")),
    ],
)
def test_expressions_have_their_values(text: str, value: object) -> None:
    assert evaluated(text, {"T": TENSOR, "n": 5}) == value


@pytest.mark.parametrize(
    "text",
    [
        "a // b", "a % b", "a if b else c", "a.b.c", "f(a)", "a[0:1]", "T.size[0]", "a and b",
        "'x'", "a[1, 2]", "(lambda: 0)()", "min()", "1 < 2 < 3", "a +", "T.shape[n]", "True", "[a]",
        "a @ b",
        "__import__('os')", "min(a, key=b)", "9223372036854775808",
    ],
)  # fmt: skip
def test_what_the_grammar_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an expression"):
        parsed(text)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("a // b % 3", "floormod(floordiv(a, b), 3)"),
        ("a & 7 | b ^ 1", "bitor(bitand(a, 7), bitxor(b, 1))"),
        ("int(a < b) << 2 >> c", "shr(shl(a < b, 2), c)"),
        ("a if int(b == 0) else -(-c // 2)", "select(b == 0, a, -floordiv(-c, 2))"),
    ],
)
def test_the_words_of_the_format_before_are_rewritten(before: str, now: str) -> None:
    tree = rewritten(ast.parse(before, mode="eval").body)
    assert ast.unparse(tree) == now
    assert ast.unparse(parsed(now)) == now


def test_the_grammar_names_what_there_is() -> None:
    for word in ('"=="', ".pointer", ".shape[", '"inf"'):
        assert word in GRAMMAR
    assert "floordiv(a, b)" in FUNCTIONS


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_computes_what_python_does(tmp_path) -> None:
    """Functions of drawn numbers, negative ones too."""
    from importlib.resources import files

    rng = np.random.default_rng(0)
    heads = [head for head in FUNCTIONS if "select" not in head] + ["min(a, b)", "max(a, b)"]
    lines, wanted = [], []
    for _ in range(300):
        head = str(rng.choice(heads))
        a, b = (int(value) for value in rng.integers(-(2**40), 2**40, 2) >> rng.integers(0, 40))
        if head.startswith(("shl", "shr")):
            b = abs(b) % 20
        text = head.replace("(x)", "(a)")
        wanted.append(evaluated(text, {"a": a, "b": b or 1}))
        lines.append(f"{{ int64_t a = INT64_C({a}), b = INT64_C({b or 1}); (void)b;")
        lines.append(f'printf("%lld\\n", (long long){in_c(text, {"a": "a", "b": "b"})}); }}')
    shared = (files("cutedialect.backend.runtime.launchers") / "shared.h").read_text()
    # The functions alone, which need no driver.
    part = shared[shared.index("static CUTE_UNUSED int64_t cute_min") :]
    part = part[: part.index("/* What a kernel was compiled for")]
    head = "#include <stdint.h>\n#include <stdio.h>\n#define CUTE_UNUSED __attribute__((unused))\n"
    body = "\n".join(lines)
    (tmp_path / "main.c").write_text(f"{head}{part}\nint main(void) {{\n{body}\nreturn 0; }}\n")
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-fsanitize=undefined"]
    subprocess.run(
        [*command, "-fno-sanitize-recover", str(tmp_path / "main.c"), "-o", str(tmp_path / "run")],
        check=True,
    )
    told = subprocess.run([str(tmp_path / "run")], capture_output=True, text=True, check=True)
    assert [int(line) for line in told.stdout.split()] == wanted

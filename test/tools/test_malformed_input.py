"""Whatever the text or the command line, `cute-opt` answers with one located error, exit code 1 and
no traceback, and it answers soon.
"""

import io
import re
import time

import pytest

from benchmarks import ir_mutants
from cutedialect.tools.cute_opt import CuteOpt

LOCATED = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): error: (?P<text>\S.*)$")


def cute_opt(*argv, stdin=b""):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt([str(word) for word in argv], io.BytesIO(stdin), out, err).run()
    return code, out.getvalue(), err.getvalue()


def the_error(*argv, stdin=b"", exit_code=1):
    """The one error of a run that must fail."""
    start = time.perf_counter()
    text = stdin.encode() if isinstance(stdin, str) else stdin
    code, out, err = cute_opt(*argv, stdin=text)
    assert time.perf_counter() - start < 5
    assert (code, out) == (exit_code, "")
    assert "Traceback" not in err
    errors = [match for line in err.splitlines() if (match := LOCATED.match(line))]
    assert len(errors) == 1, err
    assert err.startswith(errors[0][0])
    return errors[0]


def in_function(line, arguments="%a: i32"):
    return f"func.func @f({arguments}) {{\n  {line}\n  func.return\n}}\n"


NEST = "scf.if %c {"
KERNEL = "cute.kernel @k() {\n"

# name: (text, line of the error, a part of the message)
TEXTS = {
    "empty": ("", 1, "expected an operation, got the end of the text"),
    "blanks only": (" \n\t\n", 3, "got the end"),
    "comment only": ("// nothing", 1, "got the end"),
    "a word": ("hello", 1, "unknown operation 'hello'"),
    "a number": ("42", 1, "expected an operation, got '42'"),
    "a brace": ("}", 1, "expected an operation, got '}'"),
    "a lone percent": ("%", 1, ""),
    "a lone bang": ("!", 1, ""),
    "a lone hash": ("#", 1, ""),
    "a lone at": ("@", 1, ""),
    "NUL": ("func.func @f() {\0}", 1, ""),
    "a letter of another alphabet": ("функция @f", 1, ""),
    "truncated after the name": ("func.func @f", 1, ""),
    "truncated in the arguments": ("func.func @f(%a: i32", 1, ""),
    "truncated in the body": ("func.func @f() {", 1, ""),
    "truncated in an operation": ("func.func @f(%a: i32) {\n  %0 = arith.addi %a", 2, ""),
    "truncated in a type": ("func.func @f(%a: tensor<4x", 1, ""),
    "truncated in an attribute": ('"a.b"() {x = [1, 2', 1, ""),
    "truncated in a string": ('"a.b"() {x = "abc', 1, ""),
    "string of 10,000 characters without an end": ('"' + "a" * 10_000, 1, "string literal"),
    "string of 10,000 escapes without an end": ('"' + "\\n" * 10_000, 1, "string literal"),
    "string across lines": ('"a.b\n"() : () -> ()', 1, "string literal"),
    "bad escape": ('"a\\qb"() : () -> ()', 1, "string literal"),
    "unclosed layout": ('func.func @f(%a: !cute.memref<f16, gmem, align<16>, "(4,8', 1, "string"),
    "200 nested regions": (in_function(NEST * 200, "%c: i1"), 2, ""),
    "5,000 nested regions": (in_function(NEST * 5000, "%c: i1"), 2, "nested too deeply"),
    "5,000 nested arrays": ('"func.call"() {x = ' + "[" * 5000, 1, "nested too deeply"),
    "5,000 nested types": ("func.func @f(%a: " + "tuple<" * 5000, 1, "nested too deeply"),
    "5,000 nested affine parentheses": (
        "func.func @f() attributes {m = affine_map<(d0) -> (" + "(" * 5000,
        1,
        "nested too deeply",
    ),
    "unknown operation": (in_function("arith.frobnicate"), 2, "unknown operation"),
    "misspelt operation": (in_function("func.retrun"), 2, "did you mean 'func.return'?"),
    "misspelt dialect": (in_function("arit.addi %a, %a : i32"), 2, "did you mean 'arith'?"),
    "unknown type": (
        in_function("%0 = arith.constant 1 : !cute.nothing"),
        2,
        "unknown type 'cute.nothing'",
    ),
    "unknown attribute": (in_function('"func.call"() {a = #cute.nothing} : () -> ()'), 2, ""),
    "undefined alias": (
        in_function("%0 = arith.constant 1 : !nothing"),
        2,
        "undefined alias '!nothing'",
    ),
    "alias twice": ("!t = i32\n!t = i64\n", 2, "re-declaration"),
    "undefined value": (in_function("%0 = arith.addi %a, %b : i32"), 2, "%b is used but not"),
    "value defined twice": (in_function("%a = arith.constant 1 : i32"), 2, "already defined"),
    "use before definition": (
        in_function("%0 = arith.addi %a, %1 : i32\n  %1 = arith.addi %a, %a : i32"),
        2,
        "is used before its definition",
    ),
    "value of an inner region": (
        in_function(
            "scf.if %c {\n    %i = arith.constant 1 : i32\n  }\n  %0 = arith.addi %i, %i : i32",
            "%c: i1",
        ),
        5,
        "%i is used but not defined",
    ),
    "wrong number of results": (in_function("%0, %1 = arith.addi %a, %a : i32"), 2, "results"),
    "wrong operand type": (in_function("%0 = arith.addi %a, %a : i64"), 2, "i64"),
    "wrong result type": (
        in_function('%0 = "arith.addi"(%a, %a) : (i32, i32) -> i64'),
        2,
        "'arith.addi'",
    ),
    "too few operands": (in_function('%0 = "arith.addi"(%a) : (i32) -> i32'), 2, "'arith.addi'"),
    "operand types that do not fit": (in_function('"func.call"(%a) : () -> ()'), 2, ""),
    "missing property": (in_function('"arith.cmpi"(%a, %a) : (i32, i32) -> i1'), 2, "predicate"),
    "terminator in the middle": (in_function("func.return"), 2, ""),
    "no terminator": ("func.func @f() {\n  %0 = arith.constant 1 : i32\n}\n", 2, "terminator"),
    "unknown block": (in_function('"cf.br"() [^nowhere] : () -> ()'), 2, ""),
    "block twice": ("func.func @f() {\n^a:\n  func.return\n^a:\n  func.return\n}", 4, "block 'a'"),
    "huge integer": (in_function(f"%0 = arith.constant {10**40} : i32"), 2, ""),
    "integer of 10,000 digits": (in_function(f"%0 = arith.constant {'9' * 10_000} : i32"), 2, ""),
    "huge integer type": (in_function("%0 = arith.constant 1 : i99999999999"), 2, "width"),
    "huge dense": (
        in_function("%0 = arith.constant dense<1> : tensor<99999999999xi8>"),
        2,
        "dense",
    ),
    "ragged dense": (
        in_function("%0 = arith.constant dense<[[1, 2], [3]]> : tensor<2x2xi8>"),
        2,
        "",
    ),
    "dense of the wrong shape": (
        in_function("%0 = arith.constant dense<[1]> : tensor<3xi8>"),
        2,
        "",
    ),
    "bad hexadecimal": (in_function('%0 = arith.constant dense<"0xzz"> : tensor<3xi8>'), 2, ""),
    "negative dimension": ("func.func @f(%a: tensor<-4xi32>)", 1, ""),
    "no function type": ('"func.func"() : () -> ()', 1, "'func.func'"),
    "property of the wrong kind": (
        '"func.func"() <{sym_name = 1 : i32, function_type = () -> ()}> ({}) : () -> ()',
        1,
        "",
    ),
    "duplicate attribute": ('"func.call"() {a = 1 : i32, a = 2 : i32} : () -> ()', 1, "a"),
    "unbalanced location": (in_function("%0 = arith.addi %a, %a : i32 loc("), 2, ""),
    "unquoted layout": ("func.func @f(%a: !cute.memref<f16, gmem, align<16>, (4,8)>)", 1, ""),
    "layout that is not congruent": (
        'func.func @f(%a: !cute.memref<f16, gmem, align<16>, "((4,8),2):(16,8)">) {\n}',
        1,
        "congruent",
    ),
    "layout text with a stray sign": (
        'func.func @f(%a: !cute.memref<f16, gmem, align<16>, "(4,*):(8,1)">) {\n}',
        1,
        "",
    ),
    "misspelt type": ("func.func @f(%a: !cute.memreff<f16>)", 1, "did you mean 'cute.memref'?"),
    "unknown memory space": (
        'func.func @f(%a: !cute.memref<f16, attic, align<16>, "(4,8):(8,1)">)',
        1,
        "",
    ),
    "half a kernel": (KERNEL, 2, ""),
}


@pytest.mark.parametrize("name", TEXTS)
def test_malformed_text(name):
    text, line, part = TEXTS[name]
    error = the_error(stdin=text)
    assert error["file"] == "<stdin>"
    assert int(error["line"]) <= text.count("\n") + 1
    if part:
        assert int(error["line"]) == line
        assert part in error["text"]


def test_every_prefix_of_a_module_is_refused():
    text = in_function("%0 = arith.addi %a, %a : i32").rstrip()
    for length in range(len(text)):
        if not text[:length].rstrip().endswith(")"):  # that is the declaration of a function
            the_error(stdin=text[:length])


def test_errors_underline_the_source():
    code, _, err = cute_opt(stdin=in_function("%0 = arith.addi %a, %bad : i32").encode())
    assert code == 1
    assert err == (
        "<stdin>:2:23: error: value %bad is used but not defined\n"
        "  %0 = arith.addi %a, %bad : i32\n"
        "                      ^~~~\n"
    )


def test_files_that_cannot_be_read(tmp_path):
    missing = the_error(tmp_path / "nothing.mlir")
    assert missing["text"] == "cannot read the input: no such file or directory"
    assert missing["file"] == str(tmp_path / "nothing.mlir")
    assert "is a directory" in the_error(tmp_path)["text"]
    binary = tmp_path / "binary.mlir"
    binary.write_bytes(b"// fine\n  \x7fELF\xff\xfe\x00")
    error = the_error(binary)
    assert (error["line"], error["column"]) == ("2", "7")
    assert error["text"] == "expected UTF-8 text, got the byte 0xff"
    assert "cannot read" in the_error("a\0b")["text"]


def test_output_that_cannot_be_written(tmp_path):
    text = in_function("").encode()
    assert "cannot write" in the_error("-o", tmp_path / "no" / "out", stdin=text)["text"]
    assert "directory" in the_error("-o", tmp_path, stdin=text)["text"]


def test_dumps_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    flags = ("--cse", "--print-ir-tree-dir", tmp_path / "file" / "ir")
    error = the_error(*flags, stdin=in_function("").encode())
    assert error["text"].startswith("cannot write the IR: ")
    assert error["file"].endswith("01-cse.mlir")


def test_a_bad_environment_variable_is_an_error(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_DEBUG", "yes")
    error = the_error(stdin=in_function("").encode(), exit_code=2)
    assert error["text"] == "CUTEDIALECT_DEBUG: expected 0 or 1, got 'yes'"


# arguments: a part of the message, and what the caret underlines
COMMAND_LINES = {
    ("-p", "cute-tlie"): ("unknown pass 'cute-tlie'; did you mean 'cute-tile'?", "cute-tlie"),
    ("-p", "cse,nothing"): ("unknown pass 'nothing'", "nothing"),
    ("-p", "cse,"): ("expected a pass, got the end", ""),
    ("-p", ",cse"): ("expected a pass, got ','", ","),
    ("-p", "cse cse"): ("expected ',' or the end, got 'cse'", "cse"),
    ("-p", "cse{"): ("expected an option name or '}', got the end", ""),
    ("-p", "cse}"): ("expected ',' or the end, got '}'", "}"),
    ("-p", "cse{a=1}"): ("pass 'cse' has no option 'a'", "a"),
    ("-p", "cute-schedule-loops{stages=x}"): ("expected", "x"),
    ("-p", "cute-schedule-loops{stages=1,2}"): ("expected", "1,2"),
    ("-p", "cute-schedule-loops{stages=}"): ("expected a value, got '}'", "}"),
    ("-p", "cute-schedule-loops{stages=1 stages=2}"): ("given twice", "stages"),
    ("-p", "cute-schedule-loops{stges=1}"): ("did you mean 'stages'?", "stges"),
    ("-p", "cute-partition{arch='sm_80}"): ("expected the string to be closed", "'"),
    ("--pass-pipeline=builtin.module(cse"): ("expected ',' or ')', got the end", ""),
    ("--pass-pipeline=builtin.module"): ("expected '(' after", ""),
    ("--pass-pipeline=builtin.module(cse))"): ("expected the end of the pipeline", ")"),
    ("--pass-pipeline=builtin.module(func.func(cse))"): ("passes run on modules", "func.func"),
    ("--cute-tlie",): ("unknown option '--cute-tlie'; did you mean '--cute-tile'?", "--cute-tlie"),
    ("--verify-diagnostic",): ("did you mean '--verify-diagnostics'?", "--verify-diagnostic"),
    ("--verify-each=maybe",): ("expected true or false, got 'maybe'", "--verify-each=maybe"),
    ("-p",): ("expected one argument", "-p"),
    ("-p", "cse", "--cse"): ("expected one of -p", "cse"),
    ("-t", "ptxx"): ("unknown target 'ptxx'; did you mean 'ptx'?", "ptxx"),
    ("-t", "mlir mlir"): ("expected nothing more", "mlir"),
    ("-t", ""): ("expected a target, got the end", ""),
    ("--print-ir-after=nothing",): ("unknown pass 'nothing'", "nothing"),
    ("--bogus",): ("unknown option '--bogus'", "--bogus"),
    ("a", "b"): ("expected one input file, got a second: 'b'", "b"),
}


@pytest.mark.parametrize("argv", COMMAND_LINES)
def test_malformed_command_line(argv):
    argv_list = [argv] if isinstance(argv, str) else argv
    message, underlined = COMMAND_LINES[argv]
    code, out, err = cute_opt(*argv_list, stdin=in_function("").encode())
    assert (code, out) == (2, "")
    first, source, caret = err.splitlines()
    match = LOCATED.match(first)
    assert message in match["text"]
    column = int(match["column"]) - 1
    assert caret == " " * column + "^" + "~" * (len(caret.strip()) - 1)
    if underlined:
        assert source[column : column + len(caret.strip())] == underlined


def test_no_text_makes_the_lexer_slow():
    for length in (1_000, 100_000):
        start = time.perf_counter()
        the_error(stdin='"' + "a" * length)
        the_error(stdin='"a.b"() {x = "' + "\\\\a" * length)
        assert time.perf_counter() - start < 2


@pytest.mark.some(7)
@pytest.mark.parametrize("seed", range(20))
def test_seeded_mutations_are_accepted_or_refused_with_a_position(seed):
    """1,000 token-level mutations of the repository's own IR, through the passes of the layout
    algebra where they are accepted; 20,000 of all seeds.
    """
    seeds = ir_mutants.corpus()
    assert len(seeds) >= 5
    refused = 0
    for _, text in zip(range(1_000), ir_mutants.mutants(seeds, seed), strict=False):
        fault, is_refused = ir_mutants.fault_of(text)
        assert not fault, (text, fault)
        refused += is_refused
    assert refused > 250


def test_a_mutant_has_its_number_in_any_range(monkeypatch, capsys):
    monkeypatch.setattr(ir_mutants, "fault_of", lambda text: (text, True))
    told = []
    for first, count in ((995, 10), (1_002, 2)):
        options = ["--first", str(first), "--count", str(count), "--only", "algebra/types"]
        assert ir_mutants.main(options) == 1
        told.append(capsys.readouterr().out.split("seed 0, number ")[1:])
    assert [int(text.split(":")[0]) for text in told[0]] == list(range(995, 1_005))
    assert [text.split("\n\nmutants")[0].strip() for text in told[1]] == [
        text.strip() for text in told[0][7:9]
    ]

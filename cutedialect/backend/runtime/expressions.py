"""The expressions of a kernel's description (`description.py`): a small language that others
read. It is a subset of Python's syntax, so that `ast` parses it; what is outside is refused. An
older description's expressions are rewritten into it, and it is written as C.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

GRAMMAR = """\
expression := sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=") sum ]
sum        := product { ("+" | "-") product }
product    := factor { "*" factor }
factor     := [ "-" ] ( number | value | function "(" expression { "," expression } ")"
                      | "(" expression ")" )
value      := name | name ".pointer" | name ".shape[" digits "]" | name ".stride[" digits "]"
number     := digits | digits "." digits [ "e" [ "-" | "+" ] digits ] | "inf" | "nan"
name       := letter { letter | digit | "_" }
"""
# What descriptions of lists have beside: how many tensors a list or entries a table has, and an
# entry of a table.
LIST_GRAMMAR = GRAMMAR.replace(
    '"]"\nnumber', '"]"\n            | name ".size" | name "[" expression "]"\nnumber'
)
# Function with its parameters, to what Python computes. Comparisons are 1 or 0.
FUNCTIONS = {
    "floordiv(a, b)": "a // b",
    "floormod(a, b)": "a % b",
    "ceildiv(a, b)": "-(-a // b)",
    "quotient(a, b)": "abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)",
    "remainder(a, b)": "abs(a) % abs(b) * (-1 if a < 0 else 1)",
    "select(c, a, b)": "a if c else b",
    "bitand(a, b)": "a & b",
    "bitor(a, b)": "a | b",
    "bitxor(a, b)": "a ^ b",
    "shl(a, b)": "a << b",
    "shr(a, b)": "a >> b",
    **{f"i{n}(x)": f"(x + 2 ** {n - 1}) % 2 ** {n} - 2 ** {n - 1}" for n in (8, 16, 32, 64)},
}
NAMES = ("min", "max", "abs", *(head.split("(")[0] for head in FUNCTIONS))
_FIELDS = ("shape", "stride")
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_CALLED: dict[type[ast.operator], str] = {
    ast.FloorDiv: "floordiv",
    ast.Mod: "floormod",
    ast.BitAnd: "bitand",
    ast.BitOr: "bitor",
    ast.BitXor: "bitxor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
_LIMIT = 1 << 63


def parsed(text: str) -> ast.expr:
    """The tree of an expression; ValueError for what the grammar does not have."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"expected an expression, got '{text}'") from None
    _check(tree, text)
    return tree


def rewritten(tree: ast.expr) -> ast.expr:
    """Python's arithmetic of integers, as the format before has it, in the grammar."""
    return _Rewriter().visit(tree)


def evaluated(text: str, names: Mapping[str, object]) -> object:
    """The value of an expression of the grammar, for names and tensors with `pointer`, `shape` and
    `stride`.
    """
    return eval(compile(ast.Expression(parsed(text)), text, "eval"), {**python_names(), **names})


def python_names() -> dict[str, object]:
    """The functions of the grammar, for readers in Python."""
    known: dict[str, object] = {"__builtins__": {}, "min": min, "max": max, "abs": abs}
    known |= {"inf": float("inf"), "nan": float("nan")}
    for head, body in FUNCTIONS.items():
        name, _, parameters = head.rstrip(")").partition("(")
        known[name] = eval(f"lambda {parameters}: {body}", known)
    return known


def in_c(text: str, names: Mapping[str, str]) -> str:
    """An expression in C, on `int64_t` and `double`: functions are `cute_NAME`, a name is what
    `names` has for it.
    """
    return _c(parsed(text), names)


def _check(node: ast.expr, text: str) -> None:
    """Refuse what the grammar does not have."""
    inner: list[ast.expr] = []
    match node:
        case ast.Constant(value) if type(value) is int and -_LIMIT <= value < _LIMIT:
            pass
        case ast.Constant(value) if type(value) is float:
            pass
        case ast.Name() | ast.Attribute(ast.Name(), "pointer" | "size"):
            pass
        case ast.Subscript(ast.Name(), index) if not isinstance(index, ast.Slice | ast.Tuple):
            inner = [index]
        case ast.Subscript(ast.Attribute(ast.Name(), field), ast.Constant(mode)) if (
            field in _FIELDS and type(mode) is int
        ):
            pass
        case ast.UnaryOp(ast.USub(), operand):
            inner = [operand]
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            inner = [left, right]
        case ast.Compare(left, [sign], [right]) if type(sign) in _COMPARISONS:
            inner = [left, right]
        case ast.Call(ast.Name(name), arguments, []) if name in NAMES and arguments:
            inner = arguments
        case _:
            raise ValueError(f"expected an expression of the grammar, got '{ast.unparse(node)}'")
    for part in inner:
        _check(part, text)


def _c(node: ast.expr, names: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value):
            return f"INT64_C({value})" if type(value) is int else repr(value)
        case ast.Name("inf"):
            return "(double)INFINITY"
        case ast.Name("nan"):
            return "(double)NAN"
        case ast.Name(name):
            return names[name]
        case ast.Attribute(ast.Name(name), field):
            return f"{names[name]}.{field}"
        case ast.Subscript(ast.Attribute(ast.Name(name), field), ast.Constant(mode)):
            return f"{names[name]}.{field}[{mode}]"
        case ast.Subscript(ast.Name(name), index):
            return f"cute_tiles_before(&{names[name]}, {_c(index, names)})"
        case ast.UnaryOp(_, operand):
            return f"(-{_c(operand, names)})"
        case ast.BinOp(left, sign, right):
            return f"({_c(left, names)} {_SIGNS[type(sign)]} {_c(right, names)})"
        case ast.Compare(left, [sign], [right]):
            return f"({_c(left, names)} {_COMPARISONS[type(sign)]} {_c(right, names)})"
        case ast.Call(ast.Name(name), arguments):
            parts = [_c(argument, names) for argument in arguments]
            if name in ("min", "max"):  # of any number
                result = parts[0]
                for part in parts[1:]:
                    result = f"cute_{name}({result}, {part})"
                return result
            return f"cute_{name}({', '.join(parts)})"
        case _:
            raise AssertionError(ast.unparse(node))


class _Rewriter(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = _CALLED.get(type(node.op))
        return node if name is None else _call(name, node.left, node.right)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return _call("select", node.test, node.body, node.orelse)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("int"), [ast.Compare() as truth]):
                return truth
            case _:
                return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])

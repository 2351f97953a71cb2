"""A compiled program described for other launchers: everything that a launch needs, as plain data
that JSON holds. Grids and kernel parameters are expressions over the arguments (`expressions.py`),
so the cubin and this description run a kernel without any part of this package.
"""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from cutedialect.atoms.tensor_map import SLICE_TURN
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.expressions import (
    FUNCTIONS,
    GRAMMAR,
    LIST_GRAMMAR,
    NAMES,
    parsed,
    rewritten,
)
from cutedialect.backend.runtime.host import TABLE, TENSOR_MAP
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.backend.runtime.ptxas import Assembly
from cutedialect.backend.runtime.signature import (
    DTYPE_OF_ELEMENT,
    GroupParameter,
    TensorParameter,
)
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument, checked_map
from cutedialect.backend.runtime.workspaces import ALIGNMENT

FORMAT = "cutedialect-kernel-2"
# That of kernels that take lists of tensors, for which the format above has no words.
LIST_FORMAT = "cutedialect-kernel-3"
# What was written before, whose expressions were Python's.
_BEFORE = "cutedialect-kernel-1"

CONVENTIONS = (
    "Expressions are those of 'grammar', on integers of 64 bits: min, max and abs are what they "
    "are called, and 'functions' has the others in Python's words. A comparison is 1 or 0.",
    "A tensor T has T.pointer (the device address of its first element), T.shape and T.stride (in "
    "elements). The stride of a dimension whose extent is 0 or 1 counts as 0, unless the argument "
    "has a fixed one.",
    "An extent or stride given as a number is fixed; null is a run-time value, and a multiple of "
    "its divisor. Every extent is below 2^31, the address a multiple of 'alignment' bytes.",
    "Where 'call' is not null, the kernel computes a function of the arrays and numbers in "
    "'call.arguments', and takes views of them. An extent in their 'shape' has to be the number or "
    "the expression that is there, over the arguments before; null is any. Every expression of "
    "'call.requires' has to be true, and so does every one of 'requires' over the arguments of the "
    "kernel.",
    "'from' of an argument says what it is then: the array whose pointer it has, with 'shape' and "
    "'stride' (in elements), or a 'value', which may be a floating-point number. These expressions "
    "and those of 'requires' are over the arguments of the call alone, and have their strides as "
    "the arrays do, whatever the extent.",
    "sm_count is the number of multiprocessors of the device.",
    "'values' are computed in order, for use by later expressions and by the sizes of workspaces.",
    "A workspace is device memory for 'elements' of a type that the caller provides, its address a "
    "multiple of 'alignment'; its name is its address. Two launches at once need two. Where "
    "'zeroed', it is all zeros before its first launch, and every launch leaves it so.",
    "Kernels run in the order of 'launches', each after the one before; one with a 0 in its grid "
    "does not run.",
    "A parameter is 'size' bytes at 'offset' of the parameter buffer, little-endian: for f16, "
    "bf16, f32 and f64 a number of that type, else an integer in two's complement; one narrower "
    "than 'size' is extended with zeros.",
    "A tensor_map parameter is the 128 bytes that cuTensorMapEncodeTiled makes of 'tensor_map', "
    "whose keys are the arguments of that function in its order. One with 'lower' and 'upper' is "
    "made by cuTensorMapEncodeIm2col: these are the corners of its pixel box, and the first "
    "extents of 'box' its channels per pixel and pixels per column. For a tensor without elements, "
    "any address that is a multiple of 16 will do.",
    "cluster is compiled into the kernel: a plain launch is a launch in clusters. Where "
    "'programmatic_stream_serialization_allowed', the launch may have that attribute, and then "
    "begins while the one in front of it ends.",
)
LIST_CONVENTIONS = (
    "An argument of kind 'tensors' is a list of tensors, each of which is as the argument says; "
    "all lists of a call are equally long. Expressions of the call and of 'from' are over the "
    "entries at one place of the lists, and hold for every place. Entries for which "
    "'members.where' of the call is false are left out, and the others come in the order of "
    "'members.order', those before first that are equal.",
    "Every table of 'tables' is memory of the device beside the workspaces, its address a "
    "multiple of 128, which has to have its bytes before a launch; T.size is the number of its "
    "entries, and L.size that of the tensors of a list. Expressions in 'entry' are over one "
    "tensor of 'list'.",
    "A table of kind 'tensors' has for each tensor the address (8 bytes), 'strides' (8 bytes "
    "each), 'extents' (4 bytes each) and zeros up to a multiple of 8 bytes; one of kind "
    "'tensor_map' the 128 bytes of its tensor map.",
    "A table of kind 'offsets' has integers of 4 bytes, one more than the list has tensors: how "
    "many blocks lie in front of each, and how many there are, below 2^31. A tensor has the "
    "product, over its modes, of ceildiv(ceildiv(extent, tile), block) blocks, where a tile of -1 "
    "is the whole mode.",
    "A table of kind 'shares' has integers of 4 bytes: for 'takers' that take blocks, where the "
    "blocks of each begin in this table, then where those of the last one end, then the numbers "
    "of the blocks, in ascending order for each taker. The blocks of 'offsets' are dealt in "
    "order, to the taker that is free first (of equal ones the first), which is then busy for the "
    "extent of mode 'mode' of the tensor of 'list', and 128.",
)
_RESERVED = ("sm_count", "inf", "nan", *NAMES)
# Above this a function has to opt in to dynamic shared memory.
_PLAIN_SMEM = 48 * 1024
_PORTABLE_CLUSTER = 8


@dataclass(frozen=True)
class DescribedCall:
    """A call of several arrays that runs a program: `about` says what it computes, `arguments` what
    it takes, `views` what each argument of the program is then, and `requires` what has to be true.
    `members` says which entries of lists take part, and in which order.
    """

    about: str
    arguments: tuple[dict[str, Any], ...]
    views: tuple[dict[str, Any], ...]
    requires: tuple[str, ...] = ()
    members: dict[str, str] | None = None


def described(
    program: CompiledProgram, assembly: Assembly | None, call: DescribedCall | None = None
) -> dict[str, Any]:
    """The description; without an assembly the resources are null. Without a call the arguments
    are the caller's own.

    Raises CompileError where the host part does what the format has no words for.
    """
    parameters = program.signature.parameters
    has_lists = any(isinstance(parameter, GroupParameter) for parameter in parameters)
    if has_lists and call is None:
        raise CompileError(
            "expected tensors and scalars to describe, or lists of cute.grouped_gemm, got a kernel "
            "of lists",
            code="CD-HOST",
        )
    host = _Host(program)
    views = (None,) * len(parameters) if call is None else call.views
    described_call = None
    if call is not None:
        described_call = {"arguments": call.arguments, "requires": call.requires}
        if call.members is not None:
            described_call["members"] = call.members
    return {
        "format": LIST_FORMAT if has_lists else FORMAT,
        "name": program.name,
        "about": "" if call is None else call.about,
        "arch": program.arch,
        "schedule": program.schedule,
        "call": described_call,
        "arguments": [
            _argument(name, parameter) | {"from": view}
            for name, parameter, view in zip(host.names, parameters, views, strict=True)
        ],
        "requires": _equal_extents(host, program),
        "workspaces": host.workspaces,
        "values": [{"name": name, "value": value} for name, value in host.values],
        "launches": [_launch(host, call, program, assembly) for call in host.launches],
        **({"tables": host.tables} if has_lists else {}),
        "grammar": (LIST_GRAMMAR if has_lists else GRAMMAR).splitlines(),
        "functions": FUNCTIONS,
        "conventions": CONVENTIONS + LIST_CONVENTIONS if has_lists else CONVENTIONS,
    }


def read_description(text: str) -> dict[str, Any]:
    """A description that `python -m cutedialect compile` wrote, now or in the format before, whose
    expressions are brought into the grammar; ValueError for another file.
    """
    read = json.loads(text)
    format_ = read.get("format") if isinstance(read, dict) else None
    if format_ in (FORMAT, LIST_FORMAT):
        return read
    if format_ != _BEFORE:
        raise ValueError(
            f"expected a description of format {FORMAT}, {LIST_FORMAT} or {_BEFORE}, got {format_}"
        )
    for launch in read["launches"]:
        launch["attributes"]["programmatic_stream_serialization_allowed"] = False
    for holder, place in _expressions_before(read):
        tree = rewritten(ast.parse(holder[place], mode="eval").body)
        holder[place] = ast.unparse(parsed(ast.unparse(tree)))
    return read | {
        "format": FORMAT,
        "requires": [],
        "grammar": GRAMMAR.splitlines(),
        "functions": FUNCTIONS,
    }


def _expressions_before(read: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Where expressions stand in a description of the format before: what holds each, and its key
    or position there.
    """
    places: list[tuple[Any, Any]] = []
    for argument in read["arguments"]:
        view = argument["from"] or {}
        places += [
            (view[key], place) for key in _FIELDS if key in view for place in _all(view[key])
        ]
        places += [(view, "value")] if "value" in view else []
    if read["call"] is not None:
        places += [(read["call"]["requires"], place) for place in _all(read["call"]["requires"])]
        for argument in read["call"]["arguments"]:
            shape = argument.get("shape", [])
            places += [(shape, place) for place in _all(shape) if isinstance(shape[place], str)]
    places += [(space, "elements") for space in read["workspaces"]]
    places += [(value, "value") for value in read["values"]]
    for launch in read["launches"]:
        places += [(launch["grid"], place) for place in range(3)]
        for parameter in launch["parameters"]:
            map_ = parameter.get("tensor_map")
            if map_ is None:
                places.append((parameter, "value"))
                continue
            places.append((map_, "address"))
            places += [
                (map_[key], place) for key in ("dims", "strides") for place in _all(map_[key])
            ]
    return places


_FIELDS = ("shape", "stride")


def _all(values: list[Any]) -> range:
    return range(len(values))


def _equal_extents(host: _Host, program: CompiledProgram) -> list[str]:
    """What a launch refuses otherwise: extents that a multiply sums over and that differ."""
    facts: list[str] = []
    for mine, mode, theirs, its_mode, limit, line in program.equal_extents:
        if line is None:
            one = f"{host.names[mine]}.shape[{mode}]"
            other = f"{host.names[theirs]}.shape[{its_mode}]"
            fact = f"{one} == {other}"
            reach = f"bitor({fact}, min({one}, {other}) >= {limit})"
            facts.append(fact if limit is None else reach)
    return facts


def _argument(name: str, parameter: Any) -> dict[str, Any]:
    if isinstance(parameter, GroupParameter):
        return _argument(name, parameter.member) | {"kind": "tensors"}
    if isinstance(parameter, TensorParameter):
        facts = asdict(parameter) | {"dtype": parameter.dtype}
        del facts["modes"]
        return {"name": name, "kind": "tensor"} | {k: v for k, v in facts.items() if k != "name"}
    return {"name": name, "kind": "scalar", "type": parameter.type}


def _launch(
    host: _Host, call: ast.Call, program: CompiledProgram, assembly: Assembly | None
) -> dict[str, Any]:
    kernel_node, grid, block, smem_node, flat = call.args[:5]
    kernel, smem = ast.literal_eval(kernel_node), ast.literal_eval(smem_node)
    entry = program.entries[kernel]
    assert isinstance(grid, ast.Tuple)
    assert isinstance(flat, ast.Tuple)
    cluster = program.plan.clusters[kernel]
    usage = assembly.kernels.get(kernel) if assembly is not None else None
    parameters: list[dict[str, Any]] = []
    offset = 0
    for type_, size, node in zip(program.plan.types[kernel], entry.sizes, flat.elts, strict=True):
        # A tensor map is declared with the alignment that hardware wants of it.
        alignment = 64 if type_ == TENSOR_MAP else size
        offset = -(-offset // alignment) * alignment
        facts = {"type": type_, "size": size, "align": alignment, "offset": offset}
        key = {TENSOR_MAP: "tensor_map", TABLE: "table"}.get(type_, "value")
        parameters.append(facts | {key: host.parameter(node)})
        offset += size
    return {
        "kernel": kernel,
        "grid": [host.text(extent) for extent in grid.elts],
        "block": [ast.literal_eval(block), 1, 1],
        "cluster": cluster,
        "dynamic_smem": smem,
        "attributes": {
            "max_dynamic_shared_size_bytes": smem if smem > _PLAIN_SMEM else None,
            "non_portable_cluster_size_allowed": prod(cluster) > _PORTABLE_CLUSTER,
            "programmatic_stream_serialization_allowed": entry.is_early,
        },
        "parameters": parameters,
        "resources": None if usage is None else asdict(usage),
    }


class _Host:
    """The host part's source, read back: names of the arguments, values that are used more than
    once, and the calls that launch.
    """

    def __init__(self, program: CompiledProgram) -> None:
        tree = ast.parse(program.host)
        plan = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        self.names = _argument_names(program)
        self.known: dict[str, ast.expr] = {}
        self.values: list[tuple[str, str]] = []
        self.workspaces: list[dict[str, Any]] = []
        self.tables: list[dict[str, Any]] = []
        for index, parameter in enumerate(program.signature.parameters):
            name = self.names[index]
            if isinstance(parameter, TensorParameter):
                self.known[f"a{index}"] = _parsed(f"{name}.pointer")
                for mode in range(parameter.rank):
                    self.known[f"a{index}_shape{mode}"] = _parsed(f"{name}.shape[{mode}]")
                    self.known[f"a{index}_stride{mode}"] = _parsed(f"{name}.stride[{mode}]")
            else:  # a scalar, or a list
                self.known[f"a{index}"] = _parsed(name)
        uses: dict[str, int] = {}
        for node in ast.walk(plan):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                uses[node.id] = uses.get(node.id, 0) + 1
        self.launches: list[ast.Call] = []
        for statement in plan.body:
            match statement:
                case ast.Assign([ast.Tuple()], ast.Name("arguments")):
                    pass  # named above
                case ast.Assign(
                    [ast.Name(name)],
                    ast.Call(ast.Name("Workspace"), [_, ast.Constant(element), count, zeroed]),
                ):
                    self._add_workspace(name, str(element), count, ast.literal_eval(zeroed))
                case ast.Assign([ast.Name(name)], value) if _is_table(value):
                    self.known[name] = _parsed(self._table(value))
                case ast.Assign([ast.Name(name)], value):
                    self._assign(name, value, uses)
                case ast.Return(ast.Tuple(launches)) if all(map(_is_launch, launches)):
                    self.launches = [node for node in launches if isinstance(node, ast.Call)]
                case _:
                    raise _without_words(statement)

    def _assign(self, name: str, value: ast.expr, uses: dict[str, int]) -> None:
        shown = _Rewriter(self.known).visit(value)
        small = isinstance(shown, ast.Constant | ast.Name | ast.Attribute | ast.Subscript)
        if small or uses.get(name, 0) < 2 or _is_tensor_map(shown):
            self.known[name] = shown
        else:
            self.values.append((name, self._checked(shown)))

    def _add_workspace(self, name: str, element: str, count: ast.expr, zeroed: bool) -> None:
        shown = f"workspace{len(self.workspaces)}"
        self.workspaces.append(
            {
                "name": shown,
                "element": element,
                "dtype": DTYPE_OF_ELEMENT[element],
                "elements": f"max(0, {self.text(count)})",
                "alignment": ALIGNMENT,
                "zeroed": zeroed,
            }
        )
        self.known[name] = _parsed(shown)

    def text(self, node: ast.expr) -> str:
        """An expression over the arguments and `values`."""
        return self._checked(_Rewriter(self.known).visit(node))

    def parameter(self, node: ast.expr) -> Any:
        """The expression of a kernel parameter, or the description of its tensor map."""
        if _is_table(node):
            return self._table(node)
        shown = _Rewriter(self.known).visit(node)
        if not _is_tensor_map(shown):
            return self._checked(shown)
        return _tensor_map(rewritten(shown))

    def _table(self, node: ast.expr) -> str:
        """The name of a table, which is described once."""
        match node:
            case ast.Call(ast.Name("Table"), [_, ast.Name(name)]):
                shown = self.known[name]
                assert isinstance(shown, ast.Name)
                return shown.id
            case ast.Call(ast.Name("tile_offsets"), [group, tile, cluster]):
                steps = list(ast.literal_eval(tile))
                ctas = [1] * len(steps) + list(ast.literal_eval(cluster))
                blocks = ctas[-len(steps) :] if len(steps) > 1 else [1]
                facts = {"kind": "offsets", "list": self.text(group)}
                return self._described_table(facts | {"tile": steps, "blocks": blocks})
            case ast.Call(ast.Name("tile_shares"), [offsets, group, mode, takers]):
                facts = {"kind": "shares", "list": self.text(group), "offsets": self.text(offsets)}
                facts |= {"mode": ast.literal_eval(mode), "takers": self.text(takers)}
                return self._described_table(facts)
            case ast.Call(ast.Name("Table"), [_, entries]) | entries:
                name, entry = self._entry(entries)
                if _is_tensor_map(entry):
                    described_map = _tensor_map(rewritten(entry))
                    facts = {"kind": TENSOR_MAP, "list": name, "entry": described_map}
                else:
                    assert isinstance(entry, ast.Tuple)
                    _, *parts = entry.elts
                    assert all(isinstance(part, ast.Tuple) for part in parts)
                    shown = [[self._checked(each) for each in part.elts] for part in parts]
                    facts = {"kind": "tensors", "list": name}
                    facts |= {"entry": dict(zip(("strides", "extents"), shown, strict=True))}
                return self._described_table(facts)

    def _entry(self, entries: ast.expr) -> tuple[str, ast.expr]:
        """The list that `tuple([ENTRY for p, h, s in LIST])` walks, and the entry over its name."""
        match entries:
            case ast.Call(
                ast.Name("tuple"),
                [ast.ListComp(entry, [ast.comprehension(iter=ast.Name(group))])],
            ):
                name = self.text(ast.Name(group))
                parts = {"p": "pointer", "h": "shape", "s": "stride"}
                inner = {short: _parsed(f"{name}.{part}") for short, part in parts.items()}
                return name, _Rewriter(inner).visit(entry)
            case _:
                raise _without_words(entries)

    def _described_table(self, facts: dict[str, Any]) -> str:
        for table in self.tables:
            if table == {"name": table["name"]} | facts:
                return table["name"]
        name = f"table{len(self.tables)}"
        self.tables.append({"name": name} | facts)
        return name

    def _checked(self, shown: ast.expr) -> str:
        """The text of an expression that a reader can evaluate."""
        open_names = {*self.names, *(name for name, _ in self.values), *_RESERVED}
        open_names |= {space["name"] for space in [*self.workspaces, *self.tables]}
        for node in ast.walk(shown):
            if isinstance(node, ast.Name) and node.id not in open_names:
                raise _without_words(shown)
        text = ast.unparse(rewritten(shown))
        try:
            parsed(text)
        except ValueError:
            raise _without_words(shown) from None
        return text


def _tensor_map(call: ast.expr) -> dict[str, Any]:
    """The arguments of cuTensorMapEncodeTiled, in its order; with the corners of
    cuTensorMapEncodeIm2col, whose channels and pixels are the first extents of the box.
    """
    assert isinstance(call, ast.Call)
    name, element, box, swizzle = (ast.literal_eval(node) for node in call.args[:4])
    shape, strides, pointer = call.args[4:]
    options = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    sliced, window = options.get("sliced"), options.get("window")
    if element.startswith("packed"):
        raise CompileError(
            f"{name}: expected whole bytes in a kernel that is compiled to a file, got elements of "
            "6 bits without gaps; take e4m3, which has all of their numbers",
            code="CD-HOST",
        )
    assert isinstance(shape, ast.Tuple)
    assert isinstance(strides, ast.Tuple)
    # What does not depend on the extents, read off the map of a tensor as large as the box.
    steps = tuple(16 * prod(box[mode + 1 :]) for mode in range(len(box) - 1))
    like = TensorMapArgument(name, element, box, swizzle, box, (*steps, 1), 0, sliced, window)
    found = checked_map(like, 0)
    dtype, interleave, kind, promotion, fill = found.codes
    size = found.element_bytes
    extents = [ast.unparse(node) for node in shape.elts][::-1]
    dims = [extent if extent.isdigit() else f"max(1, {extent})" for extent in extents]
    factor = ast.Constant(size)
    bytes_ = [ast.unparse(ast.BinOp(node, ast.Mult(), factor)) for node in strides.elts[:-1]][::-1]
    if sliced is not None:
        # Rows of the slice, and those of its end, as in `slice_map_of`.
        row = bytes_[len(bytes_) - 1 - sliced]
        dims = [dims[0], *map(str, found.dims[1:])]
        bytes_ = [row, f"{SLICE_TURN} - {row}", *map(str, found.strides[2:])]
    return {
        "data_type": dtype,
        "rank": found.rank,
        "address": ast.unparse(pointer),
        "dims": dims,
        "strides": bytes_,
        "box": found.box,
        "element_strides": found.element_strides,
        **({"lower": found.lower, "upper": found.upper} if window is not None else {}),
        "interleave": interleave,
        "swizzle": kind,
        "l2_promotion": promotion,
        "oob_fill": fill,
        "names": {
            "data_type": found.dtype,
            "interleave": found.interleave,
            "swizzle": found.swizzle,
            "l2_promotion": found.l2_promotion,
            "oob_fill": found.oob_fill,
        },
    }


class _Rewriter(ast.NodeTransformer):
    """Puts known names in, and writes ceiling division and wrapping to a width as functions."""

    def __init__(self, known: dict[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.known.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("len"), [ast.Name(name)]):
                return _parsed(f"{name}.size")
            case _:
                return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        # (x + h & 2 h - 1) - h, as the host part keeps integers in two's complement
        match node:
            # What MLIR's signed division and remainder are in Python
            case ast.BinOp(
                ast.BinOp(
                    ast.Call(ast.Name("abs"), [left]), sign, ast.Call(ast.Name("abs"), [right])
                ),
                ast.Mult(),
                ast.IfExp(),
            ) if isinstance(sign, ast.FloorDiv | ast.Mod):
                name = "quotient" if isinstance(sign, ast.FloorDiv) else "remainder"
                return _call(name, self.visit(left), self.visit(right))
            case ast.BinOp(
                ast.BinOp(
                    ast.BinOp(value, ast.Add(), ast.Constant(low)), ast.BitAnd(), ast.Constant(mask)
                ),
                ast.Sub(),
                ast.Constant(half),
            ) if (
                isinstance(half, int)
                and low == half
                and mask == 2 * half - 1
                and half.bit_length() in (8, 16, 32, 64)
            ):
                return _call(f"i{half.bit_length()}", self.visit(value))
            case _:
                self.generic_visit(node)
                return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        match node:
            case ast.UnaryOp(
                ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), value), ast.FloorDiv(), step)
            ):
                return _call("ceildiv", self.visit(value), self.visit(step))
            case _:
                self.generic_visit(node)
                return node


def _argument_names(program: CompiledProgram) -> tuple[str, ...]:
    """Names that an expression can use: the parameters', where they are free identifiers."""
    names: list[str] = []
    for index, parameter in enumerate(program.signature.parameters):
        name = parameter.name
        taken = name in _RESERVED or name in names or name.startswith(("workspace", "table"))
        if not name.isidentifier() or taken:
            name = f"argument{index}"
        names.append(name)
    return tuple(names)


def _is_tensor_map(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "TensorMap"
    )


def _is_table(node: ast.AST) -> bool:
    """Whether host source makes a table, or the entries of one."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Table", "tile_offsets", "tile_shares", "tuple")
    )


def _is_launch(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Launch"
    )


def _without_words(node: ast.AST) -> CompileError:
    return CompileError(
        "expected a host part of integer expressions, tensor maps of arguments and launches to "
        f"describe, got {ast.unparse(node)}",
        code="CD-DESCRIBE",
    )


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body

"""The host part of a module, `func.func @launch`, compiled to Python source: a function `plan` from
the arguments to the launches, which the cache keeps as text and a warm call executes without xDSL.
Ops are recognized by name, so nothing of xDSL or of our dialects is imported here either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.signature import (
    DTYPE_OF_ELEMENT,
    GroupParameter,
    Parameter,
    ScalarParameter,
    Signature,
    TensorParameter,
)
from cutedialect.backend.runtime.tables import Table, tile_offsets, tile_shares
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument
from cutedialect.backend.runtime.workspaces import Workspace

POINTER = "ptr"
TENSOR_MAP = "tensor_map"
TABLE = "table"
_INTEGERS = ("i1", "i8", "i16", "i32", "i64", "index")


@dataclass(frozen=True)
class Launch:
    """One kernel launch: CTAs along x, y, z; threads per CTA; dynamic shared memory in bytes; the
    kernel's flat arguments; CTAs of a cluster along x, y, z. A tensor is passed as pointer, dynamic
    extents (i32) and dynamic strides (i64), a tensor map as a TensorMapArgument, a group as a Table
    and its length (i32); the pointer of a workspace is a Workspace.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: int
    smem: int
    arguments: tuple[Any, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class HostPlan:
    """The executable form of the host source. `run` takes `(pointer, shape, strides)` for each
    tensor, a list of such for each group and a number for each scalar, then the device's
    multiprocessor count; a pointer may be any object. `types` are the types of the flat arguments
    of each kernel, `smem` its dynamic shared memory in bytes, `clusters` its CTAs of a cluster;
    `has_workspaces` says whether launches share memory that is no argument.
    """

    run: Callable[[Sequence[Any], int], tuple[Launch, ...]]
    types: dict[str, tuple[str, ...]]
    smem: dict[str, int]
    clusters: dict[str, tuple[int, int, int]]
    has_workspaces: bool = False


def load(source: str) -> HostPlan:
    """Execute what `host_source` wrote."""
    names: dict[str, Any] = {
        "Launch": Launch,
        "TensorMap": TensorMapArgument,
        "Table": Table,
        "tile_offsets": tile_offsets,
        "tile_shares": tile_shares,
        "Workspace": Workspace,
    }
    exec(compile(source, "<host part>", "exec"), names)
    plan = names["plan"]

    def run(arguments: Sequence[Any], sm_count: int) -> tuple[Launch, ...]:
        try:
            launches = plan(arguments, sm_count)
        except ZeroDivisionError:
            raise ValueError(
                "expected extents that the host part does not divide by as zero, got a division by "
                "zero while computing the grid"
            ) from None
        return tuple([_checked(launch) for launch in launches if 0 not in launch.grid])

    has_workspaces = "Workspace(" in source
    return HostPlan(run, names["TYPES"], names["SMEM"], names["CLUSTERS"], has_workspaces)


def _checked(launch: Launch) -> Launch:
    cluster = launch.cluster
    if any(ctas % extent for ctas, extent in zip(launch.grid, cluster, strict=True)):
        raise ValueError(
            f"expected a grid of whole clusters {cluster} for kernel '{launch.kernel}', got "
            f"{launch.grid}"
        )
    return launch


def signature_of(host: Any) -> Signature:
    """The signature of a `func.func` of memrefs, groups of them and scalars, named by its name
    hints.

    `cute.written` lists the arguments that kernels store to; without it, all may be.
    `cute.elements` names the element types of those that hold them in bytes, by MLIR's names.
    """
    parameters: list[Parameter] = []
    arguments = host.regions[0].blocks[0].args
    listed = getattr(host, "attributes", {}).get("cute.written")
    written = range(len(arguments)) if listed is None else listed.get_values()
    for index, argument in enumerate(arguments):
        name = argument.name_hint or f"argument {index}"
        if _is_memref(argument.type):
            parameters.append(replace(_tensor(name, argument.type), written=index in written))
        elif _is_group(argument.type) and _is_memref(argument.type.member):
            member = replace(_tensor(name, argument.type.member), written=index in written)
            parameters.append(GroupParameter(name, member))
        else:
            parameters.append(ScalarParameter(name, str(argument.type)))
    listed = getattr(host, "attributes", {}).get("cute.elements")
    for index, element in enumerate(() if listed is None else listed):
        parameter = parameters[index]
        if not element.data:
            continue
        if isinstance(parameter, GroupParameter):
            member = replace(parameter.member, element=element.data)
            parameters[index] = replace(parameter, member=member)
        else:
            parameters[index] = replace(parameter, element=element.data)
    return Signature(tuple(parameters))


def find_host(module: Any) -> Any:
    """The op `func.func @launch` of a module; raises CompileError when there is none."""
    for op in module.regions[0].blocks[0].ops:
        if op.name == "func.func" and op.properties["sym_name"].data == "launch":
            return op
    raise CompileError(
        "expected a host part 'func.func @launch' in the module, got none", code="CD-HOST"
    )


def host_source(host: Any) -> str:
    """Python source of the host function `host`, with `plan` and `TYPES` at its top level.

    Integers are kept as MLIR keeps them, in two's complement of their width. Raises CompileError
    for an op that is not scalar integer arithmetic, a query of a tensor, of a group or of the
    device, a tensor map, or a launch.
    """
    writer = _Writer()
    block = host.regions[0].blocks[0]
    heads = [writer.bind_argument(i, argument) for i, argument in enumerate(block.args)]
    for op in block.ops:
        writer.write(op)
    lines = [
        f"TYPES = {writer.types!r}",
        f"SMEM = {writer.smem!r}",
        f"CLUSTERS = {writer.clusters!r}",
        "",
        "",
        "def plan(arguments, sm_count):",
        *([f"    ({', '.join(heads)},) = arguments"] if heads else []),
        *(f"    {line}" for line in writer.lines),
        "    return (",
        *(f"        {launch}," for launch in writer.launches),
        "    )",
    ]
    return "\n".join(lines) + "\n"


class _Writer:
    """Turns ops into lines; `names` maps an SSA value to its Python expression."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.launches: list[str] = []
        self.types: dict[str, tuple[str, ...]] = {}
        self.smem: dict[str, int] = {}
        self.clusters: dict[str, tuple[int, int, int]] = {}
        self.names: dict[Any, str] = {}
        self.tensors: dict[Any, tuple[str, list[str], list[str]]] = {}
        self.groups: dict[Any, str] = {}

    def bind_argument(self, index: int, argument: Any) -> str:
        """Name the parts of an argument; returns the pattern that unpacks it."""
        if _is_group(argument.type):
            self.groups[argument] = f"a{index}"
            return f"a{index}"
        if not _is_memref(argument.type):
            self.names[argument] = f"a{index}"
            return f"a{index}"
        tensor = _tensor("", argument.type)
        shape = [f"a{index}_shape{i}" for i in range(tensor.rank)]
        stride = [f"a{index}_stride{i}" for i in range(tensor.rank)]
        self.tensors[argument] = (f"a{index}", shape, stride)
        return f"(a{index}, {_tuple(shape)}, {_tuple(stride)})"

    def write(self, op: Any) -> None:
        if op.name == "func.return":
            return
        if op.name == "cute.launch":
            self._launch(op)
            return
        if op.name == "cute.workspace":
            self._workspace(op)
            return
        if op.name == "cute.make_view":
            self._make_view(op)
            return
        if len(op.results) != 1:
            raise _unsupported(op)
        result = op.results[0]
        expression = self._expression(op, str(result.type))
        name = f"v{len(self.names)}"
        self.lines.append(f"{name} = {expression}")
        self.names[result] = name
        if _is_group(result.type):
            self.groups[result] = name

    def _workspace(self, op: Any) -> None:
        """A tensor whose pointer is a Workspace, which the launcher makes memory of."""
        result = op.results[0]
        tensor = _tensor("", result.type)
        extents = iter([self.names[extent] for extent in op.operands])
        shape = [next(extents) if fixed is None else str(fixed) for fixed in tensor.shape]
        stride = [
            " * ".join(shape[mode + 1 :]) if fixed is None else str(fixed)
            for mode, fixed in enumerate(tensor.stride)
        ]
        name = f"w{len(self.tensors)}"
        steps = zip(shape, stride, strict=True)
        last = " + ".join(f"({extent} - 1) * ({step})" for extent, step in steps)
        zeroed = "zeroed" in op.properties
        self.lines.append(f"{name} = Workspace({name!r}, {tensor.element!r}, {last} + 1, {zeroed})")
        self.tensors[result] = (name, shape, stride)

    def _make_view(self, op: Any) -> None:
        """A tensor's pointer with the extents and strides of another layout."""
        source, *numbers = op.operands
        if any(number not in self.names for number in numbers):
            raise _unsupported(op)
        tensor, given = _tensor("", op.results[0].type), iter([self.names[n] for n in numbers])
        shape, stride = (
            [next(given) if fixed is None else str(fixed) for fixed in part]
            for part in (tensor.shape, tensor.stride)
        )
        self.tensors[op.results[0]] = (self.tensors[source][0], shape, stride)

    def _expression(self, op: Any, type_: str) -> str:
        text = self._of_launch(op, type_)
        return self._arithmetic(op, type_) if text is None else text

    def _of_launch(self, op: Any, type_: str) -> str | None:
        """What an op asks of the arguments and the device; None where it computes with numbers."""
        if op.name in ("cute.dim", "cute.stride"):
            return self._query(op)
        if op.name == "cute.sm_count":
            return "sm_count"
        if op.name == "cute_nvgpu.make_tma_descriptor":
            return self._tensor_map(op)
        if op.name == "cute.tile_offsets":
            tile, cluster = (tuple(op.properties[key].get_values()) for key in ("tile", "cluster"))
            return f"tile_offsets({self.groups[op.operands[0]]}, {tile}, {cluster})"
        if op.name == "cute.tile_shares":
            offsets, work, takers = op.operands
            mode = op.properties["mode"].value.data
            names = f"{self.groups[offsets]}, {self.groups[work]}, {mode}, {self.names[takers]}"
            return f"tile_shares({names})"
        if op.name == "cute.group_size":
            return f"len({self.groups[op.operands[0]]})"
        if op.name == "cute.member" and type_ in _INTEGERS:
            return f"{self.groups[op.operands[0]]}[{self.names[op.operands[1]]}]"
        return None

    def _arithmetic(self, op: Any, type_: str) -> str:
        operands = [self.names[operand] for operand in op.operands]
        if op.name == "arith.constant":
            value = op.properties["value"].value.data
            return repr(value & 1 if type_ == "i1" else value)
        if op.name == "arith.cmpi":
            return self._compare(op, *operands)
        if op.name == "arith.select":
            return f"{operands[1]} if {operands[0]} else {operands[2]}"
        if type_ not in _INTEGERS:
            raise _unsupported(op)
        source = str(op.operands[0].type) if op.operands else type_
        if op.name in _PLAIN:
            return _PLAIN[op.name].format(*operands)
        if op.name in _WRAPPED:
            return _wrap(_WRAPPED[op.name].format(*operands), type_)
        if op.name in _UNSIGNED:
            raised = [_unsigned(operand, type_) for operand in operands]
            return _wrap(_UNSIGNED[op.name].format(*raised), type_)
        if op.name == "arith.extui":
            return _unsigned(operands[0], source)
        if op.name == "arith.extsi":
            return f"-{operands[0]}" if source == "i1" else operands[0]
        raise _unsupported(op)

    def _query(self, op: Any) -> str:
        _, shape, stride = self.tensors[op.operands[0]]
        tensor = _tensor("", op.operands[0].type)
        mode = op.properties["mode"].value.data
        first = sum(tensor.modes[:mode])
        leaves = range(first, first + tensor.modes[mode])
        if op.name == "cute.stride":
            if len(leaves) != 1:
                raise CompileError(
                    f"expected the stride of a mode with one leaf, got mode {mode} of "
                    f"{op.operands[0].type}",
                    code="CD-HOST",
                    location=_location(op),
                )
            return _known(tensor.stride[first], stride[first])
        parts = [_known(tensor.shape[i], shape[i]) for i in leaves]
        return " * ".join(parts)

    def _tensor_map(self, op: Any) -> str:
        """`TensorMap(name, element, box, swizzle, shape, strides, pointer, sliced=..., window=...)`
        in the order that `tensor_map_of` keeps: the contiguous mode last. What is contiguous is
        read off the type, as the kernel does, and never off the strides that arrive.
        """
        from cutedialect.atoms.tensor_map import dim_order

        memref, made = op.operands[0], op.results[0].type
        type_, is_group = memref.type, memref in self.groups
        if is_group:
            type_, made = type_.member, made.member
        # A map is encoded on the host, and a workspace may lie elsewhere in the next call.
        is_argument = memref in self.tensors and not hasattr(_viewed(memref), "op")
        known = (is_group and _is_memref(type_)) or is_argument
        if not known or (tensor := _tensor("", type_)).rank != len(made.box):
            raise CompileError(
                "expected a tensor map of an argument with one leaf in each mode, got one of "
                f"{memref.type}",
                code="CD-HOST",
                location=_location(op),
            )
        if is_group:
            pointer = "p"
            shape, stride = ([f"{each}[{i}]" for i in range(tensor.rank)] for each in "hs")
        else:
            pointer, shape, stride = self.tensors[memref]
        order = dim_order(tensor.stride)[::-1]
        swizzle = made.swizzle
        parts = (
            repr(memref.name_hint or f"argument {memref.index}"),
            repr(f"packed {made.element}" if made.is_packed else str(made.element)),
            repr(tuple(made.box[mode] for mode in order)),
            repr(None if swizzle is None else (swizzle.bits, swizzle.base, swizzle.shift)),
            _tuple(_known(tensor.shape[mode], shape[mode]) for mode in order),
            _tuple(_known(tensor.stride[mode], stride[mode]) for mode in order),
            pointer,
        )
        if made.sliced is not None:
            parts += (f"sliced={order.index(made.sliced)}",)
        if made.window is not None:
            parts += (f"window={tuple(made.window)!r}",)
        if is_group:
            group = self.groups[memref]
            return f"tuple([TensorMap({', '.join(parts)}) for p, h, s in {group}])"
        return f"TensorMap({', '.join(parts)})"

    def _table(self, group: Any) -> str:
        """A group as a kernel takes it: entries of (pointer, dynamic strides, dynamic extents) for
        tensors, else what the host part computed.
        """
        name, member = self.groups[group], group.type.member
        if not _is_memref(member):
            kind = TENSOR_MAP if _is_tensor_map(member) else str(member)
            return f"Table({kind!r}, {name})"
        tensor = _tensor("", member)
        strides = _tuple(f"s[{i}]" for i, fixed in enumerate(tensor.stride) if fixed is None)
        extents = _tuple(f"h[{i}]" for i, fixed in enumerate(tensor.shape) if fixed is None)
        return f"Table({POINTER!r}, tuple([(p, {strides}, {extents}) for p, h, s in {name}]))"

    def _compare(self, op: Any, left: str, right: str) -> str:
        predicate = op.properties["predicate"].value.data
        if predicate >= 6:
            type_ = str(op.operands[0].type)
            left, right = _unsigned(left, type_), _unsigned(right, type_)
        sign = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")[predicate]
        return f"int({left} {sign} {right})"

    def _launch(self, op: Any) -> None:
        kernel = op.properties["kernel"].root_reference.data
        flat: list[str] = []
        types: list[str] = []
        for argument in op.args:
            if argument in self.tensors:
                pointer, shape, stride = self.tensors[argument]
                tensor = _tensor("", argument.type)
                extents = [s for s, fixed in zip(shape, tensor.shape, strict=True) if fixed is None]
                strides = [
                    s for s, fixed in zip(stride, tensor.stride, strict=True) if fixed is None
                ]
                flat += [pointer, *extents, *strides]
                types += [POINTER, *("i32" for _ in extents), *("i64" for _ in strides)]
            elif argument in self.groups:
                flat += [self._table(argument), f"len({self.groups[argument]})"]
                types += [TABLE, "i32"]
            else:
                flat.append(self.names[argument])
                types.append(TENSOR_MAP if _is_tensor_map(argument.type) else str(argument.type))
        if self.types.setdefault(kernel, tuple(types)) != tuple(types):
            raise CompileError(
                f"expected every launch of '{kernel}' to pass the same types, got "
                f"{self.types[kernel]} and {tuple(types)}",
                code="CD-HOST",
                location=_location(op),
            )
        threads = op.properties.get("threads")
        if threads is None:
            raise CompileError(
                f"expected cute.launch of '{kernel}' to carry 'threads', got none; cute-tile sets "
                "it",
                code="CD-HOST",
                location=_location(op),
            )
        dynamic = op.properties.get("smem")
        smem = 0 if dynamic is None else dynamic.value.data
        self.smem[kernel] = max(smem, self.smem.get(kernel, 0))
        clause = op.properties.get("cluster")
        cluster = (1, 1, 1) if clause is None else tuple(clause.get_values())
        if self.clusters.setdefault(kernel, cluster) != cluster:
            raise CompileError(
                f"expected every launch of '{kernel}' to have one cluster, got "
                f"{self.clusters[kernel]} and {cluster}",
                code="CD-HOST",
                location=_location(op),
            )
        if len(op.grid) != 3:
            raise CompileError(
                f"expected cute.launch of '{kernel}' with a grid, got none; cute-tile sets it",
                code="CD-HOST",
                location=_location(op),
            )
        grid = _tuple([self.names[extent] for extent in op.grid])
        last = f", {cluster}" if prod(cluster) > 1 else ""
        self.launches.append(
            f"Launch({kernel!r}, {grid}, {threads.value.data}, {smem}, {_tuple(flat)}{last})"
        )


# Results that fit their type whenever the operands do.
_PLAIN = {
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.maxsi": "max({0}, {1})",
    "arith.minsi": "min({0}, {1})",
    "arith.shrsi": "{0} >> {1}",
    # a - b * trunc(a / b), with the sign of a
    "arith.remsi": "(abs({0}) % abs({1})) * (-1 if {0} < 0 else 1)",
}

_WRAPPED = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.shli": "{0} << {1}",
    "arith.floordivsi": "{0} // {1}",
    "arith.ceildivsi": "-(-{0} // {1})",
    "arith.divsi": "(abs({0}) // abs({1})) * (-1 if ({0} < 0) != ({1} < 0) else 1)",
    "arith.trunci": "{0}",
    "arith.index_cast": "{0}",
}

_UNSIGNED = {
    "arith.divui": "{0} // {1}",
    "arith.remui": "{0} % {1}",
    "arith.ceildivui": "-(-{0} // {1})",
    "arith.maxui": "max({0}, {1})",
    "arith.minui": "min({0}, {1})",
    "arith.shrui": "{0} >> {1}",
}


def _bits(type_: str) -> int:
    return 64 if type_ == "index" else int(type_[1:])


def _wrap(expression: str, type_: str) -> str:
    if type_ == "i1":
        return f"({expression}) & 1"
    half = 1 << _bits(type_) - 1
    return f"(({expression}) + {half} & {2 * half - 1}) - {half}"


def _unsigned(expression: str, type_: str) -> str:
    return f"({expression} & {(1 << _bits(type_)) - 1})"


def _tuple(parts: Iterable[str]) -> str:
    return "(" + "".join(f"{part}, " for part in parts).rstrip(" ") + ")"


def _known(fixed: int | None, name: str) -> str:
    return name if fixed is None else str(fixed)


def _viewed(memref: Any) -> Any:
    """The tensor whose memory a tensor shows through another layout."""
    while getattr(memref.owner, "name", "") == "cute.make_view":
        memref = memref.owner.operands[0]
    return memref


def _is_memref(type_: Any) -> bool:
    return getattr(type_, "name", "") == "cute.memref"


def _is_group(type_: Any) -> bool:
    return getattr(type_, "name", "") == "cute.group"


def _is_tensor_map(type_: Any) -> bool:
    return getattr(type_, "name", "") == "cute_nvgpu.tma_descriptor"


def _tensor(name: str, memref: Any) -> TensorParameter:
    shape, stride = _leaves(memref.layout.shape), _leaves(memref.layout.stride)
    modes = memref.layout.shape if isinstance(memref.layout.shape, tuple) else (shape[0],)
    element = str(memref.element)
    if element not in DTYPE_OF_ELEMENT:
        raise CompileError(
            f"expected an element type of an array ({', '.join(DTYPE_OF_ELEMENT)}), got {element}",
            code="CD-HOST",
        )
    return TensorParameter(
        name,
        element,
        memref.alignment,
        tuple(leaf if isinstance(leaf, int) else None for leaf in shape),
        tuple(leaf if isinstance(leaf, int) else None for leaf in stride),
        tuple(1 if isinstance(leaf, int) else leaf.div for leaf in shape),
        tuple(1 if isinstance(leaf, int) else leaf.div for leaf in stride),
        tuple(len(_leaves(mode)) for mode in modes),
    )


def _leaves(tree: Any) -> list[Any]:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple) else [tree]


def _location(op: Any) -> str | None:
    location: Any = getattr(op, "location", None)
    filename = getattr(location, "filename", None)
    if filename is None:
        return None
    return f"{filename.data}:{location.line.data}"


def _unsupported(op: Any) -> CompileError:
    return CompileError(
        "expected scalar integer arithmetic, cute.dim, cute.stride, cute.sm_count, "
        "cute.tile_offsets, cute.tile_shares, cute.group_size, cute.member of integers, "
        f"cute_nvgpu.make_tma_descriptor or cute.launch in the host part, got {op.name}",
        code="CD-HOST",
        location=_location(op),
    )

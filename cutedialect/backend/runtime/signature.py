"""What a compiled kernel asks of its arguments, as plain data that the cache keeps: for a tensor
the element type, alignment and which extents and strides are fixed, for a scalar its type, for a
group of tensors what each of them has to be.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

EqualExtents = tuple[int, int, int, int, int | None, str | None]
"""Modes of two arguments over which they are multiplied: argument, mode, argument, mode, up to
where they are equally long, and the line of a program that may mean it otherwise.
"""
SharedMemory = tuple[int, int, tuple[tuple[int, int, int], ...] | None, str | None]
"""An argument that is read and one that is written, and where both may be the same array: where
modes of arguments (argument, mode) are no longer than so many elements; None for nowhere. The last
is the line that reads what may have been written.
"""

# Element type as MLIR spells it, to the NumPy name of the array's dtype.
DTYPE_OF_ELEMENT = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "tf32": "float32", "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2", "f8E8M0FNU": "float8_e8m0fnu",
    "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E4M3": "float8_e4m3",
    "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn",
    "i1": "bool", "i4": "int4", "ui4": "uint4",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "si8": "int8", "si16": "int16", "si32": "int32", "si64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class TensorParameter:
    """A tensor argument. `shape` and `stride` (in elements) list the leaves left to right: an int
    is fixed, None is a run-time value, then a multiple of its entry in `shape_divisor` or
    `stride_divisor`. `modes` counts the leaves of each top-level mode, `alignment` is in bytes,
    `written` says whether the kernel may store to it, `whole_rows` whether it does so in units of
    16 bytes, so that rows have to be multiples of them, `mapped` whether it reads or stores tiles
    by a tensor map, which takes no strides below zero.
    """

    name: str
    element: str
    alignment: int
    shape: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    shape_divisor: tuple[int, ...] = ()
    stride_divisor: tuple[int, ...] = ()
    modes: tuple[int, ...] = ()
    written: bool = True
    whole_rows: bool = False
    mapped: bool = False

    def __post_init__(self) -> None:
        ones = (1,) * len(self.shape)
        for name in ("shape_divisor", "stride_divisor", "modes"):
            if not getattr(self, name):
                object.__setattr__(self, name, ones)

    @property
    def dtype(self) -> str:
        """NumPy's name of the element type."""
        return DTYPE_OF_ELEMENT[self.element]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return (
            f'{self.element}, align<{self.alignment}>, "{_text(self.shape, self.shape_divisor)}:'
            f'{_text(self.stride, self.stride_divisor)}"'
        )


@dataclass(frozen=True)
class ScalarParameter:
    """A scalar argument of type `type`, as MLIR spells it: "i32", "f32", ..."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.type


@dataclass(frozen=True)
class GroupParameter:
    """An argument of any number of tensors, all of them as `member` says."""

    name: str
    member: TensorParameter

    def __str__(self) -> str:
        return f"[{self.member}, ...]"


Parameter = TensorParameter | ScalarParameter | GroupParameter


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel's host function, in order."""

    parameters: tuple[Parameter, ...]

    @property
    def written(self) -> tuple[int, ...]:
        """The places of the tensors, and groups of them, that the kernel may store to."""
        return tuple(
            place
            for place, parameter in enumerate(self.parameters)
            if (isinstance(parameter, TensorParameter) and parameter.written)
            or (isinstance(parameter, GroupParameter) and parameter.member.written)
        )

    def __str__(self) -> str:
        return "(" + ", ".join(f"{p.name}: {p}" for p in self.parameters) + ")"

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists and dicts."""
        return [asdict(parameter) for parameter in self.parameters]

    @staticmethod
    def from_json(data: list[dict[str, Any]]) -> Signature:
        """The inverse of `to_json`."""
        parameters: list[Parameter] = []
        for item in data:
            if "type" in item:
                parameters.append(ScalarParameter(**item))
            elif "member" in item:
                parameters.append(GroupParameter(item["name"], _tensor(item["member"])))
            else:
                parameters.append(_tensor(item))
        return Signature(tuple(parameters))


def _tensor(item: dict[str, Any]) -> TensorParameter:
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in item.items()}
    return TensorParameter(**plain)


def _text(leaves: tuple[int | None, ...], divisors: tuple[int, ...]) -> str:
    parts = [
        str(leaf) if leaf is not None else "?" if divisor == 1 else f"?{{div={divisor}}}"
        for leaf, divisor in zip(leaves, divisors, strict=True)
    ]
    return "(" + ",".join(parts) + ")"


def with_tensor_maps(signature: Signature, module: Any, host: Any) -> Signature:
    """The signature with `mapped` where the host part makes tensor maps, and with `whole_rows`
    where kernels of the module store by them. Maps of a group are looked up in a table, which does
    not tell them apart: all groups count that may be written.
    """
    signature = _with_mapped(signature, host)
    stored: set[int] = set()
    groups = False
    has_groups = any(isinstance(each, GroupParameter) for each in signature.parameters)
    for kernel in module.regions[0].blocks[0].ops:
        if kernel.name != "ptx.kernel":
            continue
        maps = [
            arg for arg in kernel.regions[0].blocks[0].args if arg.type.name == "ptx.tensor_map"
        ]
        if has_groups:
            used = {op.map for op in kernel.walk() if op.name == "ptx.tma.store"}
            groups |= not used <= set(maps)
        positions = [position for position, map_ in enumerate(maps) if _is_stored(map_)]
        for launch in host.walk():
            if (
                launch.name == "cute.launch"
                and launch.kernel.string_value() == kernel.sym_name.data
            ):
                maps_of_launch = [argument for argument in launch.args if _is_map(argument)]
                stored.update(_argument(maps_of_launch[position]) for position in positions)
    return _with_whole_rows(signature, stored, groups)


def _with_mapped(signature: Signature, host: Any) -> Signature:
    """The signature that tells of which parameters, or views of them, there are tensor maps."""
    mapped: set[int] = set()
    for op in host.walk():
        if op.name == "cute_nvgpu.make_tma_descriptor":
            source = op.operands[0]
            while getattr(source.owner, "name", "") == "cute.make_view":
                source = source.owner.operands[0]
            mapped.add(getattr(source, "index", -1) if hasattr(source.owner, "args") else -1)
    parameters = list(signature.parameters)
    for position, parameter in enumerate(parameters):
        if position not in mapped:
            continue
        if isinstance(parameter, TensorParameter):
            parameters[position] = replace(parameter, mapped=True)
        elif isinstance(parameter, GroupParameter):
            member = replace(parameter.member, mapped=True)
            parameters[position] = replace(parameter, member=member)
    return Signature(tuple(parameters))


def _with_whole_rows(signature: Signature, stored: set[int], groups: bool) -> Signature:
    """The signature whose parameters at positions that are stored, and written members of groups,
    have rows that TMA stores.
    """
    parameters = list(signature.parameters)
    for position, parameter in enumerate(parameters):
        if isinstance(parameter, TensorParameter) and position in stored:
            parameters[position] = replace(parameter, whole_rows=True)
        elif isinstance(parameter, GroupParameter) and groups and parameter.member.written:
            member = replace(parameter.member, whole_rows=True)
            parameters[position] = replace(parameter, member=member)
    return Signature(tuple(parameters))


def _is_stored(map_: Any) -> bool:
    """Whether TMA stores by a map that is a parameter."""
    return any(use.operation.name == "ptx.tma.store" for use in map_.uses)


def _is_map(value: Any) -> bool:
    return value.type.name == "cute_nvgpu.tma_descriptor"


def _argument(value: Any) -> int:
    """Position of the host's argument of which a tensor map is made; -1 for other memory."""
    tensor = value.owner.operands[0]
    return getattr(tensor, "index", -1) if hasattr(tensor.owner, "args") else -1

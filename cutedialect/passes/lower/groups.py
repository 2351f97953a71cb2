"""Members of groups: entries of tables in global memory, read where they are wanted. Nothing writes
to the tables while the kernel runs, so that they are read through the cache for constant data.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects import cute, cute_nvgpu, ptx
from cutedialect.dialects.cute_nvgpu import TmaDescriptorType
from cutedialect.layout import Dyn, flatten

from .context import fail
from .lowering import Group, Handler, KernelLowering
from .scalar_builder import Scalar, ScalarBuilder
from .tile_views import binary_search
from .views import memref_view

_POINTER = 8
_STRIDE = 8
_EXTENT = 4
_MAP = 128


def entry_bytes(type_: cute.GroupType) -> int:
    """Bytes of an entry, as `cute.GroupType` describes it."""
    member = type_.member
    if member == i32:
        return _EXTENT
    if isinstance(member, TmaDescriptorType):
        return _MAP
    assert isinstance(member, cute.MemRefType)
    strides, extents = _dynamic_leaves(member)
    return -(-(_POINTER + _STRIDE * strides + _EXTENT * extents) // 8) * 8


def only_reads_table(op: Operation) -> bool:
    """Whether an op reads a table, or tells what one lane read: it may go where nothing uses it."""
    if isinstance(op, ptx.ShflOp):
        return isinstance(op.operands[0].owner, ptx.LdScalarOp)
    return isinstance(op, ptx.LdScalarOp) and op.modifiers.data.startswith("global.nc.")


def _dynamic_leaves(type_: cute.MemRefType) -> tuple[int, int]:
    """(strides, extents) that an entry holds."""
    layout = type_.layout
    return (
        sum(isinstance(leaf, Dyn) for leaf in flatten(layout.stride)),
        sum(isinstance(leaf, Dyn) for leaf in flatten(layout.shape)),
    )


def _load(builder: ScalarBuilder, at: Scalar, offset: int, cls: str) -> SSAValue:
    base = builder.value(at, "b64")
    value = builder.result(ptx.LdScalarOp(f"global.nc.{cls}", base, offset, cls))
    return builder.uniform(value) if cls == "b32" else value


def _entry(builder: ScalarBuilder, group: Group, index: Scalar, size: int) -> Scalar:
    """Address of an entry."""
    return builder.pure("add.s64", group.table, builder.product64(index, size))


def _group_of(self: KernelLowering, op: Operation, value: SSAValue) -> Group:
    found = self.groups.get(value)
    if found is None:
        raise fail(op, f"expected a group that is an argument of the kernel, got {value.type}")
    return found


def _group_size(self: KernelLowering, op: cute.GroupSizeOp) -> None:
    self.scalars[op.result] = _group_of(self, op, op.group).size


def _member(self: KernelLowering, op: cute.MemberOp) -> None:
    builder = self.builder
    type_ = op.group.type
    assert isinstance(type_, cute.GroupType)
    group = _group_of(self, op, op.group)
    at = _entry(builder, group, self.scalars[op.index], entry_bytes(type_))
    member = type_.member
    if isinstance(member, TmaDescriptorType):
        self.maps[op.result] = builder.value(at, "b64")
        return
    if not isinstance(member, cute.MemRefType):
        self.scalars[op.result] = _load(builder, at, 0, "b32")
        return
    strides, _ = _dynamic_leaves(member)
    places = {"b64": _POINTER, "b32": _POINTER + _STRIDE * strides}

    def dynamic(cls: str) -> SSAValue:
        value = _load(builder, at, places[cls], cls)
        places[cls] += _STRIDE if cls == "b64" else _EXTENT
        if cls == "b32":
            builder.nonnegative.add(value)
        return value

    self.views[op.result] = memref_view(member, _load(builder, at, 0, "b64"), dynamic)


def _find(self: KernelLowering, op: cute.FindOp) -> None:
    builder = self.builder
    group = _group_of(self, op, op.group)
    wanted = builder.value(self.scalars[op.value], "b32")

    def entry(ahead: Scalar, last: Scalar) -> tuple[Scalar, Scalar]:
        inside = builder.value(builder.pure("setp.lt.s32", ahead, group.size), "pred")
        at = builder.value(_entry(builder, group, ahead, _EXTENT), "b64")
        return inside, builder.emit(ptx.LdScalarOp("global.nc.b32", at, 0, "b32", inside)).results[
            0
        ]

    self.scalars[op.result] = binary_search(self, group.size, wanted, entry)


def _fence_tensor_maps(self: KernelLowering, op: cute_nvgpu.FenceTensorMapsOp) -> None:
    """Each thread of the CTA takes its share of the maps."""
    builder = self.builder
    group = _group_of(self, op, op.maps)
    body = Block(arg_types=[ptx.reg("b32")])
    builder.push(body, repeats=True)
    at = _entry(builder, group, body.args[0], _MAP)
    builder.emit(ptx.FenceTensorMapOp(builder.value(at, "b64")))
    builder.pop()
    thread = builder.special("tid.x")
    builder.emit(ptx.ForOp(thread, group.size, self.context.threads, body))


HANDLERS: dict[type[Operation], Handler] = {
    cute.GroupSizeOp: _group_size,
    cute.MemberOp: _member,
    cute.FindOp: _find,
    cute_nvgpu.FenceTensorMapsOp: _fence_tensor_maps,
}

"""What values of the layout algebra are behind `cute-to-base`: structs of scalars, and control flow
that yields them; beside them pointers, loads, stores and the `gpu` dialect. A struct is its fields,
each a scalar: no code makes one. Loaded where a kernel has one of these operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm, scf, ub
from xdsl.dialects.builtin import IndexType, IntAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from cutedialect.dialects import gpu, ptx
from cutedialect.dialects.cute import element_bits

from .context import scalar_class
from .lowering import Handler, KernelLowering, integers
from .scalar_builder import Scalar

Path = tuple[int, ...]
_BYTE_BITS = 8
_POINTER_BITS = 64


def leaves_of(type_: Attribute, path: Path = ()) -> list[tuple[Path, Attribute]]:
    """The scalars in a type, with the path of fields to each; of a scalar the empty path."""
    if not isinstance(type_, llvm.LLVMStructType):
        return [(path, type_)]
    return [
        leaf
        for number, field in enumerate(type_.types.data)
        for leaf in leaves_of(field, (*path, number))
    ]


def class_of_leaf(type_: Attribute) -> str:
    """The register class of a scalar or a pointer."""
    if isinstance(type_, llvm.LLVMPointerType):
        return "b64"
    return "b32" if isinstance(type_, IndexType) else scalar_class(type_)


def scalars_of(self: KernelLowering, value: SSAValue) -> list[Scalar]:
    """The scalars of a value, in the order of `leaves_of`; what nobody has set is 0."""
    if not isinstance(value.type, llvm.LLVMStructType):
        return [self.scalars[value]]
    fields = self.structs[value]
    return [fields.get(path, 0) for path, _ in leaves_of(value.type)]


def bind(self: KernelLowering, value: SSAValue, scalars: Sequence[Scalar]) -> None:
    """Let a value stand for some scalars."""
    if isinstance(value.type, llvm.LLVMStructType):
        paths = [path for path, _ in leaves_of(value.type)]
        self.structs[value] = dict(zip(paths, scalars, strict=True))
    else:
        (self.scalars[value],) = scalars


class Kept:
    """Registers that hold some values from one trip of a loop, or side of a branch, to the next."""

    def __init__(self, lowering: KernelLowering, types: Sequence[Attribute]) -> None:
        self.lowering = lowering
        leaves = [leaf for type_ in types for _, leaf in leaves_of(type_)]
        classes = ["b32" if cls == "pred" else cls for cls in map(class_of_leaf, leaves)]
        self._truths = [class_of_leaf(leaf) == "pred" for leaf in leaves]
        self._registers = [lowering.context.registers(cls, 1) for cls in classes]

    def set(self, values: Sequence[SSAValue]) -> None:
        """Put the scalars of some values into the registers."""
        builder = self.lowering.builder
        scalars = [scalar for value in values for scalar in scalars_of(self.lowering, value)]
        for register, scalar, is_truth in zip(self._registers, scalars, self._truths, strict=True):
            number = builder.pure("selp.b32", 1, 0, scalar) if is_truth else scalar
            builder.set(register, 0, number)

    def get(self, values: Sequence[SSAValue]) -> None:
        """Let some values stand for what the registers hold now."""
        builder = self.lowering.builder
        held: list[Scalar] = []
        for register, is_truth in zip(self._registers, self._truths, strict=True):
            scalar = builder.get(register, 0)
            held.append(builder.pure("setp.ne.s32", scalar, 0) if is_truth else scalar)
        for value in values:
            count = len(leaves_of(value.type))
            bind(self.lowering, value, held[:count])
            del held[:count]


def _poison(self: KernelLowering, op: ub.PoisonOp) -> None:
    bind(self, op.results[0], [0 for _ in leaves_of(op.results[0].type)])


def _extract(self: KernelLowering, op: llvm.ExtractValueOp) -> None:
    path = integers(op.position)
    fields = self.structs[op.container]
    inner = [fields.get((*path, *rest), 0) for rest, _ in leaves_of(op.res.type)]
    bind(self, op.res, inner)


def _insert(self: KernelLowering, op: llvm.InsertValueOp) -> None:
    path = integers(op.position)
    fields = dict(self.structs[op.container])
    for (rest, _), scalar in zip(leaves_of(op.value.type), scalars_of(self, op.value), strict=True):
        fields[(*path, *rest)] = scalar
    self.structs[op.res] = fields


def _bytes_of(type_: Attribute) -> int:
    bits = _POINTER_BITS if isinstance(type_, llvm.LLVMPointerType) else element_bits(type_)
    if bits % _BYTE_BITS:
        raise ValueError(f"expected a type of whole bytes in memory, got {type_}")
    return bits // _BYTE_BITS


def _address(self: KernelLowering, op: llvm.GEPOp) -> None:
    """A pointer with one index, counted in elements."""
    given = integers(op.rawConstantIndices)
    if len(given) != 1 or isinstance(op.elem_type, llvm.LLVMStructType | llvm.LLVMArrayType):
        raise ValueError(f"expected one index of a scalar type, got {len(given)} of {op.elem_type}")
    builder, size = self.builder, _bytes_of(op.elem_type)
    if not op.ssa_indices:
        offset: Scalar = given[0] * size
    else:
        (index,) = op.ssa_indices
        number = self.scalars[index]
        if class_of_leaf(index.type) == "b64":
            offset = builder.pure("mul.lo.s64", number, size)
        else:
            offset = builder.product64(number, size)
    self.scalars[op.result] = builder.pure("add.s64", self.scalars[op.ptr], offset)


def _modifiers(pointer: llvm.LLVMPointerType, size: int) -> str:
    """What a load or store of some bytes is. NVVM's address spaces 0 and 1 are generic and global
    memory; a generic pointer of a kernel's arguments points to global memory, too.
    """
    space = pointer.addr_space
    number = space.data if isinstance(space, IntAttr) else 0
    if number not in (0, 1):
        raise ValueError(f"expected a pointer to global memory, got address space {number}")
    return f"global.b{size * _BYTE_BITS}"


def _load(self: KernelLowering, op: llvm.LoadOp) -> None:
    type_ = op.dereferenced_value.type
    cls, builder = class_of_leaf(type_), self.builder
    if isinstance(type_, llvm.LLVMStructType) or cls == "pred":
        raise ValueError(f"expected a number of 8 to 64 bits in memory, got {type_}")
    base = builder.value(self.scalars[op.ptr], "b64")
    assert isinstance(op.ptr.type, llvm.LLVMPointerType)
    modifiers = _modifiers(op.ptr.type, _bytes_of(type_))
    self.scalars[op.dereferenced_value] = builder.result(ptx.LdScalarOp(modifiers, base, 0, cls))


def _store(self: KernelLowering, op: llvm.StoreOp) -> None:
    type_ = op.value.type
    cls, builder = class_of_leaf(type_), self.builder
    if isinstance(type_, llvm.LLVMStructType) or cls == "pred":
        raise ValueError(f"expected a number of 8 to 64 bits in memory, got {type_}")
    base = builder.value(self.scalars[op.ptr], "b64")
    value = builder.value(self.scalars[op.value], cls)
    assert isinstance(op.ptr.type, llvm.LLVMPointerType)
    builder.emit(ptx.StScalarOp(_modifiers(op.ptr.type, _bytes_of(type_)), value, base, 0))


def if_with_results(self: KernelLowering, op: scf.IfOp) -> None:
    """A branch whose sides yield scalars or structs: registers that each side sets."""
    kept = Kept(self, [result.type for result in op.results])

    def run(region: Region) -> None:
        self.run(region.block)
        end = region.block.last_op
        kept.set(end.operands if end is not None else ())

    self.context.when(
        self.scalars[op.cond], lambda: run(op.true_region), lambda: run(op.false_region)
    )
    kept.get(op.results)


def for_with_results(self: KernelLowering, op: scf.ForOp) -> None:
    """A counted loop that carries scalars or structs in registers."""
    builder = self.builder
    by = self.scalars[op.step]
    step = builder.constant(by)
    if step is not None and step <= 0:
        raise ValueError(f"expected a positive step, got {step}")
    kept = Kept(self, [arg.type for arg in op.iter_args])
    kept.set(op.iter_args)
    start, stop = (builder.value(self.scalars[bound], "b32") for bound in (op.lb, op.ub))
    stride = builder.value(by, "b32") if step is None else int(step)
    counter, *carried = op.body.block.args
    body = Block(arg_types=[ptx.B32])
    builder.push(body, repeats=True)
    self.scalars[counter] = body.args[0]
    kept.get(carried)
    self.run(op.body.block)
    end = op.body.block.last_op
    kept.set(end.operands if end is not None else ())
    builder.pop()
    builder.at(op)
    builder.emit(ptx.ForOp(start, stop, stride, body))
    kept.get(op.results)


def _number(self: KernelLowering, op: gpu.NumberOp) -> None:
    """PTX names the threads of a block along x; along y and z there is one."""
    axis = str(op.dimension.data)
    name, builder, threads = op.name.removeprefix("gpu."), self.builder, self.context.threads
    thread: Scalar = builder.special("tid.x") if axis == "x" else 0
    extent = threads if axis == "x" else 1
    if name == "thread_id":
        number = thread
    elif name == "block_dim":
        number = extent
    elif name == "block_id":
        number = builder.special(f"ctaid.{axis}")
    elif name == "grid_dim":
        number = builder.special(f"nctaid.{axis}")
    else:
        number = builder.add(builder.mul(builder.special(f"ctaid.{axis}"), extent), thread)
    self.scalars[op.result] = number


def _printf(self: KernelLowering, op: gpu.PrintfOp) -> None:
    """Every thread that comes here prints. An index is printed as 64 bits, as MLIR has it."""
    builder = self.builder
    args: list[SSAValue] = []
    for arg in op.args:
        value, cls = self.scalars[arg], class_of_leaf(arg.type)
        if isinstance(arg.type, IndexType):
            value, cls = builder.widen(value), "b64"
        elif cls == "b16":
            raise ValueError(f"expected numbers of 32 or 64 bits to print, got {arg.type}")
        args.append(builder.value(value, cls))
    builder.emit(ptx.PrintfOp(op.format.data, args))


HANDLERS: dict[type, Handler] = {
    ub.PoisonOp: _poison,
    llvm.ExtractValueOp: _extract,
    llvm.InsertValueOp: _insert,
    llvm.GEPOp: _address,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    gpu.PrintfOp: _printf,
    gpu.ReturnOp: lambda self, op: None,
    **dict.fromkeys(gpu.NUMBERS.values(), _number),
}

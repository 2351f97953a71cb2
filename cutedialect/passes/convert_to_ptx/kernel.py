"""Lowering of one `cute.kernel`: a walk in program order that keeps, for every value of the source,
what it has become: a scalar, a view of memory, or an array of registers.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, IntegerAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import target
from cutedialect.dialects import cute, cute_nvgpu, pipeline, ptx
from cutedialect.dialects.cute import shape_of
from cutedialect.dialects.cute_nvgpu import (
    LdsmType,
    SimtAsyncCopyType,
    Sm90MmaType,
    StsmType,
    TmaDescriptorType,
    TmaLoadType,
    TmaStoreType,
    UniversalCopyType,
)
from cutedialect.layout import Dyn, flatten
from cutedialect.passes.thread_layouts import values_in_columns

from .async_copies import copy_async
from .context import (
    Context,
    array_class,
    fail,
    float_name,
    pack_factor,
    register_class,
    register_count,
    scalar_class,
)
from .coordinates import LayoutMismatchError
from .copies import copy_tile, load_tile, reduce_tile, store_tile
from .elementwise import Fragment, as_bits, convert, lower_map
from .gemm import lower_gemm
from .matrix_copies import load_matrices, store_matrices
from .reductions import lower_reduce
from .rings import (
    Ring,
    State,
    acquire,
    advance,
    commit,
    initialize,
    make_ring,
    make_state,
    place,
    release,
    wait,
)
from .rings import barrier as ring_barrier
from .roles import lower_roles, warp_index
from .scalar_builder import Scalar, ScalarBuilder, erase_unused
from .scalars import lower_scalar, to_f32
from .tensor_copies import load_boxes, store_boxes
from .views import View, extent_of, local_tile, memref_view, stage, subview, transpose
from .wgmma import lower_wgmma

_ERASABLE = (
    ptx.ScalarOp,
    ptx.ImmOp,
    ptx.SpecialOp,
    ptx.SmemBaseOp,
    ptx.PackOp,
    ptx.UnpackOp,
    ptx.RegArrayOp,
    ptx.MapaOp,
    ptx.GetOp,
)


def lower_kernel(op: cute.KernelOp, arch: str) -> ptx.KernelOp:
    """The `ptx.kernel` of a thread-level kernel; `PassFailedException` at the op that has none."""
    if op.threads is None:
        raise fail(op, "expected the attribute threads (the block size), got none")
    classes = [type_ for arg in op.body.block.args for type_ in _parameter_types(arg)]
    entry = Block(arg_types=classes)
    threads = op.threads.value.data
    lowering = KernelLowering(Context(ScalarBuilder(entry), threads, arch))
    lowering.builder.at(op)
    lowering.cluster = op.cluster is not None
    lowering.bind_parameters(op, list(entry.args))
    lowering.run(op.body.block)
    if op.cluster is not None:
        # No CTA may end while others can still write to it or arrive at its barriers.
        lowering.builder.emit(ptx.ClusterArriveOp())
        lowering.builder.emit(ptx.ClusterWaitOp())
    smem = lowering.context.smem.used
    limit = target(arch).smem_per_cta
    if smem > limit:
        raise fail(
            op,
            f"expected at most {limit} bytes of shared memory on {arch}, got {smem}; "
            f"take a smaller tile or fewer stages",
        )
    erase_unused(entry, lambda each: isinstance(each, _ERASABLE))
    cluster = None if op.cluster is None else (op.cluster.value.data, 1, 1)
    kernel = ptx.KernelOp(op.sym_name.data, Region(entry), arch, threads, smem, cluster=cluster)
    # Without a minimum of CTAs, ptxas trades a few spills for a CTA more on each multiprocessor.
    kernel.properties["min_ctas"] = IntegerAttr(1, i32)
    kernel.location = op.location
    return kernel


def _parameter_types(arg: SSAValue) -> list[Attribute]:
    if isinstance(arg.type, TmaDescriptorType):
        return [ptx.TENSOR_MAP]
    return [ptx.reg(cls) for cls in _parameter_classes(arg)]


def _parameter_classes(arg: SSAValue) -> list[str]:
    type_ = arg.type
    if not isinstance(type_, cute.MemRefType):
        cls = scalar_class(type_)
        return ["b32" if cls == "pred" else cls]
    extents = [leaf for leaf in flatten(type_.layout.shape) if isinstance(leaf, Dyn)]
    strides = [leaf for leaf in flatten(type_.layout.stride) if isinstance(leaf, Dyn)]
    return ["b64", *["b32"] * len(extents), *["b64"] * len(strides)]


class KernelLowering:
    """The state of the walk."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.builder = context.builder
        self.scalars: dict[SSAValue, Scalar] = {}
        self.views: dict[SSAValue, View] = {}
        self.fragments: dict[SSAValue, Fragment] = {}
        self.kinds: dict[SSAValue, str] = {}
        self.maps: dict[SSAValue, SSAValue] = {}
        self.rings: dict[SSAValue, Ring] = {}
        self.states: dict[SSAValue, State] = {}
        self.barriers: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.cluster = False
        self.done: set[Operation] = set()

    def bind_parameters(self, op: cute.KernelOp, parameters: list[SSAValue]) -> None:
        rest = iter(parameters)
        for arg in op.body.block.args:
            first = next(rest)
            if isinstance(arg.type, cute.MemRefType):

                def dynamic(cls: str) -> SSAValue:
                    value = next(rest)
                    if cls == "b32":
                        self.builder.nonnegative.add(value)
                    return value

                self.views[arg] = memref_view(arg.type, first, dynamic)
            elif isinstance(arg.type, TmaDescriptorType):
                self.maps[arg] = first
            elif scalar_class(arg.type) == "pred":
                self.scalars[arg] = self.builder.pure("setp.ne.s32", first, 0)
            else:
                self.scalars[arg] = first

    def run(self, block: Block) -> None:
        for op in block.ops:
            if op in self.done:
                continue
            self.builder.at(op)
            handler = _HANDLERS.get(type(op))
            try:
                if handler is not None:
                    handler(self, op)
                elif not lower_scalar(self.context, op, self.scalars):
                    raise fail(op, "expected an op of the thread level, which this is not")
            except LayoutMismatchError as error:
                raise fail(op, str(error)) from error
            except (ValueError, TypeError) as error:
                if isinstance(error, PassFailedException):
                    raise
                raise fail(op, str(error)) from error

    def fragment(self, op: Operation, value: SSAValue) -> Fragment:
        found = self.fragments.get(value)
        if found is None:
            raise fail(op, f"expected a register tile, got {value.type}")
        return found

    def view(self, op: Operation, value: SSAValue) -> View:
        found = self.views.get(value)
        if found is None:
            raise fail(op, f"expected a tile of memory, got {value.type}")
        return found

    def is_touched_between(self, first: Operation, last: Operation, tile: Fragment) -> bool:
        """Whether an op after `first` and before `last` may use the registers of a tile."""
        op = first.next_op
        while op is not None and op is not last:
            if op.regions and not isinstance(op, cute.MapOp):
                return True
            if isinstance(op, cute.TransposeOp):
                return True
            for each in op.operands:
                found = self.fragments.get(each)
                if found is not None and found.array is tile.array:
                    return True
            op = op.next_op
        return False

    def new_fragment(self, op: Operation, value: SSAValue) -> Fragment:
        type_ = value.type
        assert isinstance(type_, cute.FragmentType)
        if type_.tv is None:
            raise fail(op, f"expected a thread-value layout (cute-partition), got {type_}")
        if type_.threads > self.context.threads:
            raise fail(
                op,
                f"expected at most the block's {self.context.threads} threads, "
                f"got {type_.threads} in {type_}",
            )
        cls = "b32" if _is_tf32_operand(value) else register_class(type_.element)
        fragment = Fragment(type_, self.context.registers(cls, register_count(type_)))
        self.fragments[value] = fragment
        return fragment


def _is_tf32_operand(value: SSAValue) -> bool:
    """Whether an f32 tile is only loaded and multiplied: `mma` takes it as plain bits."""
    type_ = value.type
    assert isinstance(type_, cute.FragmentType)
    if not isinstance(type_.element, Float32Type):
        return False
    uses = [(use.operation, use.index) for use in value.uses]
    return any(isinstance(op, cute.GemmOp) and i < 2 for op, i in uses) and all(
        (isinstance(op, cute.GemmOp) and i < 2)
        or (isinstance(op, cute.CopyOp) and i == 1 and op.source.type != type_)
        for op, i in uses
    )


def integers(array: DenseArrayBase) -> tuple[int, ...]:
    return tuple(int(each) for each in array.get_values())  # type: ignore[attr-defined]


def _dim(self: KernelLowering, op: cute.DimOp) -> None:
    view = self.view(op, op.memref)
    self.scalars[op.result] = extent_of(self.builder, view, op.mode.value.data)


def _stride(self: KernelLowering, op: cute.StrideOp) -> None:
    leaves = self.view(op, op.memref).modes[op.mode.value.data]
    stride = leaves[0][1]
    self.scalars[op.result] = stride if isinstance(stride, int) else stride.value


def _block_idx(self: KernelLowering, op: cute.BlockIdxOp) -> None:
    self.scalars[op.result] = self.builder.special(f"ctaid.{op.axis.data}")


def _grid_dim(self: KernelLowering, op: cute.GridDimOp) -> None:
    self.scalars[op.result] = self.builder.special(f"nctaid.{op.axis.data}")


def _local_tile(self: KernelLowering, op: cute.LocalTileOp) -> None:
    self.views[op.result] = local_tile(
        self.builder,
        self.view(op, op.memref),
        integers(op.tile),
        tuple(self.scalars[each] for each in op.coords),
    )


def _transpose(self: KernelLowering, op: cute.TransposeOp) -> None:
    if op.source in self.views:
        self.views[op.result] = transpose(self.views[op.source])
        return
    type_ = op.result.type
    assert isinstance(type_, cute.FragmentType)
    self.fragments[op.result] = Fragment(type_, self.fragment(op, op.source).array)


def _subview(self: KernelLowering, op: cute.SubviewOp) -> None:
    type_ = op.result.type
    assert isinstance(type_, cute.MemRefType)
    self.views[op.result] = subview(
        self.builder,
        self.view(op, op.source),
        integers(op.origin),
        type_.shape,  # type: ignore[arg-type]
    )


def _stage(self: KernelLowering, op: cute.StageOp) -> None:
    self.views[op.result] = stage(self.view(op, op.source), self.scalars[op.index])


def _alloc_fragment(self: KernelLowering, op: cute.AllocFragmentOp) -> None:
    self.new_fragment(op, op.result)


def _alloc_smem(self: KernelLowering, op: cute.AllocSmemOp) -> None:
    type_ = op.result.type
    assert isinstance(type_, cute.MemRefType)
    elements = 1 + sum(
        (extent - 1) * abs(stride)
        for extent, stride in zip(
            flatten(type_.layout.shape), flatten(type_.layout.stride), strict=True
        )
    )
    size = -(-elements * type_.bits // 8)
    root = self.context.smem.take(size, type_.alignment)

    def dynamic(cls: str) -> SSAValue:
        raise fail(op, f"expected a static layout, got {type_.layout} ({cls})")

    view = memref_view(type_, root, dynamic)
    self.views[op.result] = View(
        view.element,
        "smem",
        root,
        view.alignment,
        view.swizzle,
        view.modes,
        (None,) * len(view.modes),
        root_modes=(-1,) * len(view.modes),
    )


def _fill(self: KernelLowering, op: cute.FillOp) -> None:
    fragment = self.fragment(op, op.fragment)
    value = self.scalars[op.value]
    pack = pack_factor(fragment.type.element)
    if pack > 1:
        constant = self.builder.constant(value)
        if constant is not None:
            bits = 32 // pack
            part = int(constant) & ((1 << bits) - 1)
            value = sum(part << (bits * i) for i in range(pack))
        else:
            if pack == 4:
                low = self.builder.pure("and.b16", value, 255)
                value = self.builder.pure("or.b16", low, self.builder.pure("shl.b16", low, 8))
            value = self.builder.pack(value, value)
    self.context.fill(fragment.array, value)


def _copy(self: KernelLowering, op: cute.CopyOp) -> None:
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    atom = op.atom
    if isinstance(atom, SimtAsyncCopyType):
        if op.tv is None:
            raise fail(op, "expected the attribute tv (thread-value layout) with cp.async")
        copy_async(
            self.context,
            op,
            self.view(op, op.source),
            self.view(op, op.destination),
            op.tv.data,
            atom,
            predicate,
        )
        return
    if isinstance(atom, TmaLoadType | TmaStoreType):
        _tensor_copy(self, op)
        return
    self.context.when(predicate, lambda: _plain_copy(self, op))


def _tensor_copy(self: KernelLowering, op: cute.CopyOp) -> None:
    assert op.descriptor is not None
    described = op.descriptor.type
    assert isinstance(described, TmaDescriptorType)
    map_ = self.maps[op.descriptor]
    source, target_ = self.view(op, op.source), self.view(op, op.destination)
    atom = op.atom
    if isinstance(atom, TmaLoadType):
        if op.barrier is None or op.barrier not in self.barriers:
            raise fail(op, "expected the barrier that the load signals, got none")
        barrier = self.barriers[op.barrier]
        self.context.by_one_thread(
            lambda: load_boxes(self.context, op, source, target_, map_, described, atom, barrier)
        )
        return
    assert isinstance(atom, TmaStoreType)
    self.context.by_one_thread(
        lambda: store_boxes(self.context, op, source, target_, map_, described, atom)
    )


def _plain_copy(self: KernelLowering, op: cute.CopyOp) -> None:
    atom = op.atom
    limit = atom.bits // 8 if isinstance(atom, UniversalCopyType) else 16
    source, target_ = op.source, op.destination
    if source in self.views and target_ in self.views:
        if op.tv is None:
            raise fail(op, "expected the attribute tv (thread-value layout) between memories")
        copy_tile(self.context, self.views[source], self.views[target_], op.tv.data, limit)
    elif source in self.views:
        fragment = self.fragment(op, target_)
        view = self.views[source]
        if isinstance(atom, LdsmType):
            load_matrices(self.context, op, view, fragment.array, fragment.type, atom)
        else:
            load_tile(self.context, view, fragment.array, fragment.tv, limit)
    elif target_ in self.views:
        fragment = self.fragment(op, source)
        view = self.views[target_]
        if isinstance(atom, StsmType):
            store_matrices(self.context, op, view, fragment.array, fragment.type, atom)
        else:
            store_tile(self.context, view, fragment.array, fragment.tv, limit)
    else:
        _move(self, op, self.fragment(op, source), self.fragment(op, target_))


def _move(self: KernelLowering, op: cute.CopyOp, source: Fragment, target_: Fragment) -> None:
    if source.tv != target_.tv:
        source = convert(self.context, op, source, target_.type)
    array = source.array
    if array_class(array) != array_class(target_.array):
        array = as_bits(self.context, source)
    every = range(array.type.count)  # type: ignore[union-attr]
    self.context.move(array, every, target_.array, every)


def _load(self: KernelLowering, op: cute.LoadOp) -> None:
    fragment = self.new_fragment(op, op.result)
    load_tile(self.context, self.view(op, op.source), fragment.array, fragment.tv)


def _convert(self: KernelLowering, op: cute.ConvertOp) -> None:
    type_ = op.result.type
    assert isinstance(type_, cute.FragmentType)
    source = self.fragment(op, op.source)
    self.fragments[op.result] = convert(self.context, op, source, type_)


def _extract(self: KernelLowering, op: cute.ExtractOp) -> None:
    source = self.fragment(op, op.source)
    rows = source.type.shape[0]
    origin, shape = integers(op.origin), shape_of(op.result.type)
    if origin[0] or shape[0] != rows or source.type.tv is None:
        raise fail(op, f"expected whole columns of {source.type.shape}, got {shape} at {origin}")
    values = values_in_columns(source.type.tv, rows, origin[1], shape[1])  # type: ignore[arg-type]
    result = self.new_fragment(op, op.result)
    pack = pack_factor(source.type.element)
    if any(values[i] % pack != i % pack for i in range(len(values))):
        raise fail(op, f"expected whole registers of {source.type}, got {shape} at {origin}")
    chosen = [value // pack for value in values[::pack]]
    self.context.move(source.array, chosen, result.array, range(len(chosen)))


def _gemm(self: KernelLowering, op: cute.GemmOp) -> None:
    if isinstance(op.atom, Sm90MmaType):
        a, b = self.view(op, op.a), self.view(op, op.b)
        lower_wgmma(self.context, op, a, b, self.fragment(op, op.acc))
        return
    a, b, acc = (self.fragment(op, each) for each in (op.a, op.b, op.acc))
    lower_gemm(self.context, op, a, b, acc)


def _map(self: KernelLowering, op: cute.MapOp) -> None:
    inputs = [self.fragment(op, each) for each in op.inputs]
    copy = _assignment(op)
    target_ = None
    if copy is not None:
        target_ = self.fragments.get(copy.destination)
        if target_ is not None and self.is_touched_between(op, copy, target_):
            target_ = None
        type_ = op.result.type
        assert isinstance(type_, cute.FragmentType)
        if target_ is not None and (
            target_.type != type_ or array_class(target_.array) != register_class(type_.element)
        ):
            target_ = None
    result = lower_map(self.context, op, inputs, self.scalars, target_)
    self.fragments[op.result] = result
    if copy is not None and target_ is not None and result.array is target_.array:
        self.done.add(copy)


def _assignment(op: cute.MapOp) -> cute.CopyOp | None:
    """The copy later in the block that is the only use of a map."""
    uses = list(op.result.uses)
    if len(uses) != 1:
        return None
    copy = uses[0].operation
    if (
        not isinstance(copy, cute.CopyOp)
        or copy.source is not op.result
        or copy.pred is not None
        or copy.parent is not op.parent
    ):
        return None
    return copy


def _reduce(self: KernelLowering, op: cute.ReduceOp) -> None:
    self.fragments[op.result] = lower_reduce(self.context, op, self.fragment(op, op.source))


def _atomic(self: KernelLowering, op: cute.AtomicOp) -> None:
    fragment = self.fragment(op, op.source)
    name = float_name(fragment.type.element)
    kind = op.kind.data
    if name in ("s64", "s32") and kind == "add":
        name = name.replace("s64", "u64")
    elif name not in ("s32", "s64") and not (
        kind == "add" and name in ("f16", "bf16", "f32", "f64")
    ):
        raise fail(
            op,
            f"expected add of f16, f32, f64, i32 or i64, or max, min of integers, "
            f"got {kind} of {name}",
        )
    if name == "bf16" and target(self.context.arch).number < 90:
        raise fail(op, f"expected sm_90 or later for an atomic on bf16, got {self.context.arch}")
    reduce_tile(
        self.context, self.view(op, op.destination), fragment.array, fragment.tv, kind, name
    )


def _barrier(self: KernelLowering, op: Operation) -> None:
    del op
    self.context.barrier()


def _create(self: KernelLowering, op: pipeline.CreateOp) -> None:
    if op.has_barriers:
        self.rings[op.ring] = make_ring(self.context, op)
        return
    self.kinds[op.ring] = op.kind.data


def _nothing(self: KernelLowering, op: Operation) -> None:
    """One CTA barrier in `consumer_wait` orders both directions, so these need no instruction."""
    del self, op


def _role(self: KernelLowering, op: pipeline.RoleOp) -> None:
    """The first role lowers all of them, side by side; the barriers are made before."""
    block = op.parent
    assert block is not None
    roles = [each for each in block.ops if isinstance(each, pipeline.RoleOp)]
    self.done.update(roles)
    initialize(self.context, list(self.rings.values()), self.cluster)
    warp = warp_index(self.builder)
    lower_roles(self.context, roles, warp, lambda role: self.run(role.body.block))


def _state(self: KernelLowering, op: pipeline.StateOp) -> None:
    self.states[op.state] = make_state(self.context, op.side.data, self.rings[op.ring].stages)


def _index(self: KernelLowering, op: pipeline.IndexOp) -> None:
    self.scalars[op.index] = place(self.builder, self.states[op.state])[0]


def _advance(self: KernelLowering, op: pipeline.AdvanceOp) -> None:
    advance(self.builder, self.states[op.state])


def _full_barrier(self: KernelLowering, op: pipeline.BarrierOp) -> None:
    state = self.states[op.state]
    self.barriers[op.barrier] = ring_barrier(self.builder, self.rings[op.ring].full, state)


def _acquire(self: KernelLowering, op: pipeline.ProducerAcquireOp) -> None:
    if op.state is not None:
        acquire(self.context, self.rings[op.ring], self.states[op.state])


def _release(self: KernelLowering, op: pipeline.ConsumerReleaseOp) -> None:
    if op.state is not None:
        release(self.context, self.rings[op.ring], self.states[op.state])


def _emits(make: Callable[[Operation], Operation]) -> Callable[[KernelLowering, Operation], None]:
    """A handler for an op that is one instruction."""

    def handle(self: KernelLowering, op: Operation) -> None:
        self.builder.emit(make(op))

    return handle


def _by_one_thread(
    make: Callable[[Operation], Operation],
) -> Callable[[KernelLowering, Operation], None]:
    """A handler for an op of the thread that starts TMA stores."""

    def handle(self: KernelLowering, op: Operation) -> None:
        self.context.by_one_thread(lambda: _emit(self.builder, make(op)))

    return handle


def _commit(self: KernelLowering, op: pipeline.ProducerCommitOp) -> None:
    if op.state is not None:
        commit(self.context, self.rings[op.ring], self.states[op.state])
        return
    if self.kinds[op.ring] == "cp_async":
        self.builder.emit(ptx.CpAsyncCommitOp())


def _wait(self: KernelLowering, op: pipeline.ConsumerWaitOp) -> None:
    if op.state is not None:
        wait(self.builder, self.rings[op.ring].full, self.states[op.state])
        return
    assert op.pending is not None
    if self.kinds[op.ring] == "cp_async":
        self.builder.emit(ptx.CpAsyncWaitOp(op.pending.value.data))
    self.builder.emit(ptx.BarSyncOp())


def _printf(self: KernelLowering, op: cute.PrintfOp) -> None:
    args: list[SSAValue] = []
    for arg in op.args:
        name = float_name(arg.type)
        value, cls = self.scalars[arg], scalar_class(arg.type)
        if name in ("f16", "bf16"):
            value, cls = to_f32(self.builder, value, name), "f32"
        elif cls == "pred":
            value, cls = self.builder.pure("selp.b32", 1, 0, value), "b32"
        elif cls == "b16":
            bits = 8 if name == "s8" else 16
            value = self.builder.pure(f"cvt.s32.s{bits}", value)
            cls = "b32"
        args.append(self.builder.value(value, cls))
    first = self.builder.pure("setp.eq.s32", self.builder.thread_index(), 0)
    self.context.when(first, lambda: _emit(self.builder, ptx.PrintfOp(op.format.data, args)))


def _emit(builder: ScalarBuilder, op: Operation) -> None:
    builder.emit(op)


def _for(self: KernelLowering, op: scf.ForOp) -> None:
    if op.iter_args:
        raise fail(op, "expected no iter_args: state of a loop lives in fragments")
    by = self.scalars[op.step]
    step = self.builder.constant(by)
    if step is not None and step <= 0:
        raise fail(op, f"expected a positive step, got {step}")
    low, high = self.scalars[op.lb], self.scalars[op.ub]
    body = Block(arg_types=[ptx.reg("b32")])
    self.builder.push(body, repeats=True)
    if self.builder.is_nonnegative(low):
        self.builder.nonnegative.add(body.args[0])
    self.scalars[op.body.block.args[0]] = body.args[0]
    self.run(op.body.block)
    self.builder.pop()
    self.builder.at(op)
    self.builder.emit(
        ptx.ForOp(
            self.builder.value(low, "b32"),
            self.builder.value(high, "b32"),
            self.builder.value(by, "b32") if step is None else int(step),
            body,
        )
    )


def _if(self: KernelLowering, op: scf.IfOp) -> None:
    if op.results:
        raise fail(op, "expected scf.if without results")

    def side(region: Region) -> Callable[[], None] | None:
        if not region.blocks:
            return None
        return lambda: self.run(region.block)

    then = side(op.true_region)
    assert then is not None
    self.context.when(self.scalars[op.cond], then, side(op.false_region))


def _tile_index(self: KernelLowering, op: cute.TileIndexOp) -> None:
    del self
    raise fail(op, "expected block indices, which cute-tile makes of tile indices")


_HANDLERS: dict[type, Callable] = {
    cute.DimOp: _dim,
    cute.StrideOp: _stride,
    cute.BlockIdxOp: _block_idx,
    cute.GridDimOp: _grid_dim,
    cute.ExtractOp: _extract,
    cute.TileIndexOp: _tile_index,
    cute.LocalTileOp: _local_tile,
    cute.TransposeOp: _transpose,
    cute.SubviewOp: _subview,
    cute.StageOp: _stage,
    cute.AllocFragmentOp: _alloc_fragment,
    cute.AllocSmemOp: _alloc_smem,
    cute.FillOp: _fill,
    cute.CopyOp: _copy,
    cute.LoadOp: _load,
    cute.ConvertOp: _convert,
    cute.GemmOp: _gemm,
    cute.MapOp: _map,
    cute.ReduceOp: _reduce,
    cute.AtomicOp: _atomic,
    cute.BarrierOp: _barrier,
    cute.PrintfOp: _printf,
    pipeline.CreateOp: _create,
    pipeline.RoleOp: _role,
    pipeline.StateOp: _state,
    pipeline.IndexOp: _index,
    pipeline.AdvanceOp: _advance,
    pipeline.BarrierOp: _full_barrier,
    pipeline.ProducerAcquireOp: _acquire,
    pipeline.ProducerCommitOp: _commit,
    pipeline.ConsumerWaitOp: _wait,
    pipeline.ConsumerReleaseOp: _release,
    cute_nvgpu.WgmmaFenceOp: _emits(lambda op: ptx.WgmmaFenceOp()),
    cute_nvgpu.WgmmaCommitOp: _emits(lambda op: ptx.WgmmaCommitOp()),
    cute_nvgpu.WgmmaWaitOp: _emits(lambda op: ptx.WgmmaWaitOp(op.pending.value.data)),
    cute_nvgpu.ProxyFenceOp: _emits(lambda op: ptx.FenceOp("proxy.async.shared::cta")),
    cute_nvgpu.TmaStoreCommitOp: _by_one_thread(lambda op: ptx.BulkCommitOp()),
    cute_nvgpu.TmaStoreWaitOp: _by_one_thread(
        lambda op: ptx.BulkWaitOp(op.pending.value.data, op.read is not None)
    ),
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
}

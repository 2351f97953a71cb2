"""Every operation on run-time values gives what it gives on static ones: its arithmetic as PTX, run
in the emulator and on a GPU where there is one, against the function of `cutedialect.layout` on the
numbers themselves. Each of 32 threads has numbers of its own.
"""

import random
import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Block, Region

from cutedialect.backend.emulator import launch
from cutedialect.backend.ptx.printer import ptx_text
from cutedialect.backend.runtime.driver import find_driver
from cutedialect.dialects import all_dialects, gpu
from cutedialect.dialects.cute.algebra import OPS, scalar_types, value_of
from cutedialect.dialects.cute.algebra.algebra_op import _function, infer
from cutedialect.dialects.cute.algebra.values import is_value
from cutedialect.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    flatten,
)
from cutedialect.layout.expression import dynamic_leaves, map_dynamic
from cutedialect.passes.algebra.arithmetic import Emitter
from cutedialect.passes.algebra.expand_ops import ExpandOpsPass, build
from cutedialect.passes.algebra.to_base import ToBasePass
from cutedialect.passes.lower.convert_to_ptx import ConvertToPtxPass
from cutedialect.tools.locating_parser import LocatingParser
from cutedialect.tools.module_verifier import verify_module

# The op, its attributes, and the types of its operands. Behind `~` are the numbers to draw from,
# for each operand, where not all of `NUMBERS` are in the op's domain: coordinates in their shape,
# strides that divide.
CASES = """
make_layout_like | layout(?,4):(?,1) ~4,8,12
make_ordered_layout | shape(?,2,?), int_tuple(1,0,2)
make_identity_layout | shape(?,(2,?))
get_shape | layout(?,(2,?)):(?,(1,4))
get_stride | layout(?,(2,?)):(?,(1,?))
composed_get_offset | composed_layout S<3,4,3> o ? o (8,64):(64,1)
composed_get_outer | composed_layout(4,8):(8,1) o 0 o (?,2):(1,?)
composed_get_inner | composed_layout(4,?):(?,1) o 0 o (2,2):(1,2)
get_leaves | shape(?,(4,?))
get_scalars | layout(?,8):(1,?)
get mode=1,1 | layout(?,(2,?)):(1,(?,4))
select mode=2,0 | shape(?,2,?)
to_int_tuple | shape(?,(4,?))
to_shape | int_tuple(?,(4,?))
to_stride | int_tuple(?,(4,?))
to_coord | int_tuple(?,(4,?))
get_layouts_from_tile | tile[?:1;_;8:2]
composition | layout(?,2):(?,?), layout?:1
composition | layout(4,8):(?,?), layout(2,8):(2,4)
composition | layout96:?, layout(4,?):(?,1)
coalesce | layout(2,(1,?)):(1,(6,2))
coalesce | layout(4,?,2):(1,4,?)
flatten | layout(?,(2,?)):(?,(1,?))
complement | layout?:2, shape96 ~1,2,3,4,6
complement | layout(2,?):(1,2), shape96 ~1,2,3,4,6
group_modes begin=0,end=2 | layout(?,3,?):(1,?,6)
recast_layout new_type_bits=8,old_type_bits=32 | layout(4,?):(1,?)
recast_layout new_type_bits=32,old_type_bits=8 | layout(8,?):(1,8)
slice | layout(?,3,?):(1,?,6), coord(?,_,1)
slice | composed_layout S<1,1,2> o ? o (4,4):(4,1), coord(?,_)
dice | layout(?,3,?):(1,?,6), coord(0,_,1)
right_inverse | layout(4,3):(3,1)
left_inverse | layout(4,8):(1,5)
size | layout(?,(2,?)):(1,(4,8))
size mode=1 | shape(?,(2,?))
cosize | layout(?,8):(1,?)
cosize mode=1 | layout(?,(8,?)):(1,(?,2))
tuple_product | shape(?,(2,?))
tuple_product_each | shape(?,(2,?))
layout_eval | coord(?,?), layout(?,?):(?,1)
layout_eval | coord?, layout(?,(2,?)):(1,(?,4))
layout_eval | coord(?,3), composed_layout S<2,1,3> o ? o (8,32):(32,1)
layout_eval | coord(?,?), layout(4,8):(2@0,?@1)
crd2idx | coord(?,(?,1)), shape(4,(?,6)) ~1,2,3;4,6,8
idx2crd | int_tuple?, shape((4,?),6)
increment_coord | coord(?,(2,?)), shape(4,(?,8)) ~0,1,3;3,4,6
append_to_rank rank=3 | shape(?,8), shape?
prepend_to_rank rank=3 | layout(?,8):(1,?), layout1:0
tuple_add | int_tuple(?,(7,?)), int_tuple(4,(?,6))
tuple_sub | int_tuple(?,(7,?)), int_tuple(4,(?,6))
shape_div | shape(96,?), shape?
ceil_div | shape(?,9), shape(4,?)
ceil_div | shape(?,?), tile[4:1;?:1]
elem_less | coord(1,?), shape(4,?)
equal | layout(?,8):(1,?), layout(4,?):(?,4)
equal | shape(?,2), shape(?,?)
logical_product | layout(2,2):(4,1), layout?:1
zipped_product | layout(2,2):(4,1), layout(?,2):(1,?) ~;2,4,8
tiled_product | layout(2,2):(4,1), layout(?,2):(1,?) ~;2,4,8
flat_product | layout(2,2):(4,1), layout(?,2):(1,?) ~;2,4,8
blocked_product | layout(3,4):(4,1), layout(?,5):(1,?)
make_layout | shape(?,2), stride(1,?)
make_composed_layout | swizzle S<1,1,2>, int_tuple?, layout(4,4):(4,1)
raked_product | layout(3,4):(4,1), layout(2,?):(1,2)
logical_divide | layout(?,8):(?,1), shape(2,4)
zipped_divide | layout(?,8):(?,1), shape(3,4)
tiled_divide | layout(?,8):(?,1), shape(2,4)
flat_divide | layout(?,?):(?,1), shape(2,4)
tile_to_shape | layout(8,64):(64,1), shape(?,128) ~8,16,24,64
tuple_add | int_tuple(?{i64},3), int_tuple(?,?{i64})
layout_eval | coord(?,?), layout(?,?):(?{i64},1)
size | layout(?{div=4},2):(1,?{div=4}) ~4,8,12
"""
NUMBERS = (1, 2, 3, 4, 6, 8, 12)
THREADS = 32
# Of the drawn numbers some are outside of an op's domain (a layout that does not divide); so many
# are inside at least.
LEAST_INSIDE = 6
KINDS = "composed_layout|int_tuple|layout|shape|stride|coord|tile|swizzle"


def parsed_types(texts):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return [LocatingParser(context, text, "type").parse_type() for text in texts]


class Case:
    """One line of `CASES`; a test fills in what the threads computed."""

    def __init__(self, line):
        self.line = line
        head, _, rest = line.partition("|")
        self.name, *given = head.split()
        rest, _, numbers = rest.partition("~")
        self.properties = {}
        for key, text in re.findall(r"(\w+)=([\d,]*\d)", " ".join(given)):
            ints = [int(number) for number in text.split(",")]
            self.properties[key] = (
                DenseArrayBase.from_list(i32, ints) if key == "mode" else IntegerAttr(ints[0], i32)
            )
        if self.name == "get_scalars":
            self.properties["only_dynamic"] = UnitAttr()
        texts = re.split(rf",\s*(?=(?:{KINDS})\b|(?:{KINDS})[?\d])", rest.strip())
        found = [re.fullmatch(rf"\s*({KINDS})\s*(.+?)\s*", text).groups() for text in texts]
        self.types = parsed_types(f'!cute.{kind}<"{text}">' for kind, text in found)
        per_operand = [one for one in numbers.strip().split(";") if numbers]
        per_operand = per_operand * len(self.types) if len(per_operand) == 1 else per_operand
        self.numbers = []
        for at, type_ in enumerate(self.types):
            listed = per_operand[at] if per_operand else ""
            choices = tuple(map(int, listed.split(","))) if listed else NUMBERS
            self.numbers += [choices for _ in dynamic_leaves(value_of(type_))]

    def draw(self, random_):
        return [random_.choice(choices) for choices in self.numbers]

    def static(self, numbers):
        """What the op's function gives for the numbers: a list of values."""
        drawn = iter(numbers)
        row = OPS[self.name].ROW
        whole = [map_dynamic(value_of(type_), lambda leaf: next(drawn)) for type_ in self.types]
        if self.name == "make_layout":
            return Layout(*whole)
        if self.name == "make_composed_layout":
            return ComposedLayout(*whole)
        known = {
            name: tuple(one.get_values())
            if isinstance(one, DenseArrayBase)
            else True
            if isinstance(one, UnitAttr)
            else one.value.data
            for name, one in self.properties.items()
        }
        known |= {operand.name: value for operand, value in zip(row.operands, whole, strict=False)}
        arguments = [known.get(name, () if name == "mode" else None) for name in row.arguments]
        while arguments and arguments[-1] is None:
            arguments.pop()
        return _function(row.rule)(*arguments)


def op_of(case, operands):
    cls = OPS[case.name]
    results = infer(cls, case.types, case.properties)
    return cls.create(operands=operands, result_types=results, properties=case.properties)


def load(emitter, pointer, at, bits):
    place = emitter.add(llvm.GEPOp.from_mixed_indices(pointer, [at], i64))
    number = emitter.add(llvm.LoadOp(place, i64))
    return number if bits == 64 else emitter.add(arith.TruncIOp(number, i32))


def place_of(emitter, thread, width, position):
    """The index of a thread's number."""
    row = emitter.add(arith.MuliOp(thread, emitter.value(width)))
    return emitter.add(arith.AddiOp(row, emitter.value(position)))


def kernel(cases):
    """A module of one kernel in which a thread computes all cases of numbers of its own, and how
    many numbers go in and out for each thread.
    """
    pointer = llvm.LLVMPointerType()
    entry = Block(arg_types=[pointer, pointer])
    source, target = entry.args
    emitter = Emitter({})
    dimension = gpu.DimensionAttr(gpu.DimensionEnum.X)
    index = emitter.add(
        gpu.NUMBERS["thread_id"].create(
            result_types=[gpu.IndexType()], properties={"dimension": dimension}
        )
    )
    thread = emitter.add(arith.IndexCastOp(index, i32))
    width = sum(len(case.numbers) for case in cases)
    at, stored = 0, []
    for case in cases:
        operands = []
        for type_ in case.types:
            numbers = {}
            for number, leaf in enumerate(dynamic_leaves(value_of(type_))):
                spot = place_of(emitter, thread, width, at)
                numbers[number] = load(emitter, source, spot, leaf.bits)
                at += 1
            operands.append(whole(emitter, type_, numbers))
        op = op_of(case, operands)
        emitter.ops.append(op)
        case.results = []
        for result in op.results:
            type_ = result.type
            if is_value(type_):
                scalars = OPS["get_scalars"].create(
                    operands=[result],
                    result_types=scalar_types(type_, True),
                    properties={"only_dynamic": UnitAttr()},
                )
                emitter.ops.append(scalars)
                values = list(scalars.results)
            else:
                values = [result]
            case.results.append((type_, len(stored), len(values)))
            stored += values
    for position, value in enumerate(stored):
        assert isinstance(value.type, IntegerType)
        cast = arith.ExtUIOp if value.type == i1 else arith.ExtSIOp
        wide = value if value.type == i64 else emitter.add(cast(value, i64))
        spot = place_of(emitter, thread, len(stored), position)
        address = emitter.add(llvm.GEPOp.from_mixed_indices(target, [spot], i64))
        emitter.ops.append(llvm.StoreOp(wide, address))
    entry.add_ops([*emitter.ops, gpu.ReturnOp.create()])
    function = gpu.FuncOp.create(
        properties={
            "sym_name": StringAttr("all"),
            "function_type": FunctionType.from_lists([pointer, pointer], []),
            "kernel": UnitAttr(),
            "known_block_size": DenseArrayBase.from_list(i32, [THREADS, 1, 1]),
        },
        regions=[Region(entry)],
    )
    device = gpu.ModuleOp.create(
        properties={"sym_name": StringAttr("device")}, regions=[Region(Block([function]))]
    )
    return ModuleOp([device]), width, len(stored)


def whole(emitter, type_, numbers):
    """A value of a type, of the numbers for its leaves."""
    from cutedialect.layout.expression import leaf as named

    position = iter(range(len(numbers)))
    value = map_dynamic(value_of(type_), lambda dyn: named(next(position), dyn.bits, dyn.div))
    inner = Emitter(numbers)
    result = build(inner, value, type_)
    emitter.ops += inner.ops
    return result


def launch_on_a_gpu(path, text, arguments):
    """Run the kernel `all` of a PTX text by a real driver; what it writes is copied back."""
    if find_driver() is None:
        pytest.skip("needs a GPU")
    cupy = pytest.importorskip("cupy")
    path.write_text(text, encoding="utf-8")
    there = [cupy.asarray(argument) for argument in arguments]
    cupy.RawModule(path=str(path)).get_function("all")((1,), (THREADS,), tuple(there))
    for argument, result in zip(arguments, there, strict=True):
        argument[...] = result.get()


@pytest.fixture(
    scope="module",
    params=["emulator", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.long])],
)
def computed(request, tmp_path_factory):
    cases = [Case(line) for line in CASES.strip().splitlines()]
    module, width, count = kernel(cases)
    verify_module(module)
    context = Context()
    for step in (ExpandOpsPass(), ToBasePass(), ConvertToPtxPass(arch="sm_80")):
        step.apply(context, module)
        verify_module(module)
    random_ = random.Random(38)
    rows = [[case.draw(random_) for case in cases] for _ in range(THREADS)]
    given = np.array([[n for drawn in row for n in drawn] for row in rows], np.int64)
    assert given.shape == (THREADS, width)
    out = np.zeros((THREADS, count), np.int64)
    if request.param == "emulator":
        launch(ptx_text(module), "all", (1,), (THREADS,), [given, out])
    else:
        path = tmp_path_factory.mktemp("ptx") / "all.ptx"
        launch_on_a_gpu(path, ptx_text(module), [given, out])
    return {
        case.line: (case, [(row[number], out[at]) for at, row in enumerate(rows)])
        for number, case in enumerate(cases)
    }


def same(one, other):
    """Whether two values are the same as functions, however their modes are put together."""
    if isinstance(one, Layout | ComposedLayout) and isinstance(other, Layout | ComposedLayout):
        size = one.size()
        return size == other.size() and all(one(at) == other(at) for at in range(size))
    return one == other


@pytest.mark.parametrize("line", CASES.strip().splitlines())
def test_run_time_values_give_what_static_ones_give(computed, line):
    case, rows = computed[line]
    inside = 0
    for numbers, out in rows:
        try:
            expected = case.static(numbers)
        except (LayoutError, ZeroDivisionError):
            continue
        inside += 1
        got = []
        for type_, first, count in case.results:
            values = iter([int(number) for number in out[first : first + count]])
            if is_value(type_):
                got.append(map_dynamic(value_of(type_), lambda leaf, values=values: next(values)))
            else:
                got.append(next(values))
        if OPS[case.name].ROW.variadic_result:
            parts = flatten(expected)
            if case.name == "get_layouts_from_tile":
                parts = [part for part in parts if isinstance(part, Layout)]
            elif case.name == "get_scalars":
                parts = numbers
            assert list(parts) == got, numbers
        else:
            assert same(got[0], expected), (numbers, got[0], expected)
    assert inside >= LEAST_INSIDE


def test_every_operation_with_a_result_has_a_case():
    named = {line.split()[0] for line in CASES.strip().splitlines()}
    made_of_operands = {name for name in OPS if name.startswith("make_") and not OPS[name].ROW.rule}
    assert set(OPS) - named - made_of_operands == {"static", "print"}

"""Results in the spelling of NVIDIA's open CuTe IR, and cases that pycute gets wrong."""

import pytest

from cutedialect.layout import (
    Layout,
    LayoutError,
    Swizzle,
    blocked_product,
    coalesce,
    complement,
    composition,
    flat_divide,
    idx2crd,
    left_inverse,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    make_identity_layout,
    make_ordered_layout,
    max_common_vector,
    parse,
    parse_int_tuple,
    parse_tile,
    raked_product,
    recast,
    right_inverse,
    slice_and_offset,
    tile_to_shape,
    tiled_divide,
    zipped_divide,
)
from cutedialect.layout import (
    group as group_modes,
)


def read(text):
    if text.startswith("["):
        return parse_tile(text)
    return parse(text) if ":" in text else parse_int_tuple(text)


CASES = [
    # coalesce: size-1 keeps its stride, run-time modes never merge
    (coalesce, ["1:1"], "1:1"),
    (coalesce, ["(2,1,6):(1,7,2)"], "12:1"),
    (coalesce, ["(2,3):(0,0)"], "6:0"),
    (coalesce, ["(?,4):(1,4)"], "(?,4):(1,4)"),
    (coalesce, ["(4,5,?,3,2):(1,4,?,1,3)"], "(20,?,6):(1,?,1)"),
    (coalesce, ["((16,4),128):((1@0,16@0),1@1)"], "(64,128):(1@0,1@1)"),
    (coalesce, ["1:0", "(1)"], "(1):(0)"),
    (coalesce, ["((2,2),(2,2)):((1,2),(16,32))", "(1)"], "(4,(2,2)):(1,(16,32))"),
    # composition
    (composition, ["(4,6,8,10):(2,3,5,7)", "6:12"], "(2,3):(9,5)"),
    (composition, ["(8,8):(8,1)", "3:3"], "3:24"),
    (composition, ["1:1", "4:1"], "4:1"),
    (composition, ["(4,3,1):(3,1,0)", "(24):(1)"], "((4,3,2)):((3,1,0))"),
    (composition, ["(4,3):(3,1)", "(24):(1)"], "((4,6)):((3,1))"),
    (composition, ["64:4096", "1:1"], "1:4096"),
    (composition, ["(4,8):(1,4)", "[(2,4):(1,2)]"], "((2,4)):((1,2))"),
    (composition, ["?:?", "4:1"], "4:?"),
    (composition, ["(4,(2,3)):(6,(3,1))", "(2,4):(1@1@1,1@0)"], "(2,4):(1,6)"),
    # complement: no size-1 rests, except the last mode
    (complement, ["(2,3):(1,2)", "6"], "1:6"),
    (complement, ["(4,2):(1,10)"], "(2,1):(4,20)"),
    (complement, ["4:2", "19"], "(2,3):(1,8)"),
    (complement, ["3:0", "6"], "6:1"),
    (complement, ["3:2", "?"], "(2,?):(1,6)"),
    (complement, ["3:4@2"], "(1,1,(4,1)):(1@0,1@1,(1@2,12@2))"),
    (complement, ["(2,5,3):(4@1,5@0,16@1)"], "((5,1),(4,2,1)):((1@0,25@0),(1@1,8@1,48@1))"),
    (logical_product, ["(4,3):(2@0,1@1)", "(2,5):(1,2)"], "((4,3),(2,5)):((2@0,1@1),(1@0,3@1))"),
    # inverses: stride 0 is passed over, gaps stay
    (right_inverse, ["(32,128):(0,1)"], "128:32"),
    (right_inverse, ["((2,4),(3,5)):((4,1),(2,8))"], "(4,2,5):(2,1,24)"),
    (right_inverse, ["(4,5):(1@1,1@0)"], "(5,4):(4,1)"),
    (right_inverse, ["(4,5):(1@1,1@1@4)"], "(1,4,1,1,(1,5)):(0,1,0,0,(0,4))"),
    (left_inverse, ["4:2"], "(2,4):(0,1)"),
    (left_inverse, ["(4,8):(1,5)"], "(5,8):(1,4)"),
    (left_inverse, ["(2,4,8):(32,0,2)"], "(2,16,2):(0,8,1)"),
    # divides
    (logical_divide, ["9:1", "4:1"], "(4,3):(1,4)"),
    (logical_divide, ["(6,8):(8,1)", "(3,4):(1,3)"], "((3,(2,2)),4):((8,(24,1)),2)"),
    (logical_divide, ["(6,8):(8,1)", "[(3):(1);(4):(1)]"], "(((3),2),((4),2)):(((8),24),((1),4))"),
    (logical_divide, ["(8,8):(8,1)", "32:2"], "((4,8),2):((16,1),8)"),
    (zipped_divide, ["(8,32):(1,8)", "[4:1]"], "((4),(2,32)):((1),(4,8))"),
    (zipped_divide, ["(8,8):(8,1)", "(4,128)"], "((4,128),(2,1)):((8,1),(32,128))"),
    (
        zipped_divide,
        ["((2,(128,16)),(2,4,2)):((1,(2,256)),(4096,8192,32768))", "[_;[2:1;1:1]]"],
        "((2,(2,1)),((128,16),(1,4,2))):((1,(4096,8192)),((2,256),(8192,8192,32768)))",
    ),
    (tiled_divide, ["(6,8):(8,1)", "(3,4)"], "((3,4),2,2):((8,1),24,4)"),
    (flat_divide, ["(?,?):(?,1)", "(128,32)"], "(128,32,?,?):(?,1,?{div=128},32)"),
    # products
    (logical_product, ["3:0", "4:1"], "(3,4):(0,1)"),
    (logical_product, ["3:32", "(8,8):(8,1)"], "(3,((4,2),8)):(32,((8,96),1))"),
    (logical_product, ["4:1", "3"], "(4,3):(1,4)"),
    (blocked_product, ["(4,2):(6,3)", "3:1"], "((4,3),2):((6,1),3)"),
    (raked_product, ["(3,4):(4,1)", "(2,5):(1,2)"], "((2,3),(5,4)):((12,4),(24,1))"),
    (raked_product, ["128:1", "(4,4):(1,4)"], "((4,128),4):((128,1),512)"),
    (
        tile_to_shape,
        ["(8,64):(64,1)", "(64,128,2)"],
        "((8,8),(64,2),(1,2)):((64,512),(1,4096),(0,8192))",
    ),
    (tile_to_shape, ["3:1", "(6,8)"], "((3,2),(1,8)):((1,3),(0,6))"),
    (make_ordered_layout, ["(4,3,?,2)", "(2,1,3,4)"], "(4,3,?,2):(3,1,12,?{div=12})"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "operands", "result"), CASES, ids=[f"{f.__name__}-{o}" for f, o, _ in CASES]
)
def test_result(function, operands, result):
    assert str(function(*map(read, operands))) == result


REFUSED = [
    (composition, ["(4,6,8):(2,3,5)", "6:1"], "unevenly"),
    (composition, ["(8,8):(8,1)", "4:3"], "unevenly"),
    (composition, ["(4,6,8):(2,3,5)", "6:3"], "unevenly"),
    (composition, ["(6,2):(8,2)", "(3,4):(2,3)"], "do not carry"),
    (composition, ["4:1", "[2:1;2:1]"], r"rank\(tiler\) <= rank\(layout\)"),
    (complement, ["(2,2):(2,3)", "12"], "modes that nest"),
    (complement, ["(4,4):(1,2)", "16"], "modes that nest"),
    (complement, ["(3,4):(?,1)", "12"], "static strides"),
    (complement, ["(2,3):(1@0,1@1)", "6"], "expected coordinates of 6"),
    (complement, ["(2,3):(1@0,1@1@0)"], "not both"),
    (complement, ["(2,3):(1@0,1)"], "int strides"),
    (left_inverse, ["(8,4,2):(13,2,1)"], "multiple of the one before"),
    (left_inverse, ["(4,3):(3,?)"], "static strides"),
    (right_inverse, ["(?,3):(3,1)"], "static shape"),
    (logical_divide, ["24:1", "(4,6)"], "rank 2 of .* and rank 1 of 24:1"),
    (logical_divide, ["(12,32):(1,128)", "(4,8):(1,4)"], "divides"),
    (logical_product, ["(2,3):(1,6)", "4:1"], "can repeat"),
    (coalesce, ["(3,(4,5)):(8,(1,4))", "(1,1,1)"], "rank at most 2"),
    (coalesce, ["(4,(2,3)):(1,(4,8))", "((1,1),1)"], r"at mode path \[0\]"),
    (zipped_divide, ["(4,8):(1,4)", "[_;4:1]"], "already where the tiler has _"),
    (tile_to_shape, ["(2,3,4):(1,2,6)", "(8,12)"], "at least the 3 modes"),
    (tile_to_shape, ["(2,2):(1,2)", "(8,12)", "(0,0)"], "permutes"),
]


@pytest.mark.parametrize(
    ("function", "operands", "message"), REFUSED, ids=[f"{f.__name__}-{o}" for f, o, _ in REFUSED]
)
def test_refusal_shows_the_operands(function, operands, message):
    with pytest.raises(LayoutError, match=message) as error:
        function(*map(read, operands))
    assert operands[0] in str(error.value)


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((4, 8), (1,)), ((4, 8), ((1, 2), 4)), (-4, 1), (4.0, 1), ("4", 1), (4, "1"), (True, 1)],
)
def test_bad_layouts_are_refused(shape, stride):
    with pytest.raises(LayoutError) as error:
        Layout(shape, stride)
    for part in (shape, stride):
        leaf = part if not isinstance(part, tuple) else part[0]
        assert str(leaf).replace(" ", "") in str(error.value)


def test_identity_layout_gives_coordinates():
    identity = make_identity_layout((4, (2, 8)))
    assert str(identity) == "(4,(2,8)):(1@0,(1@0@1,1@1@1))"
    assert identity(3, (1, 5)) == (3, (1, 5))
    assert identity.offsets() == [idx2crd(i, (4, (2, 8))) for i in range(64)]


def test_idx2crd_of_a_size_one_mode_with_stride_zero():
    assert idx2crd(5, (1, 8), (0, 1)) == (0, 5)


def test_default_strides_are_compact_and_skip_size_one():
    assert str(Layout((4, (1, 8), 2))) == "(4,(1,8),2):(1,(0,4),32)"
    assert str(parse("(?,8)")) == "(?,8):(1,?)"


def test_slices():
    layout = Layout((4, (2, 8)), (16, (8, 1)))
    assert layout(2, (None, 3)) == Layout(2, 8)
    sub, offset = slice_and_offset((2, (None, 3)), layout)
    assert (str(sub), offset) == ("(2):(8)", 35)
    assert all(sub(i) + offset == layout(2, (i, 3)) for i in range(2))
    with pytest.raises(LayoutError, match="expected a coordinate"):
        layout(1, 2, 3)


def test_tiles_and_partitions_cover_the_layout():
    layout = Layout((16, 24), (24, 1))
    seen = []
    for m in range(4):
        for n in range(3):
            tile, offset = local_tile(layout, (4, 8), (m, n))
            seen += [offset + at for at in tile.offsets()]
    assert sorted(seen) == list(range(16 * 24))
    tile, offset = local_tile(layout, (4, 8, 2), (1, 2, 5), proj=(1, None, 1))
    assert (str(tile), offset) == ("(4,2):(24,1)", 4 * 24 + 10)
    seen = []
    threads = Layout((2, 4), (4, 1))
    for thread in range(8):
        mine, offset = local_partition(layout, threads, thread)
        assert offset == layout(thread // 4, thread % 4)
        seen += [offset + at for at in mine.offsets()]
    assert sorted(seen) == list(range(16 * 24))


def test_group_and_recast():
    assert str(group_modes(Layout((2, 3, 4)), 0, 2)) == "((2,3),4):((1,2),6)"
    assert str(recast(Layout((32, 4), (1, 32)), 8, 32)) == "(8,4):(1,8)"
    assert str(recast(Layout((8, 4), (1, 8)), 32, 8)) == "(32,4):(1,32)"
    smem = parse("S<3,5,4> o 0 o (32,4):(1,32)")
    assert str(recast(smem, 8, 32)) == "S<3,3,4> o 0 o (8,4):(1,8)"
    assert recast(recast(smem, 8, 32), 32, 8) == smem
    with pytest.raises(LayoutError, match="base"):
        recast(Swizzle(3, 0, 3), 8, 32)
    with pytest.raises(LayoutError, match="whole groups of 4"):
        recast(Layout((6, 4), (1, 6)), 8, 32)


def test_max_common_vector_is_the_longest_common_run():
    assert max_common_vector(parse("(4,8):(1,4)"), parse("(4,8):(1,8)")) == 4
    assert max_common_vector(parse("(4,8):(8,1)"), parse("(4,8):(8,1)")) == 32
    assert max_common_vector(parse("(4,8):(8,1)"), parse("(4,8):(1,4)")) == 1

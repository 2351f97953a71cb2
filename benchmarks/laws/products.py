"""Products: a block repeated as another layout says."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, family, known, law

_PRODUCTS = (
    "logical_product", "zipped_product", "tiled_product", "flat_product", "blocked_product",
    "raked_product",
)  # fmt: skip


@family(_PRODUCTS, "{}_has_the_elements_of_the_logical_one")
def _elements(name):
    multiply = getattr(algebra, name)

    def check(case: Case) -> bool | None:
        """As many elements as both have together, at the same offsets."""
        made = known(multiply, case.layout, case.twice)
        whole = case.doubled
        if made is None or whole is None:
            return None
        if made.size() != 2 * case.size:
            return False
        return sorted(defined(made)) == sorted(defined(whole))

    return check


@family(_PRODUCTS, "{}_of_what_is_injective_is_injective")
def _injective(name):
    multiply = getattr(algebra, name)

    def check(case: Case) -> bool | None:
        made = known(multiply, case.layout, case.twice) if case.is_injective else None
        if made is None:
            return None
        offsets = defined(made)
        return len(set(offsets)) == len(offsets)

    return check


@law
def a_product_begins_with_the_block(case: Case) -> bool | None:
    made = known(algebra.logical_product, case.layout, Layout(2))
    return None if made is None else defined(made)[: case.size] == case.offsets


@law
def a_product_has_the_block_as_its_first_mode(case: Case) -> bool | None:
    made = known(algebra.logical_product, case.layout, Layout(3))
    return None if made is None else made[0] == case.layout


@law
def a_product_repeats_the_block(case: Case) -> bool | None:
    """Every repeat has the offsets of the block from where it begins."""
    made = known(algebra.logical_product, case.layout, Layout(3))
    if made is None:
        return None
    offsets, count = defined(made), case.size
    begins = offsets[::count]
    return offsets == [begin + at for begin in begins for at in case.offsets]


@law
def a_product_is_with_the_complement(case: Case) -> bool | None:
    tile = Layout((2, 2), (2, 1))
    made = known(algebra.logical_product, case.layout, tile)
    rest = known(algebra.complement, case.layout, case.size * tile.cosize())
    if made is None or rest is None:
        return None
    return made[1] == algebra.composition(rest, tile)


@law
def a_product_with_one_is_the_block(case: Case) -> bool | None:
    made = known(algebra.logical_product, case.layout, Layout(1, 0))
    return None if made is None else case.same(made)


@law
def the_order_of_repeats_is_that_of_the_tile(case: Case) -> bool | None:
    turned = known(algebra.logical_product, case.layout, Layout((2, 2), (2, 1)))
    plain = known(algebra.logical_product, case.layout, Layout(4))
    if turned is None or plain is None:
        return None
    begins = defined(plain[1])
    return defined(turned[1]) == [begins[at] for at in (0, 2, 1, 3)]


@law
def a_blocked_product_keeps_the_rank(case: Case) -> bool | None:
    made = known(algebra.blocked_product, case.layout, case.twice)
    return None if made is None else len(made) == max(len(case.layout), 1)


@law
def a_blocked_product_has_each_block_together(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = known(algebra.blocked_product, case.layout, case.twice)
    if made is None:
        return None
    return [made(coord) for coord in case.coordinates] == case.offsets


@law
def a_raked_product_has_each_element_of_repeats_together(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = known(algebra.raked_product, case.layout, case.twice)
    if made is None:
        return None
    spread = [made((2 * coord[0], *coord[1:])) for coord in case.coordinates]
    return spread == case.offsets


@law
def a_tiled_product_spreads_the_repeats(case: Case) -> bool | None:
    zipped = case.zipped_product
    if zipped is None:
        return None
    tiled = algebra.tiled_product(case.layout, (2,) * len(case.layout))
    return list(tiled) == [zipped[0], *zipped[1]]


@law
def a_flat_product_spreads_both(case: Case) -> bool | None:
    zipped = case.zipped_product
    if zipped is None:
        return None
    flat = algebra.flat_product(case.layout, (2,) * len(case.layout))
    return list(flat) == [*zipped[0], *zipped[1]]


@law
def a_product_by_mode_is_that_of_each_mode(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = known(algebra.logical_product, case.layout, (2,) * len(case.layout))
    if made is None:
        return None
    return list(made) == [algebra.logical_product(mode, 2) for mode in case.modes]

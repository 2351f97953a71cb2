"""`cute-assign-warp-roles`: every op that does something gets a role from the plan.

A plan (`plans.py`) is rows: which ops a role takes, and its warps. An op has the role of the
first row that takes it, and the warps of rows that take something are laid out: roles of less than
a warpgroup share the first one, those of whole warpgroups follow. Where one thread can issue all
that a role of one warp does, one thread plays it. Where the innermost loop fills several rings by
TMA, each ring has a warp that loads it (`load`, `load_1`, ...), so that no tile waits for a stage
of another's ring. Register tiles that cross roles do so through shared memory
and so do conditions computed from them (`crossings.py`). The kernel
then lists its roles as `name = [first warp, warps, registers, instances]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from cutedialect.allocation import registers_at_entry, registers_of_roles
from cutedialect.atoms import WARP_SIZE, Target, target
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LaunchOp,
    ScheduleAttr,
)
from cutedialect.dialects.cute_nvgpu import Sm90MmaType
from cutedialect.dialects.effects import (
    RMEM,
    Unit,
    effects_of,
    is_in_memory,
    space_of,
    touches_tiles,
    written,
)
from cutedialect.dialects.walks import holds, ops_of, walk
from cutedialect.passes.analysis.memory_views import ordering_atomic, root_of
from cutedialect.passes.analysis.operand_plans import NUMBERS_ROWS
from cutedialect.passes.analysis.resource_plan import most_accumulators
from cutedialect.passes.analysis.ring_edges import depth, edges_of
from cutedialect.passes.analysis.role_plan import (
    ROLES,
    Apart,
    accepts,
    give,
    is_load,
    role_of,
    use_of_copies,
)
from cutedialect.passes.roles.crossings import cross_numbers, cross_tiles, settle_owners
from cutedialect.passes.roles.exchanges import join_exchanges, part_exchanges
from cutedialect.plans import UNIFORM, Plan, RoleRow, plan_of
from cutedialect.schedule import Schedule, replace_set

_GROUP = 4
# Where mbarriers count the bytes that copies bring (PTX ISA 9.7.13.15).
_MEETING = "sm_90+"
# Rows of an accumulator in tensor memory.
_LANES = 128
# What ptxas wants at kernel entry for a wgmma beside its accumulators (seen as C7602).
_BESIDE_ACCUMULATORS = 26


@dataclass(frozen=True)
class Role:
    """Warps `first` to `first + warps - 1`, with so many registers for each thread (0: as many as
    the kernel starts with); `instances` teams of them alternate. With `elect` one thread does all.
    """

    name: str
    first: int
    warps: int
    registers: int
    instances: int = 1
    elect: bool = False


def roles_of(kernel: KernelOp) -> tuple[Role, ...]:
    """The roles that a kernel lists; none where every warp does everything."""
    listed = kernel.attributes.get(ROLES)
    if not isinstance(listed, DictionaryAttr):
        return ()
    ops = _ops_by_role(kernel)
    found: list[Role] = []
    for name, numbers in listed.data.items():
        assert isinstance(numbers, DenseArrayBase)
        role = Role(name, *numbers.get_values())  # pyright: ignore[reportArgumentType]
        elect = role.warps == 1 and _takes_one_thread(ops.get(name, ()))
        found.append(replace(role, elect=elect))
    return tuple(sorted(found, key=lambda role: role.first))


@dataclass(frozen=True)
class AssignWarpRolesPass(ModulePass):
    """Put a `role` on each op with an effect."""

    name = "cute-assign-warp-roles"

    plan: str | None = None

    def __post_init__(self) -> None:
        Schedule(roles=self.plan)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                self._assign(op, kernel)

    def _assign(self, module: ModuleOp, kernel: KernelOp) -> None:
        given = kernel.choices
        plan = self.plan or given.roles or UNIFORM
        rows = plan_of(plan, given.instances).rows
        if given.instances is not None and plan_of(plan).teams == 1:
            raise PassFailedException(
                kernel,
                "expected the role plan alternate with instances = "
                f"{given.instances}, got {plan}; leave instances out",
            )
        has_roles = len(rows) > 1
        exchanges = part_exchanges(kernel) if has_roles else []
        apart = Apart.of(kernel)
        for inner in walk(kernel.body.block):
            if touches_tiles(inner):
                give(next(row.name for row in rows if accepts(row, inner, apart)), inner)
        if not has_roles:
            return
        ordering = ordering_atomic(kernel.body.block)
        if ordering is not None:
            raise PassFailedException(
                ordering,
                f"expected relaxed atomics where warps have roles, got {ordering.modifiers}, which "
                "orders what all of them do; take roles = uniform",
            )
        arch = _arch_of(module)
        has_tensor_memory = arch is not None and arch.tmem_columns > 0
        if arch is not None:
            _check_target(kernel, arch, plan)
        rows = (*rows[:-1], *_split(kernel, rows, has_tensor_memory))
        _check_multiplies(kernel, rows, plan)
        if kernel.threads is None or kernel.schedule is None:
            raise PassFailedException(
                kernel, "expected a block size and a schedule (run cute-tile first), got none"
            )
        settle_owners(kernel)
        if exchanges:
            join_exchanges(exchanges)
        cross_tiles(kernel)
        _list_roles(module, kernel, rows, plan)
        if given.split_loads != "no":
            _part_loads(kernel)
        cross_numbers(kernel, frozenset(row.name for row in rows if row.teams > 1))


def _split(kernel: KernelOp, rows: tuple[RoleRow, ...], has_tensor_memory: bool) -> list[RoleRow]:
    """The rows of the roles that take parts of what the last row takes: ops that share no register
    tile, shared out by how much they touch. The first one keeps the name.
    """
    row = rows[-1]
    if row.parts * row.slices == 1:
        return [row]
    # A tile belongs to who writes it (`settle_owners`).
    ops = [
        op
        for op in walk(kernel.body.block)
        if role_of(op) == row.name and not isinstance(op, AllocFragmentOp)
    ]
    if row.slices > 1:
        return _in_slices(row, ops)
    parts = parts_of(ops)
    if len(parts) < row.parts:
        raise PassFailedException(
            kernel,
            f"expected {row.parts} parts of what '{row.name}' does that share no register tile, "
            f"got {len(parts)}; "
            + (_advice(kernel, rows) if has_tensor_memory else "take roles = specialized"),
        )
    names = [row.name, *(f"{row.name}_{number}" for number in range(1, row.parts))]
    loads = dict.fromkeys(names, 0)
    for part in sorted(parts, key=_work_of, reverse=True):
        name = min(names, key=loads.__getitem__)
        loads[name] += _work_of(part)
        give(name, *part)
    return [replace(row, name=name, parts=1) for name in names]


def _in_slices(row: RoleRow, ops: Sequence[Operation]) -> list[RoleRow]:
    """The rows of the roles that have a slice of what a row takes, the last one all that is left;
    with fewer slices there are fewer roles, and a lone one has the registers that others leave.
    """
    slices = slices_of(ops)
    count = max(1, min(row.slices, len(slices)))
    names = [row.name, *(f"{row.name}_{number}" for number in range(1, count))]
    for number, slice_ in enumerate(slices):
        give(names[min(number, count - 1)], *slice_)
    registers = row.registers if count > 1 else None
    return [replace(row, name=name, slices=1, registers=registers) for name in names]


def parts_of(ops: Sequence[Operation]) -> list[list[Operation]]:
    """Ops by the tiles on the SM that they share, directly or through others, in order of their
    first one: instances of a role can do these parts side by side.
    """
    parts: list[tuple[set[SSAValue], list[Operation]]] = []
    rest: list[Operation] = []
    for op in ops:
        tiles = _tiles(op)
        if not tiles:
            rest.append(op)
            continue
        shared = [part for part in parts if not tiles.isdisjoint(part[0])]
        at = parts.index(shared[0]) if shared else len(parts)
        joined = tiles.union(*(each for each, _ in shared))
        parts = [part for part in parts if part not in shared]
        parts.insert(at, (joined, [*(one for _, ops in shared for one in ops), op]))
    found = [ops for _, ops in parts]
    return [found[0] + rest, *found[1:]] if found else [rest]


def slices_of(ops: Sequence[Operation]) -> list[list[Operation]]:
    """Ops by the last multiply of operands from memory that they depend on, in the order of these
    multiplies: the forward slice of each, which reads tiles of those before and writes none. An op
    that depends on none is with the first one of which something takes what it makes.
    """
    made = {tile for op in ops for tile in _written(op)}
    heads = [
        op
        for op in ops
        if isinstance(op, GemmOp) and made.isdisjoint(root_of(each) for each in (op.a, op.b))
    ]
    # Numbers from 1 on; 0 is none.
    of_ops = dict.fromkeys(ops, 0) | {op: number for number, op in enumerate(heads, 1)}
    of_tiles: dict[SSAValue, int] = {}
    before: dict[SSAValue, int] | None = None
    while of_tiles != before:
        before = dict(of_tiles)
        for op in ops:
            of_ops[op] = max(of_ops[op], *(of_tiles.get(tile, 0) for tile in _tiles(op)), 0)
            of_tiles.update(dict.fromkeys(_written(op), of_ops[op]))
    takers: dict[SSAValue, int] = {}
    for op in reversed(ops):
        of_ops[op] = of_ops[op] or min((takers.get(each, 1) for each in _written(op)), default=1)
        for tile in _tiles(op):
            takers[tile] = min(of_ops[op], takers.get(tile, len(heads)))
    return [[op for op in ops if of_ops[op] == number] for number in range(1, len(heads) + 1)]


def _written(op: Operation) -> set[SSAValue]:
    """The tiles in registers or on the SM that an op makes or writes."""
    return {
        root_of(value) if is_in_memory(value) else value
        for value in (*op.results, *written(op))
        if space_of(value) in (RMEM, "smem", "tmem")
    }


def _tiles(op: Operation) -> set[SSAValue]:
    """The tiles in registers or on the SM that an op touches."""
    return {
        root_of(value) if is_in_memory(value) else value
        for value in (*op.operands, *op.results)
        if space_of(value) in (RMEM, "smem", "tmem")
    }


def _work_of(part: Sequence[Operation]) -> int:
    """How many elements of register tiles the ops of a part touch."""
    types = (value.type for op in part for value in (*op.operands, *op.results))
    return sum(prod(type_.shape) for type_ in types if isinstance(type_, FragmentType))


def _advice(kernel: KernelOp, rows: tuple[RoleRow, ...]) -> str:
    """The nearest plan and tile where a tile's rows cannot be split."""
    parts, nearest, tile = rows[-1].parts, Plan(rows).undivided(), kernel.choices.tile
    if nearest is None:
        return f"take a plan whose role '{rows[-1].name}' is one"
    if tile is None:
        return f"take roles = {nearest}, warps = (4,1)"
    lower = ",".join(map(str, (max(_LANES, tile[0] // parts), *tile[1:])))
    return (
        f"where tensor memory does not hold the accumulators of {parts} parts, the nearest plan is "
        f"roles = {nearest}, tile = ({lower}), warps = (4,1)"
    )


def _ops_by_role(kernel: KernelOp) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for op in walk(kernel.body.block):
        role = role_of(op)
        if role is not None:
            found.setdefault(role, []).append(op)
    return found


def _takes_one_thread(ops: Sequence[Operation]) -> bool:
    """Whether one thread can issue all that some ops do."""
    return all(effects_of(op).unit.takes_one_thread for op in ops)


def _list_roles(module: ModuleOp, kernel: KernelOp, rows: Sequence[RoleRow], plan: str) -> None:
    """Give each row that takes something its warps, and check what they hold together."""
    given = _ops_by_role(kernel)
    ops = {row.name: given.get(row.name, []) for row in rows}
    _check_warps(kernel, rows, ops)
    roles, threads = _placed(kernel, rows, ops)
    _check_registers(kernel, rows, roles, threads)
    _check_accumulators(kernel, threads, roles)
    _write(kernel, roles.values())
    count = IntegerAttr(threads, i32)
    kernel.properties["threads"] = count
    for launch in ops_of(module, LaunchOp):
        if launch.kernel.string_value() == kernel.sym_name.data:
            launch.properties["threads"] = count


def _write(kernel: KernelOp, roles: Iterable[Role]) -> None:
    """Let a kernel list its roles."""
    listed: dict[str, Attribute] = {}
    for role in roles:
        teams = () if role.instances == 1 else (role.instances,)
        numbers = (role.first, role.warps, role.registers, *teams)
        listed[role.name] = DenseArrayBase.from_list(i64, numbers)
    kernel.attributes[ROLES] = DictionaryAttr(listed)


def _placed(
    kernel: KernelOp, rows: Sequence[RoleRow], ops: Mapping[str, Sequence[Operation]]
) -> tuple[dict[str, Role], int]:
    """The roles with their warps, and the threads of all. The first warpgroup has those of fewer
    warps, each at a multiple of its number of warps; what finds no room there comes last of all.
    """
    assert kernel.threads is not None
    computing = kernel.threads.value.data // WARP_SIZE
    narrow, wide = _allocated(kernel, rows)
    counts = {row: row.teams * (row.warps or computing) for row in rows}
    small = [
        row
        for row in rows
        if counts[row] < _GROUP and row.warps is not None and (ops[row.name] or row.fills)
    ]
    roles = _in_first_group(small, ops, counts, narrow)
    first = _GROUP if roles else 0
    for row in [row for row in rows if row not in small and (ops[row.name] or row.takes_rest)]:
        registers = wide if row.registers is None else row.registers
        roles[row.name] = Role(row.name, first, counts[row], registers, row.teams)
        first += counts[row]
    for row in [row for row in small if row.name not in roles]:
        roles[row.name] = Role(row.name, first, counts[row], 0)
        first += counts[row]
    return roles, first * WARP_SIZE


def _in_first_group(
    rows: Sequence[RoleRow],
    ops: Mapping[str, Sequence[Operation]],
    counts: Mapping[RoleRow, int],
    registers: int,
) -> dict[str, Role]:
    """The roles of less than a warpgroup that find room in the first one; one that may grow has
    what others leave that take more than a thread, too.
    """
    shared = [row for row in rows if not _takes_one_thread(ops[row.name])]
    roles: dict[str, Role] = {}
    free = [True] * _GROUP
    for row in rows:
        count = counts[row]
        if row.may_grow and row in shared:
            count = _GROUP - sum(counts[other] for other in shared if other is not row)
        starts = range(0, _GROUP - count + 1, count)
        start = next((at for at in starts if all(free[at : at + count])), None)
        if start is not None:
            free[start : start + count] = [False] * count
            mine = registers if row.registers is None else row.registers
            roles[row.name] = Role(row.name, start, count, mine)
    return roles


def _allocated(kernel: KernelOp, rows: Sequence[RoleRow]) -> tuple[int, int]:
    """Registers of threads of the warpgroup that loads and of those that compute, where the plan
    does not say: of the schedule, or by what they do, which the schedule then says. 0 where they
    have what they start with.
    """
    if sum(not row.is_narrow for row in rows) > 1:
        # Those of a schedule are for one role that computes.
        return 0, 0
    registers = kernel.choices.registers
    if registers is None and holds(kernel, GemmOp):
        registers = registers_of_roles(use_of_copies(kernel))
        if registers is not None and any(row.registers is None for row in rows):
            taken = replace_set(kernel.choices, {"registers": registers})
            kernel.properties["schedule"] = ScheduleAttr(taken)
    return registers or (0, 0)


def _check_registers(
    kernel: KernelOp, rows: Sequence[RoleRow], roles: Mapping[str, Role], threads: int
) -> None:
    """What warpgroups get of the register file is what they start with, together."""
    groups: dict[int, int] = {}
    for each in roles.values():
        for at in range(each.first, each.first + each.warps):
            groups[at // _GROUP] = max(each.registers, groups.get(at // _GROUP, 0))
    ctas = kernel.choices.ctas or 1
    entry = registers_at_entry(threads, ctas)
    pool = entry * threads
    # Warps that ask for none keep what they started with, and others wait for it in vain.
    held = [groups.get(warp // _GROUP, 0) or entry for warp in range(threads // WARP_SIZE)]
    used = WARP_SIZE * sum(held)
    if used > pool:
        shown = ", ".join(f"{each.registers or entry} for {each.name}" for each in roles.values())
        computing = kernel.threads.value.data // WARP_SIZE if kernel.threads is not None else 0
        fewer = [
            *(["fewer warps"] if computing > _GROUP else []),
            *(["fewer registers"] if any(row.registers is None for row in rows) else []),
            *(["ctas = 1"] if ctas > 1 else []),
        ] or ["roles = specialized"]
        raise PassFailedException(
            kernel,
            f"expected at most the {pool} registers in a CTA with which {threads} threads start"
            + (f" where an SM holds {ctas} of them" if ctas > 1 else "")
            + f", got {used}: of a thread {shown}; take {' or '.join(fewer)}",
        )


def _check_warps(
    kernel: KernelOp, rows: Sequence[RoleRow], ops: Mapping[str, Sequence[Operation]]
) -> None:
    """Refuse warps that hold register tiles as other ones would."""
    assert kernel.threads is not None
    computing = kernel.threads.value.data // WARP_SIZE
    for row in rows:
        holding = (
            op
            for op in ops[row.name]
            if any(space_of(value) == RMEM for value in (*op.operands, *op.results))
            and NUMBERS_ROWS not in op.attributes
        )
        found = next(holding, None)
        if row.warps not in (None, computing) and found is not None:
            raise PassFailedException(
                found,
                f"expected the {computing} warps of the schedule in role '{row.name}', which has "
                f"tiles in registers, got {row.warps}",
            )


def _arch_of(module: ModuleOp) -> Target | None:
    arch = module.attributes.get("cute.arch")
    return target(arch.data) if isinstance(arch, StringAttr) else None


def _check_target(kernel: KernelOp, arch: Target, plan: str) -> None:
    """Refuse roles where there is no mbarrier of transactions by which they meet."""
    if not arch.has(_MEETING):
        raise PassFailedException(
            kernel,
            f"expected the role plan {UNIFORM} on {arch.name}, got '{plan}': roles meet at "
            f"mbarriers, which count what copies bring from sm_90 on; take roles = {UNIFORM}",
        )


def _check_multiplies(kernel: KernelOp, rows: Sequence[RoleRow], plan: str) -> None:
    """Refuse multiplies that a plan with several roles cannot have."""
    alternates = any(row.teams > 1 for row in rows)
    for op in ops_of(kernel.body.block, GemmOp):
        if effects_of(op).unit is not Unit.TCGEN05:
            continue
        taken = next((row for row in rows if row.name == role_of(op)), rows[-1])
        if taken.warps != 1:
            raise PassFailedException(
                op,
                "expected a role of one thread that issues multiplies into tensor memory (the role "
                f"plan specialized), got '{plan}'; take roles = specialized",
            )
        if alternates:
            raise PassFailedException(
                op,
                "expected the role plan specialized where multiplies accumulate in tensor memory "
                f"(one warp issues them, and the accumulators alternate), got '{plan}'; take "
                "roles = specialized",
            )


def _part_loads(kernel: KernelOp) -> None:
    """Give each ring that TMA fills a warp of its own, where a loop fills several: what is loaded
    for one then never waits until a stage of another is free. If the loading warpgroup has fewer
    warps left, the first rings share one.
    """
    roles = {role.name: role for role in roles_of(kernel)}
    edges = [edge for edge in edges_of(kernel) if is_load(edge.writers[0])]
    loaders = {edge.producer for edge in edges}
    if [role.name for role in roles.values() if role.elect] != list(loaders):
        return
    deepest = max((depth(edge.block) for edge in edges), default=0)
    if sum(depth(edge.block) == deepest for edge in edges) < 2:
        return
    (loader,) = (roles[name] for name in loaders)
    beside = [role for role in roles.values() if loader.first < role.first < loader.first + _GROUP]
    warps = _GROUP - sum(role.warps for role in beside)
    for number, edge in enumerate(edges):
        warp = max(0, number - max(0, len(edges) - warps))
        if warp:
            name = f"{loader.name}_{warp}"
            roles[name] = replace(loader, name=name, first=loader.first + warp)
            give(name, *edge.writers)
    _write(kernel, roles.values())


def _check_accumulators(kernel: KernelOp, threads: int, roles: Mapping[str, Role]) -> None:
    """A warpgroup's multiply has to fit what the kernel starts with, and all accumulators what the
    role gets.
    """
    entry = registers_at_entry(threads, kernel.choices.ctas or 1)
    for op in ops_of(kernel.body.block, GemmOp):
        if not isinstance(op.atom, Sm90MmaType):
            continue
        atom = op.atom.entry(None)
        assert isinstance(atom, WgmmaAtom)
        needed = atom.registers_c + _BESIDE_ACCUMULATORS
        if needed > entry:
            raise PassFailedException(
                op,
                f"expected at most the {entry} registers with which each of {threads} threads "
                f"starts, got {needed} for {atom.name}; take a narrower tile or fewer warps"
                + (" or ctas = 1" if (kernel.choices.ctas or 1) > 1 else ""),
            )
    for name, ops in _ops_by_role(kernel).items():
        held, where = most_accumulators(kernel, [op for op in ops if isinstance(op, GemmOp)])
        budget = roles[name].registers or entry
        if where is not None and held > budget:
            raise PassFailedException(
                where,
                f"expected accumulators that live at one time in at most {budget} registers of a "
                f"thread, got {held}; take a smaller tile or more warps",
            )

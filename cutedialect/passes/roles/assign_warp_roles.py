"""`cute-assign-warp-roles`: every op that does something gets a role from the plan.

A plan maps kinds of ops to roles, and roles to warps. The plan `uniform` has one role, `main`, held
by every warp: what Ampere's multistage kernels do. In the plan `specialized` a warpgroup of its own
loads (`load`), one warp of it where TMA takes every tile and all four where threads copy some, and
the warps of the schedule do the rest (`main`): together on one tile, which they divide, or, in the
plan `alternate`, as several teams that take work items in turns. Where multiplies want an operand
transposed or converted in shared memory, the last warps of the loading warpgroup do that
(`prepare`). Multiplies into tensor memory have a warp of their own (`mma`), one thread of which
issues them: the roles that compute only read what they made. Where the innermost loop fills several
rings by TMA, each ring has a warp that loads it (`load`, `load_1`, ...), so that no tile waits for
a stage of another's ring. The kernel then lists its roles as `name = [first warp, warps, registers,
instances]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects.cute import (
    ClaimOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LaunchOp,
)
from cutedialect.dialects.cute_nvgpu import (
    Sm80MmaType,
    Sm90MmaType,
    Sm100MmaType,
    TmaLoadType,
    TmaPrefetchOp,
)
from cutedialect.passes.roles.resource_plan import most_accumulators
from cutedialect.passes.synchronize.ring_edges import MAIN, depth, edges_of, is_load, is_preparing

PLANS = ("uniform", "specialized", "alternate")
ROLES = "roles"
"""The kernel's attribute with its roles, where it has more than one."""
LOAD = "load"
PREPARE = "prepare"
MULTIPLY = "mma"
"""The role of multiplies that one thread issues, into tensor memory."""
PREPARING_WARPS = 2
"""The last warps of the loading warpgroup, where operands take a second step in shared memory."""
_GROUP = 4
_WARP = 32
_REGISTER_FILE = 65536
# What ptxas wants at kernel entry for a wgmma beside its accumulators (seen as C7602).
_BESIDE_ACCUMULATORS = 26


@dataclass(frozen=True)
class Role:
    """Warps `first` to `first + warps - 1`, with so many registers for each thread (0: as many as
    the kernel starts with); `instances` teams of them alternate.
    """

    name: str
    first: int
    warps: int
    registers: int
    instances: int = 1


def roles_of(kernel: KernelOp) -> tuple[Role, ...]:
    """The roles that a kernel lists; none where every warp does everything."""
    listed = kernel.attributes.get(ROLES)
    if not isinstance(listed, DictionaryAttr):
        return ()
    found: list[Role] = []
    for name, numbers in listed.data.items():
        assert isinstance(numbers, DenseArrayBase)
        found.append(Role(name, *numbers.get_values()))  # pyright: ignore[reportArgumentType]
    return tuple(sorted(found, key=lambda role: role.first))


@dataclass(frozen=True)
class AssignWarpRolesPass(ModulePass):
    """Put a `role` on each op with an effect."""

    name = "cute-assign-warp-roles"

    plan: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp):
                continue
            scheduled = kernel.schedule.data.roles if kernel.schedule is not None else None
            plan = self.plan or scheduled or "uniform"
            if plan not in PLANS:
                raise PassFailedException(
                    kernel, f"expected a role plan ({', '.join(PLANS)}), got '{plan}'"
                )
            instances = kernel.schedule.data.instances if kernel.schedule is not None else None
            if instances is not None and plan != "alternate":
                raise PassFailedException(
                    kernel,
                    f"expected the role plan alternate with instances = {instances}, got {plan}",
                )
            if plan != "uniform":
                _list_roles(op, kernel, plan)
            for inner in kernel.body.block.walk():
                if _does_something(inner):
                    role = MAIN if plan == "uniform" else _role_of(inner)
                    inner.attributes["role"] = StringAttr(role)
            _part_loads(kernel)


def _does_something(op: Operation) -> bool:
    """Whether an op has an effect or works on a register tile: scalar code is every role's, and so
    is the next work item.
    """
    if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp | ClaimOp):
        return False
    values = (*op.operands, *op.results)
    return not is_side_effect_free(op) or any(
        isinstance(value.type, FragmentType) for value in values
    )


def _role_of(op: Operation) -> str:
    """The role of an op in a plan with several."""
    if is_load(op) or isinstance(op, TmaPrefetchOp):
        return LOAD
    if isinstance(op, GemmOp) and isinstance(op.atom, Sm100MmaType):
        return MULTIPLY
    return PREPARE if is_preparing(op) else MAIN


def _list_roles(module: ModuleOp, kernel: KernelOp, plan: str) -> None:
    """Give the kernel a warpgroup for loading before those that compute."""
    if kernel.threads is None or kernel.schedule is None:
        raise PassFailedException(
            kernel, "expected a block size and a schedule (run cute-tile first), got none"
        )
    instances = kernel.schedule.data.instances or 2 if plan == "alternate" else 1
    computing = kernel.threads.value.data * instances
    groups = -(-computing // (_GROUP * _WARP))
    registers = kernel.schedule.data.registers or (0, 0)
    used = _GROUP * _WARP * (registers[0] + groups * registers[1])
    threads = _GROUP * _WARP + computing
    pool = _entry_registers(threads) * threads
    if used > pool:
        raise PassFailedException(
            kernel,
            f"expected at most the {pool} registers in a CTA with which {threads} threads start, "
            f"got {used}: {registers[0]} for each loading thread and {registers[1]} for each of "
            f"{groups} warpgroups",
        )
    for op in kernel.body.block.walk():
        if isinstance(op, GemmOp) and isinstance(op.atom, Sm80MmaType):
            raise PassFailedException(
                op,
                f"expected multiplies by warpgroups (wgmma) in the role plan '{plan}', got "
                "mma.sync; take warps = (4,1) on sm_90a where the operands allow it, or the plan "
                "uniform",
            )
        if instances > 1 and _role_of(op) == MULTIPLY:
            raise PassFailedException(
                op,
                "expected the role plan specialized where multiplies accumulate in tensor memory "
                f"(one warp issues them, and the accumulators alternate), got '{plan}'",
            )
    by_threads = any(
        is_load(op) and not isinstance(op.atom, TmaLoadType)  # pyright: ignore[reportAttributeAccessIssue]
        for op in kernel.body.block.walk()
    )
    preparing = PREPARING_WARPS if any(map(is_preparing, kernel.body.block.walk())) else 0
    multiplies = any(_role_of(op) == MULTIPLY for op in kernel.body.block.walk())
    loading = _GROUP - preparing if by_threads else 1
    roles: dict[str, tuple[int, ...]] = {
        LOAD: (0, loading, registers[0]),
        MAIN: (_GROUP, computing // _WARP, registers[1]),
    }
    if preparing:
        roles[PREPARE] = (_GROUP - preparing, preparing, registers[0])
    if multiplies:
        # Beside the loading warps where there is room, else behind all others.
        last = threads // _WARP
        free = loading + preparing < _GROUP
        roles[MULTIPLY] = (loading, 1, registers[0]) if free else (last, 1, 0)
        threads += 0 if free else _WARP
    if instances > 1:
        roles[MAIN] += (instances,)
    _check_accumulators(kernel, threads, registers[1])
    kernel.attributes[ROLES] = DictionaryAttr(
        {name: DenseArrayBase.from_list(i64, numbers) for name, numbers in roles.items()}
    )
    count = IntegerAttr(threads, i32)
    kernel.properties["threads"] = count
    for launch in module.walk():
        if isinstance(launch, LaunchOp) and launch.kernel.string_value() == kernel.sym_name.data:
            launch.properties["threads"] = count


def is_elected(role: str, warps: int) -> bool:
    """Whether one thread of a role does all of its work."""
    return (is_loading(role) and warps == 1) or role == MULTIPLY


def is_of_pair(op: Operation) -> bool:
    """Whether an op is a multiply of a CTA pair."""
    atom = op.atom if isinstance(op, GemmOp) else None
    return isinstance(atom, Sm100MmaType) and atom.cta_group == 2


def is_loading(role: str) -> bool:
    """Whether a role brings tiles from global memory."""
    return role == LOAD or role.startswith(f"{LOAD}_")


def _part_loads(kernel: KernelOp) -> None:
    """Give each ring that TMA fills a warp of its own, where a loop fills several: what is loaded
    for one then never waits until a stage of another is free. If the loading warpgroup has fewer
    warps left, the first rings share one.
    """
    roles = {role.name: role for role in roles_of(kernel)}
    assert kernel.schedule is not None
    if LOAD not in roles or roles[LOAD].warps > 1 or kernel.schedule.data.split_loads == "no":
        return
    edges = [edge for edge in edges_of(kernel) if edge.producer == LOAD]
    deepest = max((depth(edge.block) for edge in edges), default=0)
    if sum(depth(edge.block) == deepest for edge in edges) < 2:
        return
    if MULTIPLY in roles:
        return
    warps = _GROUP - (roles[PREPARE].warps if PREPARE in roles else 0)
    listed = kernel.attributes[ROLES]
    assert isinstance(listed, DictionaryAttr)
    data = dict(listed.data)
    for number, edge in enumerate(edges):
        warp = max(0, number - max(0, len(edges) - warps))
        if not warp:
            continue
        name = f"{LOAD}_{warp}"
        data[name] = DenseArrayBase.from_list(i64, (warp, 1, roles[LOAD].registers))
        for writer in edge.writers:
            writer.attributes["role"] = StringAttr(name)
    kernel.attributes[ROLES] = DictionaryAttr(data)


def _entry_registers(threads: int) -> int:
    """Registers of each thread before any `setmaxnreg`: what a CTA's threads share from then on."""
    return min(255, _REGISTER_FILE // threads) // 8 * 8


def _check_accumulators(kernel: KernelOp, threads: int, registers: int) -> None:
    """A warpgroup's multiply has to fit what the kernel starts with, and all accumulators what the
    role gets.
    """
    entry = _entry_registers(threads)
    budget = registers or entry
    for op in kernel.body.block.walk():
        if not isinstance(op, GemmOp) or not isinstance(op.atom, Sm90MmaType):
            continue
        atom = op.atom.entry(None)
        assert isinstance(atom, WgmmaAtom)
        needed = atom.registers_c + _BESIDE_ACCUMULATORS
        if needed > entry:
            raise PassFailedException(
                op,
                f"expected at most the {entry} registers with which each of {threads} threads "
                f"starts, got {needed} for {atom.name}; take a narrower tile or fewer warps",
            )
    held, where = most_accumulators(kernel)
    if held > budget:
        assert where is not None
        raise PassFailedException(
            where,
            f"expected accumulators that live at one time in at most {budget} registers of a "
            f"thread, got {held}; take a smaller tile or more warps",
        )

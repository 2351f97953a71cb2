"""`Schedule`: the choices in which two versions of one kernel differ, as data with a text form.

Nothing here knows IR; the passes read the fields, the cache hashes the text.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args

from cutedialect.choices import (
    PLANS,
    Epilogue,
    Loads,
    Maxima,
    Order,
    Overlap,
    Reduction,
    Roles,
    Scheduler,
    Switch,
)
from cutedialect.plans import Plan, plan_of

if TYPE_CHECKING:
    from cutedialect.atoms.tiled_mma import TiledMma


class ScheduleError(ValueError):
    """A schedule that names an unknown field or gives a field an impossible value."""

    code = "CD-SCHEDULE"


class Choices(TypedDict, total=False):
    """The fields of a schedule, as keywords."""

    tile: tuple[int, ...] | None
    warps: tuple[int, int] | tuple[int, int, int] | None
    cluster: tuple[int, int] | None
    stages: int | None
    ring_stages: tuple[int, ...] | None
    atom: str | None
    mma: TiledMma | str | None
    roles: Roles | str | None
    instances: int | None
    ctas: int | None
    registers: tuple[int, int] | None
    scheduler: Scheduler | None
    raster: int | None
    order: Order | None
    overlap: Overlap | None
    split_loops: Switch | None
    unroll: int | None
    loads: Loads | None
    split_loads: Switch | None
    maxima: Maxima | None
    polynomials: tuple[int, int] | None
    swap_ab: Switch | None
    split_k: int | None
    reduction: Reduction | None
    epilogue: Epilogue | None
    early_launch: Switch | None


@dataclass(frozen=True, init=False)
class Schedule:
    """How a kernel is mapped to the machine; `None` leaves a choice to the heuristic.

    tile: CTA tile (M, N, K) of the matrix multiply, or the tile of the kernel's work item.
    warps: grid of warps over (M, N) of the CTA tile; their product times 32 is the block size. With
        a third number so many share the depth, by the `mma` that it and `atom` make.
    cluster: CTAs per cluster (M, N).
    stages: buffers in the ring that hides the latency of global memory.
    ring_stages: those of each ring of its own, in the order in which the program loads them first,
        with 0 for what is left to `stages`: of attention those of Q, K and V.
    atom: name of the MMA atom.
    mma: a `TiledMma` or its text: atom, warps and the tile over which they repeat, with the
        interleaving that it names. It says `warps` too, where those along K count along N, and what
        else names them has to agree.
    roles: role plan of `cute-assign-warp-roles`: "uniform", every warp does everything;
        "specialized", a warp that loads and `warps` that compute; "alternate", a warp that loads
        and `instances` teams of `warps` that take work items in turns (ping-pong); "pipelined",
        two teams of `warps`, each with what follows from a multiply of operands from memory, of
        which the second goes on with what the first computes; "reduced", "specialized" with as
        many warps as compute that add tiles of tensor memory to memory; "shifting", a
        warpgroup that copies operands whose rows begin at any element, and one that shifts them
        into place; "corrected", a warpgroup beside those that compute corrects accumulators in
        tensor memory; "split", the same with two roles that compute, each half of a tile's rows;
        or a plan of its own, "(load 1: loads; mma 4 @152: multiplies; main 4 @216: rest)".
    instances: how many teams alternate.
    ctas: how many CTAs an SM is to hold at a time: threads get no more registers than that allows,
        unless some of them would have to live in memory, and stages no more shared memory. Those
        that stay (`scheduler`) are as many on each SM, unless they wait for others' sums.
    registers: for each thread of (the loading warpgroup, the computing ones).
    scheduler: "single", a CTA for each tile, "persistent", CTAs that stay and walk over tiles,
        "dynamic", CTAs that stay and take the next tile whenever they are done with one, "cancel",
        the same of a grid with a CTA for each tile, whose launch is canceled if it has not begun
        (from sm_100 on), "stream", CTAs that stay and take equal shares of all steps along K of
        all tiles; those that meet in a tile share it as with split_k, or "tail", as persistent, but
        split_k CTAs share each of the tiles that do not fill the last round.
    raster: how many tiles (clusters) of M are walked before N advances (L2 reuse).
    order: how the bands of so many tiles are walked: "columns", all of them forward, "snake", every
        other one backward, or "hilbert", squares of the power of two in `raster` along Hilbert
        curves. "sections": rows are all modes but the last one that is tiled, so that a band is a
        section of heads of attention. "tall": one band of all of M up to 192 tiles, else bands
        of 16; "short": all of M up to 192 tiles, else all of M or N, whichever is fewer tiles.
        "memory": tiles follow each other as they lie in memory, whatever the order of the modes is.
    overlap: "yes" lets a multiply that takes what is computed from another's result work one trip
        later, while that is computed; with "turns" warpgroups also issue theirs one after the
        other, and roles that share the rows of a tile ("split") compute exponentials in turns.
    split_loops: "yes" makes loops of their own of the first or last trips of a loop of multiplies
        that take a branch, such as that around a mask.
    unroll: with 2 a loop whose trips end with copies of register tiles, which a warpgroup multiply
        of the next trip reads, has two trips in one: tiles of even and odd ones take turns. With
        "yes" for overlap that is also so for accumulators that a trip makes and computes on, as
        sums of fp8 with scales of blocks: the next trip's multiplies work beside that.
    loads: "threads" lets a warpgroup bring operands to shared memory by asynchronous copies of 16
        bytes where TMA could: rows that begin at odd multiples of 16 bytes come faster so.
    split_loads: "no" lets one thread load what TMA loads in a loop, in the order of the program;
        else each operand with a ring of its own has a loading warp of its own.
    maxima: what the exponentials of an online softmax count from: "exact", the largest score of the
        row so far, "lazy", one that is less by up to 2^8 (2^64 in bf16), or what the row
        has added up, or "guessed", that of the blocks before, unless they are too large.
    polynomials: (share, degree): of each 16 exponentials of a tile that a thread computes, so many
        (0 to 16) are polynomials of degree 3 (relative error 2^-13), 4 (2^-18) or 5 (2^-22.5) on
        the units that multiply and add, beside the one for special functions.
    swap_ab: "yes" computes the transposed product B^T A^T: few rows become few columns.
    split_k: CTAs that share one output tile: each sums a part of K, and the last one that is done
        adds the parts and goes on with the sum.
    reduction: how the parts of a shared tile are added: "ordered", one after the other, so that
        equal calls give equal bits, "atomic", as they come, or "cluster", in order, too: the CTAs
        that share a tile are a cluster, send each other their sums through shared memory, and go on
        with a part of the columns each. In a program without a multiply the CTAs of a "cluster"
        share the rows that are reduced.
    epilogue: "direct" stores from the accumulator's layout, "smem" through shared memory, "tma"
        through shared memory by TMA.
    early_launch: "yes" lets CTAs start while the launch in front of theirs still ends: they make
        their barriers, and touch global memory once that launch is done (programmatic dependent
        launch, from sm_90 on).
    """

    tile: tuple[int, ...] | None = None
    warps: tuple[int, int] | None = None
    cluster: tuple[int, int] | None = None
    stages: int | None = None
    ring_stages: tuple[int, ...] | None = None
    atom: str | None = None
    mma: str | None = None
    roles: Roles | str | None = None
    instances: int | None = None
    ctas: int | None = None
    registers: tuple[int, int] | None = None
    scheduler: Scheduler | None = None
    raster: int | None = None
    order: Order | None = None
    overlap: Overlap | None = None
    split_loops: Switch | None = None
    unroll: int | None = None
    loads: Loads | None = None
    split_loads: Switch | None = None
    maxima: Maxima | None = None
    polynomials: tuple[int, int] | None = None
    swap_ab: Switch | None = None
    split_k: int | None = None
    reduction: Reduction | None = None
    epilogue: Epilogue | None = None
    early_launch: Switch | None = None

    def __init__(self, **choices: Unpack[Choices]) -> None:
        # Of the others the class has the default: hundreds are made where one is chosen.
        for name, value in choices.items():
            if name not in Choices.__annotations__:
                known = sorted(Choices.__annotations__)
                import difflib

                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise ScheduleError(
                    f"expected a schedule field ({', '.join(known)}), got '{name}'{hint}"
                )
            object.__setattr__(self, name, _checked(name, value))
        warps = choices.get("warps")
        if warps is not None and len(warps) == 3:
            self._slice_depth(warps)
        if self.mma is not None:
            self._take_warps(self.mma)

    def _take_warps(self, text: str) -> None:
        """The warps of a TiledMMA, with which the other fields have to agree."""
        from cutedialect.atoms.tiled_mma import TiledMma

        mma = TiledMma.parse(text)
        for name, *wanted in (("atom", mma.atom), ("warps", mma.warps, mma.grid)):
            given = getattr(self, name)
            if given not in (None, *wanted):
                raise ScheduleError(
                    f"expected {name} and mma to agree, got {name} = {given} and mma = {mma}, "
                    f"which has {wanted[0]}; leave {name} out"
                )
        object.__setattr__(self, "warps", mma.grid)

    def _slice_depth(self, warps: tuple[int, int, int]) -> None:
        """Warps over M, N and K: those of the TiledMMA of an atom that has to be named."""
        from cutedialect.atoms.tiled_mma import TiledMma

        if self.mma is None and warps[2] > 1:
            if self.atom is None:
                raise ScheduleError(
                    f"expected the atom beside warps along K, got warps = {warps} alone; add "
                    "atom = 'mma_m16n8k16_f32_f16' or another one of mma.sync, or name it all: "
                    f"mma = (mma_m16n8k16_f32_f16; {warps})"
                )
            object.__setattr__(self, "mma", _checked("mma", TiledMma(self.atom, warps)))
        if self.mma is None:
            object.__setattr__(self, "warps", warps[:2])

    @property
    def multiply(self) -> str | None:
        """The atom or the TiledMMA that is asked for."""
        return self.mma or self.atom

    @property
    def plan(self) -> Plan:
        """The role plan: the rows of `roles`, with as many teams as `instances` says where teams
        take turns. Where it is open, all warps do all.
        """
        return plan_of(self.roles, self.instances)

    def agrees(self, other: Schedule, name: str) -> bool:
        """Whether a field is that of another schedule: of roles, whether they are one plan, by its
        name or by its rows.
        """
        if name == "roles" and None not in (self.roles, other.roles):
            return self.plan == other.plan
        return getattr(self, name) == getattr(other, name)

    @property
    def is_complete(self) -> bool:
        """Whether it is what a kernel prints: each field that a default fills in has a value, so
        that those without one are not wanted.
        """
        filled = self.warps, self.stages, self.roles, self.scheduler, self.raster, self.epilogue
        return None not in filled

    @property
    def is_uniform(self) -> bool:
        """Whether a role plan is chosen, and one in which all warps do all."""
        return self.roles is not None and self.plan.loads is None

    @property
    def may_specialize(self) -> bool:
        """Whether the role plan is open, or one in which one role computes that others serve."""
        return self.roles is None or self.plan.is_specialized

    @property
    def leaves_multiplies(self) -> bool:
        """Whether the atom, the warps, and how operands come are left open."""
        return all(each is None for each in (self.multiply, self.warps, self.loads, self.roles))

    @property
    def overlaps_multiplies(self) -> bool:
        """Whether a multiply of another's result works one trip later."""
        return self.overlap in ("yes", "turns")

    @property
    def shares_tiles(self) -> bool:
        """Whether CTAs share the sums of a tile."""
        return (self.split_k or 1) > 1 or self.scheduler == "stream"

    @property
    def adds_in_order(self) -> bool:
        """Whether a CTA loads the sums of others to add them to its own."""
        return self.shares_tiles and self.reduction not in ("atomic", "cluster")

    @property
    def shares_in_cluster(self) -> bool:
        """Whether the CTAs that share a tile are a cluster."""
        return self.reduction == "cluster" and (self.split_k or 1) > 1

    @property
    def ctas_of_cluster(self) -> int:
        """CTAs of a cluster: those that multicast, or those that share a tile through it."""
        if self.shares_in_cluster:
            return self.split_k or 1
        cluster = self.cluster or (1, 1)
        return cluster[0] * cluster[1]

    def text(self) -> str:
        """The fields that are set, as `tile = (128,128,32), warps = (2,2)`."""
        parts: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            shown = str(value).replace(" ", "") if isinstance(value, tuple) else value
            parts.append(f"{field.name} = {shown}")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"#cute.schedule<{self.text()}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """In a notebook: the fields that are set."""
        from cutedialect.notebook import bundle, table

        values = {field.name: getattr(self, field.name) for field in fields(self)}
        chosen = {name: value for name, value in values.items() if value is not None}
        return bundle(str(self), table(chosen) if chosen else "<i>all left to the heuristic</i>")

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read what `text` or `str` gave.

        >>> Schedule.parse("tile = (128,128,32), stages = 3").stages
        3
        """
        body = text.strip()
        if body.startswith("#cute.schedule<") and body.endswith(">"):
            body = body[len("#cute.schedule<") : -1].strip().strip('"')
        choices: dict[str, Any] = {}
        for part in _split(body):
            name, equals, value = part.partition("=")
            if not equals:
                raise ScheduleError(f"expected 'field = value', got '{part.strip()}'")
            value = value.strip()
            try:
                parsed = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                parsed = value
            choices[name.strip()] = parsed
        return Schedule(**choices)

    def merged(self, other: Schedule | None) -> Schedule:
        """This schedule with the fields that `other` sets."""
        if other is None:
            return self
        return replace_set(self, {k: v for k, v in vars(other).items() if v is not None})


def replace_set(schedule: Schedule, choices: dict[str, Any]) -> Schedule:
    """`schedule` with `choices` on top."""
    made = vars(schedule) | choices
    return Schedule(**{k: v for k, v in made.items() if v is not None})


SHARES = 16
"""Of how many values of a thread the share of `polynomials` is."""
DEGREES = (3, 4, 5)
"""The degrees of `polynomials`."""
_TUPLES = {"tile": (1, 2, 3, 4, 5), "warps": (2, 3), "cluster": (2,), "registers": (2,)}
_COUNTS = {"stages": 16, "instances": 3, "ctas": 32, "raster": 64, "unroll": 2, "split_k": 256}
_WORDS = {
    "roles": PLANS,
    "scheduler": get_args(Scheduler),
    "reduction": get_args(Reduction),
    "order": get_args(Order),
    "overlap": get_args(Overlap),
    "split_loops": get_args(Switch),
    "loads": get_args(Loads),
    "split_loads": get_args(Switch),
    "maxima": get_args(Maxima),
    "swap_ab": get_args(Switch),
    "epilogue": get_args(Epilogue),
    "early_launch": get_args(Switch),
}


def _checked(name: str, value: object) -> object:
    """A field's value, or in the form in which it is kept."""
    return None if value is None else _CHECKS.get(name, _string)(name, value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tuple(name: str, value: object) -> object:
    ok = isinstance(value, tuple) and all(_is_count(each) and each > 0 for each in value)
    if not ok or len(value) not in _TUPLES[name]:  # type: ignore[arg-type]
        raise ScheduleError(f"expected {name} to be a tuple of positive ints, got {value!r}")
    return value


def _counts(name: str, value: object) -> object:
    most = _COUNTS["stages"]
    ok = isinstance(value, tuple) and value and all(map(_is_count, value))
    if not ok or not all(0 <= each <= most for each in value):  # type: ignore[union-attr]
        raise ScheduleError(f"expected {name} to be a tuple of ints in 0..{most}, got {value!r}")
    return value


def _tiled_mma(name: str, value: object) -> object:
    from cutedialect.atoms.tiled_mma import TiledMma

    try:
        return str(value if isinstance(value, TiledMma) else TiledMma.parse(str(value)))
    except ValueError as error:
        raise ScheduleError(f"{name}: {error}") from None


def _share(name: str, value: object) -> object:
    ok = isinstance(value, tuple) and len(value) == 2 and all(map(_is_count, value))
    if not ok or not 0 <= value[0] <= SHARES or value[1] not in DEGREES:  # type: ignore[index]
        raise ScheduleError(
            f"expected {name} to be (share, degree), of 0..{SHARES} and {DEGREES[0]}.."
            f"{DEGREES[-1]}, got {value!r}"
        )
    return value


def _count(name: str, value: object) -> object:
    if not _is_count(value) or not 1 <= value <= _COUNTS[name]:  # type: ignore[operator]
        raise ScheduleError(f"expected {name} to be an int in 1..{_COUNTS[name]}, got {value!r}")
    return value


def _roles(name: str, value: object) -> object:
    """A plan by its name or as its own text."""
    if not (isinstance(value, str) and value.startswith("(") and value.endswith(")")):
        return _word(name, value)
    try:
        plan_of(value)
    except ValueError as error:
        raise ScheduleError(str(error)) from None
    return value


def _word(name: str, value: object) -> object:
    if value not in [*_WORDS[name]]:
        import difflib

        near = difflib.get_close_matches(str(value), _WORDS[name], 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ScheduleError(
            f"expected {name} to be one of {', '.join(_WORDS[name])}, got {value!r}{hint}"
        )
    return _string(name, value)


def _string(name: str, value: object) -> object:
    if not isinstance(value, str):
        raise ScheduleError(f"expected {name} to be a string, got {value!r}")
    return value


# How each kind of field is checked; other fields are strings.
_CHECKS: dict[str, Callable[[str, object], object]] = {
    **dict.fromkeys(_TUPLES, _tuple),
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_WORDS, _word),
    "roles": _roles,
    "mma": _tiled_mma,
    "polynomials": _share,
    "ring_stages": _counts,
}


def _split(body: str) -> list[str]:
    """Split at commas outside of parentheses."""
    parts: list[str] = []
    depth = 0
    start = 0
    for at, char in enumerate(body):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(body[start:at])
            start = at + 1
    parts.append(body[start:])
    return [part for part in parts if part.strip()]

"""Rows and sums of what was found of pairs, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from .assembly import ALIKE, OTHER
from .pairs import DIFFERENT, GONE, NEW, Pair
from .turns import TOLERANCE

# The least ratio of the base's time to this tree's that passes.
LEAST = 0.97
_FAILURES = "failure", "not read", "not timed", "not predicted"
_COUNTED = ("registers", "spills", "instructions", "loop")


def row(pair: Pair) -> str:
    """A pair that differs, with what is known of it."""
    figures = pair.figures
    said: list[str] = [figures["alike"]] if "alike" in figures else []
    for name in _COUNTED:
        old, new = figures.get(name, (0, 0))
        if old != new:
            said.append(f"{name} {old} -> {new}")
    if "predicted" in figures:
        said.append(f"predicted {predicted(pair):.3f}")
    if "ratio" in figures:
        old, new = figures["us"]
        said.append(f"{old:.2f} -> {new:.2f} us, {figures['ratio']:.3f}")
        said.append(
            f"results {figures['deviation']:.1e} apart" if figures["deviation"] else "equal"
        )
    said += [f"{name}: {figures[name]}" for name in _FAILURES if name in figures]
    own = "" if pair.is_own else " (the base compiles the program of this tree)"
    return f"{'MISSED ' if missed(pair) else ''}{pair.title}{own}: {', '.join(said)}"


def change(pair: Pair) -> float:
    """How much the machine code of a pair that differs changed: of instructions and registers."""
    apart = 0.0
    for name in _COUNTED:
        old, new = pair.figures.get(name, (0, 0))
        apart += abs(new - old) / max(old, 1)
    return apart + (pair.figures.get("alike") == OTHER)


def predicted(pair: Pair) -> float:
    """The predicted time of the base's kernel over that of this tree's."""
    old, new = pair.figures["predicted"]
    return old / new


def missed(pair: Pair) -> bool:
    """Whether this tree's kernel is slower, by a device or else by the model, or wrong, or spills
    more.
    """
    figures = pair.figures
    if "ratio" in figures:
        return figures["ratio"] < LEAST or figures["deviation"] > TOLERANCE
    if "predicted" in figures and predicted(pair) < LEAST:
        return True
    old, new = figures.get("spills", (0, 0))
    return new > old


def summary(pairs: Sequence[Pair]) -> Iterator[str]:
    """Counts of pairs that differ, and means of ratios above 1 where this tree is faster."""
    different = [pair for pair in pairs if pair.state == DIFFERENT]
    counts = Counter(pair.figures["alike"] for pair in different if "alike" in pair.figures)
    if counts:
        yield f"of {len(different)} that differ " + ", ".join(
            f"{counts[alike]} are {alike}" for alike in ALIKE if counts[alike]
        )
    for what, ratios in (
        ("predicted", {p.title: predicted(p) for p in different if "predicted" in p.figures}),
        ("timed", {p.title: p.figures["ratio"] for p in different if "ratio" in p.figures}),
    ):
        if ratios:
            yield _means(f"{len(ratios)} {what}, of the base's time over this tree's", ratios)
    for target in dict.fromkeys(pair.target for pair in pairs):
        mine = [p for p in pairs if p.target == target and "before check" in p.figures]
        if mine:
            yield _compilations(target, mine)


def _compilations(target: str, pairs: Sequence[Pair]) -> str:
    """Ratios of processor time, and what the check adds."""
    before = {pair.title: pair.figures["before check"] for pair in pairs}
    whole = [
        sum(both) / sum(pair.figures["before check"][side] for pair in pairs)
        for side, both in enumerate(zip(*(pair.figures["check"] for pair in pairs), strict=True))
    ]
    ratios = {title: new / old for title, (old, new) in before.items()}
    old, new = (sum(side) for side in zip(*before.values(), strict=True))
    most = max(ratios, key=lambda title: ratios[title])
    return (
        f"{len(pairs)} compilations for {target} without the check: {old:.0f} -> {new:.0f} ms, "
        f"mean of ratios {geometric_mean(ratios.values()):.3f}, most {ratios[most]:.3f} ({most}); "
        f"the check adds {100 * whole[0]:.1f} % -> {100 * whole[1]:.1f} %"
    )


def _means(what: str, ratios: dict[str, float]) -> str:
    least = min(ratios, key=lambda title: ratios[title])
    return (
        f"{what}: mean {geometric_mean(ratios.values()):.3f}, least {ratios[least]:.3f} ({least})"
    )


def alone(pairs: Sequence[Pair]) -> Iterator[str]:
    """Kernels that one tree alone compiles, by why the other one does not."""
    for state in (NEW, GONE):
        reasons = Counter(pair.why or "no such case" for pair in pairs if pair.state == state)
        for why, count in reasons.most_common():
            yield f"{state}: {count}, {why}"

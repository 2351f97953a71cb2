"""`python -m cutedialect.atoms` prints the tables of atoms and targets as markdown."""

from __future__ import annotations

import sys

from cutedialect.atoms import copy, mma, target, targets


def _table(head: str, rows: list[tuple[object, ...]]) -> list[str]:
    names = head.split()
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    return lines + [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]


def render() -> str:
    """The three tables: MMA atoms, copy atoms, targets."""
    mmas = _table(
        "name PTX requires A B C",
        [(a.name, f"`{a.ptx}`", a.requires, a.a_text, a.b_text, a.c_text) for a in mma()],
    )
    copies = _table(
        "name PTX requires bits alignment source destination",
        [
            (a.name, f"`{a.ptx}`", a.requires, a.bits, a.alignment, a.src_text, a.dst_text)
            for a in copy()
        ],
    )
    chips = _table(
        "target PTX smem/CTA smem/SM threads/SM CTAs/SM cluster TMEM",
        [
            (
                chip.name,
                ".".join(map(str, chip.ptx_version)),
                chip.smem_per_cta,
                chip.smem_per_sm,
                chip.max_threads_per_sm,
                chip.max_ctas_per_sm,
                chip.max_cluster,
                chip.tmem_columns,
            )
            for chip in map(target, targets())
        ],
    )
    parts = ["# MMA atoms", "", *mmas, "", "# Copy atoms", "", *copies, "", "# Targets", "", *chips]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())

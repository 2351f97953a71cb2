"""PTX versions: the lowest `.version` in which a target and all that we print for it exist."""

from __future__ import annotations

from collections.abc import Iterable

from cutedialect.atoms import mma_sync, target

# First architecture to the PTX version that our instructions for it need, newest first: products of
# fp8 and of mixed signs came with 8.4, L2 policies with 7.4, `tanh` with 7.0.
_INSTRUCTIONS = ((89, (8, 4)), (80, (7, 4)), (70, (7, 0)))
# The block sizes of `tcgen05.mma` and the family targets came together.
_TENSOR_MEMORY = (8, 8)


def version_of(name: str, products: Iterable[str] = ()) -> str:
    """The `.version` to print for a target and for the `mma.sync` in use, by their PTX spelling;
    ValueError for a target that is not known.

    >>> version_of("sm_89"), version_of("sm_100f")
    ('8.4', '8.8')
    """
    chip = target(name)
    versions = [next(version for number, version in _INSTRUCTIONS if chip.number >= number)]
    if chip.tmem_columns and chip.suffix:
        versions.append(_TENSOR_MEMORY)
    used = set(products)
    if used:
        versions += [atom.ptx_version for atom in mma_sync() if atom.ptx in used]
    major, minor = max(chip.ptx_version, *versions)
    return f"{major}.{minor}"

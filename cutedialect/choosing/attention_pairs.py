"""When CTA pairs of attention pay in tensor memory: what the tensor cores take for a block of keys,
of which each CTA of a pair holds half in shared memory.

Q K^T reads both of its operands from there, 128 bytes a cycle, and P V the second one. Where rows
have few keys in a block, that takes longer than the products: the more keys, and the fewer of them
each CTA has to read, the less is lost. No timing was taken: this is the bound of the static model
(`python -m benchmarks.published`).
"""

from __future__ import annotations

from cutedialect.atoms import usual_device

from .attention_problem import AttentionProblem

# Bytes of shared memory a cycle, rows of a product, and the depth of its steps in bytes.
_SHARED_BYTES, _ROWS, _STEP_BYTES = 128, 128, 32
# What pairs have to save: they wait for each other.
_LEAST_SAVED = 0.03


def pays(problem: AttentionProblem, height: int, paired: int, alone: tuple[int, ...]) -> bool:
    """Whether pairs, with tiles of so many rows each and blocks of `paired` keys, take less time
    than CTAs by themselves, with blocks of one of `alone`.
    """
    if not alone:
        return True
    best = min(_time_of_keys(problem, keys, 1) for keys in alone)
    lost = _idle(problem, height) * _not_shared(problem, height)
    return _time_of_keys(problem, paired, 2) * lost < best * (1 - _LEAST_SAVED)


def _time_of_keys(problem: AttentionProblem, keys: int, ctas: int) -> float:
    """Cycles of the tensor core for a key of a block and 128 rows."""
    step = _STEP_BYTES * 8 // problem.bits_q
    of_keys, of_values = problem.dims
    scores = _multiply(problem, keys, _ROWS, ctas) * of_keys / step
    return scores / keys + _multiply(problem, of_values, 0, ctas) / step


def _multiply(problem: AttentionProblem, columns: int, shared_rows: int, ctas: int) -> float:
    """Cycles of a product of 128 rows and one step by some columns, of which a CTA reads its part
    from shared memory, and so many rows of the other operand.
    """
    step = _STEP_BYTES * 8 // problem.bits_q
    rate = usual_device(problem.arch).multiplies * 16 / problem.bits_q
    read = (columns / ctas + shared_rows) * _STEP_BYTES / _SHARED_BYTES
    return max(_ROWS * columns * step / rate, read)


def _idle(problem: AttentionProblem, height: int) -> float:
    """By how much more CTAs pairs have than there are tiles."""
    if problem.rows is None:
        return 1.0
    tiles = -(-problem.rows // height)
    return (tiles + tiles % 2) / tiles


def _not_shared(problem: AttentionProblem, height: int) -> float:
    """By how much more keys pairs compute below a mask: those that the later tile sees."""
    if not problem.is_uneven or problem.keys is None:
        return 1.0
    return 1.0 + height / max(problem.keys, 1)

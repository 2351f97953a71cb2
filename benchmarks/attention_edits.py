"""Attention as `examples/attention.py` writes it, with a function of the user's in it, against the
same program with one that leaves scores as they are; without any against `cute.attention`.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from .attention_case import Attention, Tensors
from .case import Call, Maker

UNEDITED, OWN = "unedited", "cute.attention"
_EXAMPLE = Path(__file__).parents[1] / "examples" / "attention.py"
# Rows and keys of a tile; as many tokens as a document has in the example.
_TILE, _DOCUMENT = (128, 128), 96
# Those of targets with tensor memory, where one warpgroup holds the scores of a tile, and what an
# edit makes of them: of 128 keys it spills.
_TENSOR_MEMORY_TILE = (128, 64)


@dataclass(frozen=True)
class Edited(Attention):
    """`edit` is "alibi", a function of the scores, "documents", a mask function, or none; `way` is
    the example's function that says what exponentials count from. `plain` scales scores before that
    function, as an edit has to; `tile` are rows and keys.
    """

    edit: str = ""
    way: str = "guessed"
    plain: bool = False
    tile: tuple[int, int] = _TILE

    @property
    def name(self) -> str:
        way = "" if self.way == "guessed" else f" {self.way}"
        return f"{super().name} {self.edit or UNEDITED}{way}"

    @property
    def yardsticks(self) -> tuple[str, ...]:
        return (UNEDITED,) if self.edit else (OWN,)

    @property
    def companions(self) -> tuple[Attention, ...]:
        return (replace(self, edit="", plain=True),) if self.edit else ()

    def hides(self, torch: Any, row: Any, key: Any) -> Any:
        hidden = super().hides(torch, row, key)
        if self.edit == "documents":
            hidden = hidden | (row // _DOCUMENT != key // _DOCUMENT)
        return hidden

    def bias(self, torch: Any, heads: slice, row: Any, key: Any) -> Any:
        if self.edit != "alibi":
            return None
        numbers = torch.arange(heads.start + 1, heads.stop + 1, device="cuda").double()
        slopes = (numbers * (-0.5 * math.log(2))).exp() * math.log(2)
        return slopes.reshape(-1, 1, 1) * (key - row).double()

    def theirs(self, torch: Any) -> dict[str, Maker]:
        if not self.edit:
            return {OWN: lambda: Attention.ours(self, None)}
        return {UNEDITED: lambda: self.companions[0].ours(None)}

    def ours(self, schedule: str | None) -> Call:
        from cutedialect.backend.runtime.devices import current_arch
        from cutedialect.backend.runtime.driver import gpu_available

        arch = current_arch() if gpu_available() else None
        program, options = self._program(arch)

        def call(operands: Tensors) -> None:
            q, k, v, out = operands.q, operands.k, operands.v, operands.out
            chosen = schedule or self._schedule(arch)
            program(q, k, v, out, self._scale, schedule=chosen, **options)

        return call

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        (shape, _), (kind, _) = self.shapes, self.types
        program, options = self._program(arch)
        options |= {} if arch is None else {"arch": arch}
        specs = (cute.TensorSpec(shape, kind),) * 4
        chosen = schedule or self._schedule(arch)
        return cute.compile(program, *specs, self._scale, schedule=chosen, **options)

    @property
    def _scale(self) -> float:
        return math.log2(math.e) / math.sqrt(self.depth)

    def _schedule(self, arch: str | None) -> str:
        """That of the example for large problems; what counts from the largest score scales the
        result in tensor memory in each block, which is a role's of its own.
        """
        if _has_tensor_memory(arch):
            roles = "" if self.way == "guessed" else ", roles = corrected"
            return f"{_example().HOPPER}{roles}"
        return _example().TURNS if self.way == "guessed" else _example().HOPPER

    def _program(self, arch: str | None) -> tuple[Any, dict[str, Any]]:
        """The program and its options."""
        example = _example()
        edits = {
            "": {"score": example.plain} if self.plain else {},
            "alibi": {"score": example.alibi},
            "documents": {"mask": example.documents},
        }
        tile = _TENSOR_MEMORY_TILE if _has_tensor_memory(arch) else self.tile
        options = {"tile": (*tile, self.depth), "way": getattr(example, self.way)}
        return example.attention, options | edits[self.edit]


def _has_tensor_memory(arch: str | None) -> bool:
    from cutedialect.atoms import target

    return arch is not None and target(arch).tmem_columns > 0


@cache
def _example() -> Any:
    """The module of the example, which is in no package."""
    spec = importlib.util.spec_from_file_location("example_attention", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

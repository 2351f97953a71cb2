"""The table of instruction builders, filled by the family files on import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..machine import Machine, Step
    from ..module import Instruction

Builder = Callable[["Instruction", "Machine"], "Step"]

BUILDERS: dict[str, Builder] = {}


def instruction(*heads: str, handles_guard: bool = False) -> Callable[[Any], Any]:
    """Register a builder for opcodes that start with one of the dotted ``heads``. A builder that
    ``handles_guard`` reads the guard predicate itself."""

    def register(builder: Any) -> Any:
        for head in heads:
            assert head not in BUILDERS, head
            BUILDERS[head] = builder
        if handles_guard:
            builder.handles_guard = True
        return builder

    return register

"""The Python state around a body that is traced once: what the body must leave as it was. A loop
would go on from what it changed, and a branch that is not taken would not have changed it.
"""

from __future__ import annotations

from types import FrameType

from cutedialect.backend.runtime.fingerprint import is_installed

from .captured import Captured, is_same
from .liveness import is_live
from .scalar import Scalar
from .tile import Tensor, Tile, View, Views
from .trace import error, traced_frames

_TRACED = (Tile, Scalar, View, Views, Tensor)
_IN_TILES = "keep state in a tile made by cute.zeros or cute.full, changed by .assign or +="


class StateBefore:
    """Names and objects that the user's code reaches when a body begins."""

    def __init__(self, is_loop: bool) -> None:
        self.is_loop = is_loop
        self.frames = [(frame, dict(frame.f_locals)) for frame in traced_frames()]
        self.captured = Captured()
        for frame, names in self.frames:
            if not is_installed(frame.f_globals.get("__name__")):
                self.captured.add_code(frame.f_code, frame.f_globals)
            for name, value in names.items():
                if not isinstance(value, _TRACED):
                    self.captured.add(name, value)

    def check(self) -> None:
        """Refuse what the body has changed, at the end of it."""
        for frame, before in self.frames:
            for name, value in frame.f_locals.items():
                self._check_name(frame, name, before, value)
        changed = self.captured.change()
        if changed is not None:
            raise self._refusal(changed, "changed")

    def _check_name(
        self, frame: FrameType, name: str, before: dict[str, object], value: object
    ) -> None:
        if name not in before or _is_over(before[name]):
            is_choice = not self.is_loop and not isinstance(value, _TRACED)
            if is_choice and is_live(frame, name):
                raise error(
                    f"expected '{name}' to have a value whether or not the condition holds, got "
                    "one under it only; the body of a condition is always traced: choose with "
                    "cute.where(condition, a, b)",
                    code="CD-P6",
                )
            return
        old = before[name]
        if is_same(old, value) or not is_live(frame, name):
            return
        if _lives(old):
            where = "loop" if self.is_loop else "condition"
            raise error(
                f"expected '{name}' to keep its value across the {where}, got it rebound in the "
                f"body; use {name}.assign(...) or {name} += ... on a tile made by cute.zeros or "
                "cute.full",
                code="CD-P6",
            )
        raise self._refusal(name, "rebound")

    def _refusal(self, name: str, how: str) -> Exception:
        if self.is_loop:
            return error(
                f"expected '{name}' to be the same in every trip of the loop, got it {how} in the "
                "body, which is traced once for all trips; count with the loop's index, or "
                f"{_IN_TILES}",
                code="CD-P6",
            )
        return error(
            f"expected '{name}' to be the same whether or not the condition holds, got it {how} "
            "under it; the body of a condition is always traced: choose with "
            f"cute.where(condition, a, b), or {_IN_TILES}",
            code="CD-P6",
        )


def _lives(value: object) -> bool:
    """Whether a value of the trace may still be used."""
    return isinstance(value, _TRACED) and (isinstance(value, Tensor) or value.scope.open)


def _is_over(value: object) -> bool:
    """Whether a value is one of an ended loop, whose use is an error and whose name is free."""
    return isinstance(value, _TRACED) and not _lives(value)

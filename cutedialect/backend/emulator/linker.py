"""Instructions to steps, one by one at first use: looks up the builder of an opcode, binds operands
to the machine, and wraps the guard predicate around the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import instructions
from .errors import EmulatorError
from .lanes import Lanes
from .module import Instruction

if TYPE_CHECKING:
    from .machine import Machine, Step


class Linker:
    """``steps[pc]`` runs the instruction at ``pc`` for some lanes. It returns None to go on at the
    next instruction, an int to jump, or a control function ``(scheduler, lanes, pc, stack)`` that
    takes over the lanes.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.steps: list[Step] = [self._stub(pc) for pc in range(len(machine.module.code))]

    def _stub(self, pc: int) -> Step:
        def link_and_run(lanes: Lanes) -> Any:
            step = self.steps[pc] = self.link(self._machine.module.code[pc])
            return step(lanes)

        return link_and_run

    def link(self, ins: Instruction) -> Step:
        builder = instructions.find(ins)
        try:
            step = builder(ins, self._machine)
        except EmulatorError:
            raise
        except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
            raise ins.malformed(f"operands do not fit the instruction ({error})") from error
        step = self._machine.tensor.watch(ins, self._machine.wgmma.watch(ins, step))
        if ins.guard is not None and not getattr(builder, "handles_guard", False):
            step = self._guarded(ins, step)
        return step if self._machine.timeline is None else self._timed(ins, step)

    def _timed(self, ins: Instruction, step: Step) -> Step:
        machine, timeline = self._machine, self._machine.timeline
        assert timeline is not None

        def timed(lanes: Lanes) -> Any:
            result = step(lanes)
            timeline.step(machine, ins, lanes)
            return result

        return timed

    def _guarded(self, ins: Instruction, step: Step) -> Step:
        machine = self._machine
        assert ins.guard is not None
        register = machine.register(ins.guard[0])
        negated = ins.guard[1]
        bits, total = register.bits, machine.total

        def guarded(lanes: Lanes) -> Any:
            if register.poison is not None:
                machine.demand([register], lanes, "a guard")
            mask = bits[lanes.sel]
            if negated:
                mask = ~mask
            chosen = lanes.where(mask, total)
            if chosen is None:
                return None
            result = step(chosen)
            if result is None or chosen is lanes:
                return result
            inner = result

            def split(scheduler: Any, all_lanes: Lanes, pc: int, stack: Any) -> None:
                rest = lanes.where(~mask, total)
                assert rest is not None
                scheduler.add(rest, pc + 1, stack)
                if isinstance(inner, int):
                    scheduler.add(chosen, inner, stack)
                else:
                    inner(scheduler, chosen, pc, stack)

            return split

        return guarded

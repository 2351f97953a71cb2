"""`Kernel`: a compiled program as users hold it. It reads its PTX, assembles on demand, checks
arguments, and launches where the arrays live.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from cutedialect import environment
from cutedialect.backend.runtime.aliasing import Named, check_aliases
from cutedialect.backend.runtime.announcements import announce, announce_losses
from cutedialect.backend.runtime.arguments import ArgumentChecker, Bound, tensors_of
from cutedialect.backend.runtime.arrays import Look
from cutedialect.backend.runtime.cuda import CudaLauncher, PreparedCall
from cutedialect.backend.runtime.cupy_modules import CupyModule, Form, unpassed
from cutedialect.backend.runtime.devices import device_name, import_cupy
from cutedialect.backend.runtime.driver import driver, gpu_available
from cutedialect.backend.runtime.emulated import EmulatedLauncher
from cutedialect.backend.runtime.errors import (
    LACKS_REGISTERS,
    CompileError,
    PtxasNotFoundError,
)
from cutedialect.backend.runtime.interpreted import InterpretedLauncher
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.launch_looks import LaunchLook, launch_look, launch_look_for
from cutedialect.backend.runtime.modules import DriverModule
from cutedialect.backend.runtime.program import CompiledProgram, assembled, losses
from cutedialect.backend.runtime.ptxas import Assembly, loss
from cutedialect.backend.runtime.repeats import Overlap, Repeat, overlap, repeat_of
from cutedialect.backend.runtime.shared_arguments import SharedArguments
from cutedialect.backend.runtime.signature import (
    GroupParameter,
    ScalarParameter,
    Signature,
    TensorParameter,
)
from cutedialect.backend.runtime.streams import stream_handle
from cutedialect.backend.runtime.target_fit import fitting_arch
from cutedialect.backend.runtime.torch_tensors import (
    Watch,
    check_modes,
    mark_written,
    opaque,
    record_use,
    watch_of,
)
from cutedialect.backend.runtime.tracebacks import explained
from cutedialect.choices import BACKENDS, Backend
from cutedialect.notebook import bundle, escaped, folded, table
from cutedialect.remarks import Remark, Remarks

if TYPE_CHECKING:
    from cutedialect.backend.emulator import Report

_REMEMBERED = 1024
# Launches that go by until one that is made again gives way to what torch is at now.
_WAITED = 64
# The alignment in bytes up to which the look of an array tells that of its address.
_LOOKED_AT = 16

# Those that need host memory.
_ON_HOST = ("emulator", "interpreter")
# What CuPy loads where it launches.
_THROUGH_CUPY: dict[str, Form] = {"cupy": "ptx", "cupy-cubin": "cubin"}


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: registers per thread, spills in bytes per thread, static and dynamic
    shared memory in bytes, named barriers, and IR ops by role. Of several kernels the largest.
    """

    registers: int
    spills: int
    smem: int
    barriers: int
    ops: Mapping[str, int]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """In a notebook: one below the other."""
        facts = {
            "registers": f"{self.registers} of 255 a thread",
            "spills": f"{self.spills} bytes a thread",
            "shared memory": f"{self.smem:,} bytes",
            "named barriers": f"{self.barriers} of 16",
            "IR ops": ", ".join(f"{role}: {count}" for role, count in self.ops.items()),
        }
        return bundle(repr(self), table(facts))


@dataclass
class _Warm:
    """The launch for arrays that look alike, what torch hears of it where some are its own, and
    the same as one function, made when it is needed again.
    """

    prepared: PreparedCall
    watch: Watch | None
    # Tensors of which one is read and one is written.
    overlaps: Sequence[Overlap] = ()
    repeat: Repeat | None = None
    # How often it was tried in vain where torch was at something else.
    missed: int = 0


class Kernel:
    """A compiled kernel. `stages` gives the IR after each pass and is called at most once, `trace`
    makes the module before the first. `nearest` looks for the text of a schedule that fits the
    registers, where that of this one does not. A kernel can be pickled; out of a pickle it has the
    stages where its program can be imported.
    """

    def __init__(
        self,
        program: CompiledProgram,
        stages: Callable[[], dict[str, str]] | None = None,
        *,
        backend: Backend = "auto",
        trace: Callable[[], Any] | None = None,
        nearest: Callable[[], str | None] | None = None,
    ) -> None:
        self.program = program
        self.backend: Backend = checked_backend(backend)
        self._make_stages = stages
        self._written = program.signature.written
        groups = any(
            isinstance(program.signature.parameters[place], GroupParameter)
            for place in self._written
        )
        self._has_outputs = groups or len(self._written) > 1
        # What pointers have to be multiples of, where that is more than a look says.
        self._alignment = _alignment(program.signature)
        self._look: LaunchLook = lambda values: NotImplemented
        self._asks_addresses = self._alignment > _LOOKED_AT
        # The last launch that was made again, for as many arguments.
        self._repeat: Repeat | None = None
        self._count = len(program.signature.parameters)
        self._trace = trace
        self._nearest = nearest
        self._assemblies: dict[str, Assembly] = {}
        self._emulated: EmulatedLauncher | None = None
        self._interpreted: InterpretedLauncher | None = None
        self._cuda: dict[Backend, CudaLauncher] = {}
        # The same kernel on other backends.
        self._others: dict[Backend, Kernel] = {}
        self._notes: tuple[Remark, ...] = ()

    @cached_property
    def _checker(self) -> ArgumentChecker:
        program = self.program
        return ArgumentChecker(program.signature, program.equal_extents, self.note)

    def note(self, remark: Remark) -> None:
        """Keep a remark on the arguments of a call, or on why this kernel was chosen."""
        if remark not in self._notes:
            self._notes += (remark,)

    @cached_property
    def _prepared(self) -> Kept[tuple[Any, ...], _Warm]:
        return Kept(_REMEMBERED)

    def __repr__(self) -> str:
        return f"<Kernel {self.name} for {self.arch} {self.signature}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # What leads back to a program that nobody else can import stays here.
        kept = {
            name: value
            for name, value in (("stages", self._make_stages), ("trace", self._trace))
            if _can_be_pickled(value)
        }
        return _restored, (self.program.to_json(), self.backend, kept)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """In a notebook: resources, remarks, the IR after each pass, and the PTX."""
        facts: dict[str, object] = {"target": self.arch, "arguments": self.signature}
        facts["schedule"] = self.schedule or "of its own"
        try:
            taken = self.resources
        except CompileError as error:
            facts["resources"] = error.message
        else:
            facts["registers"] = f"{taken.registers} a thread, {taken.spills} bytes spilled"
            facts["shared memory"] = f"{taken.smem:,} bytes"
            facts["ops of PTX"] = ", ".join(f"{role}: {n}" for role, n in taken.ops.items())
        remarks = list(map(str, self.remarks))
        text = [repr(self), *(f"  {name}: {value}" for name, value in facts.items()), *remarks]
        html = [f"<b>{escaped(self.name)}</b>", table(facts)]
        if remarks:
            html.append(folded("remarks", "\n".join(remarks), "kernel.remarks"))
        for name, ir in self.stages.items():
            html.append(folded(name, ir, f"kernel.stages[{name!r}]"))
        html.append(folded("PTX", self.ptx, "kernel.ptx"))
        return bundle("\n".join(text), "".join(html))

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def arch(self) -> str:
        """The target of the PTX text, such as "sm_80"."""
        return self.program.arch

    @property
    def signature(self) -> Signature:
        return self.program.signature

    @property
    def schedule(self) -> str:
        """The schedule's text."""
        return self.program.schedule

    @property
    def parameters(self) -> dict[str, object]:
        """The compile-time parameters of its program by name, those that were open included; empty
        where it is made from IR.
        """
        return dict(getattr(self._trace, "constants", {}))

    @property
    def ptx(self) -> str:
        """The PTX text of every kernel."""
        return self.program.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code for `arch`; raises CompileError when ptxas refuses or is missing."""
        return self.assembly.cubin

    @cached_property
    def assembly(self) -> Assembly:
        """What ptxas made of the PTX text."""
        return self._loadable(self.arch)

    @property
    def fits(self) -> bool:
        """Whether ptxas finds registers for all of its values, also where spills are allowed; True
        where there is no ptxas to ask.
        """
        try:
            lost = loss(self._assembled(self.arch), self.ptx)
        except CompileError as error:
            lost = error
        return lost is None or lost.code not in LACKS_REGISTERS

    def look_for_losses(self) -> None:
        """Assemble the kernel where there is a ptxas, so that spills are refused or warned of, and
        are among the remarks, before it runs.
        """
        with suppress(PtxasNotFoundError):
            self._loadable(self.arch)

    def _assembled(self, arch: str) -> Assembly:
        """The machine code for a target, which is assembled once."""
        program = self.program
        found = self._assemblies.get(arch)
        if found is None:
            found = assembled(self.ptx, arch, spills=program.spills, remarks=program.remarks)
            self._assemblies[arch] = found
        return found

    def _loadable(self, arch: str) -> Assembly:
        """The machine code for a target; an error about registers names a schedule
        that fits them, and what is allowed to lose speed is warned of.
        """
        try:
            found = self._assembled(arch)
        except CompileError as error:
            if error.code in LACKS_REGISTERS and self._nearest is not None:
                found = self._nearest()
                advice = (
                    "no schedule near this one fits the registers either"
                    if found is None
                    else f"the nearest schedule that fits the registers: schedule='{found}'"
                )
                error.notes = (advice, *error.notes)
            raise
        announce_losses(self.program)
        return found

    @cached_property
    def stages(self) -> dict[str, str]:
        """Pass name to the IR after it, in order."""
        return self._make_stages() if self._make_stages is not None else {}

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the passes declined, and why: in the order in which they ran. Once the kernel was
        assembled, also what the assembler lost: registers that spill, `wgmma` that it serializes;
        and of launches, operands that were not equally long where a multiply sums over them; or by
        which device's timings a schedule was chosen.
        Where CuPy launches it, also what CuPy has no way to pass.
        """
        lost = losses(self.program) + self._notes
        if self._forced() in _THROUGH_CUPY:
            lost += unpassed(self.program)
        return Remarks((*self.program.remarks, *lost))

    def traced(self) -> Any:
        """The tile program as a module that no pass has seen, made anew by each call. Raises
        RuntimeError for a kernel that has only what it was compiled to.
        """
        if self._trace is None:
            raise RuntimeError(
                f"expected the tile program of '{self.name}', got what it was compiled to alone"
            )
        return self._trace()

    @property
    def resources(self) -> Resources:
        """Registers, spills and static shared memory from ptxas, dynamic shared memory from the
        host part, ops by role from the compiler.
        """
        assembly = self.assembly
        return Resources(
            assembly.registers,
            assembly.spill_stores + assembly.spill_loads,
            assembly.smem + self.program.dynamic_smem,
            assembly.barriers,
            self.program.ops,
        )

    @property
    def reports(self) -> tuple[Report, ...]:
        """The emulator's reports of its last launch, one per kernel; empty after a GPU launch."""
        return self._emulated.reports if self._emulated is not None else ()

    @property
    def emulated_arguments(self) -> tuple[Any, ...]:
        """What the emulator's last launch took, for `python -m cutedialect model` and its like:
        (shape, strides in elements) of a tensor, a list of such of a group, a number.
        """
        return self._emulated.arguments if self._emulated is not None else ()

    @property
    def where(self) -> str:
        """What host arrays run on: "the emulator", "the interpreter", or the GPU's name."""
        if self._forced() == "interpreter":
            return "the interpreter"
        if self._forced() == "emulator" or not gpu_available():
            return "the emulator"
        return device_name()

    @opaque("make the kernel a custom operator with cutedialect.torch.op")
    def launch(
        self,
        *args: Any,
        stream: Any = None,
        check: Callable[[], None] | None = None,
        backend: Backend | None = None,
    ) -> None:
        """Run on `args`, tensors and scalars in the order of `signature`. `check` is called first.

        Device arrays run where they live, on `stream` or their library's current stream, and the
        call returns at once. NumPy arrays run on the GPU when there is one, else in the emulator,
        and hold their results when the call returns. `backend` is taken in the place of the
        kernel's: with "cupy" CuPy loads the PTX (with "cupy-cubin" the machine code) and launches
        it. Raises TypeError or ValueError that names the argument before anything is touched.
        """
        if backend is not None and backend != self.backend:
            self.on(backend).launch(*args, stream=stream, check=check)
            return
        repeat = self._repeat
        if (
            repeat is not None
            and check is None
            and len(args) == self._count
            and repeat(None, stream, False, *args) is not None
        ):
            return
        look = self._look(args)
        if look is NotImplemented:
            look_at = self._look = launch_look_for(args)
            look = look_at(args)
        if look is None:
            key = None
        else:
            key = self._key(look) if self._asks_addresses else look[0]
        kept = self._prepared.known(key)
        if kept is None:
            if "torch" in sys.modules:
                check_modes(args)
        elif kept.watch is not None and kept.watch.is_recording():
            check_modes(args)
        if check is not None:
            check()
        may_share = check is not None
        if kept is None:
            self._launch_first(args, stream, look, key, may_share)
        else:
            assert look is not None
            self._launch_like(kept, args, stream, look, may_share)

    def _launch_like(
        self, kept: _Warm, args: Sequence[Any], stream: Any, look: Look, may_share: bool
    ) -> None:
        """Launch on arguments that look like ones before."""
        prepared, watch = kept.prepared, kept.watch
        kept.missed += kept.repeat is self._repeat
        if kept.repeat is None or kept.missed % _WAITED == 1:
            kept.missed += 1
            kept.repeat = self._made_repeat(kept, args, look)
        self._repeat = kept.repeat
        if self._has_outputs:
            self._check_outputs(args)
        if not may_share and (kept.overlaps or self._shared.have_groups):
            self._check_shared(args, look, kept)
        handle = prepared.stream() if stream is None else stream_handle(stream)
        prepared.template.run(look[1], look[2] or prepared.numbers, handle)
        if watch is not None:
            watch.bump([args[index] for index in self._written])
            if stream is not None:
                record_use(args, stream)

    def _launch_first(
        self, args: Sequence[Any], stream: Any, look: Look | None, key: Any, may_share: bool
    ) -> None:
        """Launch on arguments that look like none before, and keep what a like call needs."""
        with explained():
            bound = self._checker.bind(args)
            self._check_outputs(args)
            if not may_share:
                self._shared.check(args, bound)
            prepared = self._launcher(bound).launch(bound, stream)
        self._tell_torch(args, stream)
        if key is not None and prepared is not None:
            assert look is not None
            # A number of another type than float is part of the key, as it has to be converted.
            if not look[2] or len(look[2]) == len(prepared.numbers):
                written = [args[index] for index in self._written]
                overlaps = self._shared.overlaps(args, bound)
                self._prepared.keep(key, _Warm(prepared, watch_of(args, written), overlaps))

    def _check_shared(self, args: Sequence[Any], look: Look, kept: _Warm) -> None:
        """Refuse memory that is read and written, unless addresses show that there is none."""
        pointers = dict(zip(self._tensors, look[1], strict=False))
        if self._shared.have_groups or any(each.meets(pointers) for each in kept.overlaps):
            with explained():
                self._shared.check(args, self._checker.bind(args))

    def _made_repeat(self, kept: _Warm, args: Sequence[Any], look: Look) -> Repeat:
        """What launches again on arguments that look like these."""
        made = None
        if not any(isinstance(value, list | tuple) for value in args):
            tensors = self._tensors
            written = [place for place in self._written if place in tensors]
            pairs = [(one, other) for one in written for other in written if one < other]
            made = repeat_of(
                kept.prepared.like(look[1], look[2]),
                args,
                tensors,
                overlaps=[
                    *(overlap(args, one, other) for one, other in pairs),
                    *kept.overlaps,
                ],
                written=written,
                alignment=max(self._alignment, _LOOKED_AT),
            )
        return made or _never

    def _check_outputs(self, args: Sequence[Any]) -> None:
        """Refuse memory that the kernel would write as two tensors; an output may be an input."""
        if not self._has_outputs:
            return
        outputs: list[Named] = []
        for place in self._written:
            name, value = self.signature.parameters[place].name, args[place]
            if isinstance(value, list | tuple):
                outputs += [Named(f"{name}[{n}]", each, True) for n, each in enumerate(value)]
            else:
                outputs.append(Named(name, value, written=True))
        check_aliases(outputs)

    @cached_property
    def _shared(self) -> SharedArguments:
        return SharedArguments(self.signature, self.program.shared_memory)

    @cached_property
    def _tensors(self) -> list[int]:
        """The places of the tensors among the arguments, those of groups apart."""
        parameters = enumerate(self.signature.parameters)
        return [place for place, each in parameters if isinstance(each, TensorParameter)]

    def _key(self, look: Look) -> tuple[Any, ...]:
        if not self._asks_addresses:
            return look[0]
        return *look[0], *[pointer % self._alignment for pointer in look[1]]

    def _tell_torch(self, args: Sequence[Any], stream: Any) -> None:
        """Tell torch of the tensors that were written, and of a stream that is not its own."""
        if "torch" in sys.modules:
            mark_written([args[index] for index in self._written])
            if stream is not None:
                record_use(args, stream)

    def prepare(self, *args: Any, stream: Any = None) -> PreparedCall | None:
        """Launch, and return the call to repeat while the arrays live; None for host arrays."""
        bound = self._checker.bind(args)
        self._check_outputs(args)
        self._shared.check(args, bound)
        return self._launcher(bound).launch(bound, stream)

    def prepared(self, *args: Any) -> PreparedCall | None:
        """The call for device arrays, where an earlier `launch` had some that look like them."""
        look = launch_look(args)
        if look is None:
            return None
        kept = self._prepared.get(self._key(look))
        return None if kept is None else kept.prepared.like(look[1], look[2])

    def on(self, backend: Backend) -> Kernel:
        """The same kernel, compiled already, on another backend."""
        if backend == self.backend:
            return self
        other = self._others.get(checked_backend(backend))
        if other is None:
            other = Kernel(
                self.program,
                self._make_stages,
                backend=backend,
                trace=self._trace,
                nearest=self._nearest,
            )
            other._assemblies = self._assemblies
            self._others[backend] = other
        return other

    def raw_module(self, form: Form = "ptx") -> Any:
        """The kernels as a `cupy.RawModule` on CuPy's current device, to be launched by hand: of
        the PTX text, which the driver assembles, or with "cubin" of what ptxas makes of it for that
        device. Kernels have opted in to their shared memory and clusters. Which arguments they
        take, and how many CTAs, `compile` writes (docs/compiled-files.md).

        Raises ImportError without CuPy, RuntimeError without a device that runs the kernel or with
        a driver that is too old for its PTX.
        """
        if form not in ("ptx", "cubin"):
            raise ValueError(f"form: expected 'ptx' or 'cubin', got {form!r}")
        cupy, found = import_cupy("raw_module"), driver()
        device = cupy.cuda.runtime.getDevice()
        with found.on(device):
            arch = fitting_arch(found, device, self.name, self.arch)
            return CupyModule(found, self.program, arch, self._loadable, form).opt_in().raw

    def warmup(self, device: int | None = None) -> Kernel:
        """Assemble and load now, for `device` or the current one; a later launch may then be
        captured in a CUDA graph. Without a GPU nothing happens. Returns the kernel.
        """
        if self._forced() not in _ON_HOST and gpu_available():
            self._on_cuda().warmup(device)
        return self

    def _launcher(self, bound: Bound) -> CudaLauncher | EmulatedLauncher | InterpretedLauncher:
        on_device, name = None, ""
        for parameter, value in tensors_of(self.signature, bound):
            if value.device is not None:
                on_device, name = value.device, parameter.name
                break
        forced = self._forced()
        if forced in _ON_HOST:
            if on_device is not None:
                raise ValueError(
                    f"backend: expected arrays in host memory with the {forced}, got {name} on "
                    f"device {on_device}; copy it with .get(), .cpu() or numpy.asarray, or leave "
                    f"backend='{forced}' out"
                )
        elif on_device is not None or gpu_available():
            if on_device is not None and not gpu_available():
                raise RuntimeError(
                    "expected a CUDA driver to launch on a device, got none; see "
                    "python -m cutedialect doctor"
                )
            return self._on_cuda()
        elif forced != "auto":
            raise RuntimeError(
                f"backend: expected a CUDA device with backend='{forced}', got none; see "
                "python -m cutedialect doctor"
            )
        else:
            announce()
        if forced == "interpreter":
            if self._interpreted is None:
                self._interpreted = InterpretedLauncher(self.traced)
            return self._interpreted
        if self._emulated is None:
            self._emulated = EmulatedLauncher(self.program)
        return self._emulated

    def _forced(self) -> Backend:
        if self.backend != "auto":
            return self.backend
        chosen = environment.backend()
        return "auto" if chosen is None else chosen

    def _on_cuda(self) -> CudaLauncher:
        forced = self._forced()
        found = self._cuda.get(forced)
        if found is None:
            form = _THROUGH_CUPY.get(forced)
            load = DriverModule if form is None else partial(CupyModule, form=form)
            found = self._cuda[forced] = CudaLauncher(self.program, self._loadable, load)
        return found


def _restored(program: str, backend: Backend, kept: Mapping[str, Any]) -> Kernel:
    """The kernel that comes out of a pickle; it is loaded where it is launched."""
    return Kernel(CompiledProgram.from_json(program), backend=backend, **kept)


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


def _never(*values: Any) -> None:
    """In the place of what cannot be repeated without a full look."""


def _alignment(signature: Signature) -> int:
    """The widest alignment that a kernel assumes of a pointer."""
    tensors = [
        parameter.member if isinstance(parameter, GroupParameter) else parameter
        for parameter in signature.parameters
        if not isinstance(parameter, ScalarParameter)
    ]
    return max((tensor.alignment for tensor in tensors), default=1)


def checked_backend(backend: object) -> Backend:
    """`backend` if there is one of that name; raises ValueError otherwise."""
    for known in BACKENDS:
        if backend == known:
            return known
    raise ValueError(
        f"backend: expected {', '.join(map(repr, BACKENDS[:-1]))} or {BACKENDS[-1]!r}, got "
        f"{backend!r}"
    )

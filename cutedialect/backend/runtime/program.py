"""`CompiledProgram`: all that a launch needs, as text. The cache keeps it under a key computed
before tracing, so that a warm start imports neither xDSL nor the passes.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache as cache_once
from functools import cached_property
from pathlib import Path
from typing import Any

from cutedialect import environment
from cutedialect.atoms import REGISTER_FILE
from cutedialect.backend.runtime import cache, ptxas
from cutedialect.backend.runtime.assertions import Assertions, assertions_of
from cutedialect.backend.runtime.errors import (
    LACKS_REGISTERS,
    CompileError,
    PtxasNotFoundError,
)
from cutedialect.backend.runtime.fingerprint import FingerprintError, fingerprint
from cutedialect.backend.runtime.host import (
    POINTER,
    TABLE,
    TENSOR_MAP,
    HostPlan,
    find_host,
    host_source,
    load,
    signature_of,
)
from cutedialect.backend.runtime.ptx_text import Entry, canonical, entries
from cutedialect.backend.runtime.signature import (
    EqualExtents,
    SharedMemory,
    Signature,
    with_tensor_maps,
)
from cutedialect.remarks import Remark

_MIN_CTAS = re.compile(r"\.reqntid (\d+)([^.]*)\.minnctapersm (\d+)")
# Bytes of a kernel parameter; PTX has no parameter narrower than the register it is loaded to, so a
# wider one is filled up.
SIZE_OF_TYPE = {
    POINTER: 8, TABLE: 8, TENSOR_MAP: 128, "i1": 1, "i8": 1, "ui8": 1, "i16": 2, "ui16": 2,
    "i32": 4, "ui32": 4, "i64": 8, "ui64": 8,
    "index": 8, "f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "f64": 8, "f8E4M3FN": 1, "f8E5M2": 1,
    "f8E8M0FNU": 1, "f6E2M3FN": 1, "f6E3M2FN": 1, "f4E2M1FN": 1,
}  # fmt: skip


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled module. `ptx` holds every kernel, `host` the Python source of the host part,
    `schedule` is its text, `arch` the target, `ops` counts the IR ops of each role, `remarks` say
    what the passes declined. `spills` says what becomes of a kernel whose registers spill, or whose
    `wgmma` the assembler serializes: "refuse" it, "warn" in a remark, "allow" it. `instead` is the
    schedule that was taken where passes refuse the default.
    """

    name: str
    arch: str
    ptx: str
    host: str
    signature: Signature
    schedule: str = ""
    ops: dict[str, int] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    equal_extents: tuple[EqualExtents, ...] = ()
    shared_memory: tuple[SharedMemory, ...] = ()
    spills: str = "refuse"
    instead: str = ""

    @staticmethod
    def of(
        name: str,
        arch: str,
        ptx: str,
        module: Any,
        *,
        schedule: str = "",
        ops: dict[str, int] | None = None,
        remarks: Iterable[Remark] = (),
        equal_extents: tuple[EqualExtents, ...] = (),
        shared_memory: tuple[SharedMemory, ...] = (),
    ) -> CompiledProgram:
        """The program of a module that holds `func.func @launch`, and of the PTX printed from it.

        Raises CompileError when the host part and the kernels disagree about parameters.
        """
        host = find_host(module)
        signature = with_tensor_maps(signature_of(host), module, host)
        program = CompiledProgram(
            name,
            arch,
            ptx,
            host_source(host),
            signature,
            schedule,
            ops or {},
            tuple(remarks),
            equal_extents,
            shared_memory,
        )
        program.check()
        return program

    @cached_property
    def plan(self) -> HostPlan:
        """The host part, executable."""
        return load(self.host)

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The kernels of the PTX text by name."""
        return {entry.name: entry for entry in entries(self.ptx)}

    @cached_property
    def assertions(self) -> Assertions | None:
        """The assertions of its kernels; None where there are none."""
        return assertions_of(self.ptx)

    @property
    def dynamic_smem(self) -> int:
        """Bytes of dynamic shared memory of the kernel that takes most."""
        return max(self.plan.smem.values(), default=0)

    def check(self) -> None:
        """Compare the launches of the host part with the parameters and clusters that the kernels
        declare.
        """
        for kernel, types in self.plan.types.items():
            entry = self.entries.get(kernel)
            if entry is None:
                raise CompileError(
                    f"expected kernel '{kernel}' in the PTX text, got "
                    f"{', '.join(self.entries) or 'none'}",
                    code="CD-HOST",
                )
            sizes = [SIZE_OF_TYPE[type_] for type_ in types]
            fits = len(sizes) == len(entry.sizes) and all(
                size <= declared and (size == declared or type_ not in (POINTER, TABLE, TENSOR_MAP))
                for size, declared, type_ in zip(sizes, entry.sizes, types, strict=True)
            )
            if not fits:
                raise CompileError(
                    f"expected parameters of kernel '{kernel}' for ({', '.join(types)}), got sizes "
                    f"{entry.sizes} in bytes",
                    code="CD-HOST",
                )
            cluster = self.plan.clusters[kernel]
            if cluster != (entry.cluster or (1, 1, 1)):
                raise CompileError(
                    f"expected kernel '{kernel}' with the cluster {cluster} that it is launched "
                    f"with, got {entry.cluster or 'none'} in the PTX text",
                    code="CD-HOST",
                )

    def to_json(self) -> str:
        """The text that the cache keeps."""
        return json.dumps(
            {
                "name": self.name,
                "arch": self.arch,
                "ptx": self.ptx,
                "host": self.host,
                "signature": self.signature.to_json(),
                "schedule": self.schedule,
                "ops": self.ops,
                "equal_extents": self.equal_extents,
                "shared_memory": self.shared_memory,
                "spills": self.spills,
                "instead": self.instead,
                "remarks": [[one.pass_name, one.message, one.location] for one in self.remarks],
            }
        )

    @staticmethod
    def from_json(text: str) -> CompiledProgram:
        """The inverse of `to_json`."""
        data = json.loads(text)
        signature = Signature.from_json(data["signature"])
        remarks = tuple(Remark(*one) for one in data["remarks"])
        equal = tuple(map(tuple, data["equal_extents"]))
        shared = tuple(
            (read, written, None if needs is None else tuple(map(tuple, needs)), line)
            for read, written, needs, line in data["shared_memory"]
        )
        known = {"signature": signature, "remarks": remarks, "equal_extents": equal}
        return CompiledProgram(**(data | known | {"shared_memory": shared}))


def program_key(function: object, signature: object, schedule: object, arch: str) -> str | None:
    """The key of a program before it is traced, or None when the kernel reaches a value without a
    stable hash and must not be cached. xDSL's version is part of it, our own source is hashed.
    """
    if not environment.cache_enabled():
        return None
    try:
        what = fingerprint(function, signature, schedule)
    except FingerprintError:
        return None
    return cache.key("program", cache.package_stamp(), what, arch, _versions())


@contextmanager
def collections_held_back() -> Iterator[None]:
    """Without Python's collector of cycles: ops of IR point at each other, so that each of its
    rounds goes through all that there are, and finds next to nothing. What is left of them is
    collected while the assembler works, if it does. Regions nest.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def cached_program(key: str | None, make: Callable[[], CompiledProgram]) -> CompiledProgram:
    """The program kept under `key`, else what `make` returns, which is then kept."""
    if key is None:
        return make()
    if (kept := read_program(key)) is not None:
        return kept
    program = make()
    cache.write("program", key, program.to_json().encode())
    return program


def read_program(key: str) -> CompiledProgram | None:
    """The program kept under `key`, or None."""
    kept = cache.read("program", key)
    return None if kept is None else CompiledProgram.from_json(kept.decode())


def assembled(
    ptx: str,
    arch: str,
    *,
    strict: bool = True,
    spills: str = "refuse",
    remarks: Sequence[Remark] = (),
) -> ptxas.Assembly:
    """`ptx` assembled for `arch`, kept under the text without `.file`, `.loc` and comments. With
    `strict` what it loses is an error, with what the passes declined as notes, or as `spills` says
    a remark (`losses`).
    """
    options = ptxas.DEFAULT_OPTIONS
    key = None
    if environment.cache_enabled():
        version = ptxas.version(ptxas.find(arch))
        key = cache.key("cubin", canonical(ptx), arch, version, *options)
    kept = None if key is None else cache.read("cubin", key)
    if kept is not None:
        head, _, cubin = kept.partition(b"\n")
        assembly = ptxas.Assembly.restore(cubin, json.loads(head))
    else:
        assembly = _with_registers(ptx, arch, options)
        if key is not None:
            head = json.dumps(assembly.described()).encode()
            cache.write("cubin", key, head + b"\n" + assembly.cubin)
    if strict and (lost := ptxas.loss(assembly, ptx)) is not None:
        if spills == "refuse":
            lost.notes += tuple(f"{each.pass_name}: {each.message}" for each in remarks)
            raise lost
        _losses[ptx] = Remark("ptxas", lost.message, lost.location)
    return assembly


# By the PTX text: what the assembler lost of it in this process.
_losses: dict[str, Remark] = {}


def losses(program: CompiledProgram) -> tuple[Remark, ...]:
    """What a program lost when it was assembled in this process, where it wants to be told."""
    if program.spills != "warn" or program.ptx not in _losses:
        return ()
    return (_losses[program.ptx],)


def _with_registers(ptx: str, arch: str, options: Sequence[str]) -> ptxas.Assembly:
    """`ptx` assembled for fewer CTAs on an SM than it asks for, where registers would spill, or
    would not hold what one instruction takes.
    """
    while True:
        failure = assembly = None
        try:
            assembly = ptxas.assemble(ptx, arch, options=options)
        except CompileError as error:
            if error.code not in LACKS_REGISTERS:
                raise
            failure = error
        if assembly is not None and not assembly.spill_stores + assembly.spill_loads:
            return assembly
        # Registers that warpgroups pass on are counted for as many CTAs as the kernel says.
        is_fixed = "setmaxnreg" in ptx
        fewer = ptx if is_fixed else _MIN_CTAS.sub(_with_more_registers, ptx)
        if fewer == ptx:
            if assembly is None:
                assert failure is not None
                raise failure
            return assembly
        ptx = fewer


def _with_more_registers(found: re.Match[str]) -> str:
    """The bounds of a kernel for the most CTAs that leave a thread 8 more registers."""
    threads, ctas = int(found[1]), int(found[3])
    room = REGISTER_FILE // (threads * ctas) // 8 * 8 + 8
    fewer = max(1, min(ctas - 1, REGISTER_FILE // (threads * room)))
    return f".reqntid {threads}{found[2]}.minnctapersm {fewer}"


@cache_once
def _versions() -> str:
    """xDSL's installed version and Python's; importlib.metadata would cost a warm start 30 ms."""
    spec = importlib.util.find_spec("xdsl")
    if spec is None or spec.origin is None:
        xdsl = "none"
    else:
        package = Path(spec.origin).parent
        found = sorted(path.name for path in package.parent.glob("xdsl-*.dist-info"))
        xdsl = " ".join(found) or f"{package} {package.stat().st_mtime_ns}"
    return f"{xdsl} python {sys.version_info[:3]}"


__all__ = [
    "CompiledProgram",
    "PtxasNotFoundError",
    "assembled",
    "cached_program",
    "collections_held_back",
    "losses",
    "program_key",
    "read_program",
]

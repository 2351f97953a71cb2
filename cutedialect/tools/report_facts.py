"""What a report says of one kernel, gathered after it ran in the emulator: its program by line with
remarks and traffic, choices, resources beside limits, the model's prediction, where time goes, and
the loop that runs most. `report_page.py` shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from cutedialect.atoms import target
from cutedialect.backend.emulator import Report
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.ptx_text import source_files
from cutedialect.model import predict
from cutedialect.schedule import Schedule
from cutedialect.tools import role_bars, roofline, sass
from cutedialect.tools.model_command import described, parsed
from cutedialect.tools.timeline import Timeline

_WARPGROUP = 4  # warps that one wgmma counts for
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)")
_TENSOR_MEMORY_ATOM = re.compile(r"!cute_nvgpu\.sm10\d\.mma<(\d+)x(\d+)x(\d+)")
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_LABEL = re.compile(r"^\s*([\w$%]+):\s*(//.*)?$")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+([\w$%]+)\s*;")
# A loop inside of another is the one to show where it has this share of the other's instructions.
_INNER_SHARE = 0.8
# Registers of a thread, threads of a CTA: PTX's and the programming guide's limits.
_REGISTERS, _THREADS = 255, 1024
_REGISTERS_OF_SM = 65536


@dataclass
class LineFacts:
    """A line of Python: warp instructions, shared wavefronts and their minimum, bytes of global
    memory that threads asked for and the sectors that they touched, and remarks.
    """

    instructions: int = 0
    wavefronts: int = 0
    minimum: int = 0
    bytes: int = 0
    sectors: int = 0
    remarks: list[str] = field(default_factory=list[str])


# The schedule of a kernel in the IR of a stage.
_SCHEDULE = re.compile(r'#cute\.schedule<"([^"]*)">')


@dataclass(frozen=True)
class Resource:
    """What a kernel takes of something, beside what there is."""

    name: str
    taken: int
    limit: int
    said: str = ""


@dataclass(frozen=True)
class HotLine:
    """A PTX line of the loop that runs most."""

    text: str
    count: int
    location: str


@dataclass(frozen=True)
class Choice:
    """A field of the schedule: its value, what it means, and who decided on it."""

    value: str
    said: str
    decided: str


@dataclass(frozen=True)
class Facts:
    """All of it; a part that is not known is empty, and `missing` says why."""

    kernel: Kernel
    source: str
    program: dict[str, dict[int, LineFacts]]
    remarks: tuple[str, ...]
    choices: dict[str, Choice]
    resources: tuple[Resource, ...]
    prediction: str
    roofline: str
    roles: str
    timeline: Timeline | None
    report: str
    hot: tuple[HotLine, ...]
    machine: tuple[sass.Instruction, ...]
    missing: tuple[str, ...]


def facts_of(kernel: Kernel, timeline: Timeline | None, source: str) -> Facts:
    """Of a kernel whose last launch was in the emulator."""
    missing: list[str] = []
    reports = kernel.reports
    origins = _origins(kernel.ptx)
    hot = _hot_loop(kernel.ptx, origins, reports)
    machine: tuple[sass.Instruction, ...] = ()
    try:
        machine = sass.disassembled(kernel.cubin)
    except CompileError as error:
        missing.append(f"machine code: {error.message}")
    else:
        if not machine:
            missing.append(
                "machine code: no nvdisasm is installed (pip install 'cutedialect[sass]')"
            )
    if machine:
        lines = [each.location for each in hot]
        loop = sass.hot_loop(machine, lines)
        machine = machine[loop.start : loop.stop]
    prediction, picture, bars = _predicted(kernel, reports, missing)
    return Facts(
        kernel,
        source,
        _program(kernel, origins, reports),
        tuple(str(each) for each in kernel.remarks if each.location is None),
        _choices(kernel),
        _resources(kernel, missing),
        prediction,
        picture,
        bars,
        timeline,
        "\n".join(map(str, reports)),
        hot,
        machine,
        tuple(missing),
    )


def _origins(ptx: str) -> list[str]:
    """ "file:line" of each PTX line."""
    files, found, here = source_files(ptx), [], ""
    for line in ptx.split("\n"):
        if (match := _LOC.match(line)) and match[1] in files:
            here = f"{files[match[1]]}:{match[2]}"
        found.append(here)
    return found


def _program(
    kernel: Kernel, origins: Sequence[str], reports: Sequence[Report]
) -> dict[str, dict[int, LineFacts]]:
    """File to the facts of its lines."""
    found: dict[str, dict[int, LineFacts]] = {}

    def at(place: str) -> LineFacts:
        file, _, line = place.rpartition(":")
        return found.setdefault(file, {}).setdefault(int(line), LineFacts())

    def origin(number: int) -> str:
        return origins[number - 1] if 0 < number <= len(origins) else ""

    for report in reports:
        for number, count in report.lines.items():
            if place := origin(number):
                at(place).instructions += count
        for access in report.shared.values():
            if place := origin(access.ptx_line):
                facts = at(place)
                facts.wavefronts += access.wavefronts
                facts.minimum += access.minimum
        for access in report.global_.values():
            if place := origin(access.ptx_line):
                facts = at(place)
                facts.bytes += access.bytes
                facts.sectors += access.sectors
    for remark in kernel.remarks:
        if remark.location is not None:
            place = ":".join(remark.location.split(":")[:2])
            at(place).remarks.append(f"[{remark.pass_name}] {remark.message}")
    return found


def _choices(kernel: Kernel) -> dict[str, Choice]:
    """Field of the schedule to what was decided, and where."""
    text = Schedule.__doc__ or ""
    said = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", text, re.MULTILINE))
    chosen = Schedule.parse(kernel.schedule) if kernel.schedule else Schedule()
    values = dict(part.split(" = ", 1) for part in _parts(str(chosen.text())))
    decided = _decided(kernel)
    return {
        name: Choice(
            value,
            re.split(r"[.;:](?:\s|$)", " ".join(said.get(name, "").split()))[0],
            decided.get((name, value), "later than the stages here"),
        )
        for name, value in values.items()
    }


def _decided(kernel: Kernel) -> dict[tuple[str, str], str]:
    """Where a field got its value: in the call, or the first stage whose IR has it."""
    found: dict[tuple[str, str], str] = {}
    for stage, text in kernel.stages.items():
        where = "as the call has it" if stage == "trace" else f"by {stage}"
        for schedule in _SCHEDULE.findall(text):
            for part in _parts(schedule):
                name, _, value = part.partition(" = ")
                found.setdefault((name, value), where)
    return found


def _parts(text: str) -> list[str]:
    """The fields of a schedule's text, which has commas inside of values too."""
    return re.split(r", (?=\w+ = )", text) if text else []


def _resources(kernel: Kernel, missing: list[str]) -> tuple[Resource, ...]:
    chip = target(kernel.arch)
    entries = list(kernel.program.entries.values())
    threads = max((prod(entry.threads or (1,)) for entry in entries), default=1)
    found = [Resource("threads of a CTA", threads, _THREADS)]
    try:
        taken = kernel.resources
    except CompileError as error:
        missing.append(f"registers: {error.message}")
        smem = max(kernel.program.plan.smem.values(), default=0)
        return (*found, Resource("shared memory of a CTA", smem, chip.smem_per_cta))
    registers = Resource(
        "registers of a thread", taken.registers, _REGISTERS, f"{taken.spills} bytes spilled"
    )
    found += [registers, Resource("shared memory of a CTA", taken.smem, chip.smem_per_cta)]
    found.append(Resource("named barriers", taken.barriers, 16))
    per_sm = min(
        chip.max_ctas_per_sm,
        chip.max_threads_per_sm // threads,
        _REGISTERS_OF_SM // max(1, threads * -(-taken.registers // 8) * 8),
        chip.smem_per_sm // max(1, taken.smem + 1024),
    )
    most = chip.max_threads_per_sm // threads
    found.append(Resource("CTAs of an SM", max(1, per_sm), min(chip.max_ctas_per_sm, most)))
    return tuple(found)


def operations(kernel: Kernel, reports: Sequence[Report]) -> int | None:
    """Multiplies and adds of the tensor cores in the launches; None where the shape of a multiply
    cannot be told.
    """
    atoms = set(_TENSOR_MEMORY_ATOM.findall(kernel.stages.get("cute-synchronize", "")))
    total = 0
    for report in reports:
        for opcode, count in report.instructions.items():
            if not opcode.startswith(("mma.", "wgmma.mma", "tcgen05.mma")):
                continue
            shape = _SHAPE.search(opcode)
            if shape is None and len(atoms) == 1:
                (sizes,) = atoms
            elif shape is not None:
                sizes = shape.groups()
            else:
                return None
            share = _WARPGROUP if opcode.startswith("wgmma") else 1
            total += 2 * prod(map(int, sizes)) * count // share
    return total


def _predicted(
    kernel: Kernel, reports: Sequence[Report], missing: list[str]
) -> tuple[str, str, str]:
    """The model's table, the roofline with this launch, and pictures of the roles."""
    arguments = kernel.emulated_arguments
    try:
        if any(isinstance(value, list) for value in arguments):
            raise ValueError("expected tensors and numbers, got a list of tensors")
        module = parsed(kernel.stages["convert-to-ptx"])
        prediction = predict(module, arguments)
    except (ValueError, KeyError, CompileError) as error:
        missing.append(f"prediction: {error}")
        return "", "", ""
    text = described(prediction)
    bars = "\n".join(role_bars.svg(each) for each in prediction.kernels if each.roles)
    done = operations(kernel, reports)
    moved = sum(each.bytes for each in prediction.kernels)
    if not done or not moved:
        missing.append("roofline: no multiplies of tensor cores were counted")
        return text, "", bars
    bits = 8 if re.search(r"\.(e4m3|e5m2|s8|u8)\b", " ".join(_multiplies(reports))) else 16
    point = roofline.Point(
        kernel.name, done / moved, done / prediction.seconds, "predicted, this problem"
    )
    limit = min(
        roofline.peak(prediction.device, bits), point.intensity * prediction.device.memory_bytes
    )
    text += (
        f"\n{done:,} operations, padding included, on {moved:,.0f} bytes: {point.intensity:.1f} "
        f"for each byte, so that the device allows {limit / 1e12:.1f} TFLOP/s; predicted "
        f"{point.rate / 1e12:.2f}"
    )
    title = f"Roofline of {prediction.device.name}, {bits}-bit elements"
    return text, roofline.svg(prediction.device, [point], title, bits), bars


def _multiplies(reports: Sequence[Report]) -> list[str]:
    return [name for report in reports for name in report.instructions if "mma." in name]


def _hot_loop(ptx: str, origins: Sequence[str], reports: Sequence[Report]) -> tuple[HotLine, ...]:
    """The loop of PTX that runs most: an inner one where it is most of the outer one."""
    lines = ptx.split("\n")
    counts: Counter[int] = Counter()
    for report in reports:
        counts.update(report.lines)
    labels = {match[1]: at for at, line in enumerate(lines) if (match := _LABEL.match(line))}
    loops = {
        (labels[match[1]], at)
        for at, line in enumerate(lines)
        if (match := _BRANCH.search(line)) and labels.get(match[1], at) < at
    }
    weight = {
        loop: sum(counts[number] for number in range(loop[0] + 1, loop[1] + 2)) for loop in loops
    }
    if not weight:
        return ()
    best = max(weight, key=lambda loop: weight[loop])
    for loop in sorted(weight, key=lambda loop: loop[1] - loop[0]):
        inside = best[0] <= loop[0] and loop[1] <= best[1]
        if inside and weight[loop] >= _INNER_SHARE * weight[best]:
            best = loop
            break
    return tuple(
        HotLine(lines[at].strip(), counts[at + 1], origins[at])
        for at in range(best[0], best[1] + 1)
        if lines[at].strip() and not _LOC.match(lines[at])
    )


def source_lines(file: str, folder: Path) -> list[str]:
    """The lines of a source file that PTX names, which may be relative to the script's folder."""
    for path in (Path(file), folder / file, folder / Path(file).name):
        if path.is_file():
            return path.read_text(encoding="utf-8").split("\n")
    return []

"""`python -m cutedialect compile FILE.py:NAME SPEC... -o DIR`: a kernel's PTX, machine code, a JSON
description and headers for launchers without this project, and the IR of every stage as files. No
GPU needed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cutedialect.backend.runtime.description import described
from cutedialect.backend.runtime.errors import CompileError, PtxasNotFoundError
from cutedialect.backend.runtime.launchers import (
    Alternative,
    Image,
    TorchVariant,
    c_dispatcher,
    c_header,
    cpp_dispatcher,
    cpp_header,
    torch_module,
    tvm_ffi_module,
)
from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.backend.runtime.ptx_text import short_path, with_short_paths
from cutedialect.backend.runtime.ptxas import assemble
from cutedialect.backend.runtime.written_files import Owner, owners, write_files
from cutedialect.frontend.described_calls import described_call
from cutedialect.frontend.dumps import PLAIN_STAGE, is_stage
from cutedialect.frontend.launch import with_name
from cutedialect.schedule import Schedule

from .compiled_operators import call_named, operators_of, options_of
from .compiled_variants import VARIANTS, Words, manifest, variants_of
from .kernel_arguments import ARGUMENTS, argument, kernel_named, placed_errors, settings


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_intermixed_args(arguments)
    if options.embed and options.launcher is None:
        raise ValueError("--embed: expected --launcher c or --launcher cpp with it")
    options.embed |= options.launcher in ("tvm-ffi", "torch")  # a library has all that it runs
    if options.launcher == "torch":
        call_named(options.kernel)
    targets: list[str] = options.arch or ["sm_80"]
    if len(set(targets)) < len(targets):
        raise ValueError(f"--arch: expected each target once, got {', '.join(targets)}")
    variants = variants_of(options)
    name = options.name
    if options.variant:
        name = name or options.kernel.rpartition(":")[2].removeprefix("cute.")
    compiled = _compiled_all(options, name, variants, targets)
    name = name or compiled[0][0].name
    every = [part for parts in compiled for part in parts]
    owner = Owner(name, _source(options))
    written = _files(options, every, _prefix(options.out, owner, options.name is not None))
    written |= _launchers(options, name, variants, compiled)
    paths = write_files(options.out, written, is_stage, owner, force=options.force)
    files = [str(path) for path in paths]
    shown: dict[str, Any] = {"files": files, "kernel": every[0].description}
    if len(every) > 1:
        shown["kernels"] = [part.description for part in every]
    print(json.dumps(shown) if options.json else "\n".join(files))
    for part in every:
        print(f"{part.name} for {part.arch}: {part.said}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect compile",
        description="Write a kernel's PTX, machine code, JSON description and stages.",
        epilog=f"{ARGUMENTS}\n{VARIANTS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kernel", help="FILE.py:NAME of a @cute.kernel function, or cute.gemm and the like"
    )
    parser.add_argument("arguments", nargs="*", metavar="SPEC", help="an argument, see below")
    parser.add_argument("-o", "--out", type=Path, default=Path(), help="folder to write to")
    parser.add_argument(
        "--name", help="name of the kernel and of its files, where the folder has several"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the files of another kernel of this name"
    )
    parser.add_argument(
        "--arch",
        action="append",
        help="target, such as sm_90a (default sm_80); several, the best first, are one launcher's",
    )
    parser.add_argument(
        "--launcher",
        choices=("c", "cpp", "tvm-ffi", "torch"),
        help="write what launches the kernel, too: a header, a module of TVM FFI, or operators of "
        "torch",
    )
    parser.add_argument(
        "--embed", action="store_true", help="with --launcher: the images stand in the header"
    )
    parser.add_argument("--schedule", help="schedule text, such as 'stages = 3'")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a keyword argument, such as tile=(64,64), out_dtype=f32 or bias=?:f32",
    )
    parser.add_argument(
        "--variant",
        action="append",
        metavar="'NAME: SPEC ...'",
        help="a kernel of the same call for other types or alignments; several are one launcher's",
    )
    parser.add_argument("--json", action="store_true", help="print files and description as JSON")
    return parser


def _files(
    options: argparse.Namespace, compiled: Sequence[_Compiled], prefix: str
) -> dict[str, bytes]:
    """The files of each kernel, and its stages."""
    written: dict[str, bytes] = {}
    for part in compiled:
        written |= part.files
        before = f"{part.stem}-" if len(compiled) > 1 or options.variant else prefix
        for number, (stage, text) in enumerate(part.stages.items()):
            written[f"{before}{number:02}-{stage}.mlir"] = text.encode()
    return written


def _launchers(
    options: argparse.Namespace,
    name: str,
    variants: Sequence[Words],
    compiled: Sequence[Sequence[_Compiled]],
) -> dict[str, bytes]:
    """What launches each variant and all of them, where that is asked for, and the manifest."""
    written: dict[str, bytes] = {}
    if options.launcher is not None:
        for parts in compiled:
            written |= _launcher(options, parts)
    if options.launcher == "torch":
        written |= _operators(options, name or compiled[0][0].name, variants, compiled)
    if not options.variant:
        return written
    if options.launcher not in (None, "torch"):
        written |= _dispatcher(options, name, variants, compiled)
    targeted = [[_target(part) for part in parts] for parts in compiled]
    pairs = list(zip(variants, targeted, strict=True))
    return written | {f"{name}.manifest.json": manifest(name, options.kernel, pairs)}


def _compiled_all(
    options: argparse.Namespace,
    name: str | None,
    variants: Sequence[Words],
    targets: Sequence[str],
) -> list[list[_Compiled]]:
    """The kernels of each variant for each target; a terminal is shown how far that is."""
    line, count = ProgressLine(), len(variants) * len(targets)
    made: list[list[_Compiled]] = []
    try:
        for words in variants:
            made.append([])
            for arch in targets:
                number = sum(map(len, made)) + 1
                what = options.kernel if words.name is None else words.name
                line.show(f"compiling {what} for {arch}: {number} of {count}")
                kernel = _kernel_name(name, words)
                made[-1].append(_compiled(options.kernel, words, kernel, arch, len(targets) > 1))
    finally:
        line.clear()
    return made


def _kernel_name(name: str | None, words: Words) -> str | None:
    return name if words.name is None else f"{name}_{words.name}"


def _target(part: _Compiled) -> dict[str, Any]:
    """What a manifest says of a kernel for one target."""
    return {"arch": part.arch, "files": sorted(part.files)}


@dataclass(frozen=True)
class _Compiled:
    """A kernel for one target: its files, its description, its stages and what there is to say."""

    name: str
    arch: str
    stem: str
    files: dict[str, bytes]
    images: tuple[Image, ...]
    description: dict[str, Any] | None
    refusal: CompileError | None
    stages: Mapping[str, str]
    said: str


def _compiled(
    named: str, words: Words, name: str | None, arch: str, is_one_of_several: bool
) -> _Compiled:
    cute: Any = import_module("cutedialect")
    program = kernel_named(named)
    given = [argument(text) for text in words.arguments]
    keywords = settings(words.settings) | {"arch": arch, "schedule": words.schedule}
    with placed_errors():
        kernel = cute.compile(program, *given, **keywords)
    if name is not None:
        kernel = with_name(kernel, name)
    stem = f"{kernel.name}.{arch}" if is_one_of_several else kernel.name
    ptx = with_short_paths(kernel.ptx)
    images = [Image(arch, f"{stem}.ptx", ptx.encode())]
    assembly = None
    try:
        assembly = kernel.assembly
        # That of the cache has the paths of the machine among its lines.
        images.insert(0, Image(arch, f"{stem}.cubin", assemble(ptx, kernel.arch).cubin))
        resources = kernel.resources
        said = (
            f"{resources.registers} registers, {resources.spills} bytes of spills, "
            f"{resources.smem} bytes of shared memory"
        )
    except PtxasNotFoundError as error:
        said = f"no cubin: {error.message}"
    files = {image.file: image.data for image in reversed(images)}
    description = refusal = None
    try:
        call = described_call(program, given, keywords)
        description = described(kernel.program, assembly, call)
        files[f"{stem}.json"] = (json.dumps(description, indent=1) + "\n").encode()
    except CompileError as error:
        refusal = error
        said += f"; no description: {error.message}"
    return _Compiled(
        kernel.name, arch, stem, files, tuple(images), description, refusal, kernel.stages, said
    )


def _launcher(options: argparse.Namespace, compiled: Sequence[_Compiled]) -> dict[str, bytes]:
    """The headers of a kernel."""
    descriptions = [_description(part) for part in compiled]
    images = [image for part in compiled for image in part.images]
    return _headers(
        options,
        compiled[0].name,
        c_header(descriptions, images, embed=options.embed),
        lambda: cpp_header(descriptions, embed=options.embed),
        None if options.variant else descriptions[0],
    )


def _dispatcher(
    options: argparse.Namespace,
    name: str,
    variants: Sequence[Words],
    compiled: Sequence[Sequence[_Compiled]],
) -> dict[str, bytes]:
    """The headers of all variants together."""
    alternatives = [
        Alternative(str(words.name), _description(parts[0]))
        for words, parts in zip(variants, compiled, strict=True)
    ]
    return _headers(
        options,
        name,
        c_dispatcher(name, alternatives, embed=options.embed),
        lambda: cpp_dispatcher(name, embed=options.embed),
        alternatives[0].description,
    )


def _operators(
    options: argparse.Namespace,
    name: str,
    variants: Sequence[Words],
    compiled: Sequence[Sequence[_Compiled]],
) -> dict[str, bytes]:
    """The operators of torch that run the variants."""
    call = call_named(options.kernel)
    rows = [
        TorchVariant(words.name or name, _description(parts[0]), options_of(call, words))
        for words, parts in zip(variants, compiled, strict=True)
    ]
    return {f"{name}_torch.cc": torch_module(name, operators_of(call), rows).encode()}


def _headers(
    options: argparse.Namespace,
    name: str,
    in_c: str,
    in_cpp: Callable[[], str],
    called: Mapping[str, Any] | None,
) -> dict[str, bytes]:
    """The header in C, and what `--launcher` has on top of it: one in C++, or the module of TVM FFI
    of a call, where one is described.
    """
    texts = {f"{name}.h": in_c}
    if options.launcher == "cpp":
        texts[f"{name}.hpp"] = in_cpp()
    if options.launcher == "tvm-ffi" and called is not None:
        texts[f"{name}_tvm_ffi.cc"] = tvm_ffi_module(name, called)
    return {file: text.encode() for file, text in texts.items()}


def _description(part: _Compiled) -> dict[str, Any]:
    """What a launcher is written from; raises CompileError where there are no words for it."""
    if part.refusal is not None:
        raise part.refusal
    assert part.description is not None
    return part.description


def _source(options: argparse.Namespace) -> str:
    """What is compiled, in words of the command line: a run with others is for another kernel."""
    file, colon, name = options.kernel.rpartition(":")
    kernel = f"{short_path(file)}:{name}" if colon else options.kernel
    given = [kernel, *options.arguments]
    given += [word for arch in options.arch or ["sm_80"] for word in ("--arch", arch)]
    given += [word for text in options.set for word in ("--set", text)]
    given += [word for text in options.variant or () for word in ("--variant", text)]
    if options.schedule is not None:
        given += ["--schedule", str(Schedule.parse(options.schedule).text())]
    return " ".join(shlex.join(given).split())


def _prefix(folder: Path, owner: Owner, is_named: bool) -> str:
    """What the names of stages begin with: nothing, or the kernel's name where it was chosen, or
    where those without belong to a kernel of another name.
    """
    others = (each.kernel for name, each in owners(folder).items() if PLAIN_STAGE.fullmatch(name))
    is_taken = any(kernel not in ("", owner.kernel) for kernel in others)
    return f"{owner.kernel}-" if is_named or is_taken else ""

"""``cute-emu``: run a kernel of a PTX file in the emulator on ``.npy`` files. Exit status 0: it
ran; 1: the kernel or its text is at fault (a report is printed); 2: wrong usage.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cutedialect import __version__
from cutedialect.backend.emulator import EmulatorError, launch
from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.tools.streams import drop_output, open_streams, output_fault

_SCALARS = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32,
    "s32": np.int32, "u64": np.uint64, "s64": np.int64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip

_ARGUMENTS = """arguments, in the order of the kernel's parameters:
  a.npy         an array, read and written in memory only
  c.npy:rw      an array that is saved after the run (into --out DIR, else in place)
  zeros:64x32:f32   a fresh zero array, saved as argN.npy when --out is given
  7:u32 -1:s32 0.5:f32   a scalar: u8 s8 u16 s16 u32 s32 u64 s64 f16 f32 f64
  tma:a.npy,box=64x128,swizzle=128B   a tensor map of an array (as above), the box innermost
                dimension first; also steps=1x2 (element strides), fill=nan, dtype=bf16
"""


_MAP_OPTIONS = ("box", "swizzle", "steps", "fill", "dtype")


class _UsageError(Exception):
    pass


def _extent(text: str) -> tuple[int, ...]:
    try:
        parts = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        parts = ()
    if not 1 <= len(parts) <= 3 or any(part < 1 for part in parts):
        raise argparse.ArgumentTypeError(f"expected 1 to 3 positive ints (4 or 4,2), got {text!r}")
    return parts


def _scalar(text: str, kind: str) -> Any:
    dtype = _SCALARS[kind]
    try:
        if kind.startswith("f"):
            return dtype(float(text))
        value = int(text, 0)
    except ValueError:
        raise _UsageError(f"argument '{text}:{kind}': expected a number, got {text!r}") from None
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise _UsageError(f"argument '{text}:{kind}': {value} does not fit {kind}")
    return dtype(value)


def _argument(position: int, text: str) -> tuple[Any, str | None]:
    """``(value, file name to save under)``."""
    if text.startswith("tma:"):
        return _tensor_map(position, text)
    if text.startswith("zeros:"):
        parts = text.split(":")
        if len(parts) != 3 or parts[2] not in _SCALARS:
            raise _UsageError(
                f"argument '{text}': expected zeros:SHAPE:TYPE such as zeros:64x32:f32"
            )
        try:
            shape = tuple(int(n) for n in parts[1].split("x"))
        except ValueError:
            raise _UsageError(f"argument '{text}': expected a shape such as 64x32") from None
        try:
            return np.zeros(shape, _SCALARS[parts[2]]), f"arg{position}.npy"
        except (MemoryError, ValueError) as error:
            raise _UsageError(f"argument '{text}': {error}") from None
    name, colon, suffix = text.rpartition(":")
    if colon and suffix in _SCALARS:
        return _scalar(name, suffix), None
    keep = bool(colon) and suffix == "rw"
    path = Path(name if keep else text)
    if path.suffix != ".npy":
        raise _UsageError(
            f"argument '{text}': expected FILE.npy, FILE.npy:rw, NUMBER:TYPE or zeros:SHAPE:TYPE "
            f"(types: {', '.join(_SCALARS)})"
        )
    try:
        return np.load(path, allow_pickle=False), str(path) if keep else None
    except (OSError, ValueError, EOFError) as error:
        raise _UsageError(f"argument '{text}': cannot read {path}: {error}") from None


def _tensor_map(position: int, text: str) -> tuple[dict[str, Any], str | None]:
    source, *options = text.removeprefix("tma:").split(",")
    array, keep = _argument(position, source)
    if not isinstance(array, np.ndarray):
        raise _UsageError(f"argument '{text}': expected an array after tma:, got {source!r}")
    given: dict[str, str] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key not in _MAP_OPTIONS or not value:
            raise _UsageError(
                f"argument '{text}': expected {', '.join(f'{k}=' for k in _MAP_OPTIONS)} "
                f"after the array, got {option!r}"
            )
        given[key] = value
    if "box" not in given:
        raise _UsageError(f"argument '{text}': expected a box such as box=64x128")
    try:
        box, steps = (
            tuple(int(n) for n in given[key].split("x")) if key in given else (1,) * array.ndim
            for key in ("box", "steps")
        )
    except ValueError:
        raise _UsageError(f"argument '{text}': expected extents such as 64x128") from None
    described = {
        "array": array, "dtype": given.get("dtype", array.dtype), "dims": array.shape[::-1],
        "strides": array.strides[-2::-1], "box": box, "element_strides": steps,
        "swizzle": given.get("swizzle", "none"), "interleave": "none",
        "oob_fill": given.get("fill", "zero"),
    }  # fmt: skip
    return described, keep


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cute-emu", description=__doc__, epilog=_ARGUMENTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="store_true", help="show the version")
    parser.add_argument("ptx", help="the PTX file")
    parser.add_argument("args", nargs="*", help="kernel arguments, see below")
    parser.add_argument("--entry", required=True, help="name of the kernel")
    parser.add_argument("--grid", type=_extent, required=True, metavar="X[,Y[,Z]]")
    parser.add_argument("--block", type=_extent, required=True, metavar="X[,Y[,Z]]")
    parser.add_argument("--cluster", type=_extent, metavar="X[,Y[,Z]]")
    parser.add_argument("--smem", type=int, default=0, help="bytes of dynamic shared memory")
    parser.add_argument("--seed", type=int, default=0, help="draws the order of threads")
    parser.add_argument("--max-steps", type=int, help="stop after that many instructions")
    parser.add_argument("--out", type=Path, help="folder for the arrays marked :rw")
    return parser


def _negative_scalars(argv: list[str]) -> list[str]:
    """Keep ``-1:s32`` from being taken for an option."""
    return [" " + a if a[:1] == "-" and a[1:2].isdigit() else a for a in argv]


def main(argv: list[str] | None = None) -> int:
    """The console script; returns the exit status."""
    open_streams()
    try:
        status = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe had enough
        drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        fault = output_fault(error)
        if fault is None:
            raise
        print(f"cute-emu: {fault}", file=sys.stderr)
        return 1
    return status


def _run(argv: list[str] | None) -> int:
    given = sys.argv[1:] if argv is None else argv
    if given == ["--version"]:
        print(f"cute-emu {__version__}")
        return 0
    parser = _parser()
    try:
        options = parser.parse_intermixed_args(_negative_scalars(given))
    except SystemExit as stop:
        return int(stop.code or 0) and 2
    try:
        try:
            text = Path(options.ptx).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _UsageError(f"cannot read {options.ptx}: {error}") from None
        arguments = [_argument(i, a.strip()) for i, a in enumerate(options.args)]
        limits = {} if options.max_steps is None else {"max_steps": options.max_steps}
        try:
            report = launch(
                text, options.entry, options.grid, options.block, [value for value, _ in arguments],
                options.smem, options.cluster, seed=options.seed, **limits,
            )  # fmt: skip
        except EmulatorError as error:
            if error.code == "CD-ARG":
                raise _UsageError(error.message) from None
            print(f"{options.ptx}: {error}", file=sys.stderr)
            return 1
        _save(arguments, options.out)
    except _UsageError as error:
        print(f"cute-emu: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(report.output)
    print(report)
    return 0


def _save(arguments: list[tuple[Any, str | None]], out: Path | None) -> None:
    try:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        for value, name in arguments:
            if name is None or (out is None and not Path(name).exists()):
                continue
            saved = io.BytesIO()
            np.save(saved, value["array"] if isinstance(value, dict) else value)
            write_whole(Path(name) if out is None else out / Path(name).name, saved.getvalue())
    except OSError as error:
        raise _UsageError(f"cannot write the results: {error}") from None


if __name__ == "__main__":
    sys.exit(main())

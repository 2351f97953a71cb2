"""Reproducers as MLIR has them: a module with the passes that fail on it, in the metadata of the
file, so that `cute-opt --run-reproducer FILE` fails in the same way without a command line.

    {-#
      external_resources: {
        mlir_reproducer: {
          pipeline: "builtin.module(cute-partition{arch=\\"sm_80\\"})",
          disable_threading: true,
          verify_each: true
        }
      }
    #-}
"""

from __future__ import annotations

import json
import re

_METADATA = re.compile(r"\{-#.*?#-\}[ \t]*\n?", re.DOTALL)
_REPRODUCER = re.compile(
    r"\{-#\s*external_resources\s*:\s*\{\s*mlir_reproducer\s*:\s*\{(?P<entries>.*?)\}\s*\}\s*#-\}",
    re.DOTALL,
)
_ENTRY = re.compile(r'(?P<name>\w+)\s*:\s*(?P<value>"(?:[^"\\]|\\.)*+"|\w+)')


def with_pipeline(module: str, pipeline: str, verify_each: bool = True) -> str:
    """The text of a module with the metadata that names the passes for it.

    >>> text = with_pipeline("builtin.module {\\n}\\n", "builtin.module(cse)")
    >>> read_reproducer(text)
    ('builtin.module(cse)', True)
    """
    return (
        f"{module}\n{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n"
        f"      pipeline: {json.dumps(pipeline)},\n      disable_threading: true,\n"
        f"      verify_each: {str(verify_each).lower()}\n    }}\n  }}\n#-}}\n"
    )


def read_reproducer(text: str) -> tuple[str, bool] | None:
    """The passes that a file names, and whether each is verified; None of a file without them."""
    match = _REPRODUCER.search(text)
    if match is None:
        return None
    entries = {entry["name"]: entry["value"] for entry in _ENTRY.finditer(match["entries"])}
    if not entries.get("pipeline", "").startswith('"'):
        return None
    try:
        pipeline = json.loads(entries["pipeline"])
    except ValueError:
        return None
    return pipeline, entries.get("verify_each", "true") == "true"


def without_reproducer(text: str) -> str:
    """The text with empty lines where the metadata of a reproducer was."""
    if _REPRODUCER.search(text) is None:
        return text
    return _METADATA.sub(lambda match: "\n" * match[0].count("\n"), text)

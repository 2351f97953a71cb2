"""A kernel's launcher as a C++17 header on top of the C one: an object that loads and unloads,
takes typed tensors, and throws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .texts import text_of

_CLASS = """\
namespace cutedialect {{

// A kernel of the context that is current; see {name}.h for workspaces and threads.
class {name} {{
 public:
  using arguments = {name}_arguments;

  explicit {name}(const char *folder) {{
    cute_error told;
    check({name}_load_files(&kernel_, folder, &told), told);
  }}
{images}{embedded}  ~{name}() {{ {name}_unload(&kernel_); }}
  {name}(const {name} &) = delete;
  {name} &operator=(const {name} &) = delete;
  {name}({name} &&other) noexcept : kernel_(other.kernel_) {{ other.kernel_ = {name}_kernel{{}}; }}
  {name} &operator=({name} &&other) noexcept {{
    std::swap(kernel_, other.kernel_);
    return *this;
  }}

  // Bytes of workspace that a problem takes.
  std::size_t workspace(const arguments &given) {{
    cute_error told;
    std::size_t bytes = 0;
    check({name}_workspace(&kernel_, &given, &bytes, &told), told);
    return bytes;
  }}
  void clear(const arguments &given, CUdeviceptr workspace, std::size_t bytes,
             CUstream stream = nullptr) {{
    cute_error told;
    check({name}_clear(&kernel_, &given, workspace, bytes, stream, &told), told);
  }}
  void operator()(const arguments &given, CUstream stream = nullptr, CUdeviceptr workspace = 0,
                  std::size_t bytes = 0) {{
    cute_error told;
    check({name}_launch(&kernel_, &given, workspace, bytes, stream, &told), told);
  }}
{told}
 private:
  {name}_kernel kernel_{{}};
}};

}}  // namespace cutedialect
"""
_EMBEDDED = """\
  {name}() {{
    cute_error told;
    check({name}_load_embedded(&kernel_, &told), told);
  }}
"""


_IMAGES = """\
  {name}(const cute_image *images, std::size_t count) {{
    cute_error told;
    check({name}_load(&kernel_, images, count, &told), told);
  }}
"""
_TARGET = """\
  // The target that the device runs.
  const char *target() const {{ return {name}_targets[kernel_.variant]; }}
"""
_VARIANT = """\
  // The name of the variant that takes some arguments.
  const char *variant(const arguments &given) {{
    cute_error told;
    int number = 0;
    check({name}_variant(&kernel_, &given, &number, &told), told);
    return {name}_variants[number];
  }}
"""


def cpp_header(descriptions: Sequence[Mapping[str, Any]], *, embed: bool = False) -> str:
    """The header NAME.hpp of the kernel whose NAME.h stands beside it."""
    return _header(str(descriptions[0]["name"]), embed, _IMAGES, _TARGET)


def cpp_dispatcher(name: str, *, embed: bool = False) -> str:
    """The header NAME.hpp of several variants, whose NAME.h stands beside it."""
    return _header(name, embed, "", _VARIANT)


def _header(name: str, embed: bool, images: str, told: str) -> str:
    parts = {"embedded": _EMBEDDED if embed else "", "images": images, "told": told}
    parts = {key: text.format(name=name) for key, text in parts.items()}
    guard = f"CUTEDIALECT_{name.upper()}_HPP"
    return "\n".join(
        [
            f"// {name}.hpp: {name}.h for C++17. Written by `python -m cutedialect compile "
            "--launcher cpp`.",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <utility>",
            "",
            f'#include "{name}.h"',
            "",
            text_of("shared.hpp"),
            _CLASS.format(name=name, **parts),
            f"#endif  // {guard}",
            "",
        ]
    )

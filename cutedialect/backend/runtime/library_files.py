"""Which files are installed packages' or Python's own, by their paths."""

from __future__ import annotations

import os
import sysconfig

# A user's module may share its name with one of the standard library ("test"), never its folder.
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep


def is_library_file(file: str) -> bool:
    """Whether a file is of an installed package or of Python's library."""
    return is_package_file(file) or file.startswith(_STANDARD_LIBRARY)


def is_package_file(file: str) -> bool:
    """Whether a file is of an installed package."""
    return "site-packages" in file or "dist-packages" in file

"""Whether the files in dist/ are complete: the source distribution has every file that is under
version control, the wheel every file of the package and no other, and the package's page no link
that leads nowhere outside of the repository. Exits with 1 and says what is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def main(root: Path) -> int:
    """Check the one source distribution and the one wheel; returns the exit code."""
    [source], [wheel] = (root / "dist").glob("*.tar.gz"), (root / "dist").glob("*.whl")
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False
    )
    with tarfile.open(source) as files:
        packed = {name.partition("/")[2] for name in files.getnames()}
    tracked = set(listed.stdout.split("\n")) - {""} if listed.returncode == 0 else packed
    faults = [f"not in {source.name}: {name}" for name in sorted(tracked - packed)]
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        [page] = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = files.read(page).decode()
    ours = {name for name in tracked if name.startswith("cutedialect/")}
    faults += [f"not in {wheel.name}: {name}" for name in sorted(ours - names)]
    strangers = {name for name in names if ".dist-info/" not in name} - ours
    faults += [f"not of the package: {name}" for name in sorted(strangers)]
    faults += [
        f"a relative link on the package's page: {link}"
        for pair in re.findall(r"\]\(([^)]+)\)|^\[[^]]+\]: (\S+)", text, re.MULTILINE)
        if (link := "".join(pair)) and not link.startswith(("https://", "#"))
    ]
    print("\n".join(faults) or f"{source.name} and {wheel.name} are complete")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

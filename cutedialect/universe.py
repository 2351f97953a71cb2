"""What `xdsl-opt` and the other xDSL tools find through the `xdsl.universe` entry point: the same
lazy tables as `cute-opt`, without the names that xDSL already brings.
"""

from xdsl.universe import Universe

from cutedialect.dialects import our_dialects
from cutedialect.passes import our_passes
from cutedialect.tools.targets import our_targets

UNIVERSE = Universe(
    all_dialects=our_dialects(),
    all_passes=our_passes(),
    all_targets=our_targets(),
)

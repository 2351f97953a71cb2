"""From a tile program to the tiles of a CTA: loops are fused, a schedule is chosen or completed,
and each CTA (or persistent loop) learns which tiles it computes. Passes:
`cute-structure-exits`, `cute-fuse`, `cute-tile`.
"""

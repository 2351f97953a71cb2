"""From tiles to threads: the atom of every multiply and copy, layouts of register tiles, buffers in
shared and tensor memory, tensor maps. Passes: `cute-partition`, `cute-defer-sums`.
"""

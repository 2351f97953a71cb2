"""From bound tiles to the ptx dialect, one thread's view: addresses, fragments, instructions. Pass:
`convert-to-ptx`.
"""

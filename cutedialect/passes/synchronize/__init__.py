"""What waits for what: barriers, groups, fences and phases, derived from the order of the
operations. Pass: `cute-synchronize`.
"""

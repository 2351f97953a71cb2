"""Who does what: the warps of a role, its registers, the resources that all roles share, and the
split into one program a role. Pass: `cute-assign-warp-roles`.
"""

"""When it is done: stage and order of the operations of a loop, work of one trip beside that of
another, loops without branches or copies. Passes: `cute-schedule-loops`, `cute-split-loops`,
`cute-unroll-loops`.
"""

"""Questions about a kernel that several stages ask: what a value is a view of, which layouts tiles
can have, which atom multiplies, what buffers, registers and tensor memory are taken. Nothing here
changes the IR but attributes by which one stage tells a later one what it decided.
"""

"""The independent check of synchronized programs: `cute-check-protocol`.

It is a second reading of the PTX manual. `events.py` says what each op reads, writes, starts and
waits for; `skeleton.py` takes the integers, the control flow and the events of each role out of a
kernel; `machine.py` runs the roles side by side with clocks and reports what nothing orders.
It imports dialects and layouts, nothing of the passes that it judges and none of their tables.
"""

"""The room that decides: schedules are listed as data, those that a device has no room for are left
out, and the others are ranked by a price. It knows schedules, targets, and the facts of problems
that it is handed; nothing of the IR, of calls, or of arrays.
"""

"""Several workers that answer requests side by side, each in a process of its own with a time limit
for every answer: a request that hangs or kills its worker costs that one answer.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any

from .supervisor import NoDeviceError, Supervisor, WorkerError

Answer = dict[str, Any] | WorkerError


def answers(
    requests: Sequence[dict[str, Any]],
    command: Sequence[str],
    workers: int,
    patience: float,
    until: float | None = None,
) -> Generator[tuple[int, Answer]]:
    """The number of each request and its answer, as they come, `until` a moment of the monotonic
    clock; `patience` is in seconds. Who stops listening ends the workers.

    Raises NoDeviceError when a worker has nothing to work on.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(requests)):
        waiting.put(number)
    given: queue.SimpleQueue[tuple[int, Answer] | NoDeviceError] = queue.SimpleQueue()
    stopped = threading.Event()
    running = [Supervisor(patience, command) for _ in range(min(workers, len(requests)))]

    def serve(worker: Supervisor) -> None:
        try:
            with worker:
                while not stopped.is_set():
                    try:
                        number = waiting.get_nowait()
                    except queue.Empty:
                        return
                    try:
                        given.put((number, worker.ask(requests[number])))
                    except WorkerError as error:
                        given.put((number, error))
        except (NoDeviceError, WorkerError) as error:  # it does not start
            given.put(NoDeviceError(str(error)))

    threads = [threading.Thread(target=serve, args=(each,), daemon=True) for each in running]
    for thread in threads:
        thread.start()
    try:
        for _ in requests:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            try:
                got = given.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(got, NoDeviceError):
                raise got
            yield got
    finally:
        stopped.set()
        for worker, thread in zip(running, threads, strict=True):
            while thread.is_alive():
                # It may have been about to ask, which starts a worker that was killed anew.
                worker.kill()
                thread.join(0.1)

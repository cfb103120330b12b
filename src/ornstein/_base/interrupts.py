"""Ctrl-C, heard between chunks: what was drawn is kept."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def listening() -> Iterator[Callable[[], bool]]:
    """While open, a first SIGINT only asks to stop; a second one interrupts at once.

    Yields what tells whether it was asked. Handlers of a user's own are left alone, and threads
    other than the main one hear nothing.
    """
    asked = threading.Event()

    def hear(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not ours:
        yield asked.is_set
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)

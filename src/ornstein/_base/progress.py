"""Rich progress bars on standard error. Rich is imported when the first one is asked for.

``show=None`` shows a bar on terminals only.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from ornstein._base import multihost

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn


PATIENCE = 2.0
"""Seconds after which a phase without a bar says what it is."""

_waiting: set[threading.Timer] = set()  # phases that have said nothing yet


@contextmanager
def phase(title: str, show: bool | None, patience: float | None = None) -> Iterator[None]:
    """Say what is being done, on one line, if it takes longer than two seconds.

    A bar that opens meanwhile says it instead. Of the processes of one run, the first speaks.
    """

    def say() -> None:
        _waiting.discard(timer)
        console = _console(show)
        console.print(f"{title} ...", markup=False, highlight=False)

    timer = threading.Timer(PATIENCE if patience is None else patience, say)
    timer.daemon = True
    if show is not False and multihost.number() == 0:
        _waiting.add(timer)
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _waiting.discard(timer)


def display(show: bool | None, *columns: "ProgressColumn") -> "Progress":
    """Descriptions, bars and further columns, to be opened; silent where it is not to be shown."""
    from rich.progress import BarColumn, Progress, TextColumn

    for timer in tuple(_waiting):
        timer.cancel()
        _waiting.discard(timer)
    console = _console(show)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=console,
        refresh_per_second=2,  # drawing it takes time from the chains, which keep every core busy
        disable=console.quiet,
    )


def _console(show: bool | None) -> "Console":
    from rich.console import Console

    console = Console(stderr=True, force_terminal=True if show else None)
    console.quiet = not (console.is_terminal if show is None else show)
    return console


def bar(
    title: str, show: bool | None
) -> Callable[[int], AbstractContextManager[Callable[[int, int], None]]]:
    """A bar over steps. Of the processes of one run, the first shows it."""

    @contextmanager
    def opened(total: int) -> Iterator[Callable[[int, int], None]]:
        from rich.progress import TaskProgressColumn, TextColumn, TimeRemainingColumn

        speed = TaskProgressColumn(show_speed=True)
        steps = TextColumn("{task.completed:,} of {task.total:,} steps")
        ours = show if multihost.number() == 0 else False
        with display(ours, speed, steps, TimeRemainingColumn()) as shown:
            task = shown.add_task(title, total=total)
            yield lambda done, total: shown.update(task, completed=done, total=total)

    return opened


@contextmanager
def each(title: str, total: int, show: bool | None) -> Iterator[Callable[[str], None]]:
    """A bar over ``total`` named pieces of work; called with a piece's name as it begins."""
    from rich.markup import escape
    from rich.progress import TaskProgressColumn

    with display(show, TaskProgressColumn()) as shown:
        task = shown.add_task(title, total=total)
        begun = 0

        def ready(name: str) -> None:
            nonlocal begun
            shown.update(task, completed=begun, description=escape(f"{title}: {name}"))
            begun += 1

        yield ready
        shown.update(task, completed=total, description=title)

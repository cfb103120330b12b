"""A Rich progress bar between chunks; nothing where there is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ornstein._base import multihost


def bar(
    title: str, show: bool | None
) -> Callable[[int], AbstractContextManager[Callable[[int, int], None]]]:
    """A bar on standard error; ``show=None`` shows it on terminals only.

    Of the processes of one run, the first shows it.
    """
    show = show if multihost.number() == 0 else False

    @contextmanager
    def opened(total: int) -> Iterator[Callable[[int, int], None]]:
        console = Console(stderr=True, force_terminal=True if show else None)
        if not (console.is_terminal if show is None else show):
            yield lambda _done, _total: None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(show_speed=True),
            TextColumn("{task.completed:,} of {task.total:,} steps"),
            TimeRemainingColumn(),
        )
        # Drawing it takes time from the chains, which keep every core busy.
        with Progress(*columns, console=console, refresh_per_second=2) as progress:
            task = progress.add_task(title, total=total)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    return opened


@contextmanager
def each(title: str, total: int, show: bool | None) -> Iterator[Callable[[str], None]]:
    """A bar over ``total`` named pieces of work; called with a piece's name as it begins."""
    console = Console(stderr=True, force_terminal=True if show else None)
    if not (console.is_terminal if show is None else show):
        yield lambda _name: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total)
        begun = 0

        def ready(name: str) -> None:
            nonlocal begun
            progress.update(task, completed=begun, description=escape(f"{title}: {name}"))
            begun += 1

        yield ready
        progress.update(task, completed=total, description=title)

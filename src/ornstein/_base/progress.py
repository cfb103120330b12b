"""A Rich progress bar between chunks; nothing where there is no terminal.

Rich is imported when the first one is asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from ornstein._base import multihost

if TYPE_CHECKING:
    from rich.console import Console


def bar(
    title: str, show: bool | None
) -> Callable[[int], AbstractContextManager[Callable[[int, int], None]]]:
    """A bar on standard error; ``show=None`` shows it on terminals only.

    Of the processes of one run, the first shows it.
    """
    show = show if multihost.number() == 0 else False

    @contextmanager
    def opened(total: int) -> Iterator[Callable[[int, int], None]]:
        console = _terminal(show)
        if console is None:
            yield lambda _done, _total: None
            return
        from rich import progress as rich

        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(show_speed=True),
            rich.TextColumn("{task.completed:,} of {task.total:,} steps"),
            rich.TimeRemainingColumn(),
        )
        # Drawing it takes time from the chains, which keep every core busy.
        with rich.Progress(*columns, console=console, refresh_per_second=2) as display:
            task = display.add_task(title, total=total)
            yield lambda done, total: display.update(task, completed=done, total=total)

    return opened


@contextmanager
def each(title: str, total: int, show: bool | None) -> Iterator[Callable[[str], None]]:
    """A bar over ``total`` named pieces of work; called with a piece's name as it begins."""
    console = _terminal(show)
    if console is None:
        yield lambda _name: None
        return
    from rich import progress as rich
    from rich.markup import escape

    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn()
    with rich.Progress(*columns, console=console) as display:
        task = display.add_task(title, total=total)
        begun = 0

        def ready(name: str) -> None:
            nonlocal begun
            display.update(task, completed=begun, description=escape(f"{title}: {name}"))
            begun += 1

        yield ready
        display.update(task, completed=total, description=title)


def _terminal(show: bool | None) -> "Console | None":
    """Standard error where a bar is to be shown there, else None."""
    from rich.console import Console

    console = Console(stderr=True, force_terminal=True if show else None)
    return console if (console.is_terminal if show is None else show) else None

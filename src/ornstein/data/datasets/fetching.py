"""From the publisher to the data folder, completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch
from requests import HTTPError, RequestException, Response
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ornstein.data.datasets.catalogue import Spec
from ornstein.data.datasets.parsing import Arrays, parse
from ornstein.data.datasets.store import DatasetError, check, write

CHUNK_BYTES = 1 << 16
TIMEOUT_SECONDS = 30


class ByteBar:
    """One file's line in a Rich display, with the methods Pooch expects of a progress bar."""

    def __init__(self, display: Progress, label: str) -> None:
        self._display = display
        self._task = display.add_task(label, total=None)
        self._total = 0

    @property
    def total(self) -> int:
        """Size of the file in bytes, 0 while unknown."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        self._display.update(self._task, total=size or None)

    def update(self, count: int) -> None:
        """Count bytes as received."""
        self._display.update(self._task, advance=count)

    def reset(self) -> None:
        """Start again from nothing received."""
        self._display.update(self._task, completed=0)

    def close(self) -> None:
        """Do nothing: the display closes all its lines together."""


def fetch(spec: Spec, folder: Path, progress: bool | None, base_url: str | None) -> Path:
    """Download, parse, check and store a data set, replacing a stored one.

    Everything happens in a temporary folder inside `folder`, gone when this returns or raises.
    """
    target = folder / spec.filename
    urls = spec.urls(base_url)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{spec.name}-", dir=folder) as name:
            scratch = Path(name)
            paths = [scratch / file for file in spec.files]
            with _display(progress) as display:
                for url, path in zip(urls, paths, strict=True):
                    _retrieve(url, path, ByteBar(display, path.name))
            write(target, _parse(paths, spec, urls), scratch)
    except OSError as error:
        raise DatasetError(
            f"cannot store {target}: {error}. Make the folder writable and check its free space, "
            f"or choose another with data_home or the environment variable ORNSTEIN_DATA."
        ) from error
    return target


def _retrieve(url: str, path: Path, bar: ByteBar) -> None:
    def close_at_the_end(response: Response, *_: object, **__: object) -> None:
        stack.callback(response.close)  # Pooch leaves the connection of a failed download open

    downloader = pooch.HTTPDownloader(
        progressbar=bar,
        chunk_size=CHUNK_BYTES,
        timeout=TIMEOUT_SECONDS,
        headers={"Accept-Encoding": "identity"},  # so that Content-Length counts the file's bytes
        hooks={"response": close_at_the_end},
    )
    try:
        with ExitStack() as stack:
            downloader(url, str(path), None)
    except HTTPError as error:
        raise DatasetError(
            f"cannot download {url}: the server answered {error}. The file may have moved: "
            f"try later, or give the address of a mirror as base_url."
        ) from error
    except RequestException as error:
        raise DatasetError(
            f"cannot download {url}: {error}. Check the network connection and run the download "
            f"again; nothing incomplete was kept."
        ) from error


def _parse(paths: list[Path], spec: Spec, urls: tuple[str, ...]) -> Arrays:
    try:
        arrays = parse(paths, spec)
        check(arrays, spec)
    except ValueError as error:
        raise DatasetError(
            f"what was downloaded from {', '.join(urls)} is not the {spec.name} data set: "
            f"{error}. Open the address in a browser to see what it serves, run the download "
            f"again, or give the address of a mirror as base_url."
        ) from error
    return arrays


@contextmanager
def _display(progress: bool | None) -> Iterator[Progress]:
    """Show bars on standard error: always, never, or (None) when it is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    shown = console.is_terminal if progress is None else progress
    with Progress(*columns, console=console, disable=not shown) as display:
        yield display

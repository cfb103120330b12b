"""The data sets of the experiments, loaded from disk or downloaded from their publishers.

Each is one `.npz` file, without pickles, in the data folder: the `data_home` argument, else the
environment variable `ORNSTEIN_DATA`, else the platform's cache folder.
"""

import os
from pathlib import Path
from typing import TypeAlias

from ornstein._base.checks import choice
from ornstein._base.errors import DatasetError
from ornstein.data.datasets.catalogue import SPECS, Spec
from ornstein.data.datasets.store import Dataset, read

__all__ = ["Dataset", "DatasetError", "Spec", "available", "download", "folder", "info", "load"]
__all__ += ["names"]

Home: TypeAlias = str | os.PathLike[str] | None


def names() -> tuple[str, ...]:
    """Names that `load` and `download` accept.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.names()
    ('wine', 'protein', 'skin', 'mnist', 'covertype')
    """
    return tuple(SPECS)


def available(data_home: Home = None) -> tuple[str, ...]:
    """Names of the data sets in the data folder, found without opening their files.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.available("a folder that is not there")
    ()
    """
    home = folder(data_home)
    return tuple(name for name, spec in SPECS.items() if os.path.isfile(home / spec.filename))


def info(name: str) -> Spec:
    """Title, rows, column names, label counts, addresses, licence and citation of a data set.

    Examples
    --------
    >>> from ornstein import datasets
    >>> wine = datasets.info("wine")
    >>> wine.train.rows, wine.columns, wine.licence
    (4898, 11, 'CC BY 4.0')
    """
    return SPECS[choice("name", name, SPECS)]


def folder(data_home: Home = None) -> Path:
    """The data folder, which need not exist yet.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.folder("tables").name
    'tables'
    """
    home = data_home or os.environ.get("ORNSTEIN_DATA")
    if not home:
        import platformdirs

        home = platformdirs.user_cache_dir("ornstein")
    return Path(home).expanduser()


def load(name: str, data_home: Home = None) -> Dataset:
    """Load a data set, downloading it first where the data folder lacks it.

    Parameters
    ----------
    name
        One of `names()`.
    data_home
        The data folder; by default `ORNSTEIN_DATA` or the platform's cache folder.

    Raises
    ------
    InputError
        If the name is unknown.
    DatasetError
        If the stored file is not the published data set, or the download fails.

    Examples
    --------
    >>> from ornstein import datasets
    >>> wine = datasets.load("wine")  # doctest: +SKIP
    >>> wine.X.shape, wine.target_name  # doctest: +SKIP
    ((4898, 11), 'quality')
    """
    spec = info(name)
    path = folder(data_home) / spec.filename
    if not os.path.exists(path):
        download(name, data_home)
    return read(path, spec)


def download(
    name: str, data_home: Home = None, progress: bool | None = None, *, base_url: str | None = None
) -> Path:
    """Download a data set from its publisher, replacing a stored file; returns the stored file.

    The originals are parsed and compared with the published row and label counts; only then is
    the `.npz` file put in place, in one step.

    Parameters
    ----------
    name, data_home
        As for `load`.
    progress
        Whether to show a progress bar; by default only if standard error is a terminal.
    base_url
        Address of a mirror that holds the original files under their original names.

    Raises
    ------
    InputError
        If the name is unknown.
    DatasetError
        If the files cannot be downloaded, are not the published ones, or cannot be stored.
        Nothing incomplete is left behind, and a file stored before is left as it was.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.download("wine", data_home="tables").name  # doctest: +SKIP
    'wine.npz'
    """
    from ornstein.data.datasets.fetching import fetch

    return fetch(info(name), folder(data_home), progress, base_url)

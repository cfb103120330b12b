"""The data sets of the experiments, loaded from disk or downloaded from their publishers.

The paper's are one `.npz` file each, without pickles, in the data folder: the `data_home` argument,
else the environment variable `ORNSTEIN_DATA`, else the platform's cache folder. Tables with groups,
for mixed models, are CSV files in its folder `mixed`.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ornstein._base.checks import choice
from ornstein._base.errors import DatasetError
from ornstein.data.datasets.catalogue import SPECS, Spec
from ornstein.data.datasets.grouped import TABLES
from ornstein.data.datasets.store import Dataset, read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "DatasetError", "Spec", "available", "download", "folder", "info", "load"]
__all__ += ["load_table", "names", "table_names"]

Home: TypeAlias = str | os.PathLike[str] | None


def names() -> tuple[str, ...]:
    """Names that `load` accepts.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.names()
    ('wine', 'protein', 'skin', 'mnist', 'covertype')
    """
    return tuple(SPECS)


def table_names() -> tuple[str, ...]:
    """Names of the tables with groups, that `load_table` accepts.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.table_names()[:3]
    ('sleepstudy', 'cbpp', 'radon')
    """
    return tuple(TABLES)


def available(data_home: Home = None) -> tuple[str, ...]:
    """Names of the data sets in the data folder, found without opening their files.

    Examples
    --------
    >>> from ornstein import datasets
    >>> datasets.available("a folder that is not there")
    ()
    """
    home = folder(data_home)
    files = {name: spec.filename for name, spec in SPECS.items()}
    files |= {name: table.filename for name, table in TABLES.items()}
    return tuple(name for name, file in files.items() if os.path.isfile(home / file))


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


def load_table(name: str, data_home: Home = None) -> "pd.DataFrame":
    """Load a table with groups as a data frame, downloading it where the data folder lacks it.

    Parameters
    ----------
    name
        One of `table_names()`.
    data_home
        The data folder; by default `ORNSTEIN_DATA` or the platform's cache folder.

    Raises
    ------
    InputError
        If the name is unknown.
    DatasetError
        If the stored file is not the published table, or the download fails.

    Examples
    --------
    >>> from ornstein import datasets
    >>> list(datasets.load_table("sleepstudy").columns)  # doctest: +SKIP
    ['Reaction', 'Days', 'Subject']
    """
    from ornstein.data.datasets.tables import load_table as load

    return load(name, folder(data_home))


def download(
    name: str, data_home: Home = None, progress: bool | None = None, *, base_url: str | None = None
) -> Path:
    """Download a data set from its publisher, replacing a stored file; returns the stored file.

    The originals are parsed and compared with the published row and label counts; only then is
    the stored file put in place, in one step.

    Parameters
    ----------
    name, data_home
        As for `load` and `load_table`.
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
    from ornstein.data.datasets.tables import fetch_table

    choice("name", name, (*SPECS, *TABLES))
    if name in TABLES:
        return fetch_table(TABLES[name], folder(data_home), progress, base_url)
    return fetch(info(name), folder(data_home), progress, base_url)

"""Many devices and many hosts: JAX's own multi-controller runtime, and meshes named for it."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein.sampling.loop import ROWS
from ornstein.sampling.mesh import CHAINS

__all__ = ["initialize", "mesh"]


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    **options: Any,
) -> None:
    """Join this process to the others of a run; call it before anything else, in all of them.

    Under Slurm, Open MPI, Kubernetes or on TPU pods JAX finds the arguments by itself. Processes on
    CPUs communicate by gloo. Every process then runs the same script with the same arguments: they
    plan together, each reading its own share of the rows, and each gets the whole result.

    Parameters
    ----------
    coordinator_address
        ``host:port`` of process 0.
    num_processes, process_id
        How many processes there are, and which this one is, from 0.
    **options
        Those of ``jax.distributed.initialize``.

    Raises
    ------
    InputError
        If JAX was used before in this process, or does not find out what is not given.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(coordinator_address, num_processes, process_id, **options)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the processes cannot be joined: {error}") from error


def mesh(chains: int = 1) -> Mesh:
    """A mesh over all devices of all hosts, for ``ornstein.sample(mesh=...)``.

    Parameters
    ----------
    chains
        Groups of devices among which whole chains are spread, with no traffic between them; the
        devices of a group share the rows of every batch.

    Examples
    --------
    >>> mesh().shape[ROWS] == jax.device_count()
    True
    """
    devices = np.asarray(jax.devices())
    checks.whole("chains", chains, high=len(devices), why="the number of devices")
    if len(devices) % chains:
        raise InputError(
            f"{len(devices)} devices cannot be shared out evenly among chains={chains} groups."
        )
    return Mesh(devices.reshape(chains, -1), (CHAINS, ROWS))

"""Runs over meshes, in processes of their own: how many devices one has is settled at its start.

``python mesh_child.py '{"devices": 4, "meshes": [[1, 2], ...], "out": "draws.npz", ...}'``. With
``port``, ``process`` and ``processes`` it is one of several that run together.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUN: dict[str, Any] = {"batch_size": 32, "chains": 4, "draws": 1000, "key": 5, "dtype": "float64"}


def start(**options: Any) -> subprocess.Popen[str]:
    """A child whose output is piped."""
    flags = f"--xla_force_host_platform_device_count={options.pop('devices', 1)}"
    return subprocess.Popen(
        [sys.executable, __file__, json.dumps(options, default=str)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={
            **os.environ,
            "XLA_FLAGS": flags,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join(sys.path[1:]),
        },
    )


def together(count: int = 2, **options: Any) -> list[subprocess.Popen[str]]:
    """Several that run together."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [start(port=port, process=i, processes=count, **options) for i in range(count)]


def finish(children: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """What each printed last."""
    found = []
    for child in children:
        out, err = child.communicate(timeout=300)
        assert child.returncode == 0, err[-3000:]
        found.append(json.loads(out.strip().split("\n")[-1]))
    return found


def _reductions(text: str) -> list[str]:
    """Shapes of what a compiled program's devices exchange."""
    exchanged = re.findall(
        r"= (\S+) (?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\S*\(",
        text,
    )
    return sorted(exchanged)


def main() -> None:
    options = json.loads(sys.argv[1])
    import jax

    jax.config.update("jax_enable_x64", True)
    import numpy as np

    import ornstein as orn
    from ornstein.data import on_disk
    from ornstein.sampling import mesh

    process = options.get("process", 0)
    if "port" in options:
        address = f"localhost:{options['port']}"
        orn.distributed.initialize(address, options["processes"], process)
    if "die_in_write" in options and process == 0:
        from support.child_process import die_in_write

        die_in_write(options["die_in_write"])
    read: dict[str, list[int]] = {"read": [], "take": []}
    if "X" in options:
        X, y = orn.open_rows(options["X"]), orn.open_rows(options["y"])
        for name, seen in read.items():
            _watch(on_disk.InFile, f"_{name}", seen)
        post = orn.models.logistic(X, y)
    else:
        from support.problems import zoo

        post = zoo(rows=4000)[options.get("model", "linear")]
    compiled: Any = mesh.compiled
    traffic = []

    def watched(*arguments: Any) -> Any:
        function = compiled(*arguments)

        def call(*values: Any) -> Any:
            if options.get("traffic") and not arguments[2]:
                text = function.lower(*values).compile().as_text()
                traffic.append(_reductions(text))
            if options.get("announce"):
                print("ready", flush=True)
                time.sleep(options.get("pause", 0.0))
            return function(*values)

        return call

    mesh.compiled = watched  # type: ignore[assignment]
    draws, statuses, refusals = {}, [], []

    def grid(chains: int, rows: int) -> Any:
        count = len(jax.devices()) if rows == -1 else chains * rows
        devices = np.asarray(jax.devices()[:count]).reshape(chains, -1)
        return jax.sharding.Mesh(devices, ("chains", "rows"))

    for chains, rows in [[4, 1], [1, 4]] if options.get("misfits") else []:
        try:
            orn.sample(post, mesh=grid(chains, rows), **{**RUN, "chains": 3, "batch_size": 30})
        except orn.OrnsteinError as error:
            refusals.append(f"{type(error).__name__}: {error}")
    for chains, rows in options.get("meshes", [[1, -1]]):
        result = orn.sample(post, mesh=grid(chains, rows), **{**RUN, **options.get("run", {})})
        draws[f"{chains}x{rows}"] = result.flat
        draws["center"] = result.plan.center
        draws["cov"] = np.asarray(result.plan.predicted_cov)
        statuses.append(result.status.message)
    if "out" in options:
        np.savez(Path(f"{options['out']}-{process}.npz"), allow_pickle=False, **draws)
    said = {"traffic": traffic, "statuses": statuses, "refusals": refusals}
    print(json.dumps({**said, **read}))


def _watch(kind: type[Any], name: str, seen: list[int]) -> None:
    """Note the first and the last row of every long read, and of every lookup."""
    function = getattr(kind, name)

    def watched(self: Any, *arguments: Any) -> Any:
        if len(self) and arguments[-1] is not None:
            numbers = arguments[0] if name == "_take" else range(*arguments)
            if len(numbers) > 1000 or name == "_take":
                seen.extend([int(numbers[0]), int(numbers[-1])])
        return function(self, *arguments)

    setattr(kind, name, watched)


if __name__ == "__main__":
    main()

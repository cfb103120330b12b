"""The mesh executor: chains and their batches spread over devices, of one host or of many.

Every device steps some of the chains on its part of their batches. A step exchanges one gradient,
D numbers a chain, along the mesh's axis ``rows``, and nothing along ``chains``. Every process runs
this alike, reads the rows of its own devices and knows all draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ornstein._base import multihost
from ornstein._base.errors import InputError
from ornstein._base.precision import precision_of
from ornstein._base.types import Array, PyTree
from ornstein.data.on_disk import ahead
from ornstein.data.prefetch import SCHEMES, Prefetch
from ornstein.sampling.loop import ROWS, Loop, Problem, Segments, advance
from ornstein.sampling.settings import Report, Status
from ornstein.sampling.threads import Chain, ThreadExecutor, stacked

CHAINS = "chains"
"""The axis of a mesh along which whole chains are spread."""

_ROWS = P(CHAINS, None, None, ROWS)
_SEGMENTS: Any = Segments(*(P(), P(), P()), _ROWS)  # type: ignore[arg-type]


def checked_mesh(mesh: Mesh, chains: int, feed: Prefetch) -> Mesh:
    """The mesh with both axes, chains first; raises where chains or batches do not fit it."""
    if not isinstance(mesh, Mesh):
        raise InputError(
            f"mesh must be a jax.sharding.Mesh, found {type(mesh).__name__}; "
            "ornstein.distributed.mesh makes one."
        )
    strange = [name for name in mesh.axis_names if name not in (CHAINS, ROWS)]
    if strange:
        raise InputError(f"mesh has an axis {strange[0]!r}; its axes are {CHAINS!r} and {ROWS!r}.")
    batches = feed.batches
    if batches.scheme not in SCHEMES:
        raise InputError(
            f"batches={batches.scheme!r} are not read over a mesh; plan with "
            "batches='independent', or 'blocks' for rows on disk."
        )
    sizes = mesh.shape.get(CHAINS, 1), mesh.shape.get(ROWS, 1)
    if chains % sizes[0]:
        raise InputError(f"chains={chains} must be a multiple of the mesh's {sizes[0]} {CHAINS}.")
    if feed.shards % sizes[1]:
        raise InputError(
            f"the mesh has {sizes[1]} devices along {ROWS!r}, and a batch of {batches.batch_size} "
            f"of {batches.num_data} rows can be cut into {feed.shards} parts: use a batch_size "
            f"that is a multiple of {sizes[1]}, a power of two of devices, and 500 rows for each."
        )
    devices = mesh.devices.T if mesh.axis_names == (ROWS, CHAINS) else mesh.devices
    return Mesh(devices.reshape(sizes), (CHAINS, ROWS))


@dataclass(eq=False)
class MeshExecutor(ThreadExecutor):
    """Moves all chains together over a mesh; where one becomes non-finite, all end there."""

    feed: Prefetch
    mesh: Mesh

    def __post_init__(self) -> None:
        super().__post_init__()
        with precision_of(self.settings.dtype):
            self.everywhere = jax.tree.map(lambda leaf: self._spread(leaf, P()), self.problem)

    def advance(
        self, chains: list[Chain], first: int, total: int, report: Report
    ) -> tuple[Status, int]:
        end, at, steps = self._end(first, total), chains[0].at, self.loop.segment_steps
        chunks = [range(start, start + self.chunk) for start in range(at, end, self.chunk)]
        for made in ahead(self._segments_of(chains, numbers) for numbers in chunks):
            if multihost.anyone(self.stopping()):
                break
            if not self._advanced(chains, made):
                end = chains[0].at + self.chunk if chains[0].tail is not None else chains[0].at
                break
            report(min(chains[0].at, total) * steps, total * steps)
            self.save(chains, only_if_due=True)
        return self._ending(chains, end, total)

    def _advanced(self, chains: list[Chain], segments: Segments) -> bool:
        """Advance by a chunk; whether all chains stayed finite."""
        state, positions = self._run(False, chains, segments)
        made = positions.reshape(len(chains), -1, self.loop.width)
        moved = []
        for chain, draws in zip(chains, made, strict=True):
            after = jax.tree.map(lambda leaf, n=chain.number: leaf[n], state)
            moved.append(self._moved(chain.at, draws, after))
        if any(each.state is None for each in moved):
            _, seen = self._run(True, chains, segments)
            self.steps_finite = seen.reshape(len(chains), -1)
        kept = [self._keep(chain, each) for chain, each in zip(chains, moved, strict=True)]
        return all(kept)

    def _bad_step(self, chain: Chain) -> int:
        first = int(np.argmin(self.steps_finite[chain.number]))
        return chain.at * self.loop.segment_steps + first

    def _run(
        self, watch: bool, chains: list[Chain], segments: Segments
    ) -> tuple[PyTree, npt.NDArray[Any]]:
        words = np.stack([np.asarray(jax.random.key_data(chain.key)) for chain in chains])
        function = compiled(self.mesh, self.loop, watch, jax.random.key_impl(chains[0].key))
        with precision_of(self.settings.dtype):
            keys_and_states = jax.tree.map(
                lambda leaf: self._spread(leaf, P(CHAINS)),
                (words, stacked([chain.state for chain in chains])),
            )
            found = function(self.everywhere, *keys_and_states, segments)
            if multihost.count() == 1:
                return jax.tree.map(np.asarray, found)
            return multihost_utils.process_allgather(found, tiled=True)

    def _segments_of(self, chains: list[Chain], numbers: range) -> Segments:
        """Rows of segments on the devices that need them, read by this process for its own."""
        with precision_of(self.settings.dtype):
            spread = {
                "number": self._spread(np.asarray(numbers, np.int32), P()),
                "order": self._spread(np.zeros((len(numbers), 0), np.int32), P()),
                "phase": self._spread(np.zeros(len(numbers), np.int32), P()),
            }
            placed = [(self.mesh.devices.item(*p), p) for p in np.ndindex(self.mesh.devices.shape)]
            parts = [
                jax.device_put(self._part(len(chains), numbers, *place), device)
                for device, place in placed
                if device.process_index == multihost.number()
            ]
            sharding = NamedSharding(self.mesh, _ROWS)
            sizes = self.mesh.devices.shape

            def whole(*leaves: Array) -> Array:
                shape = list(leaves[0].shape)
                shape[0], shape[3] = shape[0] * sizes[0], shape[3] * sizes[1]
                return jax.make_array_from_single_device_arrays(tuple(shape), sharding, leaves)

            return Segments(**spread, rows=jax.tree.map(whole, *parts))

    def _part(self, chains: int, numbers: range, row: int, column: int) -> PyTree:
        """Rows for one device: (chains, segments, steps, rows, ...) of its own."""
        groups, parts = self.mesh.devices.shape
        mine = range(row * chains // groups, (row + 1) * chains // groups)
        shards = self.feed.shards
        own = range(column * shards // parts, (column + 1) * shards // parts)
        steps = self.loop.segment_steps

        def rows_of(chain: int) -> PyTree:
            return stacked([self.feed.rows(chain, number, steps, own) for number in numbers])

        return stacked([rows_of(chain) for chain in mine])

    def _spread(self, value: Any, spec: P) -> Array:
        """A host array on all devices that are to have a part of it."""
        array = np.asarray(value)
        sharding = NamedSharding(self.mesh, spec)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


@lru_cache(maxsize=16)
def compiled(mesh: Mesh, loop: Loop, watch: bool, impl: Any) -> Callable[..., Any]:
    """:func:`ornstein.sampling.loop.advance` of all chains over a mesh."""

    def on_device(
        problem: Problem, words: Array, states: PyTree, segments: Segments
    ) -> tuple[PyTree, Array]:
        def one(key: Array, state: Any, rows: PyTree) -> Any:
            return advance(loop, watch, problem, key, state, segments._replace(rows=rows))

        keys = jax.random.wrap_key_data(words, impl=impl)
        found: tuple[PyTree, Array] = jax.vmap(one)(keys, states, segments.rows)
        return found

    spread = jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(P(), P(CHAINS), P(CHAINS), _SEGMENTS),
        out_specs=(P(CHAINS), P(CHAINS)),
        check_vma=False,
    )
    return jax.jit(spread)

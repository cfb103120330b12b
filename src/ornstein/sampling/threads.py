"""The thread executor: chains spread over threads, in chunks of segments, checkpoints between."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt

from ornstein._base.memory import fresh
from ornstein._base.precision import precision_of
from ornstein._base.trees import to_device
from ornstein._base.types import Array, PyTree
from ornstein.data.batches import Order
from ornstein.data.prefetch import Prefetch
from ornstein.planning.rules.contract import State
from ornstein.sampling.loop import Loop, Problem, Segments, advance
from ornstein.sampling.settings import Report, Run, Settings, Status
from ornstein.storage.checkpoint import Checkpoint, Saved

_CHUNKS = 40  # dispatches a long run is cut into, so that progress can be shown
_CHUNK_STEPS = 100_000  # steps of a dispatch, at least: less is not worth its overhead,
_CHUNK_WORK = 4e9  # unless they make so many multiplications
_DISPATCH_WORK = 3e7  # the same of a short run's dispatch, whose overhead is small beside them
_ORDER_BYTES = 2**26  # permutations held at once by one chain
_FED_BYTES = 2**27  # rows read ahead, of all chains
_KEPT = "The draws up to there are kept."
_TRIES = 5  # to draw a segment again
_REDRAWN = 100  # segments of a chain for every one that may be drawn again
_AGAIN = 2**30  # beyond the numbers that a chain's own key is folded with


@dataclass
class Chain:
    """One chain during a run."""

    number: int
    key: Array
    state: State
    at: int = 0
    """Segments made; ``state`` and ``kept`` are those after them."""
    kept: list[npt.NDArray[Any]] = field(default_factory=list)
    tail: npt.NDArray[Any] | None = None
    """Draws of the chunk in which it became non-finite, up to there."""
    left: int | None = None
    """The step at which it became non-finite for good."""
    redrawn: list[int] = field(default_factory=list)
    """Steps at which it became non-finite and was drawn again."""
    ahead: Segments | None = None
    orders: tuple[Order, Order] | None = None

    @property
    def draws(self) -> list[npt.NDArray[Any]]:
        """All draws, in pieces."""
        return self.kept if self.tail is None else [*self.kept, self.tail]

    @property
    def leaves(self) -> list[npt.NDArray[Any]]:
        """The state as plain arrays."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(self.state)]


class Moved(NamedTuple):
    """A chunk's draws, and the state after it; None where the chain became non-finite."""

    draws: npt.NDArray[Any]
    state: State | None
    redrawn: tuple[int, ...] = ()
    left: int | None = None


def stacked(trees: list[PyTree]) -> PyTree:
    """Trees of arrays as one, whose arrays have one more axis in front."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


@dataclass(eq=False)
class ThreadExecutor:
    """Moves all chains, each by chunks of segments at its own pace.

    A segment in which a chain becomes non-finite is drawn again from its beginning with other
    random numbers, if steps are stationary: at most 5 times, and one segment of a hundred, or one a
    chain. The draws are the same however the run is cut into chunks.
    """

    loop: Loop
    problem: Problem
    feed: Prefetch | None
    entropy: tuple[int, ...]
    settings: Settings
    checkpoint: Checkpoint | None

    def __post_init__(self) -> None:
        self.chunk = self._chunk_segments(self.segments_for(self.settings.draws))
        self.stopping: Callable[[], bool] = lambda: False
        self.began = perf_counter()

    @property
    def seconds(self) -> float:
        """Time spent on this run, in earlier sessions too."""
        return perf_counter() - self.began

    def segments_for(self, draws: int) -> int:
        """Segments that hold the warm-up and so many draws."""
        return -(-(self.settings.warm_draws + draws) // self.loop.segment_draws)

    def restore(self, chains: list[Chain]) -> Mapping[str, Any] | None:
        """Put chains where the checkpoint has them; returns how the run ended, if it did."""
        if self.checkpoint is None:
            return None
        example = np.empty((0, self.loop.width), self.settings.dtype)
        begun = [Saved(chain.at, chain.leaves, [example], []) for chain in chains]
        found = self.checkpoint.restore(begun)
        ended = self.checkpoint.ended()
        if found is None:
            return None
        kept_chains, seconds = found
        with precision_of(self.settings.dtype):
            for chain, kept in zip(chains, kept_chains, strict=True):
                shape = jax.tree.structure(chain.state)
                chain.state = jax.tree.unflatten(shape, to_device(kept.state))
                chain.at, chain.kept, chain.redrawn = kept.at, kept.kept, list(kept.redrawn)
        self.began = perf_counter() - seconds
        if ended is None or ended["saved"] != self.checkpoint.number:
            return None
        for chain, tail in zip(chains, ended["tails"], strict=True):
            chain.tail = tail
        return ended

    def save(self, chains: list[Chain], only_if_due: bool = False) -> None:
        """Write a checkpoint, if there is one."""
        if self.checkpoint is not None and (not only_if_due or self.checkpoint.due):
            saved = [Saved(c.at, c.leaves, c.kept, list(c.redrawn)) for c in chains]
            self.checkpoint.save(saved, self.seconds)

    def finish(self, chains: list[Chain], done: Run) -> None:
        """Write the last checkpoint, and how the run ended."""
        self.save(chains)
        if self.checkpoint is not None and done.status.kind != "interrupted":
            record = {
                "done": done._replace(flat=done.flat[:, :0]),  # draws are in the checkpoint
                "draws": done.flat.shape[1],
                "tails": [chain.tail for chain in chains],
                "saved": self.checkpoint.number,
            }
            self.checkpoint.end(record)

    def advance(
        self, chains: list[Chain], first: int, total: int, report: Report
    ) -> tuple[Status, int]:
        """Move all chains to a number of segments; returns how it went and the segments made.

        Where a chain becomes non-finite for good, all end with that chunk.
        """
        end, steps = self._end(first, total), self.loop.segment_steps
        waiting: dict[Future[Moved], Chain] = {}

        def submit(chain: Chain) -> None:
            if chain.at < end and chain.tail is None and not self.stopping():
                waiting[pool.submit(self._move, chain, total, chain.at + self.chunk >= end)] = chain

        with ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1)) as pool:
            for chain in chains:
                submit(chain)
            while waiting:
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    chain = waiting.pop(future)
                    if self._keep(chain, future.result()):
                        submit(chain)
                    else:
                        end = min(end, chain.at + self.chunk)
                so_far = sum(chain.at for chain in chains) // len(chains)
                report(min(so_far, total) * steps, total * steps)
                self.save(chains, only_if_due=True)
        return self._ending(chains, end, total)

    def _end(self, first: int, total: int) -> int:
        """Segments after the last whole chunk."""
        return first + -(-(total - first) // self.chunk) * self.chunk

    def _keep(self, chain: Chain, moved: Moved) -> bool:
        """Enter a chunk into its chain; whether that stayed finite."""
        if moved.state is None:
            chain.tail, chain.left = moved.draws, moved.left
            return False
        chain.redrawn.extend(moved.redrawn)
        chain.state, chain.at = moved.state, chain.at + self.chunk
        chain.kept.append(moved.draws)
        return True

    def _ending(self, chains: list[Chain], end: int, total: int) -> tuple[Status, int]:
        broken = [chain for chain in chains if chain.tail is not None]
        behind = [chain.at for chain in chains if chain.at < end and chain.tail is None]
        if behind:
            step = min(behind) * self.loop.segment_steps
            message = f"interrupted after {step:,} steps of every chain. {_KEPT}"
            return Status(False, message, step=step, kind="interrupted"), min(behind)
        if not broken:
            return Status(True, "; ".join(["ok", *self._told(chains, total)])), end
        step, number = min((self._bad_step(chain), chain.number) for chain in broken)
        message = (
            f"chain {number} became non-finite at step {step}. {_KEPT} Try starts nearer the "
            "optimum (dispersion=1), a larger batch_size, a tighter prior, or dtype='float64'; "
            "result.diagnose() shows which assumption fails."
        )
        return Status(False, message, number, step, "diverged"), end

    def redrawn(self, chains: list[Chain], total: int) -> list[tuple[int, int]]:
        """Chains and steps at which they became non-finite and were drawn again, in so many."""
        most = total * self.loop.segment_steps
        return [(chain.number, at) for chain in chains for at in chain.redrawn if at < most]

    def _told(self, chains: list[Chain], total: int) -> Iterator[str]:
        """Which chains were drawn again, three at most."""
        found = self.redrawn(chains, total)
        for number, step in found[:3]:
            yield f"chain {number} left at step {step:,} and was drawn again from there"
        if len(found) > 3:
            yield f"and so on {len(found) - 3} times more"

    def _move(self, chain: Chain, total: int, last: bool) -> Moved:
        """Advance a chain by a chunk, unless it diverges; its draws in whitened coordinates."""
        first = chain.at
        segments = chain.ahead or self._segments(chain, first)
        with precision_of(self.settings.dtype):
            state, positions = advance(
                self.loop, False, self.problem, chain.key, chain.state, segments
            )
        # While the device runs.
        chain.ahead = None if last else self._segments(chain, first + self.chunk)
        made = np.asarray(positions).reshape(-1, self.loop.width)
        if last:
            chain.orders = None  # of many chains these would add up
        if np.isfinite(made).all() or not self.problem.rule.stationary:
            return self._moved(first, made, state)
        return self._mended(chain, first, max(1, total // _REDRAWN) - len(chain.redrawn))

    def _mended(self, chain: Chain, first: int, allowed: int) -> Moved:
        """The chunk once more, segment by segment: those that became non-finite drawn again."""
        made: list[npt.NDArray[Any]] = []
        redrawn: list[int] = []
        state = chain.state
        for number in range(first, first + self.chunk):
            after, positions = self._one(chain, state, number, 0)
            if not np.isfinite(positions).all():
                step = self._left_at(chain, state, number)
                finite = np.isfinite(positions).all(axis=1)
                cut = np.concatenate([*made, positions[: finite.argmin()]])
                tries = range(1, _TRIES + 1) if len(redrawn) < allowed else range(0)
                for attempt in tries:
                    after, positions = self._one(chain, state, number, attempt)
                    if np.isfinite(positions).all():
                        redrawn.append(step)
                        break
                else:
                    return Moved(self._warm(first, cut), None, tuple(redrawn), step)
            made.append(positions)
            state = after
        return Moved(self._warm(first, np.concatenate(made)), state, tuple(redrawn))

    def _one(
        self, chain: Chain, state: State, number: int, attempt: int, watch: bool = False
    ) -> tuple[State, npt.NDArray[Any]]:
        """One segment, and its draws; attempts after the first have random numbers of their own."""
        key = chain.key if not attempt else jax.random.fold_in(chain.key, _AGAIN + attempt)
        entropy = (*self.entropy, attempt) if attempt else self.entropy
        steps = self.loop.segment_steps
        order = fresh((1, self.loop.reader.batches.permutation_length(steps)), np.int32)
        segments = self._filled(chain, range(number, number + 1), order, entropy)
        with precision_of(self.settings.dtype):
            after, found = advance(self.loop, watch, self.problem, key, state, segments)
        array = np.asarray(found)
        return after, array.ravel() if watch else array.reshape(-1, self.loop.width)

    def _left_at(self, chain: Chain, state: State, number: int) -> int:
        """The first non-finite step of a segment, found by running it again, watched."""
        _, finite = self._one(chain, state, number, 0, watch=True)
        return number * self.loop.segment_steps + int(np.argmin(finite))

    def _warm(self, first: int, made: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The draws after the warm-up, of those from a segment on."""
        return made[max(0, self.settings.warm_draws - first * self.loop.segment_draws) :]

    def _moved(self, first: int, made: npt.NDArray[Any], state: State) -> Moved:
        """The chunk from a segment on: its draws after the warm-up, as far as they are finite."""
        draws = self._warm(first, made)
        if np.isfinite(made).all():
            return Moved(draws, state)
        finite = np.isfinite(draws).all(axis=1)
        return Moved(draws if finite.all() else draws[: finite.argmin()], None)

    def _segments(self, chain: Chain, first: int) -> Segments:
        numbers, steps = range(first, first + self.chunk), self.loop.segment_steps
        batches = self.loop.reader.batches
        if chain.orders is None:  # one read by the device, one being written
            shape = self.chunk, batches.permutation_length(steps)
            chain.orders = fresh(shape, np.int32), fresh(shape, np.int32)
        orders = chain.orders[first // self.chunk % 2]
        return self._filled(chain, numbers, orders, self.entropy)

    def _filled(
        self, chain: Chain, numbers: range, orders: Order, entropy: tuple[int, ...]
    ) -> Segments:
        """Segments, their permutations written into the orders."""
        batches, steps = self.loop.reader.batches, self.loop.segment_steps
        batches.write_permutations(entropy, chain.number, numbers, steps, orders)
        rows = None
        if self.feed is not None:
            rows = stacked([self.feed.rows(chain.number, number, steps) for number in numbers])
        return Segments(
            number=np.asarray(numbers, np.int32),  # type: ignore[arg-type]
            order=orders,  # type: ignore[arg-type]
            phase=np.asarray([batches.phase(n, steps) for n in numbers], np.int32),  # type: ignore[arg-type]
            rows=rows,
        )

    def _chunk_segments(self, total: int) -> int:
        """Segments in one dispatch; with checkpoints, no more than are worth one."""
        loop, settings = self.loop, self.settings
        if settings.chunk is not None:
            return min(settings.chunk, total)
        order_bytes = 4 * max(1, loop.reader.batches.permutation_length(loop.segment_steps))
        most = max(1, _ORDER_BYTES // order_bytes)
        if self.feed is not None:
            held = 2 * settings.chains * loop.segment_steps * self.feed.step_bytes
            most = max(1, _FED_BYTES // held)
        if self.checkpoint is not None:
            most = min(most, max(1, _CHUNK_STEPS // loop.segment_steps))
        steps = total * loop.segment_steps
        work = steps * loop.reader.batches.batch_size * loop.dim
        dispatches = min(_CHUNKS, max(steps // _CHUNK_STEPS, int(work // _CHUNK_WORK)))
        if dispatches > 1:
            # Alike, so that little is overshot.
            return -(-total // max(dispatches, -(-total // most)))
        # Short runs: a power of two, so that runs of any length share compiled code.
        enough = math.ceil(_DISPATCH_WORK * total / work)
        return min(2 ** (max(1, total // 4).bit_length() - 1), 1 << (enough - 1).bit_length(), most)

    def _bad_step(self, chain: Chain) -> int:
        """First non-finite step of a chain's last chunk, found by running it again, watched."""
        if chain.left is not None:
            return chain.left
        segments = self._segments(chain, chain.at)
        with precision_of(self.settings.dtype):
            _, finite = advance(self.loop, True, self.problem, chain.key, chain.state, segments)
        return chain.at * self.loop.segment_steps + int(np.argmin(np.asarray(finite).ravel()))

"""Minibatches: which rows, how often, and the noise they make (X7)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ornstein._base.types import PyTree
from ornstein.data.batches import (
    Batches,
    Order,
    _prime_from,
    _walks,
    distinct_rows,
    multiplicity_of,
    weights_of,
)
from ornstein.data.readers import Reader

ENTROPY = (3, 4)


def lay_out(batches: Batches, rows: PyTree, rows_last: bool = False) -> tuple[Reader, PyTree]:
    """A reader and its rows, on the device."""
    host = jax.tree.map(np.asarray, rows)
    reader, laid = Reader.lay_out(batches, rows_last, host, ENTROPY)
    return reader, jax.tree.map(jnp.asarray, laid)


def order_of(
    batches: Batches, entropy: tuple[int, ...], chain: int, segment: int, steps: int
) -> Order:
    """One permutation, made with the next ones."""
    out = np.empty((30, batches.permutation_length(steps)), np.int32)
    batches.write_permutations(entropy, chain, range(segment, segment + 30), steps, out)
    return out[0]


@pytest.mark.parametrize("scheme", ["independent", "windows"])
def test_every_row_is_equally_likely(scheme: str) -> None:
    batches = Batches(scheme, num_data=23, batch_size=4)
    reader, rows = lay_out(batches, np.arange(23))
    counts = np.zeros(23)
    for segment in range(6):
        order = jnp.asarray(order_of(batches, ENTROPY, 0, segment, 4000))
        key = jax.random.fold_in(jax.random.key(0), segment)
        positions = batches.positions(key, 0, 4000, 0)
        arranged = reader.arrange(rows, order)
        taken = jax.vmap(lambda p: reader.take(arranged, p)[0])(positions)  # noqa: B023
        counts += np.bincount(np.asarray(taken).ravel(), minlength=23)
    # Rows of a window come together, which only lowers the scatter of the counts.
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("steps", [1, 5, 13])
def test_an_epoch_reads_every_row_once(steps: int) -> None:
    batches = Batches("epochs", num_data=20, batch_size=4)
    reader, rows = lay_out(batches, np.arange(20))
    seen = []
    for segment in range(40):
        order = order_of(batches, ENTROPY, 0, segment, steps)
        assert len(order) == batches.permutation_length(steps)
        phase = batches.phase(segment, steps)
        positions = batches.positions(jax.random.key(0), 0, steps, phase)
        arranged = reader.arrange(rows, jnp.asarray(order))
        seen += [np.asarray(reader.take(arranged, p)[0]) for p in positions]
    epochs = np.stack(seen[: len(seen) // 5 * 5]).reshape(-1, 20)
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == len(epochs)


def test_orders_depend_on_key_chain_and_segment_alone() -> None:
    batches = Batches("windows", num_data=5000, batch_size=5)
    first = order_of(batches, ENTROPY, 1, 2, 100)
    many = np.empty((30, batches.permutation_length(100)), np.int32)
    batches.write_permutations(ENTROPY, 1, range(30), 100, many)
    assert np.array_equal(first, many[2])
    others = [((3, 5), 1, 2), (ENTROPY, 0, 2), (ENTROPY, 1, 3)]
    assert all(not np.array_equal(first, order_of(batches, *other, 100)) for other in others)
    assert len(first) == batches.permutation_length(100)
    assert np.array_equal(first[-5:], first[:5])
    assert sorted(first[:5000]) == list(range(5000))
    shuffle, other = batches.shuffle(ENTROPY), batches.shuffle((3, 5))
    assert shuffle is not None
    assert other is not None
    assert sorted(shuffle) == list(range(5000))
    assert not np.array_equal(shuffle, other)


@pytest.mark.parametrize("left", [0, 5])
@pytest.mark.parametrize("rows_last", [False, True])
def test_long_tables_are_walked_line_by_line(left: int, rows_last: bool) -> None:
    """Every row once, in blocks of sixteen, the blocks in another order every time."""
    N = 2**19 + left
    batches = Batches("windows", num_data=N, batch_size=100)
    host = {"x": np.arange(2 * N).reshape(N, 2), "y": np.arange(N)}
    reader, laid = lay_out(batches, host, rows_last)
    shuffle = batches.shuffle(ENTROPY)
    assert shuffle is not None
    place, seen = np.argsort(shuffle), []
    for segment in range(2):
        order = order_of(batches, ENTROPY, 0, segment, 10)
        assert len(order) == batches.permutation_length(10)
        arranged = reader.arrange(laid, jnp.asarray(order))
        y = np.asarray(arranged["y"])
        x = np.asarray(arranged["x"].T if rows_last else arranged["x"])
        assert np.array_equal(x, np.column_stack([2 * y, 2 * y + 1]))
        assert np.array_equal(np.sort(y[:N]), np.arange(N))
        assert np.array_equal(y[N : N + 100], y[:100])
        lines = place[y[: N - left]].reshape(-1, 16)
        assert np.array_equal(lines, lines[:, :1] + np.arange(16))
        assert (np.abs(np.diff(lines[:, 0])) != 16).mean() > 0.99
        seen.append(y)
    assert not np.array_equal(seen[0], seen[1])


def test_feature_major_batches_are_the_transposed_rows() -> None:
    data = {"x": jnp.arange(24.0).reshape(8, 3), "y": jnp.arange(8.0)}
    for scheme in ("independent", "windows"):
        batches = Batches(scheme, num_data=8, batch_size=3)
        order = jnp.asarray(order_of(batches, ENTROPY, 0, 0, 4))
        position = batches.positions(jax.random.key(1), 0, 1, 0)[0]
        rows, last = (
            reader.take(reader.arrange(laid, order), position)[0]
            for reader, laid in (lay_out(batches, data, rows_last) for rows_last in (False, True))
        )
        assert np.array_equal(rows["x"].T, last["x"])
        assert np.array_equal(rows["y"], last["y"])


@pytest.mark.parametrize(("scheme", "factor"), [("independent", 1 / 6), ("windows", 24 / (6 * 29))])
def test_X7_batch_means_have_the_promised_variance(scheme: str, factor: float) -> None:
    batches = Batches(scheme, num_data=30, batch_size=6)
    assert np.isclose(batches.noise_factor, factor)
    values = np.random.default_rng(5).normal(size=30) ** 3
    reader, rows = lay_out(batches, values)

    def variance_of_means(segment: int) -> float:
        order = jnp.asarray(order_of(batches, ENTROPY, 0, segment, 60))
        arranged = reader.arrange(rows, order)
        key = jax.random.fold_in(jax.random.key(2), segment)
        positions = batches.positions(key, 0, 60, 0)
        means = jax.vmap(lambda p: reader.take(arranged, p)[0].mean())(positions)
        return float(jnp.mean((means - values.mean()) ** 2))

    measured = np.array([variance_of_means(segment) for segment in range(150)])
    error = measured.std(ddof=1) / np.sqrt(len(measured))
    assert abs(measured.mean() - factor * float(values.var())) < 3.5 * error


def test_X7_every_pair_of_rows_is_equally_often_in_a_window() -> None:
    """Over all strides, one shuffle gives every pair the chance of draws without replacement."""
    prime, size = 23, 5
    together = np.zeros((prime, prime))
    for stride in range(1, prime):
        walk = np.arange(prime) * stride % prime
        for offset in range(prime):
            window = walk[(offset + np.arange(size)) % prime]
            together[np.ix_(window, window)] += 1
    pairs = together[~np.eye(prime, dtype=bool)]
    assert np.ptp(pairs) == 0
    assert np.isclose(pairs[0] / ((prime - 1) * prime), size * (size - 1) / (prime * (prime - 1)))


@pytest.mark.parametrize(
    ("number", "prime"), [(1, 1), (2, 2), (4, 5), (4898, 4903), (10**6, 1000003)]
)
def test_primes(number: int, prime: int) -> None:
    assert _prime_from(number) == prime


@pytest.mark.parametrize(("stride", "prime"), [(1, 1), (1, 2), (3, 7), (5000, 99_991), (2, 4903)])
def test_walks_are_multiples_of_the_stride(stride: int, prime: int) -> None:
    expected = [np.arange(prime) * by % prime for by in (stride, 1)]
    assert np.array_equal(_walks([stride, 1], prime), expected)


def test_rows_of_one_precision_are_packed_for_a_single_gather() -> None:
    batches = Batches("independent", num_data=6, batch_size=4)
    data = {"x": np.arange(24.0).reshape(6, 2, 2), "y": np.arange(6.0)}
    reader, packed = lay_out(batches, data)
    assert packed.shape == (6, 5)
    taken, weights = reader.take(packed, jnp.asarray([5, 0, 0, 3]))
    assert weights is None
    assert np.array_equal(taken["x"], data["x"][[5, 0, 0, 3]])
    assert np.array_equal(taken["y"], data["y"][[5, 0, 0, 3]])
    wide = {"x": np.arange(6 * 54.0).reshape(6, 54), "y": np.arange(6.0)}
    reader, padded = lay_out(batches, wide)
    assert padded.shape == (6, 80)
    taken, _ = reader.take(padded, jnp.asarray([5, 0, 0, 3]))
    assert np.array_equal(taken["x"], wide["x"][[5, 0, 0, 3]])
    assert np.array_equal(taken["y"], wide["y"][[5, 0, 0, 3]])
    mixed, rows = lay_out(batches, data | {"y": np.arange(6)})
    assert mixed.packed is None
    assert mixed.take(rows, jnp.asarray([1, 2, 3, 4]))[0]["y"].dtype == jnp.int64


def test_X9_weighted_rows_come_by_leverage_and_leave_the_mean_alone() -> None:
    leverage = np.array([1.0, 1.0, 30.0, 0.0, 1.0, 3.0])
    times = multiplicity_of(leverage)
    assert times.sum() == 18
    assert times.tolist() == [3, 2, 7, 1, 2, 3]
    weights = weights_of(times)
    np.testing.assert_allclose(times @ weights, times.sum())
    values = np.arange(6.0) ** 2
    np.testing.assert_allclose((times * weights) @ values / times.sum(), values.mean())
    batches = Batches("weighted", num_data=6, batch_size=5, entries=int(times.sum()))
    reader, host = Reader.lay_out(batches, False, values, ENTROPY, times)
    laid = jax.tree.map(jnp.asarray, host)
    positions = batches.positions(jax.random.key(0), 0, 8000, 0)
    rows, weight = jax.vmap(lambda p: reader.take(laid, p))(positions)
    counts = [np.sum(np.asarray(rows) == value) for value in values]
    assert scipy.stats.chisquare(counts, 40_000 * times / times.sum()).pvalue > 1e-4
    products = np.asarray(rows * weight).ravel()
    error = products.std() / np.sqrt(products.size)
    assert abs(products.mean() - values.mean()) < 4 * error


def test_X9_weights_stay_fractions_where_the_first_column_is_of_whole_numbers() -> None:
    rows = {"label": np.arange(6), "x": np.ones((6, 2))}
    times = multiplicity_of(np.array([9.0, 1.0, 1.0, 1.0, 0.0, 0.0]))
    batches = Batches("weighted", 6, 2, int(times.sum()))
    reader, laid = Reader.lay_out(batches, False, rows, ENTROPY, times)
    _, weights = reader.take(jax.tree.map(jnp.asarray, laid), jnp.asarray([0, len(times)]))
    assert weights is not None
    np.testing.assert_allclose(weights, weights_of(times)[[0, 0]])
    assert 0 < float(weights[0]) < 1


@pytest.mark.parametrize(("num_data", "count"), [(1, 1), (7, 7), (24, 5)])
def test_X7_distinct_rows_are_a_draw_without_replacement(num_data: int, count: int) -> None:
    """Every row, and every pair, as often as it should be."""
    keys = jax.random.split(jax.random.key(0), 10_000)
    drawn = np.asarray(
        jax.jit(jax.vmap(lambda k: distinct_rows(k, count, jnp.arange(num_data))))(keys)
    )
    taken = np.zeros((len(keys), num_data))
    np.put_along_axis(taken, drawn, 1.0, axis=1)
    assert np.all(taken.sum(axis=1) == count)
    share = count / num_data
    pairs = taken.T @ taken / len(keys)
    expected = np.full_like(pairs, share * (count - 1) / max(1, num_data - 1))
    np.fill_diagonal(expected, share)
    error = np.sqrt(expected * (1 - expected) / len(keys)) + 1e-12
    assert np.all(np.abs(pairs - expected) < 5 * error)


@pytest.mark.parametrize(("N", "S"), [(1330, 133), (20_000, 200)])
def test_X7_distinct_rows_of_long_tables_have_the_promised_variance(N: int, S: int) -> None:
    """The next primes are 1,361, as far away as it gets, and 20,011; the rows are sorted."""
    keys = jax.random.split(jax.random.key(1), 4000)
    shuffled = jnp.asarray(np.random.default_rng(0).permutation(N))
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: distinct_rows(k, S, shuffled)))(keys))
    assert drawn.min() >= 0
    assert drawn.max() < N
    assert all(len(np.unique(line)) == S for line in drawn[:200])
    values = np.linspace(-1.0, 1.0, N)
    means = values[drawn].mean(axis=1) - values.mean()
    predicted = values.var() / S * (N - S) / (N - 1)
    assert np.mean(means**2) == pytest.approx(predicted, rel=5 * np.sqrt(2 / len(keys)))
    assert abs(means.mean()) < 5 * np.sqrt(predicted / len(keys))

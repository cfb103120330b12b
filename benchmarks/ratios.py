"""Ratios of the contestants' rates."""

from collections.abc import Mapping


def best_peer(rates: Mapping[str, float]) -> float | None:
    """The rate of the fastest loop of blackjax or optax, however written; None if none ran."""
    return max((rates[key] for key in rates if key.startswith(("blackjax", "optax"))), default=None)


def ratios(rates: Mapping[str, float]) -> dict[str, float]:
    """Our windows over the best peer, and each of our schemes over the limit of the same one."""
    found = {
        "windows over limit windows": rates["sgd windows"] / rates["limit windows"],
        "windows over limit independent": rates["sgd windows"] / rates["limit independent"],
        "independent over limit independent": rates["sgd independent"] / rates["limit independent"],
    }
    peer = best_peer(rates)
    if peer is not None:
        found["windows over best peer"] = rates["sgd windows"] / peer
        found["independent over best peer"] = rates["sgd independent"] / peer
    return found

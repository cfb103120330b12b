"""How far chains that agree may seem to differ, and what to do where they do."""

import numpy as np
import scipy.special

_LEVEL = 0.01  # of false alarms
_GOOD = 0.01  # excess of R-hat that is taken for agreement, of one parameter
_LONG = 4000  # draws of a chain, after which another method is the better remedy


def largest_rhat(parameters: int, chains: int, draws: int) -> float:
    """The largest R-hat of so many parameters that still says that chains agree.

    For one parameter the usual 1.01; the largest of many is farther off by chance, in the
    proportion of quantiles of chi-square. Short chains differ even if draws are independent.

    >>> round(largest_rhat(1, 8, 500), 3), round(largest_rhat(42, 8, 500), 3)
    (1.01, 1.015)
    """
    free = chains - 1
    usual, most = (scipy.special.chdtri(free, _LEVEL / (2 * count)) for count in (1, parameters))
    by_length = np.sqrt(1 + most / free / draws)
    return float(max(1 + _GOOD * most / usual, by_length))


def longer(draws: int, method: str) -> str:
    """What to do where chains do not agree: more draws, and if there are many, another method."""
    if draws >= _LONG and method != "nuts":
        return "use method='nuts', which follows any shape and takes longer"
    return f"make more draws: draws={4 * draws}"

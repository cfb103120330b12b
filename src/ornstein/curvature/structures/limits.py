"""Up to which size each structure is held: the one place where that is decided."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Sizes beyond which a structure is not the default.

    Attributes
    ----------
    dense
        Parameters whose matrices are held: a matrix of 2,000 takes 32 MB, its eigenvalues seconds.
    width
        Columns whose Gram matrix is made for Kronecker factors.
    class_numbers
        Numbers in the blocks of all classes together: 256 MiB, and some times that to make them.
    """

    dense: int = 2000
    width: int = 4000
    class_numbers: int = 2**25


LIMITS = Limits()

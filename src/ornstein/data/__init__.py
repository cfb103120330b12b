"""Where rows come from: arrays, files that stay on disk, data sets; and how batches are drawn.

Begin with ``batches``: which rows a minibatch has depends on the key and the step alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["datasets"])

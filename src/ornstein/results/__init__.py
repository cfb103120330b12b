"""Meaning: draws with summary, diagnosis, predictions, pictures and a page.

Begin with ``result``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["plots", "predictive", "report"])

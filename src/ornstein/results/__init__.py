"""Meaning: draws with summary, diagnosis, predictions, pictures and a page.

Begin with ``result``.
"""

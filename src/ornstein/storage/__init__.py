"""Bytes on disk: records with checksums, folders written whole, locks, checkpoints.

No pickles, and nothing that is read is executed. Begin with ``records``.
"""

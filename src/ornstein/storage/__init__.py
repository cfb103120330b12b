"""Bytes on disk: one codec for dataclasses, records with checksums, folders, locks, checkpoints.

No pickles, and nothing that is read is executed. Begin with ``codec``: what a file can hold.
"""

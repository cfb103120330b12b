"""``python -m ornstein``: the command line."""

from ornstein.cli import main

main()

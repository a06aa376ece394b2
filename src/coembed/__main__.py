"""Run the command line with ``python -m coembed``."""

from coembed.cli import main

main()

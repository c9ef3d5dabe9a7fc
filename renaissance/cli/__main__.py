"""`python -m renaissance.cli` is the `renaissance` command."""

from renaissance.cli.main import main

main()

"""`python -m server.cli`, where the console script is not on the path."""

from server.cli import main

main()

"""`python -m scanline.server.cli`, where the console script is not on the path."""

from scanline.server.cli import main

main()

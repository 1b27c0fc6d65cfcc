"""`python -m scanline.server.cli`, for environments whose scripts are not on the PATH."""

from scanline.server.cli import main

main()

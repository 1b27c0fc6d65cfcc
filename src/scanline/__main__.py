"""`python -m scanline`: the command line."""

from scanline.server.cli import main

if __name__ == "__main__":
    main()

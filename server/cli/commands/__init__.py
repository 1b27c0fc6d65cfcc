"""The commands of `scanline`, one file each."""

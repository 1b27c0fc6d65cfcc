"""How kernels follow each other."""

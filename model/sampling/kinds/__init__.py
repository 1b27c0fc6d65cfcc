"""Kinds of images, one file each: what differs between them in the engine, which
asks a kind, never which one it is.
"""

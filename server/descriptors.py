"""Every connection is a descriptor, and systems give a process few of them until it asks for more."""

import logging

log = logging.getLogger("scanline.server")

OTHERS = 256  # beside websockets: POSTs, the engines' pipes, files


def raise_limit(websockets: int) -> None:
    """Takes as many as the system lets this process have; says so where they are too few for that many websockets."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    needed = websockets + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = hard == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed) if endless else hard, hard))
    if not endless and hard < needed:
        log.warning("%s descriptors are too few for %s websockets: raise ulimit -n", hard, websockets)

"""What every engine imports, imported without a collection of garbage:
collections take a tenth of the time.
"""

import gc

from scanline.server.runtime import stderr

gc.disable()
stderr.install()  # libraries warn when they are imported

from scanline.model.backends import cpu  # noqa: E402
from scanline.model.formats import checkpoint  # noqa: E402
from scanline.model.sampling import engine  # noqa: E402

__all__ = ["checkpoint", "cpu", "engine"]

# engines do not collect what they share with the fork server, and so do not copy it either
gc.freeze()
gc.enable()

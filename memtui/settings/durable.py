"""Making the names in a folder outlive a loss of power."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# What file systems answer that cannot sync a folder: names last there as long as they do.
_UNKNOWN = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def sync_folder(folder: Path) -> None:
    """Have the disk hold the names in a folder as they are now; raises `OSError`.

    A file that is synced keeps its content; the name it was given only lasts with its folder.
    """
    # Windows cannot open a folder, and makes a replaced name durable by itself.
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    finally:
        os.close(descriptor)

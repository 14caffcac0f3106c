"""What differs between operating systems when a file is locked, written in place and made durable."""

import sys

if sys.platform == "win32":
    from batch2online.storage.system.windows import (
        OPEN_FLAGS,
        copy_owner,
        lock,
        read_start,
        remove_locked,
        sync_file,
        sync_path,
        write_start,
    )
else:
    from batch2online.storage.system.posix import (
        OPEN_FLAGS,
        copy_owner,
        lock,
        read_start,
        remove_locked,
        sync_file,
        sync_path,
        write_start,
    )

__all__ = [
    "OPEN_FLAGS",
    "copy_owner",
    "lock",
    "read_start",
    "remove_locked",
    "sync_file",
    "sync_path",
    "write_start",
]

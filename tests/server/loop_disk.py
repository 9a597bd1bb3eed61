"""An ext4 file system in a file, for tests that cut the power.

    with LoopDisk(tmp_path) as disk:
        disk.place                      a directory on it
        disk.cut_power()                from here on, reads of unsynced data and all writes fail
        disk.restore_power()            mounted again: what had not been synced is gone

The cut is the kernel's own (``EXT4_IOC_SHUTDOWN`` without a flush of the
journal, as xfstests uses it): dirty pages and uncommitted metadata are
discarded, and the next mount replays ext4's journal, as after a real outage.
The file behind the device keeps what the file system has written to it, so
the disk's own write cache is not simulated.

The power comes back on a copy of the file.  The file system that was shut down stays so as long as any mount
namespace has it, such as that of a program in a sandbox that began meanwhile; and while it does, mounting
the same file again is that same file system, on which every call fails.
"""

import fcntl
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

DISK_BYTES: Final = 256 * 2**20  # Sparse; only what is written takes room.
EXT4_IOC_SHUTDOWN: Final = 0x8004587D  # _IOR('X', 125, __u32)
WITHOUT_LOG_FLUSH: Final = struct.pack("I", 2)
COMMAND_TIMEOUT_S: Final = 30


class LoopDisk:
    """One file system, mounted while the context is open."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk.img"
        self._mount_point = folder / "disk"

    @property
    def place(self) -> Path:
        return self._mount_point

    def __enter__(self) -> Self:
        with self._image.open("wb") as image:
            image.truncate(DISK_BYTES)
        self._mount_point.mkdir()
        run_or_skip("mkfs.ext4", "-q", str(self._image))
        run_or_skip("mount", "-o", "loop", str(self._image), str(self._mount_point))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._unmount()

    def cut_power(self) -> None:
        """Whatever has not been synced is lost, and the file system is dead until ``restore_power``."""
        directory = os.open(self._mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(directory)

    def restore_power(self) -> None:
        """Mount it again; nobody may have a file on it open."""
        self._unmount()
        failed = self._image.rename(self._image.with_suffix(".failed"))
        run("cp", "--sparse=always", str(failed), str(self._image))
        failed.unlink()
        run("mount", "-o", "loop", str(self._image), str(self._mount_point))
        for lock in self._mount_point.rglob("LOCK"):
            lock.write_text("")  # Has the boot id of the kernel, which is another one after a real outage.

    def _unmount(self) -> None:
        run("umount", str(self._mount_point))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S)


def run_or_skip(*command: str) -> None:
    try:
        run(*command)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} command")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{command[0]} is not permitted here: {error.stderr.decode().strip()}")

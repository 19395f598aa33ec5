"""The step between fork and exec of an embedded part: `python -I -S launch.py PARENT SIGNAL USER FOLDER COMMAND...`

A program of its own with one thread, because the same calls in a `preexec_fn` would run inside a copy of a threaded interpreter. It becomes
the user it is told to be, asks the kernel to send SIGNAL when PARENT ends, and becomes COMMAND. Linux only, standard library only.

USER is `same`, `namespace` (we are mapped to `nobody` in a user namespace) or a numeric user id. Exits 125 with a line on stderr if
that is not possible, or if this user could not work in FOLDER.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from pathlib import Path
from typing import NoReturn

CANNOT = 125
PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000


def _system_call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def _enter_namespace() -> None:
    outside, inside = (os.geteuid(), os.getegid()), pwd.getpwnam("nobody")  # it must have a name, initdb asks for it
    _system_call("unshare", CLONE_NEWUSER)
    maps = (("setgroups", "deny"), ("uid_map", f"{inside.pw_uid} {outside[0]} 1"), ("gid_map", f"{inside.pw_gid} {outside[1]} 1"))
    for name, line in maps:
        Path("/proc/self", name).write_text(line)


def _become(user: int) -> None:
    group = pwd.getpwuid(user).pw_gid
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def main(parent: str, death_signal: str, user: str, folder: str, *command: str) -> NoReturn:
    """Never returns: this process becomes `command`, or exits."""
    try:
        if user == "namespace":
            _enter_namespace()
        elif user != "same":
            _become(int(user))
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"user {os.geteuid()} cannot work in {folder}")
        _system_call("prctl", PR_SET_PDEATHSIG, int(death_signal))  # last: a change of user clears it
        if os.getppid() != int(parent):
            sys.exit(CANNOT)
        os.execv(command[0], command)  # noqa: S606  (that is the purpose; the command is the caller's own)
    except (OSError, KeyError) as error:
        print(f"cannot start {Path(command[0]).name}: {error}", file=sys.stderr)  # noqa: T201  (a program's last word)
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])

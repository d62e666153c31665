"""A server that forks Python processes from one that has imported what our commands need.

`tests/commands.py` starts it; `tests/fork_client.py` asks it for a process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).parent.parent
_LIBRARIES = ("chromadb", "google.genai", "mcp.server", "orchestrator", "wordllama")
_STANDARD_STREAMS = (0, 1, 2)


class Request(NamedTuple):
    """The state of a client that its process takes over."""

    argv: list[str]
    folder: str
    environment: dict[str, str]
    umask: int
    most_files: tuple[int, int]


def import_all() -> None:
    """Import the libraries and our modules, except adapters, and load the embedder's model.

    What cannot be imported here, since an extra is missing, is left to the forked processes.
    """
    paths = [path.relative_to(_ROOT).with_suffix("") for path in _ROOT.glob("memory/**/*.py")]
    own = [".".join(path.parts) for path in paths if path.stem not in ("__init__", "__main__")]
    for name in (*_LIBRARIES, *(one for one in own if not one.startswith("memory.adapters"))):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork
    importlib.import_module("memory.providers").WordLlamaEmbedder().embed(["text"])


def serve(listener: socket.socket) -> Request:
    """Fork a process for each client; end when standard input does, after the last test run.

    Returns only in the forked processes, with what each is to run. Each client is sent the id of
    its process, then the status with which that ended; where the client is gone, the process is
    killed.
    """
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    clients: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    for waited_for in (listener.fileno(), 0, wake):
        selector.register(waited_for, selectors.EVENT_READ)
    while True:
        for ready in (key.fd for key, _ in selector.select()):
            if ready == 0:
                shutil.rmtree(Path(sys.executable).parent)
                os._exit(0)
            elif ready == wake:
                os.read(wake, 64)
                _send_ends(clients, selector)
            elif ready == listener.fileno():
                client, _ = listener.accept()
                request, streams = _receive(client)
                pid = os.fork()
                if pid == 0:
                    _leave(listener, selector, (wake, waker), [client, *clients.values()])
                    _take_over(request, streams)
                    return request
                for stream in streams:
                    os.close(stream)
                clients[pid] = client
                selector.register(client, selectors.EVENT_READ)
                _send(client, pid)
            else:
                selector.unregister(ready)
                [gone] = (pid for pid, client in clients.items() if client.fileno() == ready)
                os.kill(gone, signal.SIGKILL)


def _receive(client: socket.socket) -> tuple[Request, list[int]]:
    """Read a request and the client's standard streams."""
    start, streams, _, _ = socket.recv_fds(client, 8, len(_STANDARD_STREAMS))
    with client.makefile("rb") as data:
        return Request(*json.loads(data.read(int.from_bytes(start)))), list(streams)


def _send_ends(clients: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Send the status of each process that has ended to its client."""
    for pid in list(clients):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            client = clients.pop(pid)
            with contextlib.suppress(KeyError):  # already done where the client was gone first
                selector.unregister(client)
            _send(client, status)
            client.close()


def _send(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # a client that was killed
        client.sendall(b"%d\n" % number)


def _leave(
    listener: socket.socket,
    selector: selectors.BaseSelector,
    pipe: tuple[int, int],
    clients: list[socket.socket],
) -> None:
    """Close what belongs to the server, in the forked process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    selector.close()
    for one in (listener, *clients):
        one.close()
    for end in pipe:
        os.close(end)


def _take_over(request: Request, streams: list[int]) -> None:
    """Become the process that the client would have started."""
    os.setsid()
    os.umask(request.umask)
    resource.setrlimit(resource.RLIMIT_NOFILE, request.most_files)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    for number, stream in zip(_STANDARD_STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)


def run(argv: list[str]) -> None:
    """Do what `python ARGV` does, for `-I`, `-S`, `-W error`, `-c`, `-m` and a script."""
    argv = list(argv)
    base = [folder for folder in sys.path if folder not in ("", str(_ROOT))]
    added = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]  # noqa: PTH109 - as Python
    while (option := argv.pop(0)) in ("-I", "-S", "-W"):
        if option == "-I":
            added = []
        elif option == "-W":
            warnings.simplefilter(argv.pop(0))  # type: ignore[arg-type]
    sys.path[:] = [*added, *base, str(_ROOT)]
    if option == "-c":
        code = compile(argv[0], "<string>", "exec")
        sys.argv = ["-c", *argv[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(code, main.__dict__)
    elif option == "-m":
        sys.argv = argv
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [option, *argv]
        sys.path[0] = str(Path(option).absolute().parent)
        runpy.run_path(option, run_name="__main__")


def status_of(ended: SystemExit) -> int:
    """Return the status that Python ends with, after the message if there is one."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    sys.stderr.write(f"{ended.code}\n")
    return 1


def end(status: int) -> None:
    """End as Python does, but do not tear down the modules, which takes 0.1 s."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python itself says that nobody could read it
        sys.exit(status)
    os._exit(status & 0xFF)


def main(listener: Any) -> None:
    import_all()
    gc.collect()
    gc.freeze()  # what is here now is shared with the forked processes, and never garbage
    argv = serve(listener).argv
    status = 0
    try:
        run(argv)
    except SystemExit as ended:
        status = status_of(ended)
    end(status)


if __name__ == "__main__":
    sys.executable = sys.argv[2]  # what a command starts is forked too
    main(socket.socket(fileno=int(sys.argv[1])))

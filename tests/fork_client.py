"""Stand in for `python`: let the server fork a process, hand signals on, and end as it ends.

`tests/commands.py` runs this as a script, with the server's socket first. It imports little, since
each process that a test starts waits for it.
"""

import json
import os
import resource
import signal
import socket
import sys

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    os.umask(umask := os.umask(0))
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    request = [sys.argv[2:], os.getcwd(), dict(os.environ), umask, most_files]  # noqa: PTH109
    data = json.dumps(request).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(sys.argv[1])
    socket.send_fds(server, [len(data).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(data)
    answers = server.makefile("rb")
    pid = int(answers.readline())
    for number in _FORWARDED:
        signal.signal(number, lambda received, _: os.kill(pid, received))
    for stream in (0, 1, 2):  # only the process itself keeps them open
        os.close(stream)
    status = int(answers.readline())
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in _FORWARDED:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


main()

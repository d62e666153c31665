"""Commands as processes of their own, forked from one that has imported what they need.

Most of a short command's time goes into imports; here they are paid once for all tests.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_MODULES = [path.relative_to(_ROOT).with_suffix("") for path in _ROOT.glob("memory/**/*.py")]
_OWN = [".".join(path.parts) for path in _MODULES if path.name != "__main__"]
_IMPORTED = [
    *(name for name in _OWN if not name.startswith("memory.adapters")),
    *("chromadb", "google.genai", "jinja2", "orchestrator", "tests.commands", "wordllama"),
]
_STREAMS = ("stdin", "stdout", "stderr")


def run(
    module: str, *args: str, cwd: Path, env: Mapping[str, str], said: str = "", seconds: int = 60
) -> subprocess.CompletedProcess[str]:
    """What `python -W error -m MODULE ARGS` does, with `said` on its standard input.

    Raises: TimeoutError, and then the command is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        stdin, stdout, stderr = (Path(folder, name) for name in _STREAMS)
        stdin.write_text(said, encoding="utf-8")
        process = _forkserver().Process(
            target=_become, args=(module, args, cwd, dict(env), Path(folder))
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"{module} {' '.join(args)}: {_text(stderr)}")
        return subprocess.CompletedProcess(
            [module, *args], process.exitcode, _text(stdout), _text(stderr)
        )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


@cache
def _forkserver() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def _become(
    module: str, args: tuple[str, ...], cwd: Path, env: dict[str, str], folder: Path
) -> None:
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for number, (name, mode) in enumerate(zip(_STREAMS, modes, strict=True)):
        os.dup2(os.open(folder / name, mode), number)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [module, *args]
    sys.path[:0] = [str(cwd), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    warnings.simplefilter("error")
    runpy.run_module(module, run_name="__main__", alter_sys=True)

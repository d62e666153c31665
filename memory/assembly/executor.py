"""Who does the work of a batch: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory.errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Executor


_DASK_S = 10
"""How long a scheduler may take to answer."""


@contextlib.contextmanager
def open_executor(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Processes of this machine, or a Dask cluster at an address; None where neither is named.

    Raises: InputError.
    """
    if dask is not None:
        with _dask_client(dask) as client:
            yield client.get_executor()
    elif workers is not None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:  # threads run already
            yield pool
    else:
        yield None


def _dask_client(address: str) -> Any:
    """Raises: InputError."""
    try:
        from distributed import Client
    except ImportError as exc:
        raise InputError("--dask", "needs Dask", "pip install '.[dask]'") from exc
    try:
        connect: Any = Client
        return connect(address, timeout=_DASK_S)
    except (OSError, ValueError) as exc:
        raise InputError("--dask", f"no scheduler answers at {address}", "start one there") from exc

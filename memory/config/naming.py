"""Settings of a file that nobody named, which would send data away or run code.

Without `--config`, the file `config.yaml` of the current folder is read. Somebody else may have
written it, for example in a repository that was just cloned. So a server's URL or a factory in it
needs an approval, which is kept by file and by host or factory. A file that was named needs none,
nor the file in the folder of `orchestrator.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

from memory.config.settings import Config
from memory.errors import UnnamedFile

PACKAGE = Path(__file__).parents[2]
KeyPath = tuple[str, ...]


def check_approved(file: Path, config: Config, sources: Mapping[KeyPath, str]) -> None:
    """Check that a file that nobody named sets no server and no factory without an approval.

    `sources`: where each key was set, such as `config.yaml:7`.

    Raises: UnnamedFile.
    """
    if _is_in_own_folder(file):
        return
    for key_path, value in _risky(config):
        source = sources.get(key_path, "")
        target = urlsplit(value).netloc if key_path[-1].endswith("_url") else value
        if source.startswith(f"{file}:") and [_name(file), target] not in _approvals():
            raise UnnamedFile(source, ".".join(key_path), file, target)


def approve(file: Path, target: str) -> None:
    """Approve a host or a factory that this file names, now and for later.

    Raises: OSError.
    """
    kept = [*_approvals(), [_name(file), target]]
    path = _approvals_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    part.replace(path)


def _risky(config: Config) -> Iterator[tuple[KeyPath, str]]:
    memory, embedding = config.memory, config.memory.embedding
    for key_path, value in (
        (("llm", "base_url"), config.llm.base_url),
        (("memory", "embedding", "base_url"), embedding.base_url),
        (("memory", "search", "chroma_url"), memory.search.chroma_url),
    ):
        if value is not None:
            yield key_path, value
    for key_path, name in (
        (("llm", "provider"), config.llm.provider),
        (("memory", "embedding", "provider"), embedding.provider),
        (("memory", "search", "index"), memory.search.index),
    ):
        if name is not None and ":" in name:
            yield key_path, name


def _is_in_own_folder(file: Path) -> bool:
    return file.absolute().parent == PACKAGE and (PACKAGE / "orchestrator.py").is_file()


def _name(file: Path) -> str:
    return str(file.resolve())


def _approvals_file() -> Path:
    return platformdirs.user_config_path("memory-dedup") / "approved.json"


def _approvals() -> list[list[str]]:
    try:
        found = json.loads(_approvals_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []

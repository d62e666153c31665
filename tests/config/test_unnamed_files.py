"""A config.yaml that nobody named sends nothing and runs nothing without an approval."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memory.config import approve, load_config, loading
from memory.errors import UnnamedFile
from tests.config.files import SHIPPED, written

ROOT = Path(loading.__file__).parents[2]
OF_SERVER = "memory:\n  data_dir: data\nllm:\n  base_url: http://10.0.0.8:8000/v1\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, of an account that has approved nothing."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / name)
    return folder


def test_a_server_is_not_used_until_the_file_is_named(here: Path) -> None:
    file = written(here, OF_SERVER)
    with pytest.raises(UnnamedFile) as caught:
        load_config(None, {})
    assert str(caught.value) == (
        "config.yaml:4: llm.base_url: sends memories and keys to 10.0.0.8:8000, but nobody named "
        "this file; name the file with --config, pass its path, or set MEMORY_LLM_BASE_URL"
    )
    assert load_config(file, {}).llm.base_url == "http://10.0.0.8:8000/v1"
    own = {"MEMORY_LLM_BASE_URL": "http://127.0.0.1:1/v1"}
    assert load_config(None, own).llm.base_url == "http://127.0.0.1:1/v1"
    written(here, "memory: {search: {chroma_url: 'https://chroma.example'}}")
    with pytest.raises(UnnamedFile, match=r"keys to chroma\.example, but nobody"):
        load_config(None, {})


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("llm: {provider: 'theirs:make'}", "MEMORY_LLM_PROVIDER"),
        ("memory: {embedding: {provider: 'theirs:make'}}", "MEMORY_EMBEDDING_PROVIDER"),
        ("memory: {search: {index: 'theirs:make'}}", "MEMORY_SEARCH_INDEX"),
    ],
)
def test_a_factory_is_not_run_until_the_file_is_named(here: Path, text: str, variable: str) -> None:
    file = written(here, text)
    with pytest.raises(UnnamedFile, match=f"runs the code theirs:make, .* or set {variable}$"):
        load_config(None, {})
    load_config(file, {})
    load_config(None, {variable: "mine:make"})


def test_an_approval_is_kept_for_this_file_and_this_host(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(here, OF_SERVER)
    with pytest.raises(UnnamedFile) as caught:
        load_config(None, {})
    approve(caught.value.file, caught.value.target)
    assert load_config(None, {}).llm.base_url == "http://10.0.0.8:8000/v1"
    written(here, OF_SERVER.replace("10.0.0.8", "10.0.0.9"))
    with pytest.raises(UnnamedFile, match=r"10\.0\.0\.9"):
        load_config(None, {})
    written(tmp_path, OF_SERVER)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnnamedFile, match=r"10\.0\.0\.8"):
        load_config(None, {})
    monkeypatch.chdir(here)
    written(here, OF_SERVER)
    load_config(None, {})
    (tmp_path / "memory-dedup" / "approved.json").write_text("{")
    with pytest.raises(UnnamedFile):
        load_config(None, {})


def test_the_folder_of_the_orchestrator_counts_as_named(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "PACKAGE", here)
    written(here, OF_SERVER)
    with pytest.raises(UnnamedFile):
        load_config(None, {})
    (here / "orchestrator.py").touch()
    assert load_config(None, {}).llm.base_url is not None


def test_what_gives_nothing_away_needs_no_approval(here: Path) -> None:
    shutil.copy(SHIPPED, here / "config.yaml")
    assert load_config(None, {}).memory.dedup_enabled


def ended(folder: Path, *paths: Path) -> str:
    """Run `python -m memory audit` in a folder, with a factory that a variable names."""
    environ = {
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *paths])),
        "MEMORY_DATA_DIR": str(folder / "data"),
        "MEMORY_EMBEDDING_PROVIDER": "theirs:make",
    }
    done = subprocess.run(
        [sys.executable, "-m", "memory", "import", "--raw", "in.jsonl"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_current_folder_is_not_searched_for_modules(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("raise RuntimeError('their code ran')\n")
    (tmp_path / "in.jsonl").write_text('{"content": "Mia sails.", "timestamp": "2026-01-01"}\n')
    assert "No module named 'theirs'" in ended(tmp_path)
    assert "their code ran" in ended(tmp_path, tmp_path), "a folder that was named is searched"

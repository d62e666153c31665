"""A config.yaml is ours or another program's, and only ours is read."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from memory.config.loading import load_config
from memory.config.settings import Config
from memory.errors import ConfigError
from tests.config.files import written


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml", {})


@pytest.mark.parametrize(
    "text",
    [
        "server:\n  port: 8000\n",
        "llm:\n  provider: openai\n  base_url: https://example.org\n",
        "memory:\n  backend: redis\n",
        "- 1\n",
    ],
)
def test_a_config_file_of_a_bot_is_neither_read_nor_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).llm == Config().llm
    assert load_config(None, {}).memory.data_dir == str(platformdirs.user_data_path("memory-dedup"))


@pytest.mark.parametrize(
    "text", ["memroy:\n  data_dir: here\n", "llm: {modle: m}\n", "memory: {data_folder: here}\n"]
)
def test_a_config_file_that_only_seems_another_programs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    load_config(None, {})
    assert "config.yaml is taken for another program's" in caplog.text


def test_our_sections_are_read_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "server: {port: 1}\nmemory:\n  data_dir: here\nllm: {concurrency: 2}\n")
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert (config.memory.data_dir, config.llm.concurrency) == (str(tmp_path / "here"), 2)

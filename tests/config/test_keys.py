"""Single keys from the environment or a call stand above the file; wrong names are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.config.loading import configured, load_config
from memory.errors import ConfigError
from tests.config.files import SHIPPED, written


def test_the_environment_overrides_single_keys(tmp_path: Path) -> None:
    path = written(tmp_path, "memory:\n  dedup_guard: true\n")
    environ = {
        "MEMORY_DEDUP_GUARD": "false",
        "MEMORY_DEDUP_UPPER_THRESHOLD": "0.97",
        "MEMORY_DEDUP_SCOPE": "[user, category]",
        "MEMORY_CHROMA_HOST": "10.0.0.8",
        "MEMORY_LLM_MODEL": "1.5",
        "MEMORY_LIMIT": "somebody else's",
    }
    config = load_config(path, environ)
    assert config.memory.dedup_guard is False
    assert config.memory.dedup_upper_threshold == 0.97
    assert config.memory.dedup_scope == ("user", "category")
    assert (config.memory.chroma.host, config.llm.model) == ("10.0.0.8", "1.5")


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^MEMORY_DEDUP_CANDIDATES: memory\.dedup_candidates"):
        load_config(SHIPPED, {"MEMORY_DEDUP_CANDIDATES": "many"})


def test_settings_stand_above_the_environment_and_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "memory: {dedup_guard: false}\nllm: {concurrency: 2}\n")
    settings = {"llm_concurrency": 3, "chroma_host": "h", "memory": {"dedup_candidates": 7}}
    config = load_config(path, {"MEMORY_LLM_CONCURRENCY": "5"}, settings)
    assert (config.llm.concurrency, config.memory.chroma.host) == (3, "h")
    assert (config.memory.dedup_guard, config.memory.dedup_candidates) == (False, 7)
    assert configured(config, {"llm_concurrency": 9}).llm.concurrency == 9


def test_a_variable_that_is_nearly_one_of_ours_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("MEMORY_LLM_MODLE", "MEMORY_DATADIR", "MEMORY_AGENT_TOKENS", "MEMORY_LIMIT")
    load_config(SHIPPED, dict.fromkeys(names, "x"))
    assert [record.getMessage() for record in caplog.records] == [
        "MEMORY_DATADIR is not known, and not read; did you mean MEMORY_DATA_DIR?",
        "MEMORY_LLM_MODLE is not known, and not read; did you mean MEMORY_LLM_MODEL?",
    ]


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="llm_modle: is not known; did you mean llm_model"):
        load_config(SHIPPED, {}, {"llm_modle": "x"})

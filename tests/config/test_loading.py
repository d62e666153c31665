"""Each mistake is one line: file, line, key and remedy; paths are where one expects them."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from memory.config.loading import load_config
from memory.errors import ConfigError
from tests.config.files import SHIPPED, written


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "memory:\n  data_dir: store\n"), {})
    assert config.memory.data_dir == str(tmp_path / "store")
    assert config.memory.effective_ledger_url == f"sqlite:///{tmp_path / 'store' / 'ledger.db'}"


def test_a_ledger_file_too_is_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "memory:\n  ledger_url: sqlite:///other/l.db\n"), {})
    assert config.memory.effective_ledger_url == f"sqlite:///{tmp_path / 'other' / 'l.db'}"


def test_the_workspace_is_relative_to_the_file_and_can_be_set_by_a_variable(tmp_path: Path) -> None:
    file = written(tmp_path, "agent:\n  workspace_dir: notes\n")
    assert load_config(file, {}).agent.workspace_dir == str(tmp_path / "notes")
    given = {"MEMORY_AGENT_WORKSPACE_DIR": "other", "MEMORY_AGENT_USER": "Mia"}
    agent = load_config(file, given).agent
    assert (agent.workspace_dir, agent.user) == (str(tmp_path / "other"), "Mia")


def test_the_key_comes_from_the_environment_and_is_never_shown() -> None:
    config = load_config(SHIPPED, {"GEMINI_API_KEY": "first", "GOOGLE_API_KEY": "second"})
    assert config.api_key is not None
    assert config.api_key.get_secret_value() == "first"
    assert "first" not in repr(config) + config.model_dump_json()


def test_what_the_environment_alone_says_is_kept_when_settings_are_laid_on_top() -> None:
    environ = {"OPENAI_API_KEY": "third", "OPENAI_BASE_URL": "http://localhost:1234/v1"}
    config = load_config(load_config(SHIPPED, environ), settings={"llm_model": "m"})
    assert config.openai_key is not None
    assert config.openai_key.get_secret_value() == "third"
    assert config.openai_url == "http://localhost:1234/v1"
    assert "third" not in repr(config) + config.model_dump_json()


def test_without_a_file_the_data_live_where_the_platform_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = str(platformdirs.user_data_path("memory-dedup"))
    assert load_config(None, {}).memory.data_dir == expected
    assert load_config(None, {"MEMORY_DATA_DIR": "here"}).memory.data_dir == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "memory:\n  dedup_uper_threshold: 0.9\n",
            ":2: memory.dedup_uper_threshold: unknown key; "
            "did you mean memory.dedup_upper_threshold?",
        ),
        (
            "memory:\n  chroma:\n    host: h\n",
            ":2: memory.chroma: is no longer a key; set memory.search.chroma_url to",
        ),
        (
            "llm:\n  timeout_s: 10\n  budget_s: 9\n",
            ":3: llm.budget_s: is no longer a key; remove it; it is twice llm.timeout_s now",
        ),
        ("memry:\n  data_dir: x\n", ":1: memry: unknown key; did you mean memory?"),
        (
            "memory:\n  dedup_upper_threshold: high\n",
            ":2: memory.dedup_upper_threshold: must be a number, not 'high'",
        ),
        (
            "memory:\n  dedup_upper_threshold: 1.5\n",
            ":2: memory.dedup_upper_threshold: must be at most 1, not 1.5",
        ),
        (
            "memory:\n  dedup_upper_threshold: 0.8\n  dedup_lower_threshold: 0.9\n",
            ":3: memory.dedup_lower_threshold: 0.9 is above dedup_upper_threshold 0.8",
        ),
        (
            "memory:\n  dedup_upper_threshold: 0.8\n",
            ":1: memory.dedup_lower_threshold: 0.9 is above dedup_upper_threshold 0.8",
        ),
        ("memory:\n  data_dir: a\n  data_dir: b\n", ":3: memory.data_dir: is set twice"),
        ("memory: [\n", ":2: is not YAML"),
        ("memory: &a\n  search: *a\n", ": refers to itself"),
        ("api_key: secret\n", ":1: api_key: GEMINI_API_KEY does not belong in a file; set"),
        ("openai_key: secret\n", ":1: openai_key: OPENAI_API_KEY does not belong in a file; set"),
        ("- 1\n", ":1: must hold settings by name"),
        (
            "memory:\n  dedup_scope: [tags]\n",
            ":2: memory.dedup_scope.0: tags cannot divide memories",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(
    tmp_path: Path, text: str, line: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).startswith(f"{path}{line}")
    assert "\n" not in str(caught.value)


# --- single keys from the environment or a call ---------------------------------------------------


def test_the_environment_overrides_single_keys(tmp_path: Path) -> None:
    path = written(tmp_path, "memory:\n  dedup_guard: true\n")
    environ = {
        "MEMORY_DEDUP_GUARD": "false",
        "MEMORY_DEDUP_UPPER_THRESHOLD": "0.97",
        "MEMORY_DEDUP_SCOPE": "[user, category]",
        "MEMORY_SEARCH_CHROMA_URL": "http://10.0.0.8",
        "MEMORY_LLM_MODEL": "1.5",
        "MEMORY_LIMIT": "somebody else's",
    }
    config = load_config(path, environ)
    assert config.memory.dedup_guard is False
    assert config.memory.dedup_upper_threshold == 0.97
    assert config.memory.dedup_scope == ("user", "category")
    assert (config.memory.search.chroma_url, config.llm.model) == ("http://10.0.0.8", "1.5")


def test_a_mistake_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"^MEMORY_LLM_CONCURRENCY: llm\.concurrency"):
        load_config(SHIPPED, {"MEMORY_LLM_CONCURRENCY": "many"})


def test_a_variable_of_an_earlier_version_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    load_config(SHIPPED, {"MEMORY_CHROMA_HOST": "h"})
    (line,) = caplog.messages
    assert line.startswith("MEMORY_CHROMA_HOST is no longer read: set memory.search.chroma_url")


def test_settings_stand_above_the_environment_and_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "memory: {dedup_guard: false}\nllm: {concurrency: 2}\n")
    settings = {"llm_concurrency": 3, "search_index": "p:h", "memory": {"extraction_wait": 7}}
    config = load_config(path, {"MEMORY_LLM_CONCURRENCY": "5"}, settings)
    assert (config.llm.concurrency, config.memory.search.index) == (3, "p:h")
    assert (config.memory.dedup_guard, config.memory.extraction_wait) == (False, 7)
    assert load_config(config, settings={"llm_concurrency": 9}).llm.concurrency == 9


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

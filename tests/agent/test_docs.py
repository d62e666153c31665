"""What the pages about the agent show is what it does."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from memory.agent.schemas import TOOLS, Tool
from tests.agent.driving import ROOT, Agent, agent

REFERENCE = (ROOT / "docs" / "tool-reference.md").read_text(encoding="utf-8")
SESSIONS = ("docs/agent.md", "README.ja.md")
CONFIGURATIONS = ("README.md", "README.ja.md")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", REFERENCE, re.MULTILINE | re.DOTALL))
ID = re.compile(r"(?:mem|ep)_[0-9a-f]{12}")
DAY = re.compile(r"\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d\]")
DAY_SHOWN = "[Tue 2026-01-20]"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_described_with_all_it_takes_and_gives(tool: Tool) -> None:
    section = SECTIONS[tool.name]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert rows == list(tool.arguments.model_fields)
    given = SECTIONS["get_episode"] if tool.name == "create_episode" else section
    told = given.partition("Structured")[2]
    assert all(f"`{name}`" in told for name in tool.answer.model_fields)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_table_of_hints_is_true(tool: Tool) -> None:
    [row] = re.findall(rf"^\| \[`{tool.name}`\].*$", REFERENCE, re.MULTILINE)
    hints = [cell.strip() == "yes" for cell in row.split("|")[2:5]]
    assert hints == [tool.read_only, tool.destructive, tool.idempotent]


@pytest.mark.parametrize("page", SESSIONS)
def test_the_session_shown_goes_as_shown(page: str, tmp_path: Path) -> None:
    shown = re.findall(r"```\n(remember\(.*?)```", text_of(page), re.DOTALL)[0]
    calls = re.findall(r"^(\w+\(.*\))\n((?:  .*\n|\n(?=  ))+)", shown, re.MULTILINE)
    assert len(calls) >= 2
    real: dict[str, str] = {}
    with agent(tmp_path) as one:
        for call, answer in calls:
            expected = re.sub("^  ", "", answer, flags=re.MULTILINE).strip()
            said = perform(one, call, real)
            real |= zip(ID.findall(expected), ID.findall(said), strict=True)
            assert DAY.sub(DAY_SHOWN, said) == with_ids(real, expected)


def with_ids(real: dict[str, str], text: str) -> str:
    return ID.sub(lambda found: real[found.group()], text)


def perform(one: Agent, call: str, real: dict[str, str]) -> str:
    """Make a call as it is shown, with the ids of this run; its answer without the question."""
    node = ast.parse(with_ids(real, call), mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    arguments = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    return one.says(node.func.id, **arguments).partition("\n\n---\n")[0]


@pytest.mark.parametrize("page", CONFIGURATIONS)
def test_the_client_configuration_shown_is_one(page: str) -> None:
    [block] = re.findall(r"```json\n(.*?)```", text_of(page), re.DOTALL)
    server = json.loads(block)["mcpServers"]["memory"]
    assert Path(server["command"]).name == "memory-dedup"
    assert server["args"][0] == "serve"
    assert list(server["env"]) == ["MEMORY_DATA_DIR"]


def configured_servers() -> dict[str, dict[str, Any]]:
    """What the page has for each client, by the language and the number of its block."""
    page = text_of("docs/agent.md")
    of_mcp_servers, of_servers = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    [of_codex] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    return {
        "Claude Desktop, Cursor": json.loads(of_mcp_servers)["mcpServers"]["memory"],
        "VS Code": json.loads(of_servers)["servers"]["memory"],
        "Codex": tomllib.loads(of_codex)["mcp_servers"]["memory"],
    }


@pytest.mark.parametrize(("client", "server"), configured_servers().items())
def test_a_configuration_to_paste_starts_a_server_that_makes_its_folders(
    client: str, server: dict[str, Any], tmp_path: Path
) -> None:
    given = json.loads(json.dumps(server).replace("/home/mia", str(tmp_path / "mia")))
    assert (given["command"], set(given) - {"type"}) == ("memory-dedup", {"command", "args", "env"})
    with agent(tmp_path, ["-m", "memory", *given["args"]], **given["env"]) as one:
        one.remember("Public, and said to a person.")
    assert list((tmp_path / "mia" / "memory").glob("ledger.db"))
    [daily] = (tmp_path / "mia" / "notes" / "memory").glob("*.md")
    assert "said to a person" in daily.read_text(encoding="utf-8")

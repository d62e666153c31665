"""An implementation of Microsoft Agent Framework's `ContextProvider`.

It recalls memories before an agent's run, and extracts new ones after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from memory.adapters.opening import LazyMemory, conversation_of
from memory.config import Config
from memory.models import Turn
from memory.protocols import Embedder, LanguageModel
from memory.store import utc_now
from memory.text import clean

_INTRODUCTION = "What is remembered about the user:"


class DedupContextProvider(ContextProvider):
    """A context provider with the memories of one user. Call `await close()` at the end."""

    def __init__(
        self,
        *,
        user: str,
        source_id: str = "memory-dedup",
        k: int = 10,
        config: Config | Path | None = None,
        model: LanguageModel | None = None,
        embedder: Embedder | None = None,
        **settings: Any,
    ) -> None:
        """Configure the provider; the store is opened at the first use.

        `user`: the user whom the memories are about. `k`: the most memories added to the context of
        a run. `config`: the configuration, or the path of its file. `model` and `embedder` replace
        the configured ones. `settings` override single settings of the configuration, such as
        `data_dir="..."`.

        Raises: ConfigError; InputError if the configuration lets memories of different users be
        merged.
        """
        super().__init__(source_id)
        self._user = user
        self._k = k
        self._memory = LazyMemory.of_config(config, settings, model, embedder)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,  # noqa: ARG002 - the framework's signature
        session: AgentSession,  # noqa: ARG002
        context: SessionContext,
        state: dict[str, Any],  # noqa: ARG002
    ) -> None:
        """Search for memories that fit the user's new messages, and add them to the run's context.

        Raises: LedgerError, EmbedderMismatch.
        """
        query = clean(
            " ".join(message.text for message in context.input_messages if message.role == "user")
        )
        if not query:
            return
        memories = await (await self._memory.get()).recall(query, user=self._user, k=self._k)
        if memories:
            lines = [_INTRODUCTION, *(f"- {memory.content}" for memory in memories)]
            context.extend_messages(self, [Message("user", ["\n".join(lines)])])

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Store the run's messages; memories are extracted from them in the background.

        A message is skipped if the same message is already stored: one with the same session, the
        same number within the session, and the same text.

        Raises: LedgerError if the messages could not be stored; then none of them is stored.
        """
        answers = context.response.messages if context.response is not None else []
        spoken = [*context.input_messages, *answers]
        heard = int(state.get("heard", 0))  # the number of earlier messages of this session
        turns = [
            Turn(
                speaker=self._user if message.role == "user" else agent.name or "assistant",
                text=message.text,
                at=utc_now(),
                is_bot=message.role != "user",
                id=str(number),
                conversation=conversation_of(self.source_id, self._user, session.session_id),
            )
            for number, message in enumerate(spoken, start=heard)
            if message.role in ("user", "assistant") and clean(message.text)
        ]
        if turns:
            await (await self._memory.get()).hear_all(turns)
        state["heard"] = heard + len(spoken)

    async def settle(self) -> None:
        """Wait until memories are extracted from all stored messages.

        If the model fails, return early without an error; the messages are processed later.
        """
        await (await self._memory.get()).settle()

    async def close(self) -> None:
        """Close the store.

        Messages from which no memories were extracted yet are processed when the store is opened
        again.
        """
        await self._memory.close()

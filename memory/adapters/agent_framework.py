"""An implementation of Microsoft Agent Framework's `ContextProvider`.

It recalls memories before an agent's run, and extracts new ones after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from memory import Config
from memory.adapters import LazyMemory, as_context, conversation_of
from memory.models import Embedder, LanguageModel, Turn
from memory.text import clean


class DedupContextProvider(ContextProvider):
    """A context provider with the memories of one user. Call `await close()` at the end.

    The store is opened at the first use. `user`: the user whom the memories are about. `source_id`:
    the provider's name in the framework. `k`: the most memories that are added to the context of a
    run.

    `config` is the configuration, or the path of its file. `settings` override single settings,
    such as `data_dir="..."`. `model` and `embedder` replace the configured ones.

    Raises: ConfigError; InputError if the configuration lets memories of different users be merged.
    """

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
        """Add memories that fit the user's new messages to the run's context.

        Raises: LedgerError, EmbedderMismatch.
        """
        query = clean(
            " ".join(message.text for message in context.input_messages if message.role == "user")
        )
        if not query:
            return
        memories = await (await self._memory.get()).recall(query, user=self._user, k=self._k)
        if memories:
            text = as_context(memory.dated for memory in memories)
            context.extend_messages(self, [Message("user", [text])])

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Store the run's messages; memories are extracted from them in the background.

        Messages are numbered in each session. A message is skipped if it is already stored with the
        same session, number and text.

        Raises: LedgerError if the messages could not be stored; then none of them is stored.
        """
        answers = context.response.messages if context.response is not None else []
        spoken = [*context.input_messages, *answers]
        heard = int(state.get("heard", 0))  # the number of earlier messages of this session
        chat = await self._memory.get()
        turns = [
            Turn(
                speaker=self._user if message.role == "user" else agent.name or "assistant",
                text=message.text,
                at=chat.store.now(),
                is_bot=message.role != "user",
                id=str(number),
                conversation=conversation_of(self.source_id, self._user, session.session_id),
            )
            for number, message in enumerate(spoken, start=heard)
            if message.role in ("user", "assistant") and clean(message.text)
        ]
        if turns:
            await chat.hear_all(turns)
        state["heard"] = heard + len(spoken)

    async def settle(self) -> None:
        """Wait until memories are extracted from all stored messages.

        If the model fails, return early without an error; the messages are processed later.
        """
        await (await self._memory.get()).settle()

    async def close(self) -> None:
        await self._memory.close()

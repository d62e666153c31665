"""A language model on a server of your own, and an embedder: see docs/own-models.md.

Turns and memories are numbered from 0. In its answer to `EXTRACT`, the server may leave out
`replaces` and `merged`; then the extraction replaces nothing.
"""

import asyncio
import hashlib
import json
import os
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory import Config, Memory, Turn
from memory.models import (
    Candidate,
    Extraction,
    MergeGroup,
    MergeReading,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Verdict,
)

EXTRACT = """Facts worth remembering that "turns" state, as {"memories": [{"content": one to three
sentences about the speaker by name, "turns": [numbers of all turns that say it], "replaces":
[numbers in "known" of this speaker's memories that it repeats or updates; often none], "merged":
one text that states everything in "content" and these}]}. "before" is only context for the turns.
Do not repeat what is in "known"; say what changed."""
JUDGE = """Which of these memories, oldest first, state the same fact? {"groups": [{"members":
[numbers], "text": one text that states all they state, and nothing else}]}. Often none do."""
REREAD = """Each of "merges" has memories, oldest first, and one text that is to replace them. List
what a reader of only the text would not learn, and what the text states that no memory states;
rewording is neither: {"readings": [{"lost": [...], "added": [...]}, one for each merge]}."""
REPLY = """Answer the last turn; "memories" are what you remember: {"text": your answer}."""


class HouseModel:
    """A server that receives an instruction and data by POST and answers with JSON."""

    name = "house-model-1"  # recorded with each decision
    page_size = 48  # memories that one question may show

    def __init__(self, url: str) -> None:
        self._url = url

    async def judge(self, question: Question) -> Verdict:
        memories = [member.content for member in question.members]
        answer = await self._ask(JUDGE, memories=memories, wrong_before=question.objection)
        groups = [MergeGroup(members=tuple(g["members"]), text=g["text"]) for g in answer["groups"]]
        return Verdict(parts=tuple(groups))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        shown = [
            {"memories": [member.content for member in merge.members], "text": merge.text}
            for merge in merges
        ]
        answer = await self._ask(REREAD, merges=shown)
        return Rereading(
            readings=tuple(
                MergeReading(lost=tuple(reading["lost"]), added=tuple(reading["added"]))
                for reading in answer["readings"]
            )
        )

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        answer = await self._ask(
            EXTRACT,
            turns=[(n, turn.speaker, turn.text) for n, turn in enumerate(turns)],
            before=[(turn.speaker, turn.text) for turn in context],
            known=[(n, memory.user, memory.content) for n, memory in enumerate(remembered)],
        )
        candidates = [
            Candidate(
                content=found["content"],
                turns=tuple(found["turns"]),
                replaces=tuple(found.get("replaces", ())),
                merged=found.get("merged", ""),
            )
            for found in answer["memories"]
        ]
        return Extraction(candidates=tuple(candidates))

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        talk = [(turn.speaker, turn.text) for turn in turns]
        memories = [memory.dated for memory in recalled]
        answer = await self._ask(REPLY, turns=talk, memories=memories)
        return Reply(text=answer["text"])

    async def aclose(self) -> None:
        """Nothing to close."""

    async def _ask(self, instruction: str, **data: Any) -> Any:
        body = json.dumps({"instruction": instruction, "data": data}).encode()
        request = urllib.request.Request(self._url, body, {"content-type": "application/json"})
        return await asyncio.to_thread(self._post, request)

    def _post(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)


class WordHashes:
    """Hash each word to one of 512 dimensions, with a sign: crude, quick, the same everywhere."""

    # Change it whenever the vectors change, then run `memory-dedup store reembed`.
    fingerprint = "word-hashes-512/1"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.split() or [text]:
                digest = hashlib.sha256(word.encode()).digest()
                row[digest[0] + 256 * (digest[1] % 2)] += 1.0 if digest[2] % 2 else -1.0
            row += 1e-4  # so that the vector is not zero if all words cancel out
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_model(config: Config) -> HouseModel:
    return HouseModel(config.llm.base_url or os.environ["HOUSE_MODEL_URL"])


def make_embedder() -> WordHashes:
    return WordHashes()

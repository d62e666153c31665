"""What coverage knows of single languages, one file each."""

from __future__ import annotations

from collections.abc import Mapping

from memory.coverage.languages.german import GERMAN
from memory.coverage.languages.grammar import Grammar
from memory.text import Language

GRAMMARS: Mapping[Language, Grammar] = {Language.GERMAN: GERMAN}

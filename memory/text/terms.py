"""The terms by which a text is found, in any script.

Ledgers hold what this gives, and find nothing any more by what it gave before: whoever changes it
adds a step to the schema that makes the ledger's terms anew.
"""

from __future__ import annotations

import re
from itertools import pairwise

from memory.text.cleaning import normalise
from memory.text.telling import TELLING
from memory.text.tokens import tokens

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff々]+")


def search_terms(text: str) -> list[str]:
    """Return its content words in plain form, its numbers, and its Han one by one and in pairs.

    As often as they stand in it.
    """
    found = [one.key.lower() for one in tokens(text) if one.kind in TELLING]
    if text.isascii():
        return found
    found = [term for term in found if not _HAN.search(term)]
    for run in _HAN.findall(normalise(text)):
        found += [*run, *map("".join, pairwise(run))]
    return found

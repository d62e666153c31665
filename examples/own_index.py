"""An index of your own, in RAM: the store searches it for users whose vectors do not fit."""

import sys
from uuid import uuid4

import numpy as np

from memory import load_config, open_store


class BruteForce:
    name = "brute force"  # shown to people
    place = "memory"  # its location; the same text each time it is opened
    shared = False  # True if several processes use it at once

    def __init__(self):
        self.id = ""  # a new value after each clear(); "" if the index is empty
        self.vectors = {}

    def put(self, ids, vectors):  # (n, dim) float32; replaces the vectors with these ids
        self.vectors.update(zip(ids, vectors, strict=True))

    def remove(self, ids):  # unknown ids are ignored
        for name in ids:
            self.vectors.pop(name, None)

    def nearest(self, vector, k):  # [(id, cosine), ...], nearest first
        scored = [(name, float(stored @ vector)) for name, stored in self.vectors.items()]
        return sorted(scored, key=lambda hit: -hit[1])[:k]

    def pages(self):  # yields all ids and vectors, in parts
        if self.vectors:
            yield list(self.vectors), np.stack(list(self.vectors.values()))

    def clear(self):  # delete everything, on disk too
        self.vectors, self.id = {}, uuid4().hex

    def close(self):
        pass


def main():
    config = load_config(settings={"search_vectors_mb": 0})  # no vectors fit: the index is used
    with open_store(config, index=lambda _ledger: BruteForce()) as store:
        for text in ("Mia has a cat.", "Mia sails on Sundays."):
            store.add(store.new_memory(text, user="Mia"))
        [hit] = store.search("cats", 1, user="Mia")
        sys.stdout.write(f"{store.index.name}: {hit.memory.content}\n")


if __name__ == "__main__":
    main()

# Written by `python -m scripts.faces`.
from .batch import Audit as Audit, new_run as new_run, unread_snapshot as unread_snapshot
from .deduplicator import MemoryDeduplicator as MemoryDeduplicator
from .distributed import DistributedExecutor as DistributedExecutor
from .judging import FAITHFUL as FAITHFUL, Judging as Judging, TRIAL as TRIAL, untrusted_readers as untrusted_readers

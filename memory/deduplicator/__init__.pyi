# Written by `python -m scripts.faces`.
from .batch import Audit as Audit, new_run as new_run, unread_snapshot as unread_snapshot
from .deduplicator import MemoryDeduplicator as MemoryDeduplicator
from .distributed import DistributedExecutor as DistributedExecutor
from .judging import Judging as Judging
from .trial import FAITHFUL as FAITHFUL, TRIAL as TRIAL, untrusted_readers as untrusted_readers

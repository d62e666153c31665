from .batch import Audit as Audit
from .batch import new_run as new_run
from .deduplicator import MemoryDeduplicator as MemoryDeduplicator
from .distributed import DistributedExecutor as DistributedExecutor
from .judging import FAITHFUL as FAITHFUL
from .judging import TRIAL as TRIAL
from .judging import Judging as Judging
from .judging import untrusted_readers as untrusted_readers

from .store import Forgotten as Forgotten
from .store import Found as Found
from .store import MemoryStore as MemoryStore
from .store import Snapshot as Snapshot
from .store import reembed as reembed
from .store import store_id as store_id
from .store import utc_now as utc_now

from .store import Forgotten as Forgotten
from .store import MemoryStore as MemoryStore
from .store import Neighbours as Neighbours
from .store import store_id as store_id
from .store import utc_now as utc_now

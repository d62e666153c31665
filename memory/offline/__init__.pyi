from .model import OfflineModel as OfflineModel
from .model import asked_to_remember as asked_to_remember
from .model import only_asks_to_remember as only_asks_to_remember
from .model import retold as retold
from .model import statements as statements

from .model import OfflineModel as OfflineModel
from .statements import asked_to_remember as asked_to_remember
from .statements import only_asks_to_remember as only_asks_to_remember
from .statements import retold as retold
from .statements import statements as statements

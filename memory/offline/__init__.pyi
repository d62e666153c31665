# Written by `python -m scripts.faces`.
from .model import OfflineModel as OfflineModel, asked_to_remember as asked_to_remember, only_asks_to_remember as only_asks_to_remember, retold as retold, statements as statements

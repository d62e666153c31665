from .cleaning import (
    clean as clean,
    clean_json as clean_json,
    normalise as normalise,
    one_line as one_line,
    shortened as shortened,
    text_key as text_key,
)
from .coverage import compare as compare, covers as covers, negations as negations, shared as shared
from .parse import parse as parse, parse_by_dictionary as parse_by_dictionary
from .requests import (
    asked_to_remember as asked_to_remember,
    only_asks_to_remember as only_asks_to_remember,
)
from .script import has_kana_or_han as has_kana_or_han
from .sentences import is_japanese as is_japanese, sentences as sentences
from .statements import Statement as Statement, retold as retold, statements as statements
from .telling import telling_words as telling_words
from .verification import (
    Belief as Belief,
    Lost as Lost,
    Verification as Verification,
    verify as verify,
)
from .vocabulary import NOT as NOT

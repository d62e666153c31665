# Written by `python -m scripts.faces`.
from .boundary import fails as fails, guarded as guarded
from .cleaning import clean as clean, clean_json as clean_json, counted as counted, dated_key as dated_key, identity as identity, normalise as normalise, one_line as one_line, sentences as sentences, shortened as shortened, starts_with as starts_with, text_key as text_key, text_of as text_of, visible as visible
from .dating import dated as dated, day_of as day_of, in_words as in_words, undated as undated, when_field as when_field
from .languages import ENGLISH as ENGLISH, GRAMMARS as GRAMMARS, JAPANESE as JAPANESE, grammar_of as grammar_of, has_cjk as has_cjk, is_japanese as is_japanese, language_of as language_of, literal_start as literal_start, literal_value as literal_value, may_be_english as may_be_english, quotations as quotations
from .numbers import CURRENCIES as CURRENCIES, with_numbers_joined as with_numbers_joined
from .period import Grain as Grain, Period as Period, Role as Role, compatible as compatible, to_json as to_json
from .signs import is_code as is_code
from .statements import asked_to_remember as asked_to_remember, only_asks_to_remember as only_asks_to_remember, retold as retold, statements as statements
from .time_finder import periods as periods
from .tokens import Kind as Kind, STATED as STATED, Token as Token, is_name as is_name, plain_form as plain_form, search_terms as search_terms, telling_words as telling_words, tokens as tokens, wordings as wordings
from .vocabulary import AUXILIARIES as AUXILIARIES, BE as BE, CAUSAL_NOUNS as CAUSAL_NOUNS, CONDITIONS as CONDITIONS, DOUBTS as DOUBTS, EMPHASES as EMPHASES, FILLERS as FILLERS, GOVERNING as GOVERNING, IRREGULAR_PLURALS as IRREGULAR_PLURALS, MONTH_SET as MONTH_SET, NARROWING as NARROWING, NEGATIONS as NEGATIONS, NOT as NOT, NO_ADVERBS as NO_ADVERBS, NUMBERS as NUMBERS, POSITIVE_EST as POSITIVE_EST, PRONOUNS as PRONOUNS, QUALITIES as QUALITIES, RELATIONAL as RELATIONAL, REPORTS as REPORTS, SAME_AS as SAME_AS, SHADES as SHADES, TEMPORAL as TEMPORAL, TURNING as TURNING, UNITS as UNITS, WAS as WAS, WEEKDAYS as WEEKDAYS, WHICH as WHICH

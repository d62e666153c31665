# Written by `python -m scripts.faces`.
from .answers import AnswerResult as AnswerResult, Answered as Answered, Answers as Answers, Given as Given, read_decisions as read_decisions
from .calibration import AlikePair as AlikePair, Answer as Answer, CalibrationLog as CalibrationLog, EDGES as EDGES, answers_about as answers_about, ask_model as ask_model, ask_person as ask_person, by_band as by_band, lines as lines, pairs_of as pairs_of, reviewed as reviewed, suggest_scale as suggest_scale, suggest_upper as suggest_upper
from .cards import Card as Card, CardMember as CardMember, MemoryHistory as MemoryHistory, card_data as card_data, cards_of as cards_of, least_certain_first as least_certain_first, memory_history as memory_history, recorded_cards as recorded_cards
from .doctor import back_up as back_up, examine as examine, mend as mend, reembed as reembed, restore as restore
from .review import Review as Review, ShownGroup as ShownGroup
from .try_model import ModelTrial as ModelTrial, try_model as try_model

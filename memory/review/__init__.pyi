from .answers import Already as Already
from .answers import Answers as Answers
from .answers import Given as Given
from .cards import cards_of as cards_of
from .decisions_file import read_decisions as read_decisions

from .cards import cards_of as cards_of

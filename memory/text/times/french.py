"""The time words of French; `TimeWords` explains the fields."""

from __future__ import annotations

from memory.text.times.words import TimeWords, Verbs

_NUMBERS = (
    "deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze"
).split()

FRENCH = TimeWords(
    table={
        "day": {
            0: "aujourd hui", 1: "demain", -1: "hier", 2: "après demain", -2: "avant hier",
        },
        "day and part": {
            (0, "morning"): "ce matin", (0, "afternoon"): "cet après midi|cette après midi",
            (0, "evening"): "ce soir", (None, "night"): "cette nuit",
        },
        "part": {
            "morning": "matin", "afternoon": "après midi", "evening": "soir|soirée", "night": "nuit"
        },
        "parts": {"": "matins|soirs|nuits"},
        "weekday": {
            0: "lundi", 1: "mardi", 2: "mercredi", 3: "jeudi", 4: "vendredi", 5: "samedi",
            6: "dimanche",
        },
        "weekdays": {"": "lundis|mardis|mercredis|jeudis|vendredis|samedis|dimanches"},
        "unit": {
            "day": "jour|jours", "week": "semaine|semaines", "month": "mois",
            "weekend": "week end|weekend", "year": "an|ans|année|années", "hour": "heure|heures",
            "minute": "minute|minutes",
        },
        "month": {
            1: "janvier", 2: "février", 3: "mars", 4: "avril", 5: "mai", 6: "juin", 7: "juillet",
            8: "août", 9: "septembre", 10: "octobre", 11: "novembre", 12: "décembre",
        },
        "season": {0: "printemps", 1: "été", 2: "automne", 3: "hiver"},
        "holiday": {
            "christmas day": "noël", "new year's day": "jour de l an|nouvel an",
            "new year's eve": "saint sylvestre|réveillon du nouvel an", "halloween": "halloween",
            "easter sunday": "dimanche de pâques", "easter monday": "lundi de pâques",
            "easter": "pâques", "pentecost": "pentecôte",
        },
        "which": {
            "last": "dernier|dernière|passé|passée", "this": "ce|cet|cette",
            "next": "prochain|prochaine|qui vient", "coming": "à venir",
        },
        "window": {
            -1: "dernières|derniers|ces dernières|ces derniers|les derniers|les dernières"
                "|au cours des derniers"
                "|au cours des dernières",
            1: "les prochains|les prochaines|ces prochains|ces prochaines|d ici|dans les prochains",
        },
        "event": {"": "ce même|cette même|le même|la même"},
        "event time": {
            "": "le lendemain|la veille|l avant veille|le surlendemain|le jour suivant"
                "|le jour même|ce jour là|cette semaine là|cette nuit là|cette année là|ce soir là"
                "|ce mois là|la semaine suivante|l année suivante|le mois suivant"
                "|la semaine d après|le jour d après|l année d après|la dernière semaine"
                "|le dernier jour|la dernière année|le dernier mois"
        },
        "later": {"": "plus tard|après|avant|auparavant|suivant|suivante|suivants|suivantes"},
        "every": {"": "chaque|tous les|toutes les|par"},
        "number": {1: "un|une"}
        | dict(enumerate(_NUMBERS, start=2))
        | {20: "vingt", 30: "trente"},
        "vague number": {"": "quelques|plusieurs|quelque"},
        "half": {"": "demi"},
        "ago before": {"": "il y a|voilà|ça fait|y a"},
        "in": {"": "dans"},
        "since": {"": "depuis"},
        "lead": {"": "en|au|à|pour|vers", "article": "le|la|l"},
        "bound": {"": "jusqu à|jusqu au|jusqu en|avant", "from": "à partir de|à partir du|dès"},
        "of": {"": "de|du|d|de la|de l"},
        "that": {"": "que|qu"},
        "have": {"": "a|ai|as|ont|avons"},
        "old": {"": "passés"},
        "aged": {"": "âgé de|âgée de|âgés de"},
        "and": {"": "et|mais|maintenant"},
        "recently": {"": "récemment|dernièrement|l autre jour|il y a peu|ces derniers temps"},
        "soon": {"": "bientôt|prochainement|sous peu|d ici peu"},
        "other": {
            "": "un jour|de nos jours|ces jours ci|bon matin|bonne nuit|bonne année|bonne journée"
                "|la jeunesse d aujourd hui|les jeunes d aujourd hui|le monde d aujourd hui"
                "|au jour le jour|jour après jour|à bientôt|aussitôt|dans la nuit|le matin|le soir"
                "|la nuit|pour toujours|tout l été|par jour|par semaine|par mois|par an"
                "|du jour au lendemain|robinson et vendredi|s est|se sont|me suis"
        },
    },
    common=frozenset(
        "le la les des du et est une un dans avec il elle ne je son sa ses pas pour sur au aux en "
        "que qui mon ma mes j ai c nous a été ils elles habite y an ans mois".split()
    ),
    past=Verbs(
        words=frozenset(
            "était étaient avait avaient fut allé allée venu venue parti partie arrivé arrivée "
            "mort "
            "morte resté restée tombé tombée rentré rentrée revenu revenue devenu devenue".split()
        ),
        like=r"(?!souhait|parfait|portrait|retrait)\w{3,}(?:ait|aient)",
        helpers=frozenset("a ai as ont avons avez".split()) | {"s est", "se sont", "me suis"},
        participles=frozenset(
            "fini choisi dormi réussi parti servi suivi senti grandi guéri rempli réuni vu lu "
            "eu bu "
            "pu su fait dit mis pris appris écrit conduit ouvert".split()
        ),
        participles_like=r"\w{2,}(?:ées?|és?|[bcçdlmnprtv]ue?s?|ffert|vert|eint)",
        between=frozenset("pas déjà bien beaucoup tout toujours jamais encore aussi".split()),
    ),
    future=Verbs(
        words=frozenset("va vais vont allons".split()),
        like=r"\w+(?:[ei]r|dr|ur|vr)(?:a|ai|ont|as|ez|ons)",
    ),
    present=frozenset(
        "veut reporté déplacé décalé voudrait prévu prévoit voulait devait doit peut pourrait "
        "reporté réservé toujours "
        "souvent jamais parfois d'habitude".split()
    ),
    reports=frozenset(
        "dit raconte raconté pense croit affirme annonce annoncé demande écrit prétend "
        "entendu selon".split()
    ),
    recurring=frozenset(
        "anniversaire fête né née nés nées chaque toujours annuel annuelle".split()
    ),
    before_name=frozenset("appelé appelée nommé monsieur madame et avec de chien chat".split()),
    copulas=frozenset("est sont".split()),
    bare="K",
    capitals="H",
    people=frozenset(
        "il elle je j tu fils fille frère soeur sœur mère père grand enfant mari femme ami amie "
        "cousin cousine neveu nièce tante oncle".split()
    ),
)  # fmt: skip

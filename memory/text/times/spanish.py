"""The time words of Spanish; `TimeWords` explains the fields."""

from __future__ import annotations

from memory.text.times.words import TimeWords, Verbs

_NUMBERS = (
    "dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
).split()

SPANISH = TimeWords(
    table={
        "day": {
            0: "hoy", 1: "mañana", -1: "ayer", 2: "pasado mañana",
            -2: "anteayer|antes de ayer|antier",
        },
        "day and part": {
            (-1, "night"): "anoche", (0, "morning"): "esta mañana|hoy por la mañana",
            (0, "evening"): "esta noche|hoy por la noche",
            (0, "afternoon"): "esta tarde|hoy por la tarde",
            (1, "morning"): "mañana por la mañana|mañana temprano",
            (1, "evening"): "mañana por la noche", (1, "afternoon"): "mañana por la tarde",
        },
        "part": {"evening": "noche", "afternoon": "tarde"},
        "parts": {"": "mañanas|tardes|noches"},
        "weekday": {
            0: "lunes", 1: "martes", 2: "miércoles", 3: "jueves", 4: "viernes", 5: "sábado",
            6: "domingo",
        },
        "weekdays": {"": "sábados|domingos|los lunes|los martes|los miércoles|los jueves"
                         "|los viernes"},
        "unit": {
            "day": "día|días", "week": "semana|semanas", "month": "mes|meses",
            "weekend": "fin de semana|finde", "year": "año|años", "hour": "hora|horas",
            "minute": "minuto|minutos",
        },
        "month": {
            1: "enero", 2: "febrero", 3: "marzo", 4: "abril", 5: "mayo", 6: "junio", 7: "julio",
            8: "agosto", 9: "septiembre|setiembre", 10: "octubre", 11: "noviembre",
            12: "diciembre",
        },
        "season": {0: "primavera", 1: "verano", 2: "otoño", 3: "invierno"},
        "holiday": {
            "christmas": "navidad|navidades", "christmas eve": "nochebuena",
            "new year's eve": "nochevieja|fin de año", "new year's day": "año nuevo",
            "halloween": "halloween", "easter sunday": "domingo de pascua",
            "good friday": "viernes santo",
        },
        "which": {
            "last": "pasado|pasada", "this": "este|esta",
            "next": "próximo|próxima|que viene", "coming": "que entra",
        },
        "window": {
            -1: "últimos|últimas|los últimos|las últimas|en los últimos|en las últimas"
                "|estos últimos",
            1: "los próximos|las próximas|en los próximos|en las próximas",
        },
        "event": {
            "": "ese|esa|aquel|aquella|el mismo|la misma|ese mismo|aquel mismo"
        },
        "event time": {
            "": "al día siguiente|a la mañana siguiente|el día siguiente|el día anterior"
                "|la noche anterior"
                "|la semana siguiente|el año siguiente|el mes siguiente|la semana anterior"
                "|el año anterior|el mes anterior|la víspera|al otro día|la última semana"
                "|el último día|el último mes|el último año"
        },
        "later": {"": "después|más tarde|antes|anterior|anteriores|luego"},
        "every": {"": "cada|todos los|todas las"},
        "number": {1: "un|una|uno"}
        | dict(enumerate(_NUMBERS, start=2))
        | {20: "veinte", 30: "treinta"},
        "vague number": {"": "unos|unas|unos pocos|unas pocas|algunos|algunas|varios|varias"},
        "half": {"": "medio|media"},
        "ago before": {"": "hace|hace casi|hace más de"},
        "ago": {"": "atrás"},
        "in": {"": "dentro de|en"},
        "for": {"": "lleva|llevo|llevan|llevamos"},
        "since": {"": "desde"},
        "lead": {"": "durante|por|para", "prep": "al", "article": "la|las", "el": "el"},
        "bound": {"": "hasta|hasta el|hacia", "from": "a partir de|a partir del"},
        "of": {"": "de|del|de la|por la|en la"},
        "that": {"": "que"},
        "have": {"": "tiene|tengo|tienen|tenemos"},
        "old": {"": "cumplidos"},
        "and": {"": "y|pero|ahora|ya"},
        "recently": {
            "": "recientemente|últimamente|hace poco|el otro día|hace un tiempo"
        },
        "soon": {"": "pronto|próximamente|en breve|dentro de poco"},
        "other": {
            "": "buenos días|buenas tardes|buenas noches|un día|algún día|hoy en día|hoy día"
                "|de pronto|tan pronto|tan pronto como|la juventud de hoy|los jóvenes de hoy"
                "|el mundo de hoy|por la mañana|por la tarde|por la noche|de la mañana"
                "|de la tarde|de la noche|la mañana|una mañana|estos días|todo el día|por día"
                "|por semana|por mes|al día|al mes|al año|a la semana|feliz año nuevo"
                "|robinson y viernes|santo domingo|plácido domingo"
        },
    },
    common=frozenset(
        "el la los las una un del y por para está es en su sus que con no se ha le de vive "
        "mi yo él ella al".split()
    ),
    past=Verbs(
        words=frozenset(
            "fue fueron hizo hicieron tuvo estuvo vino dijo pudo puso quiso supo trajo vio dio era "
            "eran había fui hice tuve".split()
        ),
        like=r"\w{2,}(?:ó|aron|ieron|aba|aban)",
        helpers=frozenset("ha he han has hemos".split()),
        participles_like=r"\w+(?:ado|ido|cho|sto|erto)",
    ),
    future=Verbs(
        words=frozenset("va voy van vamos".split()),
        like=r"\w+(?:[aei]r|dr)(?:á|án|é|emos)",
    ),
    present=frozenset(
        "quiere cambiado cambió movió quería planea planeaba debe debía puede podría aplazado "
        "pospuesto reservado "
        "siempre suele nunca".split()
    ),
    reports=frozenset(
        "dice dijo cuenta contó cree piensa afirma anunció preguntó pregunta escribió oyó según "
        "comentó".split()
    ),
    recurring=frozenset(
        "cumpleaños aniversario nació nacida nacido cada siempre anual santo".split()
    ),
    before_name=frozenset("llamado llamada don doña señor señora y con de a perro gato".split()),
    copulas=frozenset("es son".split()),
    people=frozenset(
        "él ella yo hijo hija hermano hermana madre padre abuela abuelo marido esposa niño niña "
        "amigo amiga primo prima tía tío".split()
    ),
)  # fmt: skip

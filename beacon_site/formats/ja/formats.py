"""Japanese: year, month and day, each with its sign."""

DATES = {
    "M": "n月",
    "F": "n月",
    "F Y": "Y年n月",
    "j M": "n月j日",
    "j M Y": "Y年n月j日",
    "j M, H:i": "n月j日 H:i",
    "j M Y, H:i": "Y年n月j日 H:i",
    "j F": "n月j日",
    "j F Y": "Y年n月j日",
    "j F, H:i": "n月j日 H:i",
    "j F Y, H:i": "Y年n月j日 H:i",
    "D j M": "n月j日(D)",
    "D j M, H:i": "n月j日(D) H:i",
    "D j M Y, H:i": "Y年n月j日(D) H:i",
    "D H:i": "D H:i",
    "l, j F Y": "Y年n月j日 l",
    "l, j F": "n月j日 l",
    "l, j F, H:i": "n月j日 l H:i",
}
globals().update(DATES)

"""Spanish: small letters, and "de" in long dates."""

DATES = {
    "j M": "j b",
    "j M Y": "j b Y",
    "j M, H:i": "j b, H:i",
    "j M Y, H:i": "j b Y, H:i",
    "F Y": r"F \d\e Y",
    "j F": r"j \d\e F",
    "j F Y": r"j \d\e F \d\e Y",
    "j F, H:i": r"j \d\e F, H:i",
    "j F Y, H:i": r"j \d\e F \d\e Y, H:i",
    "D j M": "D j b",
    "D j M, H:i": "D j b, H:i",
    "D j M Y, H:i": "D j b Y, H:i",
    "l, j F Y": r"l, j \d\e F \d\e Y",
    "l, j F": r"l, j \d\e F",
    "l, j F, H:i": r"l, j \d\e F, H:i",
}
globals().update(DATES)

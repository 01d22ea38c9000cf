"""French: small letters, and no comma after the day of the week."""

DATES = {
    "j M": "j b",
    "j M Y": "j b Y",
    "j M, H:i": "j b, H:i",
    "j M Y, H:i": "j b Y, H:i",
    "D j M": "D j b",
    "D j M, H:i": "D j b, H:i",
    "D j M Y, H:i": "D j b Y, H:i",
    "l, j F Y": "l j F Y",
    "l, j F": "l j F",
    "l, j F, H:i": "l j F, H:i",
}
globals().update(DATES)

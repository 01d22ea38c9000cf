"""Simplified Chinese: written like Japanese dates, but the day of the week is a word of its own."""

from beacon_site.formats.ja.formats import DATES as _JAPANESE

DATES = _JAPANESE | {
    "D j M": "n月j日 l",
    "D j M, H:i": "n月j日 l H:i",
    "D j M Y, H:i": "Y年n月j日 l H:i",
    "D H:i": "l H:i",
}
globals().update(DATES)

"""Usernames that look like another one, so that nobody can pose as a colleague.

The idea is the skeleton of Unicode's UTS #39: two names are confusable if they reduce to the same
letters.  The table has the letters of other scripts that are drawn like a Latin one, in either case.
"""

from __future__ import annotations

import unicodedata

from memory.models import User
from memory.texts.normal_form import normal_form

_LATIN_LIKE = {
    "a": "\u0430\u0410\u03b1\u0391\u0251",  # Cyrillic, Greek, alpha
    "b": "\u0432\u0412\u044c\u042c\u03b2\u0392\u00df\u1e9e",
    "c": "\u0441\u0421\u03f2\u03f9",
    "d": "\u0501\u0500\u0111\u0110",
    "e": "\u0435\u0415\u03b5\u0395\u04bd\u0259",
    "f": "\u0192\u03dd\u03dc",
    "g": "\u0261\u0581",
    "h": "\u043d\u041d\u0397\u04bb\u04ba\u0127\u0570",
    "i": "\u0456\u0406\u03b9\u0399\u0131\u04cf",
    "j": "\u0458\u0408\u03f3",
    "k": "\u043a\u041a\u03ba\u039a",
    "l": "1\u04c0\u0142\u0141\u01c0",
    "m": "\u043c\u041c\u039c",
    "n": "\u03b7\u039d\u0578\u0438",
    "o": "0\u043e\u041e\u03bf\u039f\u03c3\u00f8\u00d8\u0585",
    "p": "\u0440\u0420\u03c1\u03a1",
    "q": "\u051b\u051a",
    "r": "\u0433",
    "s": "\u0455\u0405",
    "t": "\u0442\u0422\u03c4\u03a4",
    "u": "\u03c5\u057d",
    "v": "\u03bd\u0475\u0474",
    "w": "\u051d\u051c\u03c9\u0461\u0448",
    "x": "\u0445\u0425\u03c7\u03a7",
    "y": "\u0443\u0423\u03b3\u03a5\u04af\u04ae",
    "z": "\u0396\u1d22",
}
_LOOKS_LIKE = str.maketrans({sign: to for to, signs in _LATIN_LIKE.items() for sign in signs})
_INVISIBLE = ("Mn", "Me", "Cf")  # accents, enclosing marks, format characters


def skeletons(name: str) -> set[str]:
    """Return the letters to which a name reduces; two of them where it has a capital I.

    That is drawn like a small L, and still is an i.
    """
    parts = unicodedata.normalize("NFKD", normal_form(name))
    bare = "".join(sign for sign in parts if unicodedata.category(sign) not in _INVISIBLE)
    drawn = bare.translate(_LOOKS_LIKE)
    return {drawn.casefold(), drawn.replace("I", "l").casefold()}


def is_confusable(name: str) -> bool:
    """Whether another account has a username that this one could be mistaken for."""
    wanted = skeletons(name)
    taken = User.objects.values_list("username", flat=True)
    return any(not wanted.isdisjoint(skeletons(other)) for other in taken.iterator())

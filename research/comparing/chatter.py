"""What a sentence holds that tells no fact: questions, calls to the reader, opinions, menus."""

from __future__ import annotations

import re

from research.claims.candidates import is_chatter
from research.comparing.cues import NO_FACT

_OPINION = re.compile(
    r"\b(?:should|best|love|great|beautiful|hard|important|matters?|deserves?|good|always|everybody|nobody|enough|worth|feels?"
    r"|hope|pray|like|strong|humble|in the end|time that)\b"
)
_READER = re.compile(r"\b(?:i|my|me|you|your|our|us|we)\b")
_CALL = re.compile(
    r"^(?:[a-z]+ this|subscribe|follow|click|download|book|compare|print|send|donate|share|like|read|sign|skip|get|track|join"
    r"|call|see|look|visit|here (?:are|is)|related|sponsored|opinion|already|all prices|prices are|thanks|this (?:site|page|press)"
    r"|come on|reporting|letters|para|diesen|abonnez)\b|欢迎|[|]"
)
_NUMBER = re.compile(
    r"\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million|half|third)\b"
)
_SAID = re.compile(r"\b(?:said|says)\b")


def chatter(text: str, cues: dict[str, float]) -> dict[str, float]:
    """Return the figures by which a sentence that tells no fact is known."""
    folded = text.casefold()
    signs = {
        "question": "?" in text or "？" in text,
        "no_fact": NO_FACT.search(folded),
        "opinion": _OPINION.search(folded),
        "reader": _READER.search(folded),
        "call": _CALL.search(folded),
        "chatter": is_chatter(text),
        "digits": any(char.isdigit() for char in text),
        "exclaims": "!" in text,
        "said": _SAID.search(folded),
    }
    words = text.split()
    capitals = sum(word[:1].isupper() for word in words[1:])
    return {name: float(bool(sign)) for name, sign in signs.items()} | {
        "capitals": min(1.0, capitals / 3),
        "long": min(1.0, len(text) / 200),
        "moves": cues["moves"],
        "numbers": min(1.0, len(_NUMBER.findall(folded)) / 3),
        "words": min(1.5, len(words) / 20),
        "commas": min(1.0, text.count(",") / 2),
    }

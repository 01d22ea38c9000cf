"""Words that say how a sentence stands to what was said before: it denies, moves on, or stays.

Each is a hint that the scorer weighs (`word_weights.py`), none decides alone.
"""

from __future__ import annotations

import re

CUES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        # A claim is taken back, put right or disputed.
        "denies": (
            r"\b(?:den(?:y|ies|ied)|disput\w+|reject\w*|refut\w+|contrary to|despite what|in fact|rumou?rs?|wrong(?:ly)?|mistak\w+"
            r"|errors?|erroneous\w*|made up|fantasy|untrue|false(?:ly)?|incorrect\w*|cannot be right|was never right|insists?"
            r"|swapped|mix-up|retract\w*|withdrawn because|overstat\w+|exaggerat\w+|not what|no such)\b"
            r"|更正|并非|否认|不实|有误|dementier\w*|bestreite\w*|falsch|irrtum|dément\w*|erreur|inexact\w*"
        ),
        # A figure for a closed period is worked out anew.
        "corrects": (
            r"\b(?:correct(?:ed|ion|s)|revis(?:ed|ion|es)|restated?|recalculat\w+|recount\w*|re-?analys\w+|audit\w*|true figure|adjusted|inflated"
            r"|lowered its figure|counted twice|half as many again|having gone through)\b|berichtigt\w*|korrigiert\w*|修正|重新计算"
        ),
        # Somebody's papers say otherwise.
        "evidence": (
            r"\b(?:records?|filings?|documents?|papers?|letter|inventory|register|registry|log|logs|minutes|report|sheets?|data|images"
            r"|labelled|map|chart|plates|shows?|lists?|tests?|own|investigators?|coroner|auditors?|reviewers?|found|true|turns out|seen by|ruled)\b"
        ),
        "never": r"\b(?:never|not|no|nobody|none|nothing|n't|did not|was not|is not|rule[sd]? out|clear)\b|n't\b|\b(?:nicht|kein\w*|nie|jamais|pas|aucun\w*)\b|从未|没有|不是",
        "not_old": r"(?:,\s*(?:and\s+)?not\s|\binstead of\b|\brather than\b|\bnot from\b|\bless than half\b|\bshort of\b|而不是|而非)",
        # The world moved on.
        "moves": (
            r"\b(?:now|no longer|since then|has since|until now|up from|down from|from .{1,25} to|rose to|fell to|has grown|have grown|grown"
            r"|rais(?:ed|es)|lift(?:ed|s)|lower(?:ed|s)|cut|reduc\w+|replac\w+|postpon\w+|put off|moved|delay\w*|slip\w*|again|resum\w+|overtak\w+"
            r"|takes? over|took over|succeed\w*|appoint\w+|step\w* down|resign\w*|withdr[ae]wn?|signed|sold|left|leaves|passed|reached|after all|new"
            r"|open(?:s|ed)|start(?:s|ed)|complet\w+|finish\w*|approv\w+|announc\w+|today|this week|this morning|on (?:mon|tues|wednes|thurs|fri|satur|sun)day"
            r"|have been|has been|in the shops|out today|later than|earlier than|ahead of|goes from|climb\w*|by the time|added|so far)\b"
            r"|\b(?:nun|jetzt|inzwischen|nunmehr|erst|neue[rs]?|désormais|maintenant|retiré|délivré|reporté)\b|已|提高|新任|辞职|下降|推迟|改为"
        ),
        "becomes": r"\b(?:will be|is to|are to|to be|expected|planned|plans|forecast|foreseen|due|scheduled)\b",
        "done": r"\b(?:opened|opens|voted|approved|switched on|released|launched|announced|lifted|beat|won|has happened|delivered|resumed|signed|took|left|are here|is here|went|has been|have been|is out)\b",
        # What was so is so.
        "stays": (
            r"\b(?:still|remains?|stays?|unchanged|as before|as ever|again confirmed|confirm\w*|not moved|has not|keeps? to|continues?|untouched"
            r"|to repeat|as planned|no change|stands at|as announced)\b|仍|weiterhin|toujours"
        ),
        # What was so earlier, told in the past of the past.
        "was": r"\b(?:had|earlier|previous(?:ly)?|at first|first given|then|until now|once|last (?:month|week|year)|formerly|up from|down from|first)\b",
        # Another one beside it.
        "other": (
            r"\b(?:another|other|second|third|fourth|rival|competitor|neighbou?r\w*|also|too|as well|in turn|separate\w*|next door|elsewhere|like(?:wise)?"
            r"|own|deputy|women's|men's|youth|reserve|further|more than any|xl|pro)\b"
        ),
        "quoted": r"[\"“”„«»]|\b(?:said|says|told|according to|claims?|claimed)\b",
    }.items()
}

# What tells no fact: questions, calls to the reader, opinions.
NO_FACT = re.compile(
    r"[?？]\W*$|\?|^(?:click|subscribe|follow|sign up|download|book|compare|print|send|donate|share|like and|read more|related|sponsored|advert\w*"
    r"|opinion|get|skip|already a|this site|all prices|thanks|log in|here are|diesen artikel|abonnez|欢迎|点击|扫描|关注)\b|欢迎关注"
    r"|\b(?:cookies|newsletter|for free|our (?:app|partner|readers|newsletter|tool|poll|hotline|user)|free (?:tool|month|articles)|all rights reserved|terms of use|editor|"
    r"i (?:think|love|just|have|want)|my (?:opinion|grandmother)|honestly|if you ask me|in my view|opinion|ones? learns?|everybody should|you can buy|tips to|views expressed)\b"
)


def cues(folded: str) -> dict[str, float]:
    """Return for every kind of hint whether the case-folded text holds one."""
    return {name: float(pattern.search(folded) is not None) for name, pattern in CUES.items()}

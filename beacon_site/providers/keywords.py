"""From a query as people and planners write it to the words that say what it is about.

Services that answer only what has every word of a query (arXiv, GDELT, Hacker News, Wikipedia)
would find nothing for "postgres replication latest news since 2026-11-01": dates and words that
are only how one asks are taken out, and the service's own date filter does their work.
"""

from __future__ import annotations

import re

MOST_WORDS = 8  # of one query: services that want them all find nothing for more

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»')
_WORD = re.compile(r"[^\W_]+(?:[.'’&+-]+[^\W_]+)*[+#]*")
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_YEAR = r"(?:19|20)\d\d"
_DATES = re.compile(
    rf"(?<![\w-]){_YEAR}-\d\d?(?:-\d\d?)?(?![\d-])\s*(?:以来|以降|이후)?"
    rf"|\b(?:{_MONTH})\.?\s+(?:\d\d?,?\s+)?{_YEAR}\b"
    rf"|\b\d\d?\.?\s+(?:{_MONTH})\.?\s+{_YEAR}\b"
    rf"|{_YEAR}\s*[年년](?:\s*\d\d?\s*[月월])?(?:\s*\d\d?\s*[日일])?\s*(?:以来|以降|이후)?"
    rf"|(?<![\w-]){_YEAR}(?![\w-])",
    re.I,
)
_FUNCTION_WORDS = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "andnot",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "between",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "in",
        "into",
        "is",
        "it",
        "its",
        "near",
        "not",
        "of",
        "on",
        "onto",
        "or",
        "our",
        "over",
        "since",
        "than",
        "that",
        "the",
        "their",
        "these",
        "they",
        "this",
        "those",
        "to",
        "under",
        "until",
        "versus",
        "vs",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "you",
        "your",
    ]
)
_WAYS_OF_ASKING = frozenset(
    [
        "announced",
        "announcement",
        "announcements",
        "article",
        "articles",
        "change",
        "changes",
        "comparison",
        "correction",
        "corrections",
        "critical",
        "criticism",
        "current",
        "currently",
        "development",
        "developments",
        "latest",
        "news",
        "number",
        "numbers",
        "paper",
        "papers",
        "problem",
        "problems",
        "recent",
        "recently",
        "release",
        "released",
        "releases",
        "report",
        "reports",
        "research",
        "statistics",
        "study",
        "studies",
        "today",
        "update",
        "updated",
        "updates",
        "最新",
        "最新进展",
        "发布",
        "公告",
        "研究",
        "论文",
        "质疑",
        "问题",
        "数据",
        "统计",
        "新闻",
        "变化",
        "更正",
        "更新",
        "以来",
        "発表",
        "リリース",
        "論文",
        "批判",
        "課題",
        "統計",
        "データ",
        "ニュース",
        "変更",
        "訂正",
        "以降",
        "최신",
        "발표",
        "출시",
        "연구",
        "논문",
        "비판",
        "문제",
        "통계",
        "수치",
        "뉴스",
        "변화",
        "정정",
        "업데이트",
        "이후",
    ]
)


def keywords(query: str, *, about: str = "", most: int = MOST_WORDS) -> list[str]:
    """Return the words of `query` that tell its subject, in order, each once; quoted phrases whole.

    Whatever `about`, the title of what is researched, has as well is kept, so "World Cup 2026"
    keeps its year; and where nothing else would be left, so is every word.
    """
    return _subject(query, about)[:most] or _distinct(_WORD.findall(query))[:most]


def phrase(term: str) -> str:
    """Return a keyword as plain words: hyphens and dots are operators to some services."""
    return " ".join(re.findall(r"[^\W_]+", term))


def _subject(query: str, about: str) -> list[str]:
    kept = {word.casefold() for word in _WORD.findall(about)}
    phrases: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        words = _WORD.findall(next(filter(None, match.groups())))
        phrases.append(" ".join(words))
        return f" \0{len(phrases) - 1}\0 " if words else " "

    def undated(match: re.Match[str]) -> str:
        return match[0] if match[0].strip().casefold() in about.casefold() else " "

    text = _DATES.sub(undated, _QUOTED.sub(put_aside, query.replace("\0", " ")))
    terms: list[str] = []
    for piece in re.split(r"(\0\d+\0)", text):
        if piece.startswith("\0"):
            terms.append(phrases[int(piece.strip("\0"))])
            continue
        terms += [
            word
            for word in _WORD.findall(piece)
            if word.casefold() in kept - _FUNCTION_WORDS
            or word.casefold() not in _FUNCTION_WORDS | _WAYS_OF_ASKING
        ]
    return _distinct(terms)


def _distinct(terms: list[str]) -> list[str]:
    return list({term.casefold(): term for term in reversed(terms)}.values())[::-1]

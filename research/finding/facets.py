"""What to ask the search services when no model plans: templates by facet, and the seed's fallback.

A fresh plan goes for breadth, a rerun for what is new since the last date and for what the
recent sources spoke of that nobody asked for yet (R50).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from memory.texts.text import match_key, one_line
from research.claims.terms import STOP_WORDS, is_wide_text

MOST_QUERIES = 6
LONGEST_QUERY = 400
MOST_PHRASES = 8
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


@dataclass(frozen=True, slots=True)
class Templates:
    """Queries of one language; `{topic}`, `{focus}`, `{year}`, `{month}`, `{since}` are filled."""

    fresh: tuple[str, ...]
    rerun: tuple[str, ...]
    focus: str = "{topic} {focus}"
    month: str = "{month} {year}"


_TEMPLATES = {
    "en": Templates(
        fresh=(
            "{topic} latest {month}",
            "{topic} release announcement {year}",
            "{topic} research study {year}",
            "{topic} criticism problems",
            "{topic} numbers statistics {year}",
        ),
        rerun=(
            "{topic} news since {since}",
            "{topic} changes {month}",
            "{topic} release announcement {month}",
            "{topic} correction update {year}",
        ),
    ),
    "zh": Templates(
        fresh=(
            "{topic} 最新进展 {month}",
            "{topic} 发布 公告 {year}年",
            "{topic} 研究 论文 {year}年",
            "{topic} 质疑 问题",
            "{topic} 数据 统计 {year}年",
        ),
        rerun=(
            "{topic} 新闻 {since}以来",
            "{topic} 变化 {month}",
            "{topic} 发布 公告 {month}",
            "{topic} 更正 更新 {year}年",
        ),
        month="{year}年{number}月",
    ),
    "ja": Templates(
        fresh=(
            "{topic} 最新 {month}",
            "{topic} 発表 リリース {year}年",
            "{topic} 研究 論文 {year}年",
            "{topic} 批判 課題",
            "{topic} 統計 データ {year}年",
        ),
        rerun=(
            "{topic} ニュース {since}以降",
            "{topic} 変更 {month}",
            "{topic} 発表 リリース {month}",
            "{topic} 訂正 更新 {year}年",
        ),
        month="{year}年{number}月",
    ),
    "ko": Templates(
        fresh=(
            "{topic} 최신 {month}",
            "{topic} 발표 출시 {year}년",
            "{topic} 연구 논문 {year}년",
            "{topic} 비판 문제",
            "{topic} 통계 수치 {year}년",
        ),
        rerun=(
            "{topic} 뉴스 {since} 이후",
            "{topic} 변화 {month}",
            "{topic} 발표 출시 {month}",
            "{topic} 정정 업데이트 {year}년",
        ),
        month="{year}년 {number}월",
    ),
}


class Page(Protocol):
    """What phrases are taken from."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def snippet(self) -> str: ...


def facet_queries(
    topic: str,
    *,
    objective: str = "",
    focus: str = "",
    now: date,
    last_run_at: datetime | date | None = None,
    phrases: Sequence[str] = (),
) -> list[str]:
    """Return at most six distinct queries of at most 400 characters, the most important first.

    Without `last_run_at` the plan is fresh: latest, releases, research, criticism, numbers, and
    the focus (or the objective).  With it: news and changes since that date, then each of the
    `phrases` that the recent sources brought up, then the focus.
    """
    topic = one_line(topic)
    templates = _TEMPLATES[script_of(topic)]
    month = templates.month.format(month=_MONTHS[now.month - 1], year=now.year, number=now.month)
    filled = {"topic": topic, "year": str(now.year), "month": month}
    narrowed = _narrowed(topic, focus or objective)
    if last_run_at is None:
        queries = [_fill(template, filled) for template in templates.fresh]
        return _distinct([*queries, *narrowed])
    filled["since"] = f"{last_run_at:%Y-%m-%d}"
    queries = [_fill(template, filled) for template in templates.rerun]
    asked_by_phrase = [f"{topic} {phrase}" for phrase in phrases if _adds(phrase, topic)]
    return _distinct([*queries[:3], *asked_by_phrase[:2], *narrowed, *queries[3:]])


def fallback_queries(topic: str, now: date) -> list[str]:
    """Return the seed's three: the topic, the topic with the year and "news", its comparison (R45)."""
    topic = one_line(topic)
    return _distinct([topic, f"{topic} {now.year} news", f"{topic} comparison"])


def script_of(topic: str) -> str:
    """Return the language of the templates for a topic, by its script: en, zh, ja or ko."""
    if re.search(r"[\u3040-\u30ff]", topic):
        return "ja"
    if re.search(r"[\uac00-\ud7af]", topic):
        return "ko"
    return "zh" if re.search(r"[\u3400-\u9fff]", topic) else "en"


def _fill(template: str, values: dict[str, str]) -> str:
    # A topic may hold braces, so nothing that was filled in is looked at again.
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], template)


def _narrowed(topic: str, focus: str) -> list[str]:
    """Return the topic with the first part of what it is narrowed to, if there is any."""
    part = re.split(r"[.;。；\n]", one_line(focus), maxsplit=1)[0].strip()
    return [f"{topic} {part}"] if part and _adds(part, topic) else []


def _adds(phrase: str, topic: str) -> bool:
    """Whether a phrase says more than the topic does."""
    words = set(match_key(phrase).split())
    return bool(words) and not words <= set(match_key(topic).split())


def _distinct(queries: Iterable[str]) -> list[str]:
    kept: dict[str, str] = {}
    for query in queries:
        query = _at_most(one_line(query))
        if query:
            kept.setdefault(query.casefold(), query)
    return list(kept.values())[:MOST_QUERIES]


def _at_most(query: str) -> str:
    """Cut a query at a word."""
    if len(query) <= LONGEST_QUERY:
        return query
    cut = query[: LONGEST_QUERY + 1]
    head, space, _tail = cut.rpartition(" ")
    return head if space else query[:LONGEST_QUERY]


_NAME_WORD = r"(?:[A-Z][\w+#&'’-]*|[A-Z]{2,}[\w-]*)"
_PHRASES = (
    # A name with a version or year: "PostgreSQL 18.1", "Release Candidate 1".
    re.compile(
        rf"\b{_NAME_WORD}(?:\s+{_NAME_WORD}){{0,2}}\s+v?\d+(?:\.\d+)*\b(?!\s*(?:%|percent))"
    ),
    # A name of several words: "Ledger Lab", "Bureau of Standards".
    re.compile(rf"\b{_NAME_WORD}(?:\s+(?:of|de|du|von)\s+{_NAME_WORD}|\s+{_NAME_WORD}){{1,3}}"),
    # Names written together or with signs: "io_method", "CVE-2025-8714", "pg_upgrade".
    re.compile(r"\b(?:CVE-\d{4}-\d+|[a-z]+_[a-z_]*[a-z]|[a-z]+[A-Z]\w+)\b"),
)
_WIDE_QUOTED = re.compile(r"[“‘「『《]([^”’」』》]{2,20})[”’」』》]")
_WIDE_RUN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2,}")
_WIDE_LENGTHS = (8, 7, 6, 5, 4, 3)
_WIDE_EDGE = frozenset(
    "的了在是和与及或为于之而且并也都就还将已被把其这那个一等中上下年月日从到由对不有以可"
)
_MONTH_WORDS = frozenset(month.casefold() for month in _MONTHS)


def phrases(readings: Sequence[Page], topic: str, known: Sequence[str] = ()) -> list[str]:
    """Return at most eight phrases that the pages bring up and neither topic nor `known` holds.

    Names of several words or with a version, identifiers; in Chinese, Japanese and Korean what
    is quoted or repeated.  Those that most pages hold come first, then the longer ones.
    """
    holding: Counter[str] = Counter()
    said: Counter[str] = Counter()
    for page in readings:
        body = f"{page.title}. {(page.text or page.snippet)[:20_000]}"
        found = _wide_phrases(body) if is_wide_text(body[:3_000]) else _latin_phrases(body)
        holding.update(found.keys())
        said.update(found)
    old = f" {match_key(' '.join([topic, *known]))} "
    ranked = sorted(said, key=lambda text: (-holding[text], -said[text], -len(text), text))
    chosen: list[str] = []
    for phrase in ranked:
        key = match_key(phrase)
        if not key or f" {key} " in old or (not key.isascii() and key in old):
            continue
        if any(_overlaps(key, match_key(other)) for other in chosen):
            continue
        chosen.append(phrase)
    return chosen[:MOST_PHRASES]


def _overlaps(left: str, right: str) -> bool:
    if left.isascii() and right.isascii():
        return f" {left} " in f" {right} " or f" {right} " in f" {left} "
    return left in right or right in left or bool(set(_pairs(left)) & set(_pairs(right)))


def _pairs(text: str) -> list[str]:
    return [text[place : place + 3] for place in range(len(text) - 2)]


def _latin_phrases(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for pattern in _PHRASES:
        for match in pattern.finditer(text):
            words = one_line(match.group()).split()
            while words and words[0].casefold() in STOP_WORDS | _MONTH_WORDS:
                words = words[1:]
            named = [word for word in words if word.casefold() not in _MONTH_WORDS]
            if not words or len(named) < len(words) or len(" ".join(words)) < 5:
                continue
            if len(words) > 1 or "_" in words[0] or "-" in words[0]:
                found[" ".join(words)] += 1
    return found


def _wide_phrases(text: str) -> Counter[str]:
    """Return what is quoted, and the longest runs of characters that come back at least thrice."""
    found: Counter[str] = Counter(_WIDE_QUOTED.findall(text))
    runs = _WIDE_RUN.findall(text)
    taken: list[str] = []
    for length in _WIDE_LENGTHS:
        grams = Counter(
            run[place : place + length] for run in runs for place in range(len(run) - length + 1)
        )
        for gram, count in sorted(grams.items(), key=lambda item: (-item[1], item[0])):
            if count < 3 or gram[0] in _WIDE_EDGE or gram[-1] in _WIDE_EDGE:
                continue
            if not any(gram in longer for longer in taken):
                taken.append(gram)
                found[gram] += count
    return found

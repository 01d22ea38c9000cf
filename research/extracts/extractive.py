"""Findings without a model: sentences of the pages read, word for word, each with its page.

Data flow: readings -> their sentences -> those that can stand alone and speak of the topic ->
scored by the topic, by their place among the others and by news value -> the best, each different, few from one page.
The recipe and its numbers come from providers.md 3; `benchmarks/extractive.py` prints what it
finds.  Pure functions: no database, no network, the same answer for the same pages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from rapidfuzz import fuzz

from memory.texts.injection import smells_of_instructions
from memory.texts.sentences import Sentence, language_of, sentences
from memory.texts.text import match_key, one_line
from research.comparing.candidates import is_chatter, is_whole
from research.comparing.duplicates import near_duplicates
from research.comparing.matching import match, numbers
from research.comparing.terms import is_wide_text, terms
from research.extracts import coverage, ranking

__all__ = ["Finding", "Reading", "find", "near_duplicates"]

SAME = 85  # token_set_ratio from which two sentences say the same
RELEVANCE = 0.6
CENTRALITY = 0.25
# LexRank compares each with each, so only the most relevant take part.
COMPARED = 150
FOCUS_WEIGHT = 0.4
TITLE_SHARE = 0.25
SAME_PAGE = 0.08
LEAST_OF_BEST = 0.25
# A long page may give twice as many sentences that are this much on the topic.
QUITE_ON_TOPIC = 0.7
SAME_WORDS = 0.25
_NUMBER = re.compile(r"\d")
_DATE = re.compile(
    r"\b(?:19|20)\d\d\b|\b(?:january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b|\d{1,2}月|\d{4}年|\b(?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre"
    r"|octubre|noviembre|diciembre|januar|februar|märz|juni|juli|oktober|dezember|janvier|février|mars|avril"
    r"|juin|juillet|août|septembre|octobre|novembre|décembre)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:releas\w+|publish\w+|launch\w+|announc\w+|introduc\w+|ended|ends|end of life|now|no longer|new|newest"
    r"|latest|current|currently|rais\w+|rises?|rose|fell|falls?|drop(?:ped|s)?|cut|cuts|increas\w+|decreas\w+|grew"
    r"|grown|reach\w+|remov\w+|add(?:s|ed)|replac\w+|deprecat\w+|support(?:ed|s)|stop(?:s|ped)?|fix(?:ed|es)?"
    r"|clos(?:es|ed)|correct(?:s|ed)|chang(?:es|ed)|becom(?:es|e)|became|expected|planned|scheduled|first|acquir\w+"
    r"|appoint\w+|resign\w+|approv\w+|reject\w+|bann?\w+|sued|won|lost|merged|bought|sold|opened|founded|discover\w+"
    r"|found that|reported|measured|faster|slower|less|more than|record|delayed|postponed|cancel\w*|affect(?:s|ed)"
    r"|veröffentlich\w*|angekündigt|eingeführt|lanz\w+|anunci\w+|public\w+|annonc\w+|lancé\w*|publié\w*)\b"
    r"|发布|發布|發佈|宣布|宣佈|达到|達到|首次|推出|公布|上线|投产|投產|启动|下降|上升|增长|增長|提高|扩大|擴大|推迟|推遲|"
    r"更正|改为|改為|实施|實施|停止|取消|收购|收購|突破|预计|預計|下调|上调|完成|征求意见|発表|公開|開始|終了|増加|減少|"
    r"達し|施行|延期|発売|買収|발표|출시|공개|시작|종료|증가|감소|인수",
    re.IGNORECASE,
)
_PERSONAL = re.compile(r"\b(?:I|we|me|my|our|us|you)\b|我们|我們|笔者|本刊|私たち")


@dataclass(frozen=True, slots=True)
class Reading:
    """One page read; `number` is its place in the list of candidate sources.

    Without `text` (the page could not be fetched) the search service's `snippet` stands for it.
    """

    number: int
    url: str
    title: str
    domain: str
    text: str
    snippet: str = ""
    published_at: date | None = None
    is_judged: bool = False  # its text was looked through for orders to its reader when it was read


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence worth reporting.

    `reading` is the number of its page; `quote` stands in `one_line(text)` of that page (or of
    its snippet) as it is, `sentence` is the same without markup; `score` is about 0 to 1, and
    `key` is what two writings of one sentence have in common.
    """

    sentence: str
    reading: int
    quote: str
    score: float
    key: str


@dataclass(slots=True)
class _Candidate:
    reading: Reading
    sentence: Sentence
    page: list[Sentence]
    terms: list[str]
    order: int
    language: str
    covered: float = 0.0
    score: float = 0.0


def find(
    readings: Sequence[Reading],
    *,
    topic: str,
    narrowed: str = "",
    focus: str = "",
    known: Sequence[str] = (),
    struck: Sequence[str] = (),
    limit: int = 10,
    per_source: int = 2,
) -> list[Finding]:
    """Return the best findings on `topic`, best first: at most `limit`, `per_source` of a page.

    What says the same as one of `known` or `struck` is left out (the same with other numbers is
    not the same), and so is every paragraph that gives orders to its reader.  `narrowed` says more
    of the topic and stands for it where the pages do not know its name; `focus` weighs less.
    Deterministic; an empty list if nothing can stand alone.
    """
    query = _query(f"{topic} {narrowed}", focus)
    candidates = _on_topic(readings, topic) or (_on_topic(readings, narrowed) if narrowed else [])
    _score(candidates, query, readings)
    best = _worth_comparing(candidates, max(COMPARED, 6 * limit))
    _add_centrality(best)
    return _select(_not_far_behind(best), [*known, *struck], limit=limit, per_source=per_source)


def _query(topic: str, focus: str) -> dict[str, float]:
    """Weigh the terms of topic (1 each) and focus."""
    query = dict.fromkeys(terms(focus, language_of(focus)), FOCUS_WEIGHT)
    return query | dict.fromkeys(terms(topic, language_of(topic)), 1.0)


def _candidates(readings: Sequence[Reading], topic: str) -> list[_Candidate]:
    """Return every sentence that can stand alone, in the order of the pages."""
    found: list[_Candidate] = []
    for reading in readings:
        body = _body(reading)
        language = language_of(one_line(body[:4_000]))
        wanted = coverage.wanted(topic, language)
        around = coverage.page(wanted, reading.title, body, language)
        # Most of a manual is about other things; splitting it into sentences would take longest.
        is_manual = not around.is_short and 2 * len(around.title) < len(wanted.terms)
        page = sentences(body, language, among=wanted.is_named_in if is_manual else None)
        paragraphs: defaultdict[int, set[str]] = defaultdict(set)
        whole: list[_Candidate] = []
        for sentence in page:
            words = terms(sentence.text, language)
            paragraphs[sentence.paragraph].update(words)
            if is_whole(sentence.text, language):
                order = len(found) + len(whole)
                whole.append(_Candidate(reading, sentence, page, words, order, language))
        for one in whole:
            beside = paragraphs[one.sentence.paragraph]
            one.covered = coverage.covered(wanted, around, set(one.terms), beside)
        found += whole
    return found


def _body(reading: Reading) -> str:
    return reading.text if reading.text.strip() else reading.snippet


def _on_topic(readings: Sequence[Reading], topic: str) -> list[_Candidate]:
    """Return the sentences that can stand alone and speak of the topic.

    Pages in another language than the topic's cannot name it, and are left to their search engine
    if no other page does.
    """
    candidates = _candidates(readings, topic)
    kept = [candidate for candidate in candidates if candidate.covered >= coverage.ENOUGH]
    own = language_of(topic)
    return kept or [candidate for candidate in candidates if candidate.language != own]


def _score(
    candidates: list[_Candidate], query: dict[str, float], readings: Sequence[Reading]
) -> None:
    """Give each candidate its relevance (0 to `RELEVANCE`), the newer pages a little more."""
    texts = [candidate.terms for candidate in candidates]
    rarity = ranking.idf(texts)
    own = ranking.bm25(texts, query, rarity)
    titles = {reading.number: _title_match(reading, query) for reading in readings}
    ages = _ages(readings)
    top = max(own, default=0.0) or 1.0
    for candidate, value in zip(candidates, own, strict=True):
        number = candidate.reading.number
        relevance = (1 - TITLE_SHARE) * value / top + TITLE_SHARE * titles[number]
        candidate.score = RELEVANCE * relevance * candidate.covered - 0.03 * ages[number]


def _worth_comparing(candidates: list[_Candidate], count: int) -> list[_Candidate]:
    """Return the best `count` by relevance and bonus; what costs time is looked at in few."""
    candidates.sort(key=_order)
    best = [one for one in candidates[: 3 * count] if not is_chatter(one.sentence.text)]
    for candidate in best:
        candidate.score += bonus(candidate.sentence)
    return sorted(best, key=_order)[:count]


def _not_far_behind(candidates: list[_Candidate]) -> list[_Candidate]:
    """Leave out what is worth so little beside the best that it would only fill the list."""
    top = max((candidate.score for candidate in candidates), default=0.0)
    return [one for one in candidates if one.score >= LEAST_OF_BEST * top]


def _order(candidate: _Candidate) -> tuple[float, int]:
    return -candidate.score, candidate.order


def _title_match(reading: Reading, query: dict[str, float]) -> float:
    """Return the share of the query that the page's title covers, 0 to 1."""
    title = set(terms(reading.title, language_of(reading.title)))
    whole = sum(query.values()) or 1.0
    return min(1.0, 2 * sum(weight for term, weight in query.items() if term in title) / whole)


def _ages(readings: Sequence[Reading]) -> dict[int, float]:
    """Return how old each page is among the others: 0 the newest, 1 the oldest, half unknown."""
    days = sorted({reading.published_at for reading in readings if reading.published_at})
    place = {day: number / max(len(days) - 1, 1) for number, day in enumerate(days)}
    return {
        reading.number: 1 - place[reading.published_at] if reading.published_at else 0.5
        for reading in readings
    }


def bonus(sentence: Sentence) -> float:
    """Return what numbers, dates, words of change and an early place add to a sentence's score."""
    text = sentence.text
    value = 0.05 * bool(_NUMBER.search(text)) + 0.05 * bool(_DATE.search(text))
    value += 0.04 * min(2, len(_CHANGE.findall(text)))
    value += (0.06, 0.03, 0.02)[sentence.position] if sentence.position < 3 else 0.0
    return value - 0.12 * bool(_PERSONAL.search(text))


def _add_centrality(candidates: list[_Candidate]) -> None:
    texts = [candidate.terms for candidate in candidates]
    vectors = ranking.vectors(texts, ranking.idf(texts))
    for candidate, rank in zip(candidates, ranking.lexrank(vectors), strict=True):
        candidate.score += CENTRALITY * rank


def _select(
    candidates: list[_Candidate], excluded: Sequence[str], *, limit: int, per_source: int
) -> list[Finding]:
    """Take the best again and again, each time counting down what resembles what is taken."""
    texts = [candidate.terms for candidate in candidates]
    vectors = ranking.vectors(texts, ranking.idf(texts))
    excluded_keys = {match_key(text) for text in excluded}
    left = set(range(len(candidates)))
    alike = [0.0] * len(candidates)
    taken: list[_Candidate] = []
    findings: list[Finding] = []
    while left and len(findings) < limit:
        pages = [candidate.reading.number for candidate in taken]
        value = {
            n: candidates[n].score
            - SAME_WORDS * alike[n]
            - SAME_PAGE * pages.count(candidates[n].reading.number)
            for n in left
        }
        best = min(left, key=lambda n: (-value[n], candidates[n].order))
        left.remove(best)
        candidate = candidates[best]
        allowed = per_source * (2 if _is_chapter(candidate) else 1)
        if pages.count(candidate.reading.number) >= allowed:
            continue
        if any(same(candidate.sentence.text, other.sentence.text) for other in taken):
            continue
        key = match_key(candidate.sentence.text)
        if key in excluded_keys | {match_key(candidate.reading.title)}:
            continue
        if _is_said(candidate, excluded) or _gives_orders(candidate):
            continue
        taken.append(candidate)
        findings.append(_finding(candidate, key))
        for n in left:
            alike[n] = max(alike[n], ranking.cosine(vectors[best], vectors[n]))
    return findings


def _is_chapter(candidate: _Candidate) -> bool:
    is_long = len(candidate.reading.text) > coverage.SHORT_PAGE
    return is_long and candidate.covered >= QUITE_ON_TOPIC


def _finding(candidate: _Candidate, key: str) -> Finding:
    sentence = candidate.sentence
    return Finding(
        sentence=sentence.text,
        reading=candidate.reading.number,
        quote=sentence.quote,
        score=round(candidate.score, 4),
        key=key,
    )


def same(left: str, right: str) -> bool:
    """Whether two sentences say the same in nearly the same words, with no number of their own."""
    wide = is_wide_text(left) and is_wide_text(right)
    scorer = fuzz.ratio if wide else fuzz.token_set_ratio
    if scorer(match_key(left), match_key(right)) < SAME:
        return False
    ours, theirs = numbers(left), numbers(right)
    return ours <= theirs or theirs <= ours


def _is_said(candidate: _Candidate, excluded: Sequence[str]) -> bool:
    found = match(candidate.sentence.text, excluded) if excluded else None
    return found is not None and found.kind == "confirmed"


def _gives_orders(candidate: _Candidate) -> bool:
    """Whether the sentence, or its paragraph, speaks to its reader as to a machine."""
    paragraph = [
        sentence.text
        for sentence in candidate.page
        if sentence.paragraph == candidate.sentence.paragraph
    ]
    return bool(smells_of_instructions(" ".join(paragraph)))

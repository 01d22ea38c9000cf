"""Pick a report's findings without a model: score sentences by the words of the topic, then choose."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import islice, takewhile
from urllib.parse import urlsplit

from rapidfuzz import fuzz

from beacon_site.text import values
from beacon_site.text.canonical_urls import domain_of, is_in_domain
from beacon_site.text.cleaning import match_key, one_line, shorten
from beacon_site.text.injection import injection_reason
from beacon_site.text.sentences import language_of, word_count
from research.claims import blocks, matching, page_news
from research.claims.blocks import ITEM, PAIR, ROW, SENTENCE, Entry
from research.claims.candidates import (
    begins_with_reference,
    is_about_page,
    is_boilerplate,
    is_litter,
    is_vague,
    more_openings,
    needs_previous,
    refers_elsewhere,
)
from research.claims.quoting import fold
from research.claims.terms import is_wide_text, terms


def idf(texts: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return how rare each term is: ln(1 + (N - n + 0.5) / (n + 0.5)), never negative."""
    holding = Counter(term for text in texts for term in set(text))
    total = len(texts)
    return {term: math.log(1 + (total - n + 0.5) / (n + 0.5)) for term, n in holding.items()}


def sentence_vectors(
    texts: Sequence[Sequence[str]], rarity: Mapping[str, float]
) -> list[dict[str, float]]:
    """Return each text as term weights (tf times idf), normalized to length one."""
    results = []
    for text in texts:
        weights = {term: count * rarity.get(term, 0.0) for term, count in Counter(text).items()}
        norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        results.append({term: weight / norm for term, weight in weights.items() if weight})
    return results


def cosine(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Return the similarity of two vectors of length one, 0 to 1."""
    if len(left) > len(right):
        left, right = right, left
    return sum(weight * right[term] for term, weight in left.items() if term in right)


# --- findings ---

__all__ = ["Embed", "Finding", "PageText", "find"]

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]

SAME = 85  # token_set_ratio from which two sentences say the same
MAX_OF_PAGE = 3_000  # statements of a page that are scored
COMPARED = 150  # the best ones, which are compared with each other
MEANING = 0.8
EMBEDDED = 40  # the best of those, which get vectors: a few milliseconds each
# In words. A new page of a law or of rules has long sentences.
MIN_WORDS, MAX_WORDS, MAX_NEWS_WORDS = 5, 60, 80
SHORT, SHORT_WEIGHT = 14, 0.008  # what each word that a sentence lacks costs
# What a sentence gains with its length up to this many words: it often says when and why, too.
ENOUGH_WORDS, LENGTH_WEIGHT = 30, 0.3
FEW_WORDS = 9  # with fewer, a sentence often says little
VAGUE = 0.3  # of a sentence that generalizes, praises or gives an example
MAX_PAIR_WORDS = 50  # words of a sentence and the one before it, which it needs
MIN_OF_HEADING = 2  # words of a heading that is specific enough to be shown before a statement
FIRST_LEAD = 0.3  # of a page's first statement below its title, if it has a word of the topic
LEAD = 600  # characters at the top of a page that show its subject
FOCUS_WEIGHT = 0.4
# The share of the best score that a statement needs. Rows of a table score less, but can change.
MIN_OF_BEST, MIN_OF_RECORD = 0.78, 0.65
# The relevance that a page needs for more than the best statement of all: this, or this share of the
# most relevant page's. Without vectors, relevance is too low to be compared with a fixed value.
MIN_RELEVANCE, NEARLY_AS_RELEVANT = 0.55, 0.8
STEP = 0.4  # of a step in a numbered list, which needs the steps before it
MAX_ITEMS = 2  # of a list; more would copy it
MAX_OF_PROSE = 0.3  # share of a page's sentences; more would retell the page
# What a statement gains if all words of the topic are in it or around it. The statement and its headings
# must have this share of those words that are on any page. With the page's title, they can lack one.
CLOSE, MIN_NAMED, MAX_LACKING = 0.5, 0.5, 1
# A page is as close to the topic as another if it has this share of its closeness. That many known
# pages of a folder are compared, by their first characters.
AS_CLOSE, AS_CLOSE_ON_SITE, MAX_NEARBY, CLOSELY = 0.4, 0.7, 20, 20_000
PASSING = 0.25  # below this relevance, a page mentions the topic only in passing
# Sites that have pages about everything in one folder.
_ABOUT_EVERYTHING = ("wikipedia.org", "wikimedia.org", "arxiv.org", "doi.org", "ycombinator.com")
# Sites whose first folder is an owner, a forum or a channel.
_MANY_OWNERS = (
    "github.com", "gitlab.com", "codeberg.org", "bitbucket.org", "huggingface.co", "npmjs.com",
    "pypi.org", "reddit.com", "medium.com", "youtube.com", "linkedin.com", "facebook.com", "x.com",
)  # fmt: skip
_DOUBLE_MARK = re.compile(r"([.?!:。？！：])\s?[:：]\s")  # "Why?: Because …"
_NUMBER = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_]*[A-Z][\w-]*")
_END = re.compile(r"[.!。！．」”\"')\]]$")
_OPEN = re.compile(r"[:：;；,、]$|[;,] (?:and|or|und|oder|et|ou|y|o|e)$")  # "Travel; or"
_STOP = re.compile(r"[.!。！．][”\"')\]]*$")
_CHANGE = re.compile(
    r"\b(?:releas\w+|publish\w+|launch\w+|announc\w+|introduc\w+|end(?:s|ed)|now|no longer|latest|newest|rais\w+|ris(?:es?|ing)"
    r"|rose|fell|falls?|drop\w*|cut|increas\w+|decreas\w+|grew|reach\w+|remov\w+|adds?|added|replac\w+|deprecat\w+|support\w*"
    r"|fix(?:ed|es)?|clos(?:es|ed)|correct\w*|chang(?:es|ed)|becom(?:es|e)|became|expected|planned|scheduled|first|approv\w+"
    r"|reject\w+|bann?\w+|won|lost|merged|open(?:s|ed)|discover\w+|found that|report\w+|measured|delayed|cancel\w*|requir\w+"
    r"|veröffentlich\w*|angekündigt|eingeführt|beschloss\w*|gestiegen|gesunken|lanz\w+|anunci\w+|aprob\w+|annonc\w+|lancé\w*"
    r"|publié\w*|adopté\w*)\b|发布|發布|宣布|达到|首次|推出|公布|上线|启动|下降|上升|增长|提高|推迟|实施|停止|取消|收购|预计|発表|公開|開始|終了|増加|減少|발표|출시|증가|감소",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"\{\{|\}\}|\{%|:::|<\w[^<>]*=")  # of a template that wasn't rendered
_TEMPLATE = re.compile(r"\{%|\]\(\S|:::|\bmailto:")  # braces are also data in a record
# Front matter, a heading, a callout, a listing or an image that was read as text, or an aside
_RAW = re.compile(
    r"\A(?:\+\+\+|[?!]{3}\+?|#{1,6})\s|\A\(| ---- |\b(?:image|xref)::?\S|(?<![\w$/])\{[a-z][a-z-]+\}"
    r"|\b(?:slug|kicker|deck|layout|permalink|summary|description): .*\b(?:title|slug|kicker|deck|summary|date|tags): "
    r"|\btitle: .*\b(?:slug|kicker|deck|summary|date|tags|description): "
)
# Words of a topic that ask for news, and that its pages needn't contain.
_ASKS = re.compile(
    r"\b(?:latest|news|updates?|neuest\w*|aktuell\w*|neuigkeiten|nachrichten|actualités?|nouvelles|noticias|novedades)\b"
    r"|最新|ニュース|新闻|新聞|动态|소식|뉴스",
    re.IGNORECASE,
)
# Words of an author to the reader, also about the page itself.
_PERSONAL = re.compile(
    r"\b(?:I|me|my|you|your|(?:in|of) this (?:section|chapter|page|post|article|guide|document)"
    r"|nous|notre|nos|wir|uns|unsere?[rsnm]?|nosotros|nuestr[oa]s?|nós|noss[oa]s?|dans cette (?:partie|section|page)|dans ce (?:guide|document|chapitre)"
    r"|in diese[mr] (?:Abschnitt|Kapitel|Artikel|Beitrag|Anleitung))\b|我们|我|笔者|本刊|私たち"
)


@dataclass(frozen=True)
class PageText:
    """One page read. `number` is its place in the list of candidate sources.

    Without `text` (the page couldn't be fetched), the search service's `snippet` replaces it.
    `previous` is the text that an earlier run read at this URL, or "" for a page read for the first
    time. `earlier` is the text before that. `most` is the number of characters stored of a page, or
    0 if there is no limit.
    """

    number: int
    url: str
    title: str
    domain: str
    text: str
    snippet: str = ""
    published_at: date | None = None
    is_judged: bool = False  # its text was checked for prompt injection when it was read
    previous: str = ""
    earlier: str = ""
    most: int = 0

    def is_cut(self, text: str) -> bool:
        """Whether only the beginning of a text was stored. Trailing whitespace doesn't count."""
        return bool(self.most) and len(text) > self.most - 100

    @property
    def body(self) -> str:
        return self.text if self.text.strip() else self.snippet


@dataclass(frozen=True)
class Finding:
    """A statement worth reporting.

    `quote` is in `one_line(text)` of page `reading` word for word. `sentence` says it in plain
    words. `score` is about 0 to 1. `is_passing` means that its page mentions the topic only in
    passing.
    """

    sentence: str
    reading: int
    quote: str
    score: float
    key: str
    is_passing: bool = False


@dataclass
class _Page:
    reading: PageText
    language: str
    entries: list[Entry]
    place: int
    is_news: bool = False
    relevance: float = 0.0
    query: dict[str, float] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)  # the words of the query that some page has

    @cached_property
    def line(self) -> str:
        return one_line(self.reading.body)

    @cached_property
    def title_terms(self) -> set[str]:
        return set(terms(self.reading.title, self.language))


@dataclass
class _Candidate:
    page: _Page
    entry: Entry
    text: str
    terms: list[str]
    order: int
    paragraph: set[str]
    lead: float = (
        0.0  # up to 1: the first statement of the page, or of a section below a meaningful heading
    )
    is_of_heading: bool = False  # a lead that shares words with its heading
    is_later: bool = False  # not the first sentence of its paragraph
    is_template: bool = False  # other pages have the same sentence
    score: float = 0.0
    closeness: float = 0.0  # the share of the topic's words in it or around it
    is_far: bool = False  # it, its headings and its page's title lack too many of the topic's words

    @cached_property
    def key(self) -> str:
        return match_key(self.text)


def find(
    readings: Sequence[PageText],
    *,
    topic: str,
    narrowed: str = "",
    focus: str = "",
    known: Sequence[str] = (),
    struck: Sequence[str] = (),
    limit: int = 10,
    more_news: int = 0,
    embed: Embed | None = None,
    known_pages: Sequence[PageText] = (),
) -> list[Finding]:
    """Return the best statements on `topic`, best first, at most `limit`, and `more_news` of new pages.

    `known_pages` were read by earlier runs. A new page beside one of them, in the same folder of a
    site or below it, is news by itself: it's announced by its title, and says more. What the known
    pages said before isn't repeated.

    Leaves out statements that repeat one of `known` or `struck`, and text with prompt injection.
    `narrowed` and `focus` describe the topic further and weigh less. Empty only if no page has a
    statement.
    """
    if not readings:
        return []
    pages = [_page(reading, place) for place, reading in enumerate(readings)]
    _score_pages(pages, topic, f"{narrowed} {focus}", embed)
    _mark_news(pages, known_pages)
    candidates = [candidate for page in pages for candidate in _candidates(page)]
    if len(pages) > 1:
        _mark_templates(candidates, len(pages))
    for order, candidate in enumerate(candidates):
        candidate.order = order
        candidate.score = _score(candidate)
    candidates.sort(key=_rank)
    best = list(islice((one for one in candidates[: 3 * COMPARED] if not _is_noise(one)), COMPARED))
    best = [one for one in best if not refers_elsewhere(one.entry.text)] or best
    if embed:
        _add_meaning(best, f"{topic}. {narrowed} {focus}".strip(), embed)
    best.sort(key=_rank)
    most_relevant = max(page.relevance for page in pages)
    least_relevance = min(MIN_RELEVANCE, NEARLY_AS_RELEVANT * most_relevant) if embed else 0.0
    excluded = [*known, *struck]
    return _select(best, excluded, limit, more_news, _Before(known_pages), least_relevance)


def _folders(url: str) -> tuple[str, ...]:
    """Return the site and folders of a page, or () for a bare host and a site about everything.

    Folders of two years are the same: /2025/11/, /2026/08/.
    """
    try:
        path = urlsplit(url).path
    except ValueError:  # not a URL
        return ()
    if path in ("", "/") or any(is_in_domain(url, domain) for domain in _ABOUT_EVERYTHING):
        return ()
    return domain_of(url), *_DIGITS.sub("0", path.strip("/")).split("/")[:-1]


def _page(reading: PageText, place: int) -> _Page:
    language = language_of(one_line(reading.body[:4_000]))
    body = blocks.without_front_matter(reading.body)
    (entries,) = blocks.parse_versions([body], language, reading.domain)
    return _Page(reading, language, entries[:MAX_OF_PAGE], place)


# --- pages ---


def _score_pages(pages: Sequence[_Page], topic: str, more: str, embed: Embed | None) -> None:
    """Give each page its query, in the page's language, and its relevance, 0 to 1."""
    meaning = _page_meaning(pages, topic, embed) if embed else [0.0] * len(pages)
    about = _ASKS.sub(" ", topic)
    for page in pages:
        data = dict.fromkeys(terms(more, page.language), FOCUS_WEIGHT)
        topic_terms = terms(about, page.language) or terms(topic, page.language)
        page.query = data | dict.fromkeys(topic_terms, 1.0)
    holding: Counter[str] = Counter()
    bodies = [one_line(page.reading.body[:200_000]).casefold() for page in pages]
    for page, body in zip(pages, bodies, strict=True):
        holding.update(term for term in page.query if _is_in(term, body))
    for page, body, close in zip(pages, bodies, meaning, strict=True):
        page.said = {term for term in page.query if holding[term]}
        title = page.reading.title.casefold()
        lead = body[:LEAD]
        heads = " ".join({h for e in page.entries[:300] for h in e.headings}).casefold()
        whole = said = 0.0
        for term, weight in page.query.items():
            weight *= math.log(1 + (len(pages) + 1) / (holding[term] + 0.5))
            where = max(
                1.0 * _is_in(term, title), 0.8 * _is_in(term, lead),
                0.7 * _is_in(term, heads), 0.45 * _is_in(term, body),
            )  # fmt: skip
            whole += weight
            said += weight * where
        share = said / whole if whole else 0.0
        page.relevance = min(1.0, 0.85 * max(share, close) + 0.15 / (1 + 0.2 * page.place))


def _mark_news(pages: Sequence[_Page], known_pages: Sequence[PageText]) -> None:
    """Mark the pages beside known ones that are as close to the topic as one of those.

    Pages are beside each other if they're in the same folder of a site, or below the same one: a site
    also has folders for each year, part or product. The known pages that share the most folders are
    compared. Pages that share only the site, or the library, must be closer to the topic. A folder can
    have pages about everything, as in an encyclopedia or an archive.
    """
    known = [(folders, one) for one in known_pages if (folders := _folders(one.url))]
    for page in pages:
        own = _folders(page.reading.url)
        has_many_owners = any(is_in_domain(page.reading.url, one) for one in _MANY_OWNERS)
        least_shared = 2 if has_many_owners else 1
        beside: defaultdict[int, list[PageText]] = defaultdict(list)
        for folders, one in known:
            alike = takewhile(lambda two: two[0] == two[1], zip(own, folders, strict=False))
            shared = sum(1 for _two in alike)
            if shared >= least_shared or (own and own == folders):
                beside[shared].append(one)
        if beside:
            near = beside[max(beside)][:MAX_NEARBY]
            share = AS_CLOSE if max(beside) > 1 or len(own) == 1 else AS_CLOSE_ON_SITE
            least = share * min(_closeness(one, page.query) for one in near)
            page.is_news = _closeness(page.reading, page.query) >= least


def _closeness(reading: PageText, query: Mapping[str, float]) -> float:
    """Return the share of the topic's words that a page has, more for those at its top."""
    body = one_line((reading.body or reading.previous)[:CLOSELY]).casefold()
    title, lead = reading.title.casefold(), body[:LEAD]
    said = sum(
        weight * max(_is_in(term, title), 0.8 * _is_in(term, lead), 0.45 * _is_in(term, body))
        for term, weight in query.items()
    )
    return said / sum(query.values()) if query else 0.0


def _page_meaning(pages: Sequence[_Page], topic: str, embed: Embed) -> list[float]:
    """Return how close each page's title and lead are to the topic, scaled so that 0.6 is close."""
    texts = [f"{p.reading.title}. {one_line(p.reading.body[:LEAD])[:400]}" for p in pages]
    if not texts:
        return []
    wanted, *others = embed([topic, *texts])
    return [min(1.0, max(0.0, (_cosine(wanted, one) - 0.1) / 0.5)) for one in others]


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return float(sum(a * b for a, b in zip(left, right, strict=True)))


def _is_in(term: str, text: str) -> bool:
    """Return True if a stem begins a word of a text, or is part of a long one (as in German)."""
    at = text.find(term)
    while at >= 0:
        if len(term) >= 6 or at == 0 or not text[at - 1].isalnum() or not term.isascii():
            return True
        at = text.find(term, at + 1)
    return False


# --- candidates ---


def _candidates(page: _Page) -> list[_Candidate]:
    around: defaultdict[int, set[str]] = defaultdict(set)
    headed: set[tuple[str, ...]] = set()
    results: list[_Candidate] = []
    for entry in page.entries if page.is_news else _with_neighbours(page):
        words = terms(entry.text, page.language)
        is_later = bool(around[entry.group]) and entry.kind == SENTENCE
        around[entry.group].update(words)
        if page.is_news:
            text = page_news.words_of(entry, page.reading.title)
        else:
            text = _worded(entry, page.reading.title)
        if not _is_statement(entry, text, page):
            continue
        candidate = _Candidate(page, entry, text, words, 0, around[entry.group], is_later=is_later)
        if (path := _stated_path(entry)) and path not in headed and _is_whole(candidate):
            headed.add(path)
            heading = entry.headings[len(path) - 1]
            candidate.is_of_heading = len({*terms(heading, page.language)} & {*words}) >= 2
            candidate.lead = 1.0 if len(headed) == 1 else 0.6
            candidate.text = _headed(heading, candidate)
            candidate.terms = [*words, *terms(heading, page.language)]
        elif page.is_news and not results and _is_whole(candidate):
            candidate.lead = 1.0
            if not {*words} & page.query.keys():  # it doesn't name the topic
                candidate.text = _headed(page.reading.title, candidate)
        elif not path and not results and _is_whole(candidate) and {*words} & page.query.keys():
            candidate.lead = FIRST_LEAD
        if not page.is_news and candidate.text == entry.text:
            candidate.text = _headed(_missing_context(candidate), candidate)
        results.append(candidate)
    return results


def _with_neighbours(page: _Page) -> list[Entry]:
    """Return the statements of a page, with sentences that need the one before them joined to it.

    An item of a list that is a whole sentence is a sentence, too.
    """
    results: list[Entry] = []
    before: Entry | None = None
    for entry in page.entries:
        if before and before.group == entry.group and (whole := _joined(before, entry, page)):
            # A long first sentence can also be understood without the second one.
            if before.words < SHORT:
                results.pop()
            results.append(whole)
        elif _is_sentence(entry):
            said = (("", entry.text),)
            results.append(replace(entry, kind=SENTENCE, subject="", fields=said))
        else:
            results.append(entry)
        before = entry
    return results


def _is_sentence(entry: Entry) -> bool:
    """Return True if an item of a list is a whole sentence with enough words to be a statement."""
    if entry.kind != ITEM or entry.fields or entry.text[:1].islower():
        return False
    return bool(_STOP.search(entry.text)) and entry.words >= SHORT


def _joined(before: Entry, entry: Entry, page: _Page) -> Entry | None:
    """Return a sentence and the next one as one statement if only the next one needs the other."""
    if before.kind != SENTENCE or entry.kind != SENTENCE:
        return None
    if before.words + entry.words > MAX_PAIR_WORDS:
        return None
    if not needs_previous(entry.text, page.language) or needs_previous(before.text, page.language):
        return None
    if not (_is_quotable(before.text) and _is_quotable(entry.text)) or is_litter(entry.text):
        return None
    for space in (" ", ""):
        quote = f"{before.quote}{space}{entry.quote}"
        if quote in page.line:
            text = f"{before.text}{space}{entry.text}"
            return replace(before, fields=(("", text),), quote=quote)
    return None


def _is_quotable(sentence: str) -> bool:
    """Return True if a sentence can be part of a statement that has two."""
    is_whole = _END.search(sentence) is not None
    return is_whole and not refers_elsewhere(sentence) and not is_about_page(sentence)


def _worded(entry: Entry, title: str) -> str:
    """Return a statement in plain words, without a colon that its page doesn't have."""
    text = page_news.words_of(entry, title)
    if entry.kind == ITEM and entry.subject and len(entry.fields) == 1:
        message = blocks.plain_text(entry.quote)
        for space in (" ", ""):
            if f"{entry.subject}{space}{entry.fields[0][1]}" in message:
                text = text.replace(f"{entry.subject}: ", f"{entry.subject}{space}", 1)
    return _DOUBLE_MARK.sub(r"\1 ", text)


def _stated_path(entry: Entry) -> tuple[str, ...]:
    """Return the path to the nearest heading that is meaningful by itself."""
    for depth in range(len(entry.path), 0, -1):
        if page_news.is_stated(entry.headings[depth - 1]):
            return entry.path[:depth]
    return ()


def _missing_context(candidate: _Candidate) -> str:
    """Return the heading above a statement if it has words that the statement lacks.

    A page's title is shown with the source, so it is returned only for a word of the topic.
    """
    entry, page = candidate.entry, candidate.page
    heading = entry.headings[-1] if entry.headings else ""
    above, folded = heading.casefold(), candidate.text.casefold()
    is_of_topic = any(_is_in(term, above) and not _is_in(term, folded) for term in page.said)
    is_title = match_key(heading) == match_key(page.reading.title)
    is_specific = not is_title and len(terms(heading, page.language)) >= MIN_OF_HEADING
    return heading if is_of_topic or is_specific else ""


def _headed(heading: str, candidate: _Candidate) -> str:
    """Return a statement after its heading, unless it has nearly all of the heading's words."""
    heading_terms = set(terms(heading, candidate.page.language))
    shared = len(heading_terms & set(candidate.terms))
    text = candidate.entry.text
    if candidate.entry.kind != SENTENCE or (
        shared >= len(heading_terms) and not text[:1].islower()
    ):
        return candidate.text
    if not heading:
        return text
    mark = "" if heading.endswith(("?", "？", "!", "！")) else ":"
    return shorten(f"{heading.rstrip(':.')}{mark} {text}", page_news.MAX_LENGTH)


def _is_whole(candidate: _Candidate) -> bool:
    """Return True if a candidate is a record, or a complete sentence."""
    return candidate.entry.kind != SENTENCE or bool(_END.search(candidate.entry.text))


def _mark_templates(candidates: Sequence[_Candidate], pages: int) -> None:
    """Mark sentences that several pages have, with the same values or not at the top of the page."""
    holding: defaultdict[str, set[int]] = defaultdict(set)
    frames = {
        id(candidate): values.frame_of(candidate.entry.text)
        for candidate in candidates
        if candidate.entry.kind == SENTENCE
    }
    for one in candidates:
        if id(one) in frames:
            for frame in {frames[id(one)], one.entry.text}:
                holding[frame].add(one.page.place)
    for one in candidates:
        alike = frames.get(id(one), "") if not one.lead else one.entry.text
        shared = len(holding.get(alike, ()))
        one.is_template = shared > 1 and 3 * shared >= pages


def _is_statement(entry: Entry, text: str, page: _Page) -> bool:
    count = word_count(text)
    longest = MAX_NEWS_WORDS if page.is_news else MAX_WORDS
    is_plain_item = entry.kind == ITEM and not entry.fields
    if entry.kind == SENTENCE or (is_plain_item and page.is_news):
        return MIN_WORDS <= count <= longest and not text.endswith(("?", "？", ":", "："))
    if entry.kind == PAIR and len(entry.headings) <= (not page.is_news) and entry.order < 12:
        return False  # the head of a page: its author, date, layout
    if not entry.fields or _OPEN.search(text):
        return False
    if text == entry.subject or text.endswith(f", {entry.subject}"):
        return False  # its values are links or settings
    return 2 <= count <= longest and page_news.share_of(entry) >= 1.0


def _is_noise(candidate: _Candidate) -> bool:
    markup = _MARKUP if candidate.entry.kind == SENTENCE else _TEMPLATE
    if markup.search(candidate.text) or candidate.text.startswith(("http", "![")):
        return True
    if _RAW.search(candidate.text) or _RAW.match(candidate.entry.text):
        return True
    if not candidate.page.is_news and not _is_whole(candidate):
        return True
    # A new page of rules, terms or instructions says its news to the reader.
    is_refused = is_boilerplate if candidate.page.is_news else is_litter
    # Words of the heading aren't boilerplate: a leak of cookies, a change of the terms.
    if candidate.entry.kind != SENTENCE:
        return False
    if not candidate.page.is_news and is_about_page(candidate.entry.text):
        return True
    return not candidate.is_of_heading and is_refused(candidate.entry.text)


def _score(candidate: _Candidate) -> float:
    page, entry = candidate.page, candidate.entry
    own = set(candidate.terms)
    heads = " ".join(entry.headings).casefold()
    folded = candidate.text.casefold()
    # A heading shown before a sentence doesn't make up for a sentence without any word of the topic.
    is_bare = entry.kind == SENTENCE and not candidate.lead
    bare = entry.text.casefold() if is_bare else folded
    whole = said = close = 0.0
    count = owned = named = titled = 0
    for term, weight in page.query.items():
        is_own = term in own or _is_in(term, folded)
        where = max(
            1.0 * is_own, 0.7 * _is_in(term, heads),
            0.6 * (term in page.title_terms), 0.5 * (term in candidate.paragraph),
        )  # fmt: skip
        whole += weight
        said += weight * where
        if weight > FOCUS_WEIGHT and term in page.said:  # the topic itself
            count += 1
            close += where
            is_named = is_own or _is_in(term, heads)
            owned += _is_in(term, bare)
            named += is_named
            titled += is_named or term in page.title_terms
    local = said / whole if whole else 0.0
    if count:
        candidate.closeness = close / count
        candidate.is_far = not owned or named < MIN_NAMED * count or count - titled > MAX_LACKING
    lead = 1 / (1 + entry.order / 4)
    lead *= 0.12 if page.is_news else 0.06
    score = 0.4 * page.relevance + 0.3 * local + lead + _bonus(candidate)
    if not page.is_news:
        score += CLOSE * candidate.closeness
    return score - 0.03 * _age(page.reading)


def _age(reading: PageText) -> float:
    return 0.0 if reading.published_at else 0.5


def _bonus(candidate: _Candidate) -> float:
    text, entry = candidate.text, candidate.entry
    value = 0.04 * bool(_NUMBER.search(text)) + 0.04 * min(2, len(_CHANGE.findall(text)))
    kinds = {kind for kind, _v in values.typed_values(text)}
    value += 0.05 * (values.DATE in kinds) + 0.06 * bool(kinds & {values.AMOUNT, values.PERCENT})
    value += 0.15 * candidate.lead - 0.04 * candidate.is_later - 0.4 * candidate.is_template
    language = candidate.page.language
    if begins_with_reference(text, language):
        value -= 0.4
    elif not candidate.page.is_news and entry.kind == SENTENCE:
        is_bare = text == entry.text  # a heading says some of what the sentence refers to
        if more_openings(entry.text, language) if is_bare else needs_previous(entry.text, language):
            value -= 0.4 if is_bare else 0.15
    if not _NUMBER.search(text):
        value -= SHORT_WEIGHT * max(0, SHORT - entry.words)
    if entry.kind == SENTENCE:
        value -= 0.12 * bool(_PERSONAL.search(text))
        if candidate.page.is_news:
            value -= 0.08 * (not _is_whole(candidate))
        else:
            count = min(ENOUGH_WORDS, entry.words)
            value += LENGTH_WEIGHT * math.log(max(count, SHORT) / SHORT)
            value -= VAGUE * is_vague(entry.text) + 0.2 * (count < FEW_WORDS) + STEP * entry.is_step
        value -= 0.15 * (page_news.share_of(entry) < 1.0)
    else:
        value += 0.03 * (len(entry.fields) > 1) - 0.05 * (not entry.subject)
        value -= 0.06 * (entry.kind == PAIR)
        # A cell says little without the table's other rows.
        value -= 0.2 * (entry.kind == ROW and not candidate.page.is_news)
    return value


def _add_meaning(candidates: list[_Candidate], about: str, embed: Embed) -> None:
    best = sorted(candidates, key=_rank)[:EMBEDDED]
    if not best:
        return
    # What a sentence is about is often said only above it.
    texts = [
        f"{one.page.reading.title}. {' – '.join(one.entry.headings[-2:])}"[:300]
        + f". {one.entry.text[:300]}"
        for one in best
    ]
    wanted, *others = embed([about[:400], *texts])
    for candidate, vector in zip(best, others, strict=True):
        candidate.score += MEANING * (max(0.0, _cosine(wanted, vector)) - 0.35)


def _rank(candidate: _Candidate) -> tuple[float, int]:
    return -candidate.score, candidate.order


# --- choice ---


class _Before:
    """What known pages said before. Their texts are folded when the first statement is looked up."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self._pages = pages

    @cached_property
    def _texts(self) -> list[str]:
        return [fold(page.previous) for page in self._pages]

    def said(self, quote: str) -> bool:
        value = fold(quote) if self._pages else ""
        return any(value in text for text in self._texts)


def _select(
    candidates: list[_Candidate],
    excluded: Sequence[str],
    limit: int,
    more_news: int,
    before: _Before,
    least_relevance: float,
) -> list[Finding]:
    """Take the best repeatedly, lowering the score of what resembles those already taken.

    What known pages said `before` isn't taken. After the first one, pages need `least_relevance`.
    """
    texts = [candidate.terms for candidate in candidates]
    vectors = sentence_vectors(texts, idf(texts))
    left = set(range(len(candidates)))
    alike = [0.0] * len(candidates)
    taken: list[_Candidate] = []
    top = max((one.score for one in candidates), default=0.0)
    per_page: Counter[int] = Counter()
    per_group: Counter[tuple[int, int]] = Counter()
    sizes = Counter(one.page.place for one in candidates)
    prose = Counter(one.page.place for one in candidates if one.entry.kind == SENTENCE)
    counts: Counter[int] = Counter()  # sentences taken from each page
    keys = set(map(match_key, excluded))
    orders: dict[tuple[int, int], bool] = {}
    while left and len(taken) < limit + more_news:
        if len(taken) == limit:
            left = {n for n in left if candidates[n].page.is_news}
            if not left:
                break
        worth = {
            n: candidates[n].score - 0.25 * alike[n] - 0.08 * per_page[candidates[n].page.place]
            - 0.03 * per_group[candidates[n].page.place, candidates[n].entry.group]
            for n in left
        }  # fmt: skip
        best = min(left, key=lambda n: (-worth[n], candidates[n].order))
        left.remove(best)
        candidate = candidates[best]
        page = candidate.page
        is_sentence = candidate.entry.kind == SENTENCE
        most = _most_of(page, len(sizes), limit + more_news * page.is_news)
        if per_page[page.place] >= most:
            continue
        if not page.is_news:
            most_prose = max(2, round(MAX_OF_PROSE * prose[page.place]))
            is_far = bool(taken) and candidate.is_far
            is_record = candidate.entry.kind in (ROW, PAIR)
            least = MIN_OF_RECORD if is_record else MIN_OF_BEST
            is_weak = bool(taken) and (candidate.score < least * top or page.relevance < least_relevance)
            if is_far or is_weak or (is_sentence and counts[page.place] >= most_prose):
                continue
            group = page.place, candidate.entry.group
            if candidate.entry.kind == ITEM and per_group[group] >= MAX_ITEMS:
                continue
        is_known = candidate.key in keys or before.said(candidate.entry.quote)
        if is_known or not _is_wanted(candidate, taken, excluded):
            continue
        group = page.place, candidate.entry.group
        if group not in orders:
            orders[group] = _gives_orders(candidate)
        if orders[group]:
            continue
        taken.append(candidate)
        per_page[page.place] += 1
        counts[page.place] += is_sentence
        per_group[group] += 1
        for n in left:
            alike[n] = max(alike[n], cosine(vectors[best], vectors[n]))
    return collapse([_finding(candidate) for candidate in taken])


def _most_of(page: _Page, pages: int, limit: int) -> int:
    """Return how many statements a page can contribute. More if it is relevant, long and unusual."""
    share = 2 + round(4 * page.relevance * min(1.0, len(page.entries) / 30))
    return max(share, round(1.5 * limit / max(pages, 1)))


def _is_wanted(candidate: _Candidate, taken: Sequence[_Candidate], excluded: Sequence[str]) -> bool:
    if candidate.key == match_key(candidate.page.reading.title):
        return False
    for other in taken:
        if same(candidate.text, other.text):
            return False
        if other.page is candidate.page and (
            candidate.entry.quote in other.entry.quote or other.entry.quote in candidate.entry.quote
        ):
            return False
    found = matching.match(candidate.text, excluded) if excluded else None
    return found is None or found.kind != "confirmed"


def _gives_orders(candidate: _Candidate) -> bool:
    """Return True if the paragraph, list or table around a statement contains prompt injection."""
    group = candidate.entry.group
    beside = [entry.text for entry in candidate.page.entries if entry.group == group][:40]
    return bool(injection_reason(" ".join(beside)))


def _finding(candidate: _Candidate) -> Finding:
    return Finding(
        sentence=candidate.text,
        reading=candidate.page.reading.number,
        quote=candidate.entry.quote,
        score=round(candidate.score, 4),
        key=match_key(candidate.text),
        is_passing=candidate.page.relevance < PASSING,
    )


def same(left: str, right: str) -> bool:
    """Whether two sentences say the same in nearly the same words, with no different value."""
    wide = is_wide_text(left) and is_wide_text(right)
    scorer = fuzz.ratio if wide else fuzz.token_set_ratio
    if scorer(match_key(left), match_key(right)) < SAME:
        return False
    names, others = set(_NAME.findall(left[1:])), set(_NAME.findall(right[1:]))
    if names - others and others - names:
        return False  # "a leak in the SMB client", "a leak in the FTP client"
    if values.release_of(left) != values.release_of(right):
        return False
    ours, theirs = values.numbers(left), values.numbers(right)
    return ours <= theirs or theirs <= ours


def collapse(findings: Sequence[Finding]) -> list[Finding]:
    """Merge sentences with one frame that announce successive versions into the latest.

    "Announcing X 1.97.1" and "Announcing X 1.98.0" become one line that also names the versions
    between.
    """
    groups: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        versions = [v for k, v in values.typed_values(finding.sentence) if k == values.VERSION]
        frame = values.frame_of(finding.sentence)
        is_series = len(versions) == 1 and len(frame.split()) >= 3 and ": " not in finding.sentence
        groups[frame if is_series else finding.key].append(finding)
    kept = {}
    for members in groups.values():
        latest = max(members, key=_version)
        others = sorted((member for member in members if member is not latest), key=_version)
        steps = list(dict.fromkeys(map(_version_text, others)))
        steps = [step for step in steps if step != _version_text(latest)]
        if len(members) > 1 and steps:
            kept[latest.key] = replace(latest, sentence=f"{latest.sentence} ({', '.join(steps)})")
        else:
            kept |= {member.key: member for member in members}
    return [kept[one.key] for one in findings if one.key in kept]


def _version(finding: Finding) -> tuple[tuple[int, ...], bool, tuple[int, ...]]:
    """Return a key that sorts versions. A candidate comes before its release."""
    text = _version_text(finding)
    release = values.release_of(text)
    return values.version_key(release or text), not release, values.version_key(text)


def _version_text(finding: Finding) -> str:
    return next((v for k, v in values.typed_values(finding.sentence) if k == values.VERSION), "")

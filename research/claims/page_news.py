"""Turn a page's differences into news: worded, weighed and grouped.

News is decided by values: another date, version, amount or status of the same thing, an added or
removed row or item, a move to another heading, or a sentence whose values changed. Changes to
spelling, links, lists of people or wording aren't news.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from rapidfuzz import fuzz, process
from rapidfuzz.distance import Prefix

from beacon_site.text import values
from beacon_site.text.cleaning import match_key, shorten
from beacon_site.text.injection import injection_reason
from beacon_site.text.sentences import language_of, word_count
from research.claims.blocks import (
    ITEM,
    MAX_QUOTE_LENGTH,
    PAIR,
    PARAGRAPH,
    ROW,
    SENTENCE,
    STATED,
    Entry,
    plain_text,
)
from research.claims.candidates import begins_with_reference, is_stamp
from research.claims.page_diff import (
    ADDED,  # fmt: skip
    CHANGED,
    FEW_VERSIONS,
    MOVED,
    REMOVED,
    SPELT,
    ZEROS_OF_DAY,
    Difference,
    PageDiff,
    unnumbered,
    version_of,
    versions_of,
)
from research.claims.terms import is_wide_text, terms

NEW, GONE = "new", "gone"  # in addition to CHANGED: what a difference means to a reader

LONG_CLAUSE_WORD = 5
MAX_WORDS_COMPARED = 400  # of a sentence
MIN_CLAUSE = 3  # new words in a row that say something more
_CLAUSE = re.compile(r"\A\W{0,2}(?:§ ?)?(?=\w{0,6}\d)[\w.]{1,8}[.)]\s")
MAX_NARROWED = 6  # words that a rule can gain or lose without being another sentence
_RULE = re.compile(
    r"\b(?:must|shall|may|can|cannot|will|should|required|muss|müssen|darf|dürfen|kann|können|sollen?|doit|doivent"
    r"|peut|peuvent|debe|deben|puede|pueden|deve|devono)\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"\b(?:will|shall|going to|planned|scheduled|wird|werden|geplant|sera|seront|prévue?s?|será|serán|previst[oa]s?)\b"
    r"|将|予定",
    re.IGNORECASE,
)
SAME_EVENT = 80  # token_set_ratio
_MODAL = re.compile(
    r"\b(?:must|shall|may|required|muss|müssen|darf|dürfen|doit|doivent|peut|peuvent|debe|deben)\b"
    r"|不允许|允许|禁止|必须|不得|应当|应该|可以|可能|建议|推荐|需要|しなければ|べき|必要|推奨|許可",
    re.IGNORECASE,
)
ENOUGH = 0.5  # the least weight that is announced
LEAD_WORDS_OF_SENTENCE = 16
LEAD_WORDS = 8  # of a line that only introduces what is below it
LABELS = 0.3  # the weight of another label of the same value
LINKS = 0.1  # the weight of a changed URL
MAX_FIELDS = 6
REPEATED = 4  # words of a statement that isn't new if one of the last version has them all
MIN_CELLS = 2  # of a column that a table gained
MAX_REPLACED = 1  # times by which a page has a replaced word less, if it wasn't renamed
MAX_HOLDING = 50  # statements searched per word
MAX_IN_LIST_LENGTH = 120  # characters of a row in a list of several
MAX_LISTS = 6  # of other rows of an entirely new section
MAX_IN_SECTION = 12  # entries below each heading of an entirely new section
MAX_PER_HEADING = {SENTENCE: 9, ITEM: 12}  # per heading and kind, by weight
MORE_WITHOUT_HEADING = 3  # times as many: most of a web page's text has no marked heading
MORE_FOR_SECTION = 0.1  # weight of a removed section with several statements
FEW_RENAMED, MAX_RENAMED_LENGTH = (
    3,
    8,
)  # statements in which the same was replaced, and its characters
MAX_EDITS = 500  # edited statements searched for that
MAX_LATE_VERSIONS = 3  # earlier versions of a changelog that gain news at once
MAX_JOINED = 12  # rows changed in the same way that are merged into one line
# rows of one table changed in the same columns before they are merged into one line
MAX_OF_FRAME = 8
REWRITTEN = 64  # token_sort_ratio from which an added sentence may replace a removed one
SAME_OPENING = 8  # words with which a removed sentence and a new one begin if they were merged
SAME_WORDS = 4  # with which a removed and an added item begin if one has replaced the other
MAX_ADDED = 1_000  # added statements searched for a replacement
MAX_LEFT_OUT = 4  # words of a part that an enumeration lost
FEW_TELLING_WORDS = 18  # a single removed sentence with fewer words can be an edit
FEW_EDITED = 7  # edited statements of a page, from which it can be reworded as a whole
MOSTLY_REWORDED = 0.6  # their share from which other words say little
SLIGHT = 0.06  # share of long words from which an edit is more than a touch
FEW_ALONE = 12  # with fewer words, a single removed sentence isn't reported
FEW_WORDS = 6  # removed sentences with fewer words aren't reported
MIN_FORM, FORM = 5, 0.6  # letters, and share of the shorter word, that two forms of a word share
MIN_ROWS, MAX_CHOICE_LENGTH = 4, 60  # rows of a column of choices, and characters of a choice
MIN_TRANSLATED = 8  # changes of a part in another language
MIN_PROSE, MAX_PROSE = 400, 3_000  # characters by which a language is guessed
SAME_SUBJECTS = 0.8  # share of a table's subjects that another one has if it is a copy
MIN_WORD, MIN_PAIRS = 4, 3  # letters of a new word; new character pairs in Chinese and Japanese
MAX_LENGTH = 420
FEW_NAMES, MAX_NAMES = 3, 0.7  # names in a list of people, and their share of its parts
MAX_COLUMN_WORDS = 6  # words of a column's name
MAX_TITLE_WORDS = 4  # words of the heading of a list of people
WEIGHT_OF_REST = 0.6  # of what follows the first statement below a new heading
GONE_WHOLE = 0.55  # weight of the sentences of a paragraph that is entirely gone
MAX_LEAD_LENGTH = 300  # characters of what a new part begins with

# A list of people. A table of them, and rules for them, are news.
_PEOPLE = re.compile(
    r"\b(?:authors?|contributors?|maintainers?|team|members?|champions?|reviewers?|editors?|sponsors?|attendees|participants"
    r"|emeritus)\b",
    re.IGNORECASE,
)
_APPENDIX = re.compile(
    r"\b(?:thanks|acknowledge?ments|(?<!\w )notes|links?|references|see also|further reading|discussions?"
    r"|feature flag|last presented|bibliography|table of contents|contents|navigation"
    r"|inhalt|inhaltsverzeichnis|inhaltsübersicht|sommaire|índice|indice|目录|目錄|目次|weblinks|einzelnachweise|autor\w*)\b",
    re.IGNORECASE,
)
_CONTENTS = re.compile(
    r"\W*(?:(?:table of )?contents|on this page|inhalt|inhaltsverzeichnis|inhaltsübersicht|sommaire"
    r"|table des matières|índice|indice|目录|目錄|目次)\W*",
    re.IGNORECASE,
)
# Thanks for an image. On a price list, credits are a currency.
_CREDITS = re.compile(r"\W*(?:\w+ )?credits?\W*", re.IGNORECASE)
# Authors of a page or of a cited work: "Doe J, Roe A, Poe B", "Doe, J., Roe, A.".
_INITIALS = re.compile(r"\b[^\W\d_a-z][\w-]+,? [A-Z]{1,2}(?=[.,;])")
_FULL_NAME = re.compile(r"\W*[^\W\d_a-z][\w.-]*(?: [^\W\d_a-z][\w.-]*){1,3}\W*")
_TECHNICAL = re.compile(
    r"\b(?:icon|slug|permalink|url|uri|link|(?:\w+ ){0,2}template|command|hash|checksum|sha\d*|layout|weight|draft|image|logo|added ?at"
    r"|updated ?at|(?:\w+ ){0,2}checked|last ?verified|retrieved|match(?: .*)?|patterns?|selectors?|schema|tags|topics|categories|keywords|last ?mod(?:ified)?|last ?updated|(?:\w+ ){0,3}still valid(?: \w+)?|last ?review(?:ed)?(?: (?:date|on|at))?|modified|auto|regex|identifiers|alternate)\b",
    re.IGNORECASE,
)
_SUMMARY = re.compile(r"description|excerpt|summary|abstract", re.IGNORECASE)  # of the page itself
# How and where a page is shown.
_DISPLAY = re.compile(
    r"(?:side ?bar|nav(?:igation)?|toc|menu)\b.*|mode|position|order|thumbnail|cover|banner|width|colou?r|theme|css ?class\w*",
    re.IGNORECASE,
)
_IMAGE = re.compile(r"\.(?:jpe?g|png|gif|svg|webp|ico)$", re.IGNORECASE)
_LOUD = re.compile(
    r"\b(?:breaking|security|vulnerab\w+|CVE-\d+|deprecat\w+|unrecommended|discouraged|obsolete|superseded|withdrawn|remov\w+|drop\w*|no longer|end of life|stabili[sz]\w+|stable"
    r"|introduc\w+|add(?:s|ed)? support|new|price|rais\w+|reduc\w+|requir\w+|must|shall|prohibit\w*|allow\w*)\b",
    re.IGNORECASE,
)
VALUES = {values.DATE, values.VERSION, values.PERCENT, values.AMOUNT, values.NUMBER}
_ALL_OF, _ONE_OF = frozenset("and und et y e".split()), frozenset("or oder ou o u".split())
_IDEOGRAPHS = re.compile(r"[\u3400-\u9fff]+")
_DIGIT = re.compile(r"\d")
_NOT = re.compile(
    r"\b(?:not|no|never|cannot|without|nicht|kein\w*|ohne|pas|aucun\w*|jamais|sans|ningún\w*|nunca|sin)\b|n't\b|不|没|未|无",
    re.IGNORECASE,
)
# A sentence that means nothing without the one before.
_POINTS_BACK = re.compile(
    r"\W*(?:this|these|that|those|such|dies\w*|jene\w*|solche\w*|cela|ceci|cett?e|ces|est[eao]s?|esos?)\b",
    re.IGNORECASE,
)
# What only introduces the text below it. "The following day" and 「18歳以下」 (18 or younger) don't.
_FOLLOWING = re.compile(
    r"\bthe following\b(?! (?:\w+ )?(?:day|morning|week|month|quarter|year|season)\b)"
    r"|\b(?:die|der|den|das) folgende[nrms]?\b(?! (?:\w*tage?s?|woche|monate?s?|quartale?s?|jahre?s?)\b)"
    r"|\bsuivante?s? ?:|\b(?:los|las) siguientes\b"
    r"|以下(?:の通り|のとおり|に示す)|(?:^|[\s、，,;；。はがを])以下(?:[はの:：是为為]|几|内容|情况|条件|文件)"
    r"|(?:包括|包含|提供|提交|满足|符合)以下|如下",
    re.IGNORECASE,
)
# What only says where more is written, or shows what was said.
_POINTER = re.compile(
    r"\W*(?:see|refer to|siehe|vgl|voir|cf|véase|ver|consulte)\b.{0,120}$|.{0,120}\b(?:here|hier|ici|aquí)\W*$"
    r"|(?:参见|请参阅|详见|詳しくは).{0,60}$",
    re.IGNORECASE,
)
_SEE_ALSO = re.compile(
    r"\W*(?:(?:see|also) (?:see|also)|siehe auch|voir aussi|véase también|另见|参见|関連項目)\W*",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"\W*(?:examples?|beispiele?|exemples?|ejemplos?|例|示例)\W*", re.IGNORECASE)
_CONJUNCTIONS = frozenset("and or und oder et ou y o".split())
_OR = "|".join(sorted(_CONJUNCTIONS))
_ENUMERATION = re.compile(rf"[,;、](?:\s+(?:{_OR})(?=\s))?(?:\s|$)|\s(?:{_OR})\s")
_ENUMERATED = re.compile(r"(?:\(?[a-z\d]{1,3}[.)]|\(\d+\))\s")
_REFERENCES = re.compile(r"\(?(?:#|GH-|PR |issue )\d+\)?|\b[0-9a-f]{7,40}\b", re.IGNORECASE)
# "article 4, letter A", "§ 3 Abs. 2", "inciso E": where another rule is found.
_LABEL = r"(?:\d[\w.]*|[A-Za-z])(?![\w.])"
_REFERRED = re.compile(
    rf"(?:§{{1,2}}|\b(?:articles?|sections?|chapters?|clauses?|paragraphs?|subsections?|appendix|annex|art|sec|artikels?|absatz|abs|satz"
    rf"|letters?|lit|nummer|nr|buchstabe|ziffer|kapitel|anhang|artículos?|incisos?|letras?|apartados?|numeral(?:es)?|capítulos?|anexos?"
    rf"|alinéas?|chapitres?|annexes?)\b\.?)\s*{_LABEL}(?:\s*(?:,|and|or|und|oder|et|ou|y|o|e)\s*{_LABEL})*"
    r"|第\s*\d+\s*[条條章节節項项]",
    re.IGNORECASE,
)
# On which side of a number a rule applies: "less than 500", "500 or less".
_BOUNDS = {
    "<": r"(?:less|fewer) than|under|below|weniger als|unter|moins de|menos de|少于|低于",
    "<=": r"at most|(?:no|not) more than|up to|höchstens|maximal|bis zu|au plus|jusqu'à|como máximo|hasta|最多|至多|不超过",
    ">": r"more than|over|above|mehr als|über|plus de|más de|超过",
    ">=": r"at least|mindestens|wenigstens|au moins|al menos|至少|不少于",
}
_BOUNDS_AFTER = {
    "<": r"未満",
    "<=": r"or (?:less|fewer)|oder weniger|ou moins|o menos|以下",
    ">": r"を超える",
    ">=": r"or more|oder mehr|ou plus|o más|以上",
}
_BOUNDED = [
    (side, re.compile(pattern, re.IGNORECASE))
    for bounds, form in (
        (_BOUNDS, r"(?<!\w)(?:{})\s*\d"),
        (_BOUNDS_AFTER, r"\d\D{{0,12}}?(?:{})(?!\w)"),
    )
    for side, words in bounds.items()
    for pattern in [form.format(words)]
]
_WITH_DIGIT = re.compile(r"\w*\d\w*")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_DIGITS = re.compile(r"\d+")
_PARTS = re.compile(r"[\s,;]+")
_NUMBERED = re.compile(r"#(\d+)")
_NAME = re.compile(
    r"\W*(?!(?:The|Die|Der|Das|Les?|La|Los|Las|El)\b)((?:[^\W\d_a-z]\w*)(?:[ -][^\W\d_a-z][\w.]*)+)"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_GENERIC = re.compile(
    r"(?:releases?|versions?|items?|data|list|entries|overview|table|products?|results?|summary)$",
    re.IGNORECASE,
)


_RELEASE = re.compile(r"\W{0,3}(?:(?:version|release)\s+)?(v?\d+\.\d+[\w.+-]*)\b", re.IGNORECASE)
_UNRELEASED = re.compile(
    r"\W*(?:unreleased|upcoming|in development|unveröffentlicht)\W*", re.IGNORECASE
)
_KIND_OF_CHANGE = re.compile(
    r"\W{0,3}(?:added|changed|changes|deprecated|fixed|fixes|(?:bug ?|other |security )?fixes|improved|improvements"
    r"|(?:new |breaking )?(?:features|changes)|enhancements|removed|security|other(?: changes(?: and fixes)?)?)",
    re.IGNORECASE,
)

# A heading without which its items say the opposite, such as "Support for trams" below "Removed".
_REVERSING = re.compile(
    r"\W{0,3}(?:removed|removals|deprecated|deprecations?|discontinued|withdrawn|obsolete|cancell?ed|closed|excluded"
    r"|(?:not|no longer) (?:supported|included|available)|unsupported|known (?:issues|bugs|problems)"
    r"|fixed|fixes|(?:bug ?|security )?fixes|breaking(?: changes)?"
    r"|entfernt|veraltet|eingestellt|behoben|fehlerbehebungen|supprimés?|dépréciée?s?|corrigée?s?|corrections"
    r"|eliminad[oa]s?|obsolet[oa]s?|corregid[oa]s?|correcciones|削除|廃止|非推奨|修正|移除|删除|弃用|废弃|修复)\W{0,3}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class PageChange:
    """One piece of news from a page: the new and the old text, and its weight.

    `status` is new, changed or gone. `quote` is on the current page (if gone, on its last version).
    `before` and `before_quote` are from the last version and name the same fields as `sentence`.
    `told` has both in one line. `is_typed` is whether a typed value changed.
    """

    status: str
    sentence: str
    quote: str
    before: str = ""
    before_quote: str = ""
    weight: float = 1.0
    key: str = ""
    order: int = 0
    is_typed: bool = False
    subject: str = ""
    name: str = ""  # says more than a subject that is only a number
    path: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    kind: str = ROW
    part: int = 0
    frame: str = ""  # what it says about its subject; rows with the same frame are one line
    members: tuple[PageChange, ...] = ()  # the changes merged into it
    told: str = ""

    def after(self, gone: PageChange) -> PageChange:
        """Return the change from a statement gone from one page to this one on another."""
        return replace(
            self, status=CHANGED, before=gone.before, before_quote=gone.before_quote, is_typed=True
        )


def news(diff: PageDiff, title: str, old: Sequence[Entry] = ()) -> list[PageChange]:
    """Return the news of a page, in page order.

    `old` are the statements of the last version. Everything below a heading that the last version
    lacked is one new section. Sentences with prompt injection are left out.
    """
    known = _KnownHeadings.of(old, diff)
    known.statements.now = _Statements({entry.match for entry in _entries_now(diff)})
    known.statements.count(old, _entries_now(diff))
    known.statements.are_numbered = diff.has_numbered_clauses
    known.statements.are_reworded = _is_reworded_page(diff)
    edits = [(one.old.text, one.new.text) for one in diff.differences if one.old and one.new]
    known.statements.note_renamed([pair for pair in edits if is_wide_text(pair[1])])
    found: list[PageChange] = []
    sections: defaultdict[tuple[str, ...], list[Difference]] = defaultdict(list)
    come = _added(diff)
    of_paragraphs = _edits_of_paragraphs(diff)
    paragraphs_gone = set() if known.statements.are_reworded else _gone_paragraphs(diff, come)
    for difference in diff.differences:
        root = _new_root(difference, known, diff)
        if root:
            sections[root].append(difference)
        elif id(difference) in paragraphs_gone:
            found.append(
                replace(_change(difference, title, come, known.statements), weight=GONE_WHOLE)
            )
        elif id(difference) not in of_paragraphs:
            found.append(_change(difference, title, come, known.statements))
    for root, members in sections.items():
        found += _section(root, members, title, known)
    found += _gained_columns(diff, title)
    if known.latest:
        found = _with_less_past(found, known)
    found = _collapse_removed_sections(found, diff)
    found = _without_translations(found, diff)
    found = [one for one in found if one.status != NEW or not known.statements.have(one)]
    found = [one for one in found if not all(map(is_stamp, _quotes(one)))]
    loud = [one for one in found if one.weight >= ENOUGH and not injection_reason(one.sentence)]
    remain = {entry.path for entry in _entries_now(diff)}
    joined = _joined_rows(_joined_sections(_joined_sentences(_without_candidates(loud)), remain))
    return sorted(_framed(_capped(joined)), key=lambda one: one.order)


def _quotes(change: PageChange) -> list[str]:
    return [quote for quote in (change.quote, change.before_quote) if quote] or [change.sentence]


def _is_reworded_page(diff: PageDiff) -> bool:
    """Return True if most sentences and items of a page were edited, as after a change of style."""
    edited = sum(
        one.kind == CHANGED and one.new is not None and one.new.kind in (SENTENCE, ITEM)
        for one in diff.differences
    )
    kept = sum(entry.kind in (SENTENCE, ITEM, PARAGRAPH) for entry in diff.unchanged)
    return edited >= FEW_EDITED and edited >= MOSTLY_REWORDED * (edited + kept)


def _entries_now(diff: PageDiff) -> list[Entry]:
    return [*diff.unchanged, *(one.new for one in diff.differences if one.new)]


def words_of(entry: Entry, title: str) -> str:
    """Return an entry as a plain statement that says what it is about."""
    text = _in_context(entry) if entry.kind == SENTENCE else _named(entry, title, _fields(entry))
    return shorten(text, MAX_LENGTH)


def is_stated(heading: str) -> bool:
    """Return True if a heading has enough words to be a statement by itself."""
    return word_count(heading) >= STATED or (is_wide_text(heading) and len(heading) > 6)


# --- wording ---


def attribute(name: str) -> str:
    """Return the name of a field as words: `latestReleaseDate` is "latest release date"."""
    if " " in name or not (name[:1].islower() or "_" in name):
        return name
    return " ".join(_CAMEL.sub(" ", name).lower().split())


def _subject(entry: Entry, title: str) -> str:
    """Return what an entry is about, with the heading or title that makes it clear."""
    context = _context(entry, title)
    if not entry.subject:
        return context
    is_word = " " in context and entry.key in match_key(context).split()
    if match_key(context) in entry.key or is_word:
        return entry.subject if match_key(context) in entry.key else context
    is_short = len(entry.subject.split()) <= 3 and len(context.split()) <= 8
    if entry.kind in (ROW, PAIR) or is_short:
        release = _release(entry, above=1)
        return ", ".join(filter(None, [release, shorten(context, 80), entry.subject]))
    named = ", ".join(filter(None, [_release(entry), _reversing_heading(entry)]))
    return f"{named}: {entry.subject}" if named else entry.subject


def _reversing_heading(entry: Entry) -> str:
    """Return the nearest heading if the entry says the opposite without it."""
    nearest = entry.headings[-1] if entry.headings else ""
    stem = re.sub(r"(?:ed|es)$", "", match_key(nearest))
    is_repeated = entry.match.startswith(stem)  # "Fix a crash" below "Fixed"
    return nearest.strip(" :") if _REVERSING.fullmatch(nearest) and not is_repeated else ""


def _release(entry: Entry, above: int = 0) -> str:
    """Return the version of a changelog that an entry is about, unless its subject says it.

    It's the number in a heading such as "2.7.6 (2027-08-15)", or in "2.7.6" above "Fixed". Other
    numbers are those of sections. It must be at least `above` levels above the nearest heading.
    """
    for below, heading in enumerate(reversed(entry.headings)):
        if not (match := _RELEASE.match(heading)):
            continue
        rest = heading[match.end() :]
        dated = any(kind == values.DATE for kind, _value in values.typed_values(rest))
        dated = dated or _UNRELEASED.fullmatch(rest) is not None
        listed = below and _KIND_OF_CHANGE.fullmatch(entry.headings[-1].strip(" :"))
        if not (dated or (listed and not any(map(str.isalpha, rest)))):
            continue
        return match[1] if below >= above and match[1] not in entry.subject else ""
    return ""


def _context(entry: Entry, title: str) -> str:
    """Return the nearest meaningful heading, or the title."""
    for heading in reversed(entry.headings):
        # A key of a data file says little ("prices", "goals1"). A name such as "gpt-5-mini" does.
        is_key = heading.islower() and not re.search(r"[\s\d].*\d|[-.]", heading)
        if not _GENERIC.match(heading) and not is_key:
            return heading
    return title


def _fields(entry: Entry, changed: Sequence[tuple[str, str, str]] = ()) -> list[str]:
    """Return the fields of an entry as text: those that changed, and others if there is room."""
    names = {name for name, _before, _after in changed if name}
    bare = {value for name, *both in changed if not name for value in both}
    pairs: list[tuple[bool, str]] = []
    for name, value in entry.fields:
        is_changed = name in names if name else value in bare
        if not value or not (is_changed or _is_worth_saying(entry, name, value)):
            continue
        pairs.append((is_changed, f"{attribute(name)} {value}" if name else value))
    room = MAX_FIELDS - sum(is_changed for is_changed, _text in pairs)
    kept = []
    for is_changed, text in pairs:
        if is_changed or room > 0:
            kept.append(text)
            room -= not is_changed
    return kept


def _is_worth_saying(entry: Entry, name: str, value: str) -> bool:
    if values.kind_of(value) in (values.NONE, values.LINK):
        return False
    return not (name and _is_aside_column(name)) or len(entry.fields) <= 2


def _is_aside_column(name: str) -> bool:
    """Whether a column has links, people or what describes the page. A whole sentence doesn't count.

    A column "Team" doesn't list people: its teams play or own something.
    """
    patterns = (_TECHNICAL, _PEOPLE, _APPENDIX)
    is_short = len(name.split()) <= MAX_COLUMN_WORDS and name.casefold() not in ("team", "teams")
    return is_short and any(each.search(attribute(name)) for each in patterns)


def _named(entry: Entry, title: str, fields: Sequence[str]) -> str:
    subject = _subject(entry, title)
    return f"{subject}{_joint(entry)}{'; '.join(fields)}" if fields else subject


def _joint(entry: Entry) -> str:
    """Return what joins the subject of an entry and its fields.

    It's a colon, unless an item is one sentence: "`sync` copies all files."
    """
    rest = entry.fields[0][1] if len(entry.fields) == 1 and not entry.fields[0][0] else ""
    words = plain_text(entry.quote)
    if entry.kind == ITEM and rest[:1].islower() and words == f"{entry.subject} {rest}":
        return " "
    is_clause = entry.kind == ITEM and words == f"{entry.subject}, {rest}"
    return ", " if is_clause else ": "


def _in_context(entry: Entry) -> str:
    """Return a sentence, with its heading in front if it is a fragment."""
    text = entry.fields[0][1]
    is_fragment = text[:1].islower() or _ENUMERATED.match(text) or len(text.split()) < 6
    is_fragment = is_fragment or bool(_reversing_heading(entry))
    if is_fragment and entry.headings and not is_wide_text(text):
        return f"{shorten(entry.headings[-1], 80)}: {text}"
    return text


def _added(diff: PageDiff) -> list[str]:
    """Return added or changed statements in normalized form, without their values."""
    return [one.new.match for one in diff.differences if one.new and one.kind in (ADDED, CHANGED)]


def _change(
    difference: Difference, title: str, come: Sequence[str], statements: _Statements
) -> PageChange:
    old, new = difference.old, difference.new
    entry = new or old
    assert entry is not None  # noqa: S101 (a difference has a side)  # nosec B101
    if difference.kind == ADDED:
        change = _came(entry, title)
    elif difference.kind == REMOVED or old is None or new is None:
        change = _went(entry, title, come, statements)
    elif difference.kind == MOVED:
        change = _moved(old, new, difference.cells, title, statements)
    else:
        change = _changed(old, new, difference.cells, title, statements)
    return _placed(change, entry)


def _placed(change: PageChange, entry: Entry) -> PageChange:
    return replace(
        change, path=entry.path, headings=entry.headings, kind=entry.kind, part=entry.part
    )


def _came(entry: Entry, title: str) -> PageChange:
    sentence = words_of(entry, title)
    weight = {ROW: 0.9, PAIR: 0.6, ITEM: 0.6, SENTENCE: 0.55}[entry.kind]
    typed = bool(values.typed_values(_REFERENCES.sub("", entry.text)))
    nearest = entry.headings[-1] if entry.headings else ""
    weight += 0.1 * typed + 0.15 * bool(_LOUD.search(entry.text))
    weight += 0.1 * bool(_LOUD.search(nearest))
    weight *= share_of(entry)
    if entry.kind in (SENTENCE, ITEM) and (_announces(entry) or _is_pointer(entry)):
        weight *= 0.5
    return PageChange(
        NEW, sentence, entry.quote, weight=weight, key=entry.match, order=entry.order,
        subject=entry.subject,
    )  # fmt: skip


def _went(entry: Entry, title: str, come: Sequence[str], statements: _Statements) -> PageChange:
    sentence = words_of(entry, title)
    weight = {ROW: 0.8, PAIR: 0.4, ITEM: 0.5, SENTENCE: 0.55}[entry.kind]
    is_pair = entry.kind == PAIR and bool(entry.headings)
    weight += 0.1 * (is_pair and bool(values.typed_values(entry.text)))
    weight *= share_of(entry)
    is_prose = entry.kind == SENTENCE or (not entry.fields and len(entry.subject.split()) > 12)
    is_rewritten = is_prose and (_is_slight(entry) or _is_rewritten(entry, come))
    is_listed_again = entry.kind == ITEM and _is_named_again(entry, come)
    is_lead = is_prose and (_announces(entry) or _is_lead(entry.text))
    if statements.are_reworded and entry.kind in (SENTENCE, ITEM):
        is_rewritten = is_rewritten or not values.typed_values(entry.text)
    if is_rewritten or is_listed_again or is_lead or _is_aid(entry):
        weight = 0.2
    above = shorten(_context(entry, title), 80)
    if entry.kind == ITEM and match_key(above) not in match_key(sentence):
        words = sentence.removeprefix(f"{_release(entry)}: ")
        sentence = f"{above}, {words}"  # the same item may still be below another heading
    return PageChange(
        GONE, sentence, entry.quote, sentence, entry.quote, weight, entry.match, entry.order,
        subject=entry.subject,
    )  # fmt: skip


def _edits_of_paragraphs(diff: PageDiff) -> set[int]:
    """Return the ids of removed sentences that aren't news by themselves.

    If a paragraph lost one short sentence, it was edited. If the sentence was all of it, it's news
    only if it has values or says what must or may be done.
    """
    removed: defaultdict[int, list[Difference]] = defaultdict(list)
    for one in diff.differences:
        if one.kind == REMOVED and one.old is not None and one.old.kind == SENTENCE:
            removed[one.old.order].append(one)
    return {
        id(one)
        for order, (one, *others) in removed.items()
        if not others
        and one.old
        and word_count(one.old.text) < FEW_TELLING_WORDS
        and (order in diff.standing or not _is_telling(one.old.text))
    }


def _gone_paragraphs(diff: PageDiff, come: Sequence[str]) -> set[int]:
    """Return the ids of the removed sentences of each paragraph of several that is entirely gone.

    It isn't if half of its sentences were only reworded, or merged into others. A sentence of it that
    says little by itself belongs to the others.
    """
    removed: defaultdict[int, list[tuple[Difference, Entry]]] = defaultdict(list)
    for one in diff.differences:
        if one.kind == REMOVED and one.old is not None and one.old.kind == SENTENCE:
            removed[one.old.order].append((one, one.old))
    gone: set[int] = set()
    for order, sentences in removed.items():
        if len(sentences) == 1 or order in diff.standing:
            continue
        entries = [entry for _one, entry in sentences]
        if any(share_of(entry) < 1 or _is_aid(entry) for entry in entries) or _is_lead(
            entries[0].text
        ):
            continue
        if 2 * sum(_is_rewritten(entry, come) for entry in entries) < len(entries):
            gone |= {id(one) for one, _entry in sentences}
    return gone


def _is_telling(text: str) -> bool:
    """Whether a sentence has a number, in digits or in words, or is about what must be done."""
    has_value = values.typed_values(text) or values.amounts(match_key(text))
    return bool(has_value or _RULE.search(text) or _LOUD.search(text))


def _announces(entry: Entry) -> bool:
    """Return True if an entry only introduces what is below it."""
    most = LEAD_WORDS if entry.kind != SENTENCE else LEAD_WORDS_OF_SENTENCE
    return entry.text.endswith((":", "：")) and word_count(entry.text) <= most


def _is_lead(text: str) -> bool:
    """Return True if a sentence names what follows it, and states no value or rule itself."""
    is_short = text.endswith((":", "：")) or word_count(text) <= LEAD_WORDS_OF_SENTENCE
    return is_short and bool(_FOLLOWING.search(text)) and not _is_telling(text)


def _is_aid(entry: Entry) -> bool:
    """Return True if an entry is an example, or only points to another text."""
    nearest = entry.headings[-1] if entry.headings else ""
    is_example = entry.kind in (SENTENCE, ITEM) and _EXAMPLE.fullmatch(nearest)
    return bool(is_example or _is_pointer(entry))


def _is_pointer(entry: Entry) -> bool:
    is_pointer = entry.kind == SENTENCE and _POINTER.match(entry.text)
    return bool(is_pointer) and not values.typed_values(entry.text)


def _is_slight(entry: Entry) -> bool:
    """Whether a sentence means nothing without the one before it, and states no value or rule."""
    if word_count(entry.text) < FEW_WORDS or _POINTS_BACK.match(entry.text):
        return True
    is_led = begins_with_reference(entry.text, language_of(entry.text))
    return is_led and not _is_telling(entry.text)


def _is_rewritten(entry: Entry, come: Sequence[str]) -> bool:
    """Whether a removed sentence was only reworded or merged into another one, somewhere on the page."""
    words = entry.match.split()
    opening = " ".join(words[:SAME_OPENING])
    merged = any(text.startswith(f"{opening} ") for text in come[:MAX_ADDED])
    if len(words) > SAME_OPENING and merged:
        return True
    best = process.extractOne(
        entry.match, come[:MAX_ADDED], scorer=fuzz.token_sort_ratio, score_cutoff=REWRITTEN
    )
    return best is not None


def _is_named_again(entry: Entry, come: Sequence[str]) -> bool:
    """Whether a new statement begins with the name or the words with which a list item began."""
    named, words = _NAME.match(entry.text), entry.match.split()
    start = words[:SAME_WORDS] if len(words) > SAME_WORDS else []
    name = match_key(named[1]) if named else " ".join(start)
    return bool(name) and any(f"{text} ".startswith(f"{name} ") for text in come[:MAX_ADDED])


def _moved(
    old: Entry,
    new: Entry,
    cells: Sequence[tuple[str, str, str]],
    title: str,
    statements: _Statements,
) -> PageChange:
    was, now = (entry.headings[-1] if entry.headings else title for entry in (old, new))
    typed = [cell for cell in cells if _weight_of(cell, statements) >= 0.8]
    if typed and old.kind == new.kind == ROW and _is_regrouped(old, new):
        # Another heading above a table isn't news, and the rows keep the name they had below the old one.
        return _changed(old, replace(new, headings=old.headings), cells, title, statements)
    name = new.subject or shorten(new.text, 120)
    under = _("under “%(heading)s”")
    after = [under % {"heading": now}, *_values_now(typed)]
    before = [under % {"heading": was}, *_values_before(typed)]
    texts = [_("now under “%(now)s” (was “%(was)s”)") % {"now": now, "was": was}, *_cells(typed)]
    weight = 0.95 if typed or not _is_regrouped(old, new) else 0.3
    return PageChange(
        CHANGED, _line(name, after), new.quote, _line(old.subject or name, before), old.quote,
        weight * share_of(new) * share_of(old), new.match, new.order, True, told=_line(name, texts),
    )  # fmt: skip


def _is_regrouped(old: Entry, new: Entry) -> bool:
    """Return True if an entry is below the same heading at another depth.

    "Deprecated" is a status, so it counts as another heading.
    """
    upper, lower = sorted((old.headings, new.headings), key=len)
    return lower[: len(upper)] == upper and not _LOUD.search(" ".join(lower[len(upper) :]))


def _changed(
    old: Entry,
    new: Entry,
    cells: Sequence[tuple[str, str, str]],
    title: str,
    statements: _Statements,
) -> PageChange:
    if new.kind == SENTENCE or (not new.subject and new.kind == ITEM):
        return _edited(old, new, title, statements)
    labels = [_is_another_label(old, new, cell) for cell in cells]
    weights = [
        LABELS if is_label else _weight_of(cell, statements)
        for cell, is_label in zip(cells, labels, strict=True)
    ]
    loud = [cell for cell, weight in zip(cells, weights, strict=True) if weight >= 0.5] or list(
        cells
    )
    if len(cells) == 1 and not cells[0][0] and not any(labels) and LINKS < max(weights) < 0.8:
        return _edited(old, new, title, statements)
    subject, text = _subject(new, title), "; ".join(_cells(loud, new.subject))
    is_another_day = ("", old.subject, new.subject) in loud and not any(
        map(str.isalpha, new.subject)
    )
    name = _name_of(new, loud) or (_first_text(new) if is_another_day else "")
    sentence, before = _row_before_and_after(old, new, loud, title)
    return PageChange(
        CHANGED, sentence, new.quote, before, old.quote,
        max(weights, default=0.0) * share_of(new), new.match, new.order, max(weights) >= 0.8,
        subject=subject, name=name, frame=text if new.kind == ROW else "",
        told=_line(f"{subject}, {name}" if name and is_another_day else subject, [text]),
    )  # fmt: skip


def _name_of(row: Entry, cells: Sequence[tuple[str, str, str]]) -> str:
    """Return the text of a row that names it better than its number, if that didn't change."""
    if any(map(str.isalpha, row.subject)) or not row.fields:
        return ""
    name, text = row.fields[0]
    is_text = values.kind_of(text) in (values.STATUS, values.TEXT) and len(text.split()) > 1
    return shorten(text, MAX_CHOICE_LENGTH) if is_text and name not in {c[0] for c in cells} else ""


def _is_another_label(old: Entry, new: Entry, cell: tuple[str, str, str]) -> bool:
    """Return True if only the label before the same value is longer or shorter: "Default value"."""
    if cell != ("", old.text, new.text) or {old.kind, new.kind} - {ITEM, PAIR}:
        return False
    was, now = match_key(old.subject), match_key(new.subject)
    is_same = bool(old.fields) and [v for _n, v in old.fields] == [v for _n, v in new.fields]
    return is_same and (was.startswith(now) or now.startswith(was))


def _first_text(row: Entry) -> str:
    """Return the first field of a row that has words, which says what happens on its day."""
    texts = (text for _name, text in row.fields if any(map(str.isalpha, text)))
    return shorten(next(texts, ""), MAX_CHOICE_LENGTH)


def _row_before_and_after(
    old: Entry, new: Entry, cells: Sequence[tuple[str, str, str]], title: str
) -> tuple[str, str]:
    """Return a record's new and old text, each complete enough to be a fact.

    For a long record, only the fields that changed are included.
    """
    sentence = _named(new, title, _fields(new, cells))
    before = _named(old, title, _fields(old, cells))
    if max(len(sentence), len(before)) <= MAX_LENGTH:
        return sentence, before
    return (
        _line(_subject(new, title), _values_now(cells)),
        _line(_subject(old, title), _values_before(cells) or _fields(old)),
    )


def _line(subject: str, texts: Sequence[str]) -> str:
    return shorten(f"{subject}: {'; '.join(texts)}" if texts else subject, MAX_LENGTH)


def _values_now(cells: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the new values of fields, as a record states them."""
    return [
        f"{attribute(name)} {after}".strip() for name, _before, after in cells[:MAX_FIELDS] if after
    ]


def _values_before(cells: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the old values of the fields that had one."""
    had = [(name, before) for name, before, _after in cells[:MAX_FIELDS] if before]
    return [f"{attribute(name)} {before}".strip() for name, before in had]


def _cells(cells: Sequence[tuple[str, str, str]], subject: str = "") -> list[str]:
    """Return the new values, each followed by the old one."""
    texts = []
    for name, before, after in cells[:MAX_FIELDS]:
        if before and after and after == subject:
            texts.append(_("was %(was)s") % {"was": before})
            continue
        params = {"name": attribute(name), "now": after, "was": before}
        if not after:
            words = _("%(name)s removed (was %(was)s)") if name else _("removed (was %(was)s)")
        elif not before:
            words = "%(name)s %(now)s" if name else "%(now)s"
        else:
            words = _("%(name)s %(now)s (was %(was)s)") if name else _("%(now)s (was %(was)s)")
        texts.append((words % params).strip())
    return texts


def _edited(old: Entry, new: Entry, title: str, statements: _Statements) -> PageChange:
    """Return the news of a sentence that was edited.

    Another value or a negation is news, and so are words that the page didn't have before. An edit
    that only uses the page's own words is a rewording, such as another form of address. A name that
    was replaced throughout the page is new once.
    """
    before, after = old.text, new.text
    if statements.are_numbered and _CLAUSE.match(before) and _CLAUSE.match(after):
        before, after = (f"1. {unnumbered(text)}" for text in (before, after))
    kinds = values.changed_kinds(before, after)
    come = values.typed_values(after) - values.typed_values(before)
    gone = values.typed_values(before) - values.typed_values(after)
    are_counts = {kind for kind, _v in come + gone} <= {values.NUMBER}
    is_touched = are_counts and _is_slight_edit(before, after) and not statements.lost(before)
    denied = bool(_NOT.search(before)) != bool(_NOT.search(after))
    if _is_renumbered(before, after) or statements.are_only_renamed(before, after):
        weight = 0.3
    elif kinds or denied:
        weight = 0.85
    elif (come and not is_touched) or _is_over(before, after):
        weight = 0.7
    elif (
        values.addresses(before) != values.addresses(after)
        or (gone and not (is_touched or _are_same_amounts(before, after)))
        or _are_other_amounts(before, after)
        or values.are_other_measures(before, after)
        or _are_other_periods(before, after)
        or _are_other_bounds(before, after)
        or _swaps_and_for_or(before, after)
    ):
        weight = 0.6
    elif _is_new_beside(_left_out(after, before), before):
        weight = 0.55
    elif statements.are_reworded:
        weight = 0.35
    elif statements.replaced_once(before, after) or _is_another_character(before, after):
        weight = 0.55
    elif is_touched and not _is_another_rule(before, after):
        weight = 0.3
    else:
        is_news = statements.lack(after) or statements.lost(_left_out(before, after))
        is_more = _is_another_rule(before, after) or _has_new_clause(before, after, statements)
        least = ENOUGH if is_more else 0.35
        weight = 0.55 if is_news else least
    weight *= 0.5 if _announces(new) and not (kinds or _are_other_amounts(before, after)) else 1.0
    weight += 0.15 * bool(set(_LOUD.findall(after)) - set(_LOUD.findall(before)))
    if weight * share_of(new) >= ENOUGH:
        statements.add(after)
    return PageChange(
        CHANGED, words_of(new, title), new.quote, words_of(old, title), old.quote,
        weight * share_of(new), new.match, new.order, bool(kinds),
    )  # fmt: skip


def _swaps_and_for_or(before: str, after: str) -> bool:
    """Return True if only an "and" became an "or", or the other way round."""
    old, new = (text.casefold().split() for text in (before, after))
    if len(old) != len(new):
        return False
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    return len(pairs) == 1 and any(
        one in _ALL_OF and other in _ONE_OF for one, other in (pairs[0], pairs[0][::-1])
    )


def _is_another_character(before: str, after: str) -> bool:
    """Return True if a short Chinese or Japanese sentence has other characters in one place.

    For example, another day (月曜日, 火曜日), number (三楼, 四楼) or state (無料, 有料). Kana are particles.
    """
    if not is_wide_text(after) or max(len(before), len(after)) > MAX_CHOICE_LENGTH:
        return False
    start = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), -1)
    if start < 0:
        return False
    least = min(len(before), len(after)) - start
    ending = next((n for n in range(least) if before[-1 - n] != after[-1 - n]), least)
    old, new = before[start : len(before) - ending], after[start : len(after) - ending]
    return all(0 < len(part) <= 2 and _IDEOGRAPHS.fullmatch(part) for part in (old, new))


def _is_renumbered(before: str, after: str) -> bool:
    """Return True if only the numbers of other sections, articles or paragraphs differ."""
    old, new = (_REFERRED.sub("§", text) for text in (before, after))
    return match_key(old) == match_key(new) and "§" in old


def _is_slight_edit(before: str, after: str) -> bool:
    """Return True if nearly all long words of a sentence are the same. Short texts never are."""
    old, new = (Counter(_words_that_count(text)) for text in (before, after))
    most = max((old - new).total(), (new - old).total())
    return most < SLIGHT * max(old.total(), new.total())


def _words_that_count(text: str) -> list[str]:
    if is_wide_text(text):
        return list(terms(text))
    return [word for word in match_key(text).split() if len(word) >= MIN_WORD]


def _is_another_rule(before: str, after: str) -> bool:
    """Return True if a rule gained a word. In numbered clauses, each word counts.

    In other sentences about what must or may be done, a word counts if it only narrows or widens
    the rule, and nothing else was reworded: "members elect", "voting members elect".
    """
    if (modals := _modals(after)) and (known := _modals(before)) and modals != known:
        return True
    old, new = match_key(before).split(), match_key(after).split()
    if not (_CLAUSE.match(before) and _CLAUSE.match(after)):
        if not (_RULE.search(before) and _RULE.search(after)):
            return False
        longer, shorter = (new, old) if len(new) > len(old) else (old, new)
        left = iter(longer)
        if len(longer) - len(shorter) > MAX_NARROWED or not all(word in left for word in shorter):
            return False
        old, new = shorter, longer
    return any(len(word) >= LONG_CLAUSE_WORD and word not in old for word in new)


def _has_new_clause(before: str, after: str, statements: _Statements) -> bool:
    """Whether a sentence gained several words in a row that the last version didn't have together."""
    old, new = _words_that_count(before), _words_that_count(after)
    if max(len(old), len(new)) > MAX_WORDS_COMPARED:  # comparing them takes quadratic time
        return False
    parts = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, _i, _j, start, end in parts:
        least = MIN_CLAUSE - (tag == "insert" and len(parts) <= MIN_CLAUSE)
        if tag == "equal" or end - start < least:
            continue
        come = [w for w in new[start:end] if not any(_is_form(w, other) for other in old)]
        if len(come) >= least and not statements.have_together(come):
            return True
    return False


def _modals(text: str) -> set[str]:
    """Return the words by which a text allows, requires, forbids or recommends something."""
    return {found.casefold() for found in _MODAL.findall(text)}


def _is_over(before: str, after: str) -> bool:
    """Whether something was to happen and has: "support will end in May", "support ended in May"."""
    fewer = len(_FUTURE.findall(before)) > len(_FUTURE.findall(after))
    return fewer and fuzz.token_set_ratio(before, after) >= SAME_EVENT


def _left_out(before: str, after: str) -> str:
    """Return the part of an enumeration that a sentence left out: "A, B and C", "A and C"."""
    words = before.split()
    places = [n for n, word in enumerate(words) if word.casefold() not in _CONJUNCTIONS]
    old = [words[n].rstrip(",;、") for n in places]
    new = [w.rstrip(",;、") for w in after.split() if w.casefold() not in _CONJUNCTIONS]
    size = len(old) - len(new)
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(new))
    if not 0 < size <= MAX_LEFT_OUT or old[start + size :] != new[start:]:
        return ""
    first, last = places[start], places[start + size - 1]
    # A single word after a comma isn't a part: "tools, various ropes".
    around = {word.casefold() for word in words[max(first - 1, 0) : last + 2]}
    is_part = words[last].endswith((",", ";", "、")) or not around.isdisjoint(_CONJUNCTIONS)
    return " ".join(old[start : start + size]) if is_part else ""


def _is_new_beside(part: str, text: str) -> bool:
    """Return True if an added part of an enumeration isn't another form of a word of the text."""
    words = [word for word in match_key(part).split() if len(word) >= MIN_WORD - 1]
    known = match_key(text).split()
    return bool(words) and not any(_is_form(word, other) for word in words for other in known)


def _are_same_amounts(before: str, after: str) -> bool:
    """Return True if the numbers are the same, in digits or in words: "2 years", "two years"."""
    old, new = (Counter(one.value for one in values.amounts(match_key(t))) for t in (before, after))
    return bool(old) and old == new


def _are_other_amounts(before: str, after: str) -> bool:
    """Return True if a sentence has another number in words: "two years", "three years"."""
    if _are_same_amounts(before, after):
        return False
    old, new = (Counter(values.amounts(_WITH_DIGIT.sub(" ", text))) for text in (before, after))
    return bool(new - old)


def _are_other_periods(before: str, after: str) -> bool:
    """Return True if one length of time was replaced by another: "per day", "per month"."""
    old, new = values.periods(before), values.periods(after)
    return bool(old - new and new - old)


def _are_other_bounds(before: str, after: str) -> bool:
    """Whether a number counts itself now, or no longer does: "less than 500", "500 or less"."""
    old, new = (
        Counter(side for side, bound in _BOUNDED for _found in bound.findall(text))
        for text in (before, after)
    )
    return bool(old and new) and old != new


# --- weight ---


def _weight_of(cell: tuple[str, str, str], statements: _Statements) -> float:
    """Return the weight of a changed field.

    A text is news if it has other values, or words that the page didn't have. A name that was
    replaced in the lists and texts of many fields is news once.
    """
    name, before, after = cell
    if name and _is_aside_column(name):
        return 0.2
    if statements.are_only_renamed(before, after):
        return 0.3
    kinds = {values.kind_of(before), values.kind_of(after)} - {values.NONE}
    if values.LINK in kinds and kinds <= {values.LINK, values.STATUS, values.TEXT}:
        return LINKS  # another address, or a name for it
    is_value = kinds & VALUES or values.are_other_measures(before, after)
    if is_value and not _is_told_otherwise(before, after):
        return 1.0
    if statements.have_replaced(before, after):
        return 0.3
    is_short = len(before) + len(after) <= 2 * MAX_CHOICE_LENGTH
    if is_short and values.states(before) != values.states(after):
        return 0.9
    if kinds <= {values.STATUS} or name in statements.choices:
        return 0.9
    old, new = before.split("; "), after.split("; ")
    parts = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
    if len(old) == len(new) > 1 == len(parts):  # one part of a list has another value
        return _weight_of((name, *parts[0]), statements)
    if values.LIST in kinds:  # a date with a time is also a date
        if _are_other_dates(before, after) or _are_other_numbers(before, after):
            return 1.0
        return 0.7 if _are_other_versions(before, after) else 0.3
    if values.changed_kinds(before, after) or _are_other_periods(before, after):
        return 0.8
    is_other = bool(name) and (_is_another_choice(before, after) or _has_grown(before, after))
    is_news = is_other or statements.lack(after) or statements.replaced_once(before, after)
    return 0.5 if is_news or not (before and after) else 0.35


def _is_another_choice(before: str, after: str) -> bool:
    """Whether a short field has another value, though its words may be elsewhere in the table.

    A word more beside the same number doesn't count, unless it's one more alternative.
    """
    parts = [set(map(match_key, _ENUMERATION.split(text))) for text in (before, after)]
    if parts[0] < parts[1] or (parts[1] < parts[0] and parts[1]):
        return max(len(part) for part in parts[0] | parts[1]) <= MAX_CHOICE_LENGTH
    old, new = _long_words(before), _long_words(after)
    if max(len(before), len(after)) > MAX_CHOICE_LENGTH or old == new:
        return False
    return bool(old - new) or not _is_told_otherwise(before, after)


def _has_grown(before: str, after: str) -> bool:
    """Return True if a field only gained or lost a sentence, though its words may be elsewhere."""
    old, new = (Counter(match_key(text).split()) for text in (before, after))
    come, gone = (new - old).total(), (old - new).total()
    return not (come and gone) and come + gone >= FEW_WORDS


def _is_told_otherwise(before: str, after: str) -> bool:
    """Whether a field has the same values in other words. "EOL" before a date is more than that."""
    if values.are_other_measures(before, after):
        return False
    if not any(char.isalpha() for char in before + after):
        return False  # only numbers, and finding the values in long ones takes time
    old, new = values.typed_values(before), values.typed_values(after)
    capitals = (set(_CAPITALS.findall(text)) for text in (before, after))
    numbers = (_DIGITS.findall(text) for text in (before, after))
    return bool(old) and old == new and _all_same(capitals) and _all_same(numbers)


def _all_same(found: Iterable[Collection[str]]) -> bool:
    first, *others = found
    return all(one == first for one in others)


def _are_other_versions(before: str, after: str) -> bool:
    """Return True if a list of versions gained or lost some."""
    old, new = values.typed_values(before), values.typed_values(after)
    return {kind for kind, _value in (old - new) + (new - old)} == {values.VERSION}


def _are_other_numbers(before: str, after: str) -> bool:
    """Return True if both only have numbers: "3,000", "5,000 / 6,500"."""
    return not any(char.isalpha() for char in before + after) and (
        values.numbers(before) != values.numbers(after)
    )


def _are_other_dates(before: str, after: str) -> bool:
    old, new = values.typed_values(before), values.typed_values(after)
    return any(kind == values.DATE for kind, _value in (old - new) + (new - old))


def share_of(entry: Entry) -> float:
    """Return the share of its weight that an entry keeps under its headings."""
    share = 1.0
    nearest = entry.headings[-1] if entry.headings else ""
    if _is_aside(nearest, [entry]):
        share = 0.5
    if entry.kind in (PAIR, ROW, ITEM) and (
        _SEE_ALSO.fullmatch(entry.subject)
        or _TECHNICAL.fullmatch(attribute(entry.subject))
        or _is_setting(entry)
    ):
        share = 0.3
    if any(_TECHNICAL.fullmatch(attribute(heading)) for heading in entry.headings):
        share = 0.3
    if _IMAGE.search(entry.subject):
        share = 0.3
    if entry.kind == ITEM and any(_CONTENTS.fullmatch(heading) for heading in entry.headings):
        share = 0.3
    if entry.kind == SENTENCE and _is_byline(entry.text):
        share = 0.5
    if entry.subject.startswith("@") or entry.text.startswith("http"):
        share *= 0.5
    return share


def _is_byline(text: str) -> bool:
    """Return True if a sentence only lists people, as authors of the page or of a cited work."""
    if (named := _PEOPLE.match(text)) and text[named.end() :].startswith(":"):
        return True
    parts = _ENUMERATION.split(text)
    names = sum(_FULL_NAME.fullmatch(part) is not None for part in parts)
    return len(_INITIALS.findall(text)) >= FEW_NAMES or (
        len(parts) >= FEW_NAMES and names >= MAX_NAMES * len(parts)
    )


def _is_aside(heading: str, entries: Sequence[Entry]) -> bool:
    """Return True if a section has references and thanks, or only a list of people."""
    is_list = all(entry.kind in (ITEM, PAIR) for entry in entries)
    is_of_people = is_list and _PEOPLE.search(heading) and word_count(heading) <= MAX_TITLE_WORDS
    is_credits = bool(_CREDITS.fullmatch(heading)) and not any(
        values.numbers(entry.text) for entry in entries
    )
    return bool(_APPENDIX.search(heading) or is_of_people or is_credits)


def _is_setting(entry: Entry) -> bool:
    """Whether a pair describes the page or its display: `latestColumn: false`, `stale_after: 8`."""
    if entry.kind != PAIR or entry.headings:
        return False
    if _SUMMARY.fullmatch(entry.subject) or _DISPLAY.fullmatch(attribute(entry.subject)):
        return True
    if entry.subject.casefold() == "title":  # of the page, unless it has a version or a date
        return not values.typed_values(entry.text)
    if not _CAMEL.search(entry.subject):
        return False
    return values.kind_of(entry.fields[0][1]) in (values.STATUS, values.NUMBER, values.NONE)


# --- groups ---


@dataclass(frozen=True)
class _KnownHeadings:
    """The headings of the last version: their paths, how often each occurs, and their versions."""

    paths: frozenset[tuple[str, ...]]
    counts: Counter[str]
    statements: _Statements
    versions: frozenset[tuple[int, ...]]
    latest: tuple[int, ...]  # empty if fewer than three headings name a version
    kept: frozenset[tuple[str, ...]]  # paths of this version with statements of the last one
    texts: frozenset[str] = frozenset()

    def is_latest_of_branch(self, version: tuple[int, ...]) -> bool:
        """Whether a version follows all others of its branch, such as 1.26.9 of 1.26 or of 1."""
        branches = (
            [one for one in self.versions if one[:depth] == version[:depth]]
            for depth in range(1, len(version))
        )
        return any(branch and version > max(branch) for branch in branches)

    @classmethod
    def of(cls, old: Sequence[Entry], diff: PageDiff) -> _KnownHeadings:
        paths = {entry.path for entry in old}
        prefixes = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
        versions = versions_of(old)
        latest = max(versions) if len(versions) >= FEW_VERSIONS else ()
        counts = Counter(path[-1] for path in prefixes)
        said = {*(entry.match for entry in old), *(path[-1] for path in prefixes)}
        statements = _Statements(said, _columns_of_choices(old))
        stayed = [*diff.unchanged, *(one.new for one in diff.differences if one.new and one.old)]
        kept = {entry.path[:n] for entry in stayed for n in range(1, len(entry.path) + 1)}
        return cls(
            frozenset(prefixes),
            counts,
            statements,
            frozenset(versions),
            latest,
            frozenset(kept),
            frozenset(heading for entry in old for heading in entry.headings),
        )


class _Statements:
    """The statements and headings of the last version, by their words."""

    def __init__(self, said: Iterable[str], choices: Collection[str] = ()) -> None:
        self.choices = choices
        self._words = [frozenset(text.split()) for text in said]
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self._words):
            for word in words:
                self._holding[word].append(place)
        self._sorted = sorted(self._holding)
        self._replaced: set[tuple[frozenset[str], frozenset[str]]] = set()
        self.now: _Statements | None = None
        self.are_numbered = False
        self.are_reworded = False
        self._fewer: Counter[str] = Counter()
        self._renamed: list[tuple[str, str]] = []

    def note_renamed(self, edits: Sequence[tuple[str, str]]) -> None:
        """Find what was replaced by the same throughout a text without spaces: 帐号 by 账号."""
        replaced: Counter[tuple[str, str]] = Counter()
        for before, after in edits[:MAX_EDITS]:
            replaced.update(set(_replaced_parts(before, after)))
        self._renamed = [pair for pair, times in replaced.items() if times >= FEW_RENAMED]

    def are_only_renamed(self, before: str, after: str) -> bool:
        """Whether two texts without spaces differ only by what was replaced throughout the page."""
        if not is_wide_text(after):
            return False
        old, new = _squeezed(before), _squeezed(after)
        for was, now in self._renamed:
            old, new = old.replace(was, now), new.replace(was, now)
        return old == new

    def lost(self, text: str) -> bool:
        """Return True if the page now lacks a longer word that a text of the last version has."""
        return self.now is not None and self.now.lack(text)

    def lack(self, text: str) -> bool:
        """Return True if they don't have one of a text's longer words, in any form."""
        if is_wide_text(text):
            return len(set(terms(text)) - self._pairs) >= MIN_PAIRS
        return any(not self._has_form_of(word) for word in _long_words(text))

    def have_together(self, words: Collection[str]) -> bool:
        """Return True if one of them has all of these words."""
        rarest = min(words, key=lambda word: len(self._holding.get(word, ())))
        holding = self._holding.get(rarest, ())[:MAX_HOLDING]
        return any(self._words[place].issuperset(words) for place in holding)

    def have_replaced(self, before: str, after: str) -> bool:
        """Return True if the same words were replaced by the same in another field."""
        old, new = (frozenset(_PARTS.split(text.casefold())) for text in (before, after))
        replaced = old - new, new - old
        if not all(replaced) or not old & new:
            return False
        is_known = replaced in self._replaced
        self._replaced.add(replaced)
        return is_known

    def count(self, before: Iterable[Entry], after: Iterable[Entry]) -> None:
        """Count how much less often the page has each word now."""
        for entries, sign in ((before, 1), (after, -1)):
            for entry in entries:
                for word in entry.match.split():
                    self._fewer[word] += sign

    def replaced_once(self, before: str, after: str) -> bool:
        """Whether a text has other words in place of some that the page uses elsewhere as before.

        A word that is gone in other places too was renamed.
        """
        if is_wide_text(after):  # pairs of characters aren't words
            return False
        old, new = (Counter(_words_that_count(text)) for text in (before, after))
        gone, come = _others(old - new, new - old), _others(new - old, old - new)
        return bool(gone and come) and all(self._fewer[word] <= MAX_REPLACED for word in old - new)

    def add(self, text: str) -> None:
        """Add the words of a text to those that they have."""
        for word in _long_words(text):
            insort(self._sorted, word)

    @cached_property
    def _pairs(self) -> frozenset[str]:
        return frozenset(pair for word in self._holding for pair in terms(word))

    def _has_form_of(self, word: str) -> bool:
        place = bisect_left(self._sorted, word)
        return any(_is_form(word, other) for other in self._sorted[max(place - 1, 0) : place + 1])

    def have(self, change: PageChange) -> bool:
        """Whether one of them has all words of a new text and few others, or is the same "#12"."""
        text = change.sentence
        words = set(match_key(text).split())
        if len(words) < REPEATED:
            return False
        rarest = min(words, key=lambda word: len(self._holding.get(word, ())))
        holding = (self._words[n] for n in self._holding.get(rarest, ())[:MAX_HOLDING])
        if any(words <= said and len(said) <= 2 * len(words) for said in holding):
            return True
        of_headings = {n for heading in change.headings for n in _NUMBERED.findall(heading)}
        numbers = set(_NUMBERED.findall(text)) & words - of_headings
        return any(
            len(self._words[n] & words) >= 0.6 * len(self._words[n]) >= 0.6 * REPEATED
            for number in numbers
            for n in self._holding.get(number, ())[:MAX_HOLDING]
        )


def _squeezed(text: str) -> str:
    """Return a text without spaces and punctuation, and without the zeros of 08 日."""
    return ZEROS_OF_DAY.sub("", match_key(text).replace(" ", ""))


def _replaced_parts(before: str, after: str) -> Iterator[tuple[str, str]]:
    old, new = _squeezed(before), _squeezed(after)
    if max(len(old), len(new)) > MAX_WORDS_COMPARED:
        return
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        was, now = old[a:b], new[c:d]
        if (
            tag == "replace"
            and max(len(was), len(now)) <= MAX_RENAMED_LENGTH
            and not (_DIGIT.search(was) or _DIGIT.search(now))
        ):
            yield was, now


def _columns_of_choices(entries: Sequence[Entry]) -> set[str]:
    """Return the columns in which most rows share their value with another one, such as a status."""
    cells: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if entry.kind == ROW:
            for name, value in entry.fields:
                if name and value and len(value) <= MAX_CHOICE_LENGTH:
                    cells[name][match_key(value)] += 1
    return {
        name
        for name, found in cells.items()
        if found.total() >= MIN_ROWS
        and 2 * sum(count for count in found.values() if count > 1) >= found.total()
    }


def _long_words(text: str) -> set[str]:
    return {word for word in match_key(values.without_links(text)).split() if len(word) >= MIN_WORD}


def _others(words: Iterable[str], others: Collection[str]) -> list[str]:
    """Return the words that aren't other forms or spellings of any of the others, even joined."""
    joined = "".join(others)
    return [
        word
        for word in words
        if word not in joined
        and not any(
            _is_form(word, other) or word in other or fuzz.ratio(word, other) >= SPELT
            for other in others
        )
    ]


def _is_form(word: str, other: str) -> bool:
    """Return True if two words begin alike for most of the shorter one."""
    shorter = min(len(word), len(other))
    same = Prefix.similarity(word, other)
    return word == other or same >= max(MIN_FORM, FORM * shorter)


def _new_root(difference: Difference, known: _KnownHeadings, diff: PageDiff) -> tuple[str, ...]:
    """Return the highest heading above an added entry that the last version didn't have."""
    entry = difference.new
    if difference.kind != ADDED or entry is None or not known.paths:
        return ()
    renamed = set(diff.renamed.values())
    for depth in range(1, len(entry.path) + 1):
        path = entry.path[:depth]
        is_version = bool(version_of(entry.headings[depth - 1 : depth]))
        if path in known.kept and not is_version:  # renamed, or put above all other headings
            continue
        # The heading of a known version may be written differently now.
        if path in renamed or (
            known.latest and version_of(entry.headings[depth - 1 : depth]) in known.versions
        ):
            return ()
        if path not in known.paths:
            return path
    return ()


def _section(
    root: tuple[str, ...], members: Sequence[Difference], title: str, known: _KnownHeadings
) -> list[PageChange]:
    """Return an entirely new section: a line for itself, and one for each of its parts.

    A part is an entry, or everything below a heading that is itself a statement, such as the title
    of a change in a changelog.
    """
    entries = [member.new for member in members if member.new is not None]
    first = entries[0]
    depth = _depth_of(root, entries)
    heading = first.headings[depth]
    parts = _parts(entries, depth, known)
    changes: list[PageChange] = []
    for path, below in parts.items():
        if path != below[0].path[: len(path)]:
            changes.append(_placed(_came(below[0], title), below[0]))
            continue
        first_part, *rest = _chunks(below)
        changes.append(_part(path, first_part, title))
        rest_parts = [_part(path, some, title) for some in rest]
        # References and thanks weigh even less.
        changes += [replace(one, weight=min(one.weight, WEIGHT_OF_REST)) for one in rest_parts]
    if len(entries) < 3 and not values.typed_values(heading):
        return [_below(heading, changes[0]), *changes[1:]]
    number = ngettext("%(n)d entry", "%(n)d entries", len(parts)) % {"n": len(parts)}
    lead = entries[0].text if entries[0].kind == SENTENCE and len(entries[0].text) < 160 else number
    above = first.headings[depth - 1] if depth else title
    name = heading if match_key(above) in match_key(heading) else f"{above}, {heading}"
    weight = 0.9 * (0.5 if _is_aside(heading, entries) else 1.0)
    head = PageChange(
        NEW, shorten(f"{name}: {lead}", MAX_LENGTH), first.quote, weight=weight,
        key="/".join(root), order=first.order, is_typed=bool(values.typed_values(heading)),
        headings=first.headings[: depth + 1],
    )  # fmt: skip
    ranked: defaultdict[tuple[str, ...], list[PageChange]] = defaultdict(list)
    for one in sorted(changes, key=lambda one: (-one.weight, one.order)):
        ranked[() if known.latest else one.path[: depth + 2]].append(one)
    best = [one for some in ranked.values() for one in some[:MAX_IN_SECTION]]
    kept = [one for one in best if one.key != first.match or lead == number]
    kept.sort(key=lambda one: one.order)
    left = {one.key for some in ranked.values() for one in some[MAX_IN_SECTION:]}
    in_short = _in_short([entry for entry in entries if entry.match in left], heading)
    heads: list[PageChange] = []
    if head.is_typed and lead == number and all(one.kind == ITEM for one in kept):
        # If the entries of a version name it, it needs no line for itself.
        release = match[1] if (match := _RELEASE.match(heading)) else heading
        said = (
            one.sentence.removeprefix(f"{heading}, ")
            .removeprefix(f"{release}: ")
            .removeprefix(f"{release}, ")
            for one in kept
        )
        kept = [
            replace(one, sentence=shorten(f"{name}: {text}", MAX_LENGTH))
            for one, text in zip(kept, said, strict=True)
        ]
    elif lead == number and kept and len(kept) == len(changes) and not _is_release(heading):
        # All of it follows, so the heading goes in front of the first statement.
        kept[0] = _below(heading, kept[0])
    else:
        heads = [head]
    # An entirely new list isn't cut to a few items, unlike one that grew.
    return [
        *heads,
        *(
            replace(one, weight=min(one.weight, 0.8), kind=ROW if one.kind == ITEM else one.kind)
            for one in kept
        ),
        *in_short,
    ]


def _in_short(entries: Sequence[Entry], heading: str) -> list[PageChange]:
    """Return the rows of a new section that have no line of their own, as a few lists.

    Rows whose names begin with the same words are in one list: "Removed: julia 1.3; pgi 17.10".
    """
    lists: defaultdict[str, list[tuple[Entry, str]]] = defaultdict(list)
    for one in entries:
        if one.kind not in (ROW, PAIR) or share_of(one) < 1:
            continue
        kind, comma, name = one.subject.partition(", ")
        kind, name = (kind, name) if comma else ("", one.subject)
        said = (value for _name, value in one.fields if value and value not in one.subject)
        lists[kind].append((one, shorten(" ".join([name, *said]), MAX_IN_LIST_LENGTH)))
    results: list[PageChange] = []
    for kind, rows in lists.items():
        above = ", ".join(filter(None, [shorten(heading, 80), kind]))
        for some in _chunked(rows):
            first = some[0][0]
            sentence = f"{above}: {'; '.join(said for _one, said in some)}"
            change = PageChange(
                NEW, sentence, _joint_quote([one for one, _said in some]), weight=WEIGHT_OF_REST,
                key=match_key(sentence), order=first.order,
            )  # fmt: skip
            results.append(_placed(change, first))
    return results[:MAX_LISTS]


def _chunked(rows: Sequence[tuple[Entry, str]]) -> Iterator[list[tuple[Entry, str]]]:
    """Yield as many rows at a time as fit in a sentence."""
    some: list[tuple[Entry, str]] = []
    for row in rows:
        if some and sum(len(said) + 2 for _one, said in [*some, row]) > MAX_LENGTH - 100:
            yield some
            some = []
        some.append(row)
    yield some


def _joint_quote(entries: Sequence[Entry]) -> str:
    """Return the quotes of entries that follow each other on the page, or else the first."""
    orders = [entry.order for entry in entries]
    is_run = orders == list(range(orders[0], orders[0] + len(orders)))
    return (
        " ".join(entry.quote for entry in entries)[:MAX_QUOTE_LENGTH]
        if is_run
        else entries[0].quote
    )


def _gained_columns(diff: PageDiff, title: str) -> list[PageChange]:
    """Return a line for each column that a table gained, such as a new plan of a price list."""
    had: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    rows: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for old, new in diff.pairs:
        if old.kind == new.kind == ROW:
            had[new.path].update(name for name, _value in old.fields)
            rows[new.path].append(new)
    results: list[PageChange] = []
    for path, of_table in rows.items():
        gained: dict[str, list[Entry]] = {}
        for row in of_table:
            for name, value in row.fields:
                if value and name and name not in had[path] and name not in diff.columns:
                    gained.setdefault(name, []).append(row)
        for name, having in gained.items():
            if len(having) >= MIN_CELLS and not _is_aside_column(name):
                cells = [f"{row.subject} {dict(row.fields)[name]}" for row in having]
                subject = f"{shorten(_context(having[0], title), 80)}, {name}"
                change = PageChange(
                    NEW, _line(subject, cells), having[0].quote, weight=0.7, key=match_key(subject),
                    order=having[0].order, subject=subject,
                )  # fmt: skip
                results.append(_placed(change, having[0]))
    return results


def _below(heading: str, change: PageChange) -> PageChange:
    """Return a change whose sentence has a heading in front."""
    if match_key(heading) in match_key(change.sentence):
        return change
    named = shorten(heading, 80).rstrip(":：")
    return replace(change, sentence=shorten(f"{named}: {change.sentence}", MAX_LENGTH))


def _chunks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the paragraphs and lists below a heading, in pieces that fit into one line each."""
    chunks: list[list[Entry]] = []
    for entry in entries:
        last = chunks[-1] if chunks else []
        size = sum(len(one.text) for one in last) + len(entry.text)
        is_same = bool(last) and entry.kind == last[-1].kind and entry.kind in (ITEM, SENTENCE)
        is_next = is_same and (entry.kind == ITEM or entry.order == last[0].order)
        is_led = bool(last) and entry.kind == ITEM and last[-1].text.endswith((":", "："))
        if last and (is_led or (is_next and size <= MAX_LEAD_LENGTH)):
            last.append(entry)
        else:
            chunks.append([entry])
    return chunks


def _parts(
    entries: Sequence[Entry], depth: int, known: _KnownHeadings
) -> dict[tuple[str, ...], list[Entry]]:
    """Return the parts of a new section. If it has many, the short items of a list are one."""
    parts: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    listed: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        place = _stated_heading(entry, depth, known) or (str(entry.order), entry.match)
        parts[place].append(entry)
        is_short = entry.kind == ITEM and len(entry.text) <= MAX_CHOICE_LENGTH
        listed[entry.path if is_short and place != entry.path[: len(place)] else place].append(
            entry
        )
    return listed if len(parts) > MAX_IN_SECTION else parts


def _is_release(heading: str) -> bool:
    kinds = {kind for kind, _value in values.typed_values(heading)}
    return bool(kinds & {values.VERSION, values.DATE})


def _collapse_removed_sections(found: Sequence[PageChange], diff: PageDiff) -> list[PageChange]:
    """Report a removed table or list by its first entries and the number of the rest.

    A table isn't news if another one that stayed has nearly all of its subjects with their values,
    such as a copy in another language.
    """
    remain = {entry.path for entry in diff.unchanged}
    remain |= {one.new.path for one in diff.differences if one.new is not None}
    gone: defaultdict[tuple[str, ...], list[PageChange]] = defaultdict(list)
    for change in found:
        if change.status == GONE and change.kind in (ROW, ITEM) and change.path not in remain:
            gone[change.path].append(change)
    dropped: set[int] = set()
    last: dict[int, PageChange] = {}
    removed = [one.old for one in diff.differences if one.old is not None and one.new is None]
    tables = _tables_that_stayed(diff.pairs, removed)
    left = {(row.path, row.key): row for row in removed if row.kind == ROW and row.key in tables}
    for path, members in gone.items():
        rows = {match_key(member.subject) for member in members if member.kind == ROW}
        lost = [left[path, row] for row in rows if (path, row) in left]
        if len(rows) >= MIN_ROWS and _is_copy(lost, len(rows), tables):
            dropped |= {id(member) for member in members}
            continue
        rest = members[MAX_OF_FRAME:]
        if rest:
            dropped |= {id(one) for one in rest}
            last[id(members[MAX_OF_FRAME - 1])] = _with_more(members[MAX_OF_FRAME - 1], len(rest))
    return [last.get(id(one), one) for one in found if id(one) not in dropped]


def _without_translations(found: Sequence[PageChange], diff: PageDiff) -> list[PageChange]:
    """Report a removed part in another language than what remains as one change."""
    now = [*diff.unchanged, *(one.new for one in diff.differences if one.new is not None)]
    remain = {entry.path[:depth] for entry in now for depth in range(1, len(entry.path) + 1)}
    parts: defaultdict[tuple[str, ...], list[PageChange]] = defaultdict(list)
    for change in found:
        depths = range(1, len(change.path) + 1) if change.status == GONE else ()
        root = next((change.path[:n] for n in depths if change.path[:n] not in remain), None)
        if root is not None:
            parts[root].append(change)
    dropped: set[int] = set()
    first: dict[int, PageChange] = {}
    languages: dict[int, set[str]] = {}
    for root, members in parts.items():
        prose = " ".join(member.before_quote for member in members if member.kind == SENTENCE)
        if len(members) < MIN_TRANSLATED or len(prose) < MIN_PROSE:
            continue
        if (depth := len(root)) not in languages:
            languages[depth] = _languages_of(now, depth)
        if languages[depth] and language_of(prose) not in languages[depth]:
            lead = members[0]
            heading = lead.headings[len(root) - 1]
            text = lead.sentence.removeprefix(f"{heading}, ").removeprefix(f"{heading}: ")
            dropped |= {id(one) for one in members[1:]}
            lead_now = replace(lead, sentence=shorten(f"{heading}: {text}", MAX_LENGTH), weight=0.8)
            first[id(lead)] = _with_more(lead_now, len(members) - 1)
    return [first.get(id(one), one) for one in found if id(one) not in dropped]


def _languages_of(entries: Sequence[Entry], depth: int) -> set[str]:
    """Return the languages of the prose of a page and of its sections with enough prose.

    The page is sampled at its beginning, middle and end, because a menu can be in another language.
    """
    sections: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: (one.order, one.part)):
        if entry.kind in (SENTENCE, PARAGRAPH):
            sections[entry.path[:depth]].append(entry.text)
    texts = [" ".join(section) for section in sections.values()]
    whole, third = " ".join(texts), MAX_PROSE // 3
    middle = max(third, (len(whole) - third) // 2)
    last = max(middle + third, len(whole) - third)
    sample = whole[:third] + whole[middle : middle + third] + whole[last:]
    return {language_of(text) for text in (sample, *texts) if len(text) >= MIN_PROSE}


def _tables_that_stayed(
    pairs: Sequence[tuple[Entry, Entry]], removed: Sequence[Entry]
) -> dict[str, list[tuple[tuple[str, ...], Entry]]]:
    """Return the rows of tables that stayed, in both versions, by subject with their table's path.

    A row that such a table lost counts too: the copy of the table has lost it in the same way.
    """
    tables: defaultdict[str, list[tuple[tuple[str, ...], Entry]]] = defaultdict(list)
    stayed = {old.path for old, _new in pairs if old.kind == ROW}
    lost = [(row, row) for row in removed if row.kind == ROW and row.path in stayed]
    for old, new in (*pairs, *lost):
        if old.kind == new.kind == ROW and len(tables[old.key]) < MAX_HOLDING:
            tables[old.key] += [(old.path, old), (old.path, new)]
    return tables


def _is_copy(
    lost: Sequence[Entry],
    number: int,
    tables: Mapping[str, Sequence[tuple[tuple[str, ...], Entry]]],
) -> bool:
    """Whether one table that stayed has nearly all subjects of a removed one, and its values.

    A row without numbers that has been translated shares no value, so half of the rows must.
    """
    named: Counter[tuple[str, ...]] = Counter()
    same: Counter[tuple[str, ...]] = Counter()
    other: Counter[tuple[str, ...]] = Counter()
    for row in lost:
        found: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
        for place, entry in tables[row.key]:
            if place != row.path:
                found[place].append(entry)
        for place, entries in found.items():
            has_values = any(_has_values_of(entry, row) for entry in entries)
            named[place] += 1
            same[place] += has_values
            other[place] += not has_values and bool(_numbers_in(row))
    return any(
        count >= SAME_SUBJECTS * number
        and 2 * same[place] >= number
        and other[place] <= (1 - SAME_SUBJECTS) * number
        for place, count in named.items()
    )


def _has_values_of(new: Entry, old: Entry) -> bool:
    """Whether a row has the numbers of another about the same, or half of its cells if it has none.

    Text in another language is other text, but its numbers are the same.
    """
    counts, found = _numbers_in(old), _numbers_in(new)
    ours, theirs = ({v for _n, v in entry.fields if v} for entry in (new, old))
    return counts <= found if counts else 2 * len(ours & theirs) >= max(1, len(theirs))


def _numbers_in(row: Entry) -> Counter[str]:
    values_of_row = {value for _name, value in row.fields if value}
    return Counter(number for value in values_of_row for number in values.numbers(value))


def _with_more(change: PageChange, number: int) -> PageChange:
    more = ngettext("and %(n)d more like this", "and %(n)d more like these", number)
    more = f" ({more % {'n': number}})"
    return replace(
        change, sentence=change.sentence + more, told=change.told + more if change.told else ""
    )


def _depth_of(root: tuple[str, ...], entries: Sequence[Entry]) -> int:
    """Return the depth of a section's heading.

    If "1.14" only has "1.14.0 - 25 June" below it, that is the heading.
    """
    depth = len(root)
    headings, path = entries[0].headings, entries[0].path
    while (
        depth < len(path)
        and all(entry.path[: depth + 1] == path[: depth + 1] for entry in entries)
        and {kind for kind, _v in values.typed_values(headings[depth])}
        & {values.VERSION, values.DATE}
    ):
        depth += 1
    return depth - 1


def _stated_heading(entry: Entry, depth: int, known: _KnownHeadings) -> tuple[str, ...]:
    """Return the path to the highest heading below `depth` that is itself a statement.

    It has several words, and isn't one that every section has ("Bug fixes in the server").
    """
    for at in range(depth + 1, len(entry.path)):
        heading = entry.path[at]
        if is_stated(heading) and known.counts[heading] < 2:
            return entry.path[: at + 1]
    return ()


def _part(path: tuple[str, ...], entries: Sequence[Entry], title: str) -> PageChange:
    """Return the content below one heading of a new section, as the heading and its first entry."""
    first = entries[0]
    heading = first.headings[len(path) - 1]
    change = _came(first, title)
    lead = _begun_paragraph(entries)
    space = "" if is_wide_text(first.text) else " "
    text = space.join(one.text for one in lead)
    below = entries[len(lead) :]
    if text.endswith(":"):  # it only introduces what is below it
        text = f"{text} {'; '.join(entry.text for entry in below[:MAX_IN_SECTION])}"
    elif first.kind == ITEM:
        listed = [text, *(entry.text for entry in below if entry.kind == ITEM)]
        text = "; ".join([*(one.rstrip(".;") for one in listed[:-1]), listed[-1]])
    text = shorten(text.rstrip(": "), MAX_LENGTH)
    release = _release(first, above=1) if len(path) == len(first.headings) else ""
    named = f"{release}, {heading}" if release else heading
    sentence = heading if match_key(text) in match_key(heading) else f"{named}: {text}"
    weight = 0.8 * (0.5 if _is_aside(heading, entries) else 1.0)
    return replace(
        change, sentence=shorten(sentence, MAX_LENGTH), quote=space.join(one.quote for one in lead),
        weight=weight, path=path,
        headings=first.headings[: len(path)], kind=ROW,
    )  # fmt: skip


def _begun_paragraph(entries: Sequence[Entry]) -> list[Entry]:
    """Return the first entry, with the sentences of its paragraph that follow it and fit."""
    lead = [entries[0]]
    for entry in entries[1:]:
        is_next = entry.kind == SENTENCE and entry.part == lead[-1].part + 1
        length = sum(len(one.text) for one in (*lead, entry))
        if not is_next or entry.order != lead[0].order or length > MAX_LEAD_LENGTH:
            break
        lead.append(entry)
    return lead


def _with_less_past(found: Sequence[PageChange], known: _KnownHeadings) -> list[PageChange]:
    """Give what is below the headings of earlier versions of a changelog little weight.

    A release that is the latest of its branch isn't past, and neither is a part with a heading of its
    own that was added to an earlier version. But if many earlier versions have gained such text, the
    history was rewritten. What was removed from a changelog happened anyway.
    """
    late: defaultdict[tuple[int, ...], list[PageChange]] = defaultdict(list)
    for one in found:
        version = version_of(one.headings)
        is_late = one.status == NEW and version and version < known.latest
        if is_late and (known.is_latest_of_branch(version) or _is_late_part(one, known)):
            late[version].append(one)
    is_history = len(late) > MAX_LATE_VERSIONS
    kept = set() if is_history else {id(one) for some in late.values() for one in some}
    return [one if id(one) in kept else _past(one, known.latest) for one in found]


def _past(change: PageChange, latest: tuple[int, ...]) -> PageChange:
    version = version_of(change.headings)
    is_past = version and (version < latest or change.status == GONE)
    if change.status == CHANGED and (change.is_typed or _is_over(change.before, change.sentence)):
        return change  # such as the date on which the support of a version ends
    return replace(change, weight=0.3 * change.weight) if is_past else change


def _is_late_part(change: PageChange, known: _KnownHeadings) -> bool:
    """Whether a change is below a new heading that is a statement, in the part of a known version."""
    heading = change.headings[-1]
    is_new = heading not in known.texts and not version_of((heading,))
    return is_new and version_of(change.headings) in known.versions and is_stated(heading)


def _joined_sentences(changes: Sequence[PageChange]) -> list[PageChange]:
    """Merge the added sentences of a paragraph into one change, and the edited ones into another."""
    paragraphs: defaultdict[tuple[int, str], list[PageChange]] = defaultdict(list)
    kept: list[PageChange] = []
    for change in changes:
        (paragraphs[change.order, change.status] if change.kind == SENTENCE else kept).append(
            change
        )
    for members in paragraphs.values():
        run: list[PageChange] = []
        for member in sorted(members, key=lambda one: one.part):
            is_long = sum(len(one.sentence) for one in (*run, member)) > MAX_LENGTH
            if run and is_long and member.status != GONE:
                kept.append(_as_one(run))
                run = []
            run.append(member)
        kept.append(_as_one(run))
    led = _led(kept)
    return [
        one
        for one in kept
        if one.members or not ((_leans(one) and id(one) not in led) or _is_short_loss(one))
    ]


def _joined_sections(
    changes: Sequence[PageChange], remain: Collection[tuple[str, ...]]
) -> list[PageChange]:
    """Merge the removed paragraphs, or list items, of a section that is gone, as far as they fit."""
    runs: dict[tuple[tuple[str, ...], str], list[PageChange]] = {}
    joined: list[list[PageChange]] = []
    for change in changes:
        is_text = change.kind in (SENTENCE, ITEM) and change.path not in remain
        is_part = bool(change.path) and change.status == GONE and is_text
        run = runs.get((change.path, change.kind), []) if is_part else []
        if run and sum(len(one.sentence) for one in (*run, change)) <= MAX_LENGTH:
            run.append(change)
        else:
            joined.append([change])
            if is_part:
                runs[change.path, change.kind] = joined[-1]
    return [_as_one_section(run) if len(run) > 1 else run[0] for run in joined]


def _as_one_section(parts: Sequence[PageChange]) -> PageChange:
    first = parts[0]
    if first.kind == ITEM:
        between, above = "; ", f"{shorten(first.headings[-1], 80)}, "
        texts = [one.sentence.removeprefix(above).rstrip(".;") for one in parts]
    else:
        between = "" if is_wide_text(first.quote) else " "
        texts = [one.sentence for one in parts]
    return replace(
        _below(first.headings[-1], replace(first, sentence=between.join(texts))),
        before=between.join(texts),
        is_typed=any(one.is_typed for one in parts),
        weight=max(one.weight for one in parts) + MORE_FOR_SECTION,
        members=tuple(part for one in parts for part in one.members or [one]),
    )


def _led(changes: Sequence[PageChange]) -> set[int]:
    """Return the ids of new sentences that follow another new statement below their heading."""
    placed = sorted(changes, key=lambda one: (one.order, one.part))
    return {
        id(after)
        for before, after in pairwise(placed)
        if before.status == after.status == NEW and before.path == after.path
    }


def _leans(change: PageChange) -> bool:
    """Whether a sentence refers to the one before, which isn't new, and means nothing by itself."""
    is_new_prose = change.kind == SENTENCE and change.status == NEW
    return is_new_prose and not change.is_typed and bool(_POINTS_BACK.match(change.quote))


def _is_short_loss(change: PageChange) -> bool:
    """Whether a change is one short removed sentence without values, often a part of an edit."""
    is_gone_prose = change.kind == SENTENCE and change.status == GONE
    is_short = is_gone_prose and word_count(change.before_quote) < FEW_ALONE
    return is_short and not (change.is_typed or values.typed_values(change.before_quote))


def _as_one(members: Sequence[PageChange]) -> PageChange:
    """Merge sentences of one paragraph into one change. Its quote covers those that are adjacent."""
    first = members[0]
    if len(members) == 1:
        return first
    row = [one for n, one in enumerate(members) if one.part == first.part + n]
    space = "" if is_wide_text(first.quote) else " "
    text = space.join(_following(member.sentence, member, first) for member in members)
    return replace(
        first,
        # The beginning of a removed paragraph tells what it was about.
        sentence=shorten(text, MAX_LENGTH) if first.status == GONE else text,
        quote=space.join(one.quote for one in row),
        before=space.join(_following(member.before, member, first) for member in members),
        before_quote=space.join(one.before_quote for one in row),
        weight=max(member.weight for member in members),
        is_typed=any(member.is_typed for member in members),
        members=tuple(members),
    )


def _following(sentence: str, member: PageChange, first: PageChange) -> str:
    """Return a sentence without the heading in front of it, unless it's the first of several."""
    above = shorten(member.headings[-1], 80) if member.headings else ""
    return sentence.removeprefix(f"{above}: ") if member is not first and above else sentence


def _joined_rows(changes: Sequence[PageChange]) -> list[PageChange]:
    """Merge the rows of one table that changed in the same way: "14, 14 Pro: versions 16 to 26"."""
    alike: defaultdict[tuple[tuple[str, ...], str], list[PageChange]] = defaultdict(list)
    for change in changes:
        if change.frame:
            alike[change.path, change.frame].append(change)
    dropped: set[int] = set()
    joined: dict[int, PageChange] = {}
    for members in alike.values():
        for start in range(0, len(members), MAX_JOINED):
            some = members[start : start + MAX_JOINED]
            if len(some) > 1:
                dropped |= {id(one) for one in some[1:]}
                joined[id(some[0])] = _as_one_row(some)
    return [joined.get(id(one), one) for one in changes if id(one) not in dropped]


def _as_one_row(members: Sequence[PageChange]) -> PageChange:
    first = members[0]
    shared = first.subject
    for one in members:
        shared = shared[: Prefix.similarity(shared, one.subject)]
    above = shared[: shared.rfind(", ") + 2] if ", " in shared else ""
    names = [f"{one.subject.removeprefix(above)} {one.name}".strip() for one in members]
    subjects = above + ("; " if any(", " in name for name in names) else ", ").join(names)
    return replace(
        first, sentence=subjects + first.sentence.removeprefix(first.subject),
        before=subjects + first.before.removeprefix(first.subject)
        if first.before.startswith(first.subject)
        else first.before,
        told=f"{subjects}: {first.frame}", weight=max(member.weight for member in members),
        members=tuple(members),
    )  # fmt: skip


def _capped(changes: Sequence[PageChange]) -> list[PageChange]:
    """Keep the heaviest sentences and items of each heading. A rewritten section is one story."""
    groups: defaultdict[tuple[str, tuple[str, ...]], list[PageChange]] = defaultdict(list)
    for change in changes:
        if change.kind in MAX_PER_HEADING and not change.is_typed:
            groups[change.kind, change.path].append(change)
    dropped = {
        id(change)
        for (kind, path), members in groups.items()
        for change in sorted(members, key=lambda one: (-one.weight, one.order))[
            MAX_PER_HEADING[kind] * (1 if path else MORE_WITHOUT_HEADING) :
        ]
    }
    return [change for change in changes if id(change) not in dropped]


def _without_candidates(changes: Sequence[PageChange]) -> list[PageChange]:
    """Leave out a release candidate, and what it says, if its release says the same."""
    pairs: set[tuple[str, str]] = set()
    for change in changes:
        if change.status == NEW:
            pairs |= {
                (change.key, name.removeprefix("v")) for name in map(_first_word, change.headings)
            }
    return [one for one in changes if one.status != NEW or not (_candidate_of(one) & pairs)]


def _candidate_of(change: PageChange) -> set[tuple[str, str]]:
    of = {(change.key, values.release_of(heading)) for heading in change.headings}
    return {(key, release) for key, release in of if release}


def _first_word(text: str) -> str:
    return text.split(" ", 1)[0]


def _framed(changes: list[PageChange]) -> list[PageChange]:
    """Merge rows that changed alike, beyond MAX_OF_FRAME, into the last one.

    Records of the same name that many others gained or lost are alike too, such as another language
    of each country.
    """
    frames: defaultdict[tuple[str, str], list[PageChange]] = defaultdict(list)
    places: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for change in changes:
        if change.kind == ROW and change.subject and change.status != CHANGED:
            places[change.status, change.subject].add(change.path)
    for change in changes:
        is_of_many = len(places[change.status, change.subject]) > MAX_OF_FRAME
        frame = change.subject if is_of_many else values.frame_of(change.sentence)
        frames[change.status, frame].append(change)
    kept: list[PageChange] = []
    for members in frames.values():
        kept += members[:MAX_OF_FRAME]
        rest = members[MAX_OF_FRAME:]
        if rest:
            kept[-1] = _with_more(kept[-1], len(rest))
    return kept

"""What changed between two versions of a page, statement by statement.

Statements are matched by their headings and words, then by subject, then by similarity. Their order
on the page doesn't matter. The rest was added or removed. The cost is linear, except for the
similarity of unmatched statements under one heading, which MAX_ALIKE limits.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

from beacon_site.text import values
from beacon_site.text.cleaning import match_key, normal_form
from research.claims.blocks import (
    ITEM,
    PAIR,
    PARAGRAPH,
    ROW,
    SENTENCE,
    Entry,
    plain_text,
    sentences_of,
)
from research.claims.terms import is_wide_text, terms

ADDED, REMOVED, CHANGED, MOVED = "added", "removed", "changed", "moved"

ALIKE = 60  # token_sort_ratio from which two sentences under one heading are one edited sentence
MOVED_ALIKE = 75  # the same below different headings, if they have some long words
FEW_LONG = 5
SAME = 97  # from which they may differ only in spelling, if their values are the same
SPELT = 75  # ratio of two spellings of a word
NAMED_ALIKE = 70  # the same for the names of two rows with at least this many words
FEW_WORDS = 3
SPELT_WORD = 6  # letters from which a word can have another spelling
REWRITTEN_SHARE = 0.35  # share of long words from which two sentences are about the same
REPLACED_SHARE = 0.3  # the same for two in the same place
# The same for two in the same place below different headings: these shared words, with this share.
# Two in the order of the page are compared with more care, as many can be between two neighbors.
IN_PLACE = ((3, 0.5), (5, REWRITTEN_SHARE))
LONGER_SHARE = 0.25  # share of the longer one's words that two of them have
MAX_IN_PLACE = 40  # statements between two neighbors, in each version, that are compared
SAME_START = 3  # words at the beginning that two sentences about the same have
LONG_WORD = 4  # letters from which an added or removed word isn't just a particle
SHARED = 0.5  # share of the weight of two rows' cells from which they are one edited row
FEW_SENTENCES = 3  # below a heading, which can be an answer that was replaced
MAX_WORDS_OF_VALUE, MAX_VALUE_LENGTH = 4, 40  # words and characters of what a heading says: "20 €"
FEW_NUMBERS = 5  # different ones in a row, by which it is recognized if it was split
KEPT_IN_SPREAD = 0.8  # share of its long words that the new statements have
FEW_GAINED = 3  # more rows than this that gain a column are a change of the table
MAX_ROWS = 2_000  # rows of a table, in each version, that are compared by their cells
MAX_CODE = 3  # edited lines of code in a row
MAX_HOLDING = 50  # rows with a cell that are compared with another row that has it
MAX_ALIKE = 300  # statements under a heading, in each version, that are compared for similarity
# A page that keeps less than this of a version with at least this many statements is another page.
MIN_KEPT = 0.1
# But one with at least this many long words, of which the last version had this share, was shortened.
FEW_LONG_WORDS, KEPT_IF_SHORTENED = 12, 0.7
KEPT_WORDS = 0.6  # share of a version's long words with which a page is still the same
FEW = 8
FEW_VERSIONS = 3
# "1.14.0 - 25 June 2025", "Version 2.1", "Ruff 0.15.0", but not "Update Node.js to 14.0".
_IDENTIFIER = re.compile(r"(?=[^a-z]*[a-z])[a-z0-9]+(?:[-_.:/][a-z0-9]+)*")
_VERSION_HEADING = re.compile(r"\W*(?:[^\W\d][\w.-]*\s){0,2}\W*v?(\d+(?:\.\d+)+)")
_RELEASE_WORD = re.compile(r"\b(?:version|release|v)\s*(?=\d)", re.IGNORECASE)
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_ZEROS = re.compile(r"(?<![\d.,])0+(?=\d)")  # 1.05 isn't 1.5
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_NUMBERING = re.compile(r"\A\W*(?:\d{1,3}\s+(?=\w{1,3}[.)]\s))?(?:\w{1,3}[.)]\s+)?")
_CLAUSE = re.compile(r"\A\W*(\d{1,3}(?:\.\d{1,3}){1,4})[.)]?\s+(?=\S)")  # "5.3.1 Each robot"
_CODE = re.compile(r"((?=[\w.-]*\d)(?:[^\W\d_][\w.-]{2,15}|\d+(?:\.\d+)+))(?::?\s|$)")
_WITH_DIGITS = re.compile(r"[A-Za-z]*\d[A-Za-z0-9./-]*")  # a version, "SP1/SP2"
_PARENTHESES = re.compile(r"\([^()]*\)|（[^（）]*）")
_AND = re.compile(r"[;,]\s*(?:and|or|und|oder|et|ou|y|o)\W*$")


@dataclass(frozen=True)
class Difference:
    """One statement that was added, removed, changed in some fields, or moved to other headings.

    `cells` has the name, old value and new value of each field that differs.
    """

    kind: str
    old: Entry | None = None
    new: Entry | None = None
    cells: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Words:
    """The words of both versions, which tell a misspelling from another word."""

    old: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()

    def are_spellings(self, before: str, after: str) -> bool:
        """Whether the old word looks like a misspelling of a word that the old version has too.

        One that is still on the page is a word itself.
        """
        return before not in self.new and after in self.old

    def are_mostly_kept(self) -> bool:
        """Whether both versions have most long words of each other, so one was only rearranged."""
        old, new = self._long()
        kept = len(old & new)
        return kept >= KEPT_WORDS * max(len(old), 1) and 2 * kept >= KEPT_WORDS * len(new)

    def are_fewer(self) -> bool:
        """Whether nearly all long words of the new version are in the old one: it was shortened."""
        old, new = self._long()
        return len(new) >= FEW_LONG_WORDS and len(old & new) >= KEPT_IF_SHORTENED * len(new)

    def _long(self) -> tuple[set[str], set[str]]:
        old, new = (set(filter(_is_long, words)) for words in (self.old, self.new))
        return old, new


def _words_of(entries: Iterable[Entry]) -> frozenset[str]:
    return frozenset(word for entry in entries for word in entry.match.split())


@dataclass
class PageDiff:
    """How a page differs from its last version.

    `kept` is the share of the old statements that are still there. `is_replaced` means that the
    page is too different to compare statements (a sign-in page, another text). `columns` has the
    old names of renamed columns. `standing` has the order of each edited paragraph of which a
    sentence is left. `pairs` are the statements of both versions that were matched.
    `has_numbered_clauses` means that numbers such as "5.3.1" before statements only count them.
    `words` are those of both versions.
    """

    differences: list[Difference] = field(default_factory=list)
    renamed: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    unchanged: list[Entry] = field(default_factory=list)
    standing: set[int] = field(default_factory=set)
    pairs: list[tuple[Entry, Entry]] = field(default_factory=list)
    kept: float = 1.0
    is_replaced: bool = False
    has_numbered_clauses: bool = False
    words: Words = field(default_factory=Words)


def compare(old: Sequence[Entry], new: Sequence[Entry], language: str = "en") -> PageDiff:
    """Return what was added, removed, changed and moved from `old` to `new`.

    Both come from `blocks.parse(..., keep_paragraphs=True)`. Only paragraphs that differ are split
    into sentences.
    """
    result = PageDiff()
    left = _Unmatched(list(old), list(new))
    result.words = Words(_words_of(old), _words_of(new))
    result.pairs = left.take(lambda e: (e.kind, e.path, e.match, e.signs))
    kept = len(result.pairs)
    left.split_paragraphs(language, _values_of_headings(old), _values_of_headings(new))
    edited = left.old
    result.pairs += left.take(lambda e: (e.kind, e.path, e.match, e.signs))
    repeated = left.drop_repeated()
    edited = [entry for entry in edited if id(entry) not in repeated]
    result.has_numbered_clauses = all(map(_are_clauses_numbered, (old, new)))
    if result.has_numbered_clauses:
        result.pairs += left.take(
            lambda e: (e.kind, e.path, match_key(unnumbered(e.text)), e.signs)
        )
    result.pairs += left.take(_squeezed)
    result.unchanged = [b for _a, b in result.pairs]
    moved = left.take(lambda e: (e.kind, e.match, e.signs) if e.match else None)
    result.pairs += moved
    kept += len(result.unchanged[kept:]) + len(moved)
    compared = kept + len(left.old)  # paragraphs without sentences are dropped
    result.kept = kept / compared if compared else 1.0
    is_little = len(old) >= FEW and result.kept < MIN_KEPT and not _shares_subjects(left)
    is_little = is_little and not result.words.are_fewer()
    if is_little and not (_is_same_page(old, new) or result.words.are_mostly_kept()):
        result.is_replaced = True
        return result
    version = _no_version if _has_numbered_sections(old, new) else version_of
    result.renamed = _renamed(moved, old, new, version)
    is_changelog = len(versions_of(old)) >= FEW_VERSIONS
    before, after = ({entry.path for entry in entries} for entries in (old, new))
    for a, b in moved:
        is_same_heading = _is_renamed_heading(a, b, before, after, version)
        is_same_version = is_changelog and version_of(a.headings) == version_of(b.headings) != ()
        if is_same_version or is_same_heading or _is_indifferent_move(a, b):
            result.unchanged.append(b)
        else:
            result.differences.append(Difference(MOVED, a, b))
    result.differences += _changed_headings(moved, result.renamed)
    gained = _new_columns(old, new)
    _take_keyed(
        left, result, gained, lambda a, b: _is_renamed_heading(a, b, before, after, version)
    )
    _take_rows(left, result, gained)
    _leave_out_merged_rows(left)
    _drop_padded(result)
    _take_alike(left, result)
    _take_moved(left, result, version)
    _take_rewritten(left, result)
    _take_replaced(left, result)
    _take_in_place(left, result, gained, version, _only_rows(old) & _only_rows(new))
    _leave_out_spread_rows(left)
    gone = {id(entry) for entry in left.old}
    result.standing = {entry.order for entry in edited if id(entry) not in gone}
    # On a page that was started over (a changelog whose past has moved elsewhere), nothing counts
    # as removed.
    removed = [] if is_little else left.old
    result.differences += [Difference(REMOVED, old=entry) for entry in removed]
    result.differences += [Difference(ADDED, new=entry) for entry in left.new]
    result.differences.sort(key=lambda d: d.new.order if d.new else d.old.order if d.old else 0)
    return result


def edited_code(old: Sequence[Entry], new: Sequence[Entry]) -> list[Difference]:
    """Return the edited lines of the code blocks below each heading. Both come from `code_of`.

    Lines that only came or went are part of a longer edit, which says nothing line by line. Other
    quotes or brackets don't count.
    """
    before: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    after: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entries, found in ((old, before), (new, after)):
        for entry in entries:
            found[entry.path].append(entry)
    pairs: list[tuple[Entry, Entry]] = []
    for path in before.keys() & after.keys():
        ours, theirs = before[path][:MAX_ALIKE], after[path][:MAX_ALIKE]
        old_lines, new_lines = [one.quote for one in ours], [one.quote for one in theirs]
        edits = SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
        for kind, a, b, c, d in edits:
            if kind == "replace" and b - a == d - c <= MAX_CODE:
                pairs += zip(ours[a:b], theirs[c:d], strict=True)
    return [
        Difference(CHANGED, a, b, (("", a.quote, b.quote),))
        for a, b in pairs
        if a.match != b.match and fuzz.ratio(a.quote, b.quote) >= ALIKE
    ]


ZEROS_OF_DAY = re.compile(r"(?<!\d)0+(?=\d+\s?[月日])")


def _squeezed(entry: Entry) -> Hashable | None:
    """Return a key without spaces: "Central US" and "centralus", "2 月 1 日" and "2月01日"."""
    text = ZEROS_OF_DAY.sub("", entry.match.replace(" ", ""))
    numbers = tuple(re.findall(r"\d+(?:[.,:/]\d+)*", ZEROS_OF_DAY.sub("", entry.text)))
    return (entry.kind, entry.path, text, entry.signs, numbers) if text else None


@dataclass
class _Unmatched:
    """The statements of both versions that aren't matched yet."""

    old: list[Entry]
    new: list[Entry]

    def split_paragraphs(self, language: str, old: Set[int], new: Set[int]) -> None:
        """Replace the unmatched paragraphs by their sentences, and the values of headings by pairs.

        The sets are the ids of these values. A heading that has more than a value in one of the
        versions has none.
        """
        more_old = {e.path for e in self.old if id(e) not in old}
        more_new = {e.path for e in self.new if id(e) not in new}
        old = {id(e) for e in self.old if id(e) in old and e.path not in more_new}
        new = {id(e) for e in self.new if id(e) in new and e.path not in more_old}
        self.old, self.new = _split(self.old, language, old), _split(self.new, language, new)

    def drop_repeated(self) -> set[int]:
        """Leave out statements that an earlier one of the same version repeats word for word.

        A line that a file has twice is one statement. Returns the ids of those left out.
        """
        dropped: set[int] = set()
        for entries in (self.old, self.new):
            seen: set[Hashable] = set()
            for entry in entries:
                name = (entry.kind, entry.path, entry.match, entry.signs)
                if entry.match and name in seen:
                    dropped.add(id(entry))
                seen.add(name)
        self.old = [entry for entry in self.old if id(entry) not in dropped]
        self.new = [entry for entry in self.new if id(entry) not in dropped]
        return dropped

    def take(
        self, key: Callable[[Entry], Hashable | None], *, unique: bool = False
    ) -> list[tuple[Entry, Entry]]:
        """Match statements with the same key in order, and remove them. A None key never matches."""
        waiting: defaultdict[Hashable, list[Entry]] = defaultdict(list)
        for entry in self.old:
            if (name := key(entry)) is not None:
                waiting[name].append(entry)
        counts = Counter(filter(None, map(key, self.new))) if unique else Counter()
        pairs: list[tuple[Entry, Entry]] = []
        rest: list[Entry] = []
        for entry in self.new:
            name = key(entry)
            mine = waiting.get(name, []) if name is not None else []
            if not mine or (unique and (len(mine) > 1 or counts[name] > 1)):
                rest.append(entry)
            else:
                pairs.append((mine.pop(0), entry))
        matched = {id(a) for a, _b in pairs}
        self.old = [entry for entry in self.old if id(entry) not in matched]
        self.new = rest
        return pairs


def _split(entries: Iterable[Entry], language: str, numbers: Set[int]) -> list[Entry]:
    results: list[Entry] = []
    for entry in entries:
        if id(entry) in numbers:
            *above, name = entry.headings
            text = entry.fields[0][1]
            results.append(
                replace(
                    entry, kind=PAIR, headings=tuple(above), subject=name,
                    fields=(("", plain_text(text)),), quote=text,
                )
            )  # fmt: skip
        else:
            results += sentences_of(entry, language) if entry.kind == PARAGRAPH else [entry]
    return results


def _values_of_headings(entries: Sequence[Entry]) -> set[int]:
    """Return the ids of the few words that are all there is below a heading: "Price", "20 €"."""
    counts = Counter(entry.path for entry in entries)
    return {
        id(entry)
        for entry in entries
        if entry.kind == PARAGRAPH
        and len(entry.path) > 1
        and counts[entry.path] == 1
        and len(entry.match.split()) <= MAX_WORDS_OF_VALUE
        and len(entry.text) <= MAX_VALUE_LENGTH
    }


def _shares_subjects(left: _Unmatched) -> bool:
    ours = {entry.key for entry in left.new if entry.key}
    theirs = {entry.key for entry in left.old if entry.key}
    return len(ours & theirs) >= 0.3 * max(len(theirs), 1) and len(theirs) >= 3


def _is_same_page(old: Sequence[Entry], new: Sequence[Entry]) -> bool:
    """Whether two versions begin with the same heading, and the new one still has content."""
    first = [next((e.path[0] for e in entries if e.path), "") for entries in (old, new)]
    return bool(first[0]) and first[0] == first[1] and len(new) >= FEW


def _renamed(
    moved: Sequence[tuple[Entry, Entry]],
    old: Sequence[Entry],
    new: Sequence[Entry],
    version: Callable[[tuple[str, ...]], tuple[int, ...]],
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the headings that were only renamed.

    Most of the content below the old heading is below the new one.
    """
    targets: defaultdict[tuple[str, ...], Counter[tuple[str, ...]]] = defaultdict(Counter)
    for a, b in moved:
        targets[a.path][b.path] += 1
    sizes = Counter(entry.path for entry in old)
    versions = {entry.path: version(entry.headings) for entry in (*old, *new)}
    remain = {entry.path for entry in new}
    before = {entry.path for entry in old}
    found = {}
    for path, counts in targets.items():
        target, count = counts.most_common(1)[0]
        is_new_name = path not in remain and target not in before and 2 * count >= sizes[path]
        # "1.4" isn't a new name of "1.3", because each release has its own statements.
        was, now = versions.get(path, ()), versions.get(target, ())
        if is_new_name and (not was or was == now):
            found[path] = target
    return found


def _changed_headings(
    moved: Iterable[tuple[Entry, Entry]], renamed: Mapping[tuple[str, ...], tuple[str, ...]]
) -> list[Difference]:
    """Return the headings that have another version, date or state above the same statements.

    For example, "Unreleased" became "2.1.0 (2024-05-01)", or a release is marked as withdrawn.
    """
    found: dict[tuple[str, str], Difference] = {}
    for a, b in moved:
        if renamed.get(a.path) != b.path or len(a.headings) != len(b.headings):
            continue
        for depth, (was, now) in enumerate(zip(a.headings, b.headings, strict=True)):
            if (was, now) not in found and _is_another_release(was, now):
                old, new = (
                    replace(
                        each, kind=ITEM, headings=each.headings[:depth], subject="",
                        fields=(("", each.headings[depth]),), quote=each.headings[depth],
                    )
                    for each in (a, b)
                )  # fmt: skip
                found[was, now] = Difference(CHANGED, old, new, (("", was, now),))
    return list(found.values())


def _is_another_release(was: str, now: str) -> bool:
    was, now = (_RELEASE_WORD.sub("", each) for each in (was, now))
    version = _VERSION_HEADING.match(now)
    if (
        version is None
        or match_key(was) == match_key(now)
        or values.typed_values(now) == values.typed_values(was) == Counter()
    ):
        return False
    return unnumbered(was) != unnumbered(now) and (
        _VERSION_HEADING.match(was) is None
        or values.typed_values(was) != values.typed_values(now)
        or len(match_key(now).split()) != len(match_key(was).split())
    )


def _is_renamed_heading(
    a: Entry,
    b: Entry,
    before: set[tuple[str, ...]],
    after: set[tuple[str, ...]],
    version: Callable[[tuple[str, ...]], tuple[int, ...]],
) -> bool:
    """Return True if the heading above a statement is gone and another one has come in its place.

    "1.4" doesn't take the place of "1.3", because each release has its own statements.
    """
    was, now = version(a.headings), version(b.headings)
    return a.path not in after and b.path not in before and (not was or was == now)


def _is_indifferent_move(a: Entry, b: Entry) -> bool:
    """Whether a move isn't news: only the nearest heading's wording changed, or a sentence moved."""
    if a.path[-1:] == b.path[-1:] or a.kind == SENTENCE:
        return True
    return bool(a.path and b.path) and _is_same_heading(a.path[-1], b.path[-1])


@lru_cache(maxsize=4_096)
def version_of(headings: tuple[str, ...]) -> tuple[int, ...]:
    """Return the version in the headings as numbers: "1.14" with "1.14.2" below it is (1, 14, 2)."""
    found: tuple[int, ...] = ()
    for heading in headings:
        if (named := _VERSION_HEADING.match(heading)) is None:
            continue
        version = values.version_key(named.group(1))
        if not found or version[: len(found)] == found:
            found = version
    return found


def _no_version(_headings: tuple[str, ...]) -> tuple[int, ...]:
    return ()


def _has_numbered_sections(*pages: Sequence[Entry]) -> bool:
    """Return True if all numbers in the headings are section numbers, as in a manual or a law."""
    named = [list(filter(None, _versions_in_order(page))) for page in pages]
    return any(named) and not any(versions_of(page) for page in pages)


def _versions_in_order(entries: Sequence[Entry]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(version_of(entry.headings) for entry in entries))


def versions_of(entries: Sequence[Entry]) -> set[tuple[int, ...]]:
    """Return the versions in the headings. A page with FEW_VERSIONS of them is a changelog.

    Numbers that rise down the page are section numbers, as in a law or a policy, and not versions.
    """
    versions = [version for version in _versions_in_order(entries) if version]
    rising = sum(before < after for before, after in pairwise(versions))
    return set() if 2 * rising > len(versions) - 1 else set(versions)


def _are_clauses_numbered(entries: Sequence[Entry]) -> bool:
    """Return True if many statements begin with numbers such as "5.3.1" that rise down the page."""
    numbered = [match[1] for entry in entries if (match := _CLAUSE.match(entry.text))]
    keys = list(map(values.version_key, numbered))
    rising = sum(before < after for before, after in pairwise(keys))
    return len(keys) >= FEW and 2 * rising > len(keys) - 1


def unnumbered(text: str) -> str:
    """Return a clause without the number before it."""
    return _CLAUSE.sub("", text)


def _is_same_heading(before: str, after: str) -> bool:
    """Return True if a heading only gained or lost some words.

    For example, "fix(api): add events (#12)" and "#12: add events".
    """
    ours, theirs = set(_WORD.findall(after)), set(_WORD.findall(before))
    if len(ours & theirs) < 3 or values.numbers(before) != values.numbers(after):
        return False
    return ours <= theirs or theirs <= ours


def _new_columns(old: Sequence[Entry], new: Sequence[Entry]) -> set[str]:
    """Return columns that many rows have in one version and none in the other: the table changed."""
    before = Counter(name for entry in old for name, _v in entry.fields)
    after = Counter(name for entry in new for name, _v in entry.fields)
    return {
        name
        for ours, theirs, whole in (
            (before, after, _whole_columns(old)),
            (after, before, _whole_columns(new)),
        )
        for name, count in ours.items()
        if name not in theirs and (count > FEW_GAINED or name in whole)
    } | _filled_columns(old, new)


def _filled_columns(old: Sequence[Entry], new: Sequence[Entry]) -> set[str]:
    """Return columns of identifiers that several more rows have now."""
    before, now = (
        [(name, value) for one in rows if one.kind == ROW for name, value in one.fields if value]
        for rows in (old, new)
    )
    had = Counter(name for name, _value in before)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in now:
        found[name].append(value)
    return {
        name
        for name, held in found.items()
        if len(held) - had[name] > max(FEW_GAINED, len(held) / 20) and _are_identifiers(held)
    }


def _are_identifiers(held: Sequence[str]) -> bool:
    """Whether nearly all values are different names for programs: "css-grid", "api_serial"."""
    named = [value for value in held if _IDENTIFIER.fullmatch(value)]
    joined = sum("-" in value or "_" in value for value in named)
    return min(len(named), len(set(held))) >= 0.8 * len(held) <= 2 * joined


def _whole_columns(entries: Sequence[Entry]) -> set[str]:
    """Return the columns that all rows of a table have, if it has several."""
    rows: Counter[tuple[str, ...]] = Counter()
    names: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if entry.kind == ROW:
            rows[entry.path] += 1
            names[entry.path].update(dict(entry.fields).keys())
    return {
        name
        for path, count in rows.items()
        if count > 1
        for name, having in names[path].items()
        if having == count
    }


def _take_keyed(
    left: _Unmatched,
    result: PageDiff,
    changed_columns: set[str],
    is_renamed: Callable[[Entry, Entry], bool],
) -> None:
    """Match statements about the same thing, first under the same headings, then anywhere."""
    renamed = result.renamed

    def under(entry: Entry) -> Hashable | None:
        path = renamed.get(entry.path, entry.path)
        return (path, entry.key) if entry.key and entry.fields else None

    def anywhere(entry: Entry) -> Hashable | None:
        is_name = len(entry.key) > (1 if is_wide_text(entry.key) else 2)
        return entry.key if is_name and entry.fields else None

    pairs = left.take(under, unique=True)
    elsewhere = left.take(anywhere, unique=True)
    result.columns = _renamed_columns([*pairs, *elsewhere], result.words)
    for a, b in pairs:
        _add_changed(result, a, b, changed_columns)
    for a, b in elsewhere:
        result.pairs.append((a, b))
        if a.path[-1:] == b.path[-1:] or is_renamed(a, b):
            _add_changed(result, a, b, changed_columns)
        else:
            cells = differing_cells(a, b, result.columns, changed_columns, result.words)
            result.differences.append(Difference(MOVED, a, b, cells))


def _drop_padded(result: PageDiff) -> None:
    """Leave out a column whose codes were only written with another number of zeros: SC30, SC030."""
    padded = Counter(
        (one.new.path, name)
        for one in result.differences
        if one.kind == CHANGED and one.new and one.new.kind == ROW
        for name, before, after in one.cells
        if _is_padded(before, after)
    )
    kept: list[Difference] = []
    for one in result.differences:
        cells = tuple(
            (name, before, after)
            for name, before, after in one.cells
            if not (one.new and padded[one.new.path, name] >= FEW and _is_padded(before, after))
        )
        if cells == one.cells:
            kept.append(one)
        elif cells:
            kept.append(replace(one, cells=cells))
        elif one.new:
            result.unchanged.append(one.new)
    result.differences = kept


def _is_padded(before: str, after: str) -> bool:
    return _ZEROS.sub("", before) == _ZEROS.sub("", after)


def _renamed_columns(pairs: Sequence[tuple[Entry, Entry]], words: Words) -> dict[str, str]:
    """Return the old name of each renamed column. Half of its values must be the same."""
    kept: Counter[tuple[str, str]] = Counter()
    seen: Counter[tuple[str, str]] = Counter()
    for a, b in pairs:
        ours, theirs = dict(b.fields), dict(a.fields)
        come = [name for name in ours if name not in theirs]
        gone = [name for name in theirs if name not in ours]
        if len(come) != len(gone):
            continue
        for name, old in zip(come, gone, strict=True):
            seen[name, old] += 1
            kept[name, old] += _is_same_value(theirs[old], ours[name], words)
    return {name: old for (name, old), count in seen.items() if 2 * kept[name, old] >= count > 1}


def _take_rows(left: _Unmatched, result: PageDiff, changed_columns: set[str]) -> None:
    """Match rows under one heading that share most of their cells, whichever column names them.

    If many rows of a table are under another heading now, the rest of them can be there too.
    """
    rows = _rows_by_place(left.old, result)
    matched: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for a, b in result.pairs:
        for place, entry in ((result.renamed.get(a.path, a.path), a), (b.path, b)):
            if entry.kind == ROW and place in rows:
                matched[place].append(entry)
    taken: set[int] = set()
    for path, old in rows.items():
        new = [entry for entry in left.new if entry.kind == ROW and entry.path == path]
        old = [entry for entry in old if id(entry) not in taken]
        alike = _alike_rows(old, new, matched[path])
        for _share, _i, _j, a, b in sorted(alike, key=lambda each: each[:3]):
            if id(a) not in taken and id(b) not in taken:
                taken |= {id(a), id(b)}
                _add_changed(result, a, b, changed_columns)
        left_old, left_new = ([e for e in each if id(e) not in taken] for each in (old, new))
        named = _with_same_code(left_old, left_new)
        named += _with_other_version(left_old, left_new, matched[path])
        for a, b in named:
            if id(a) not in taken and id(b) not in taken:
                taken |= {id(a), id(b)}
                _add_changed(result, a, b, changed_columns)
        rest = [[e for e in each if id(e) not in taken and _is_named(e)] for each in (old, new)]
        for a, b in _alike(rest[0][:MAX_ALIKE], rest[1][:MAX_ALIKE], lambda e: e.key, NAMED_ALIKE):
            if _has_same_numbers(a, b):
                taken |= {id(a), id(b)}
                _add_changed(result, a, b, changed_columns)
    left.old = [entry for entry in left.old if id(entry) not in taken]
    left.new = [entry for entry in left.new if id(entry) not in taken]


def _rows_by_place(old: Sequence[Entry], result: PageDiff) -> dict[tuple[str, ...], list[Entry]]:
    """Return unmatched rows by each heading under which they can be now."""
    moved = Counter((a.path, b.path) for a, b in result.pairs if a.kind == b.kind == ROW)
    targets: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for (was, now), count in moved.items():
        if was != now and count >= FEW_GAINED and count > moved[was, was]:
            targets[was].append(now)
    rows: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in old:
        if entry.kind == ROW:
            place = result.renamed.get(entry.path, entry.path)
            for each in dict.fromkeys((place, *targets[entry.path])):
                rows[each].append(entry)
    return rows


def _with_same_code(old: Sequence[Entry], new: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Return rows whose names begin with the same code or version, if only they do.

    For example, "P178: scopes" and "P178: all scopes", or "1.9.0" and "1.9.0 to 1.9.6".
    """
    named: defaultdict[str, tuple[list[Entry], list[Entry]]] = defaultdict(lambda: ([], []))
    for side, entries in enumerate((old, new)):
        for entry in entries:
            if match := _CODE.match(entry.subject):
                named[match[1]][side].append(entry)
    return [(a[0], b[0]) for a, b in named.values() if len(a) == len(b) == 1]


def _with_other_version(
    old: Sequence[Entry], new: Sequence[Entry], matched: Sequence[Entry]
) -> list[tuple[Entry, Entry]]:
    """Return rows whose names differ only in a version, if the table has one row with such a name.

    For example, "Debian 11 (Bullseye) or later" and "Debian 12 (Bookworm) or later". In a list of
    releases, the rows "v20" and "v22" are different things. Half of the cells must be the same.
    """
    known = {_without_version(entry) for entry in matched}
    named: defaultdict[str, tuple[list[Entry], list[Entry]]] = defaultdict(lambda: ([], []))
    for side, entries in enumerate((old, new)):
        for entry in entries:
            if (name := _without_version(entry)) and name != entry.key and name not in known:
                named[name][side].append(entry)
    pairs = [(a[0], b[0]) for a, b in named.values() if len(a) == len(b) == 1]
    return [(a, b) for a, b in pairs if _share_cells(a, b)]


def _without_version(entry: Entry) -> str:
    return match_key(_WITH_DIGITS.sub(" ", _PARENTHESES.sub(" ", entry.subject)))


def _share_cells(a: Entry, b: Entry) -> bool:
    """Return True if at least half of two rows' cells are the same, apart from their names."""
    ours, theirs = _row_cells(a) - {("", a.key)}, _row_cells(b) - {("", b.key)}
    return bool(ours & theirs) and 2 * len(ours & theirs) >= max(len(ours), len(theirs))


def _leave_out_merged_rows(left: _Unmatched) -> None:
    """Leave out removed rows that another table now has, with all their cells.

    The columns of that table can have longer or shorter names, and it can have more columns.
    """
    come: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in left.new:
        if entry.kind == ROW and entry.key and len(come[entry.key]) < MAX_HOLDING:
            come[entry.key].append(entry)
    left.old = [
        entry
        for entry in left.old
        if entry.kind != ROW or not any(_holds(row, entry) for row in come.get(entry.key, ()))
    ]


def _leave_out_spread_rows(left: _Unmatched) -> None:
    """Leave out removed rows with many numbers if new statements have all of them and most words.

    For example, the limits of a plan were in one cell and have a row each now.
    """
    rows = [(entry, set(values.numbers(entry.text))) for entry in left.old if entry.kind == ROW]
    wide = {id(entry): numbers for entry, numbers in rows if len(numbers) >= FEW_NUMBERS}
    if not wide:
        return
    come = {number for entry in left.new for number in values.numbers(entry.text)}
    words = {word for entry in left.new for word in _words_that_tell(entry)}
    left.old = [
        entry
        for entry in left.old
        if id(entry) not in wide
        or not wide[id(entry)] <= come
        or len(_words_that_tell(entry) & words) < KEPT_IN_SPREAD * len(_words_that_tell(entry))
    ]


def _holds(row: Entry, other: Entry) -> bool:
    """Return True if a row has all cells of another."""
    cells = [(set(match_key(name).split()), _cell_key(value)) for name, value in row.fields]
    pairs = [(set(match_key(name).split()), _cell_key(v)) for name, v in other.fields if v]
    return bool(pairs) and all(
        any(value == said and (name <= column or column <= name) for column, value in cells)
        for name, said in pairs
    )


def _is_named(entry: Entry) -> bool:
    """Return True if a row's subject has enough words to be recognized when some of them change."""
    return len(entry.key.split()) >= FEW_WORDS


def _alike_rows(
    old: Sequence[Entry], new: Sequence[Entry], matched: Sequence[Entry] = ()
) -> Iterable[tuple[float, int, int, Entry, Entry]]:
    """Yield pairs of rows that share most of their cells.

    Each has the negative share, the order of both, and the rows. A cell that few rows have weighs
    more. Rows that share no rare cell, or only check marks, aren't compared. `matched` are the other
    rows of both tables.
    """
    old, new = old[:MAX_ROWS], new[:MAX_ROWS]
    cells = {id(entry): _row_cells(entry) for entry in (*old, *new)}
    links = {id(entry): _links_of(entry) for entry in (*old, *new)}
    columns = {id(entry): {"", *(n for n, v in entry.fields if v)} for entry in (*old, *new)}
    names = {id(entry): set(entry.key.split()) for entry in (*old, *new)}
    bare = {id(e): match_key(_PARENTHESES.sub(" ", e.subject)) for e in (*old, *new)}
    counts = Counter(cell for entry in (*old, *new) for cell in cells[id(entry)])
    known: set[tuple[str, str]] | None = None
    whole = len(old) + len(new)
    weights = {cell: math.log(1 + whole / count) for cell, count in counts.items()}
    holding: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in old:
        for cell in cells[id(entry)]:
            holding[cell].append(entry)
    for b in new:
        ours = cells[id(b)]
        shared: defaultdict[int, float] = defaultdict(float)
        beside: dict[int, Entry] = {}
        for cell in ours:
            weight = weights[cell]
            for a in holding.get(cell, ())[:MAX_HOLDING]:
                shared[id(a)] += weight
                beside[id(a)] = a
        for name, weight in shared.items():
            a, theirs = beside[name], cells[name]
            # A column that only one of them has doesn't distinguish them.
            both = theirs & ours
            own = {cell for cell in both if counts[cell] == len((a, b))}
            is_renamed = bool(own) and (
                _is_nested(names[name], names[id(b)]) or _are_days(a.subject, b.subject)
            )
            if is_renamed:
                if known is None:  # only read for the few rows that need it
                    known = {cell for entry in matched for cell in _row_cells(entry)}
                is_renamed = any(_WORD.search(value) for _name, value in own - known)
            aside = {("", a.key), ("", b.key)} if is_renamed else set()
            # A page can move, so another link doesn't count.
            larger = max(
                _weight_in(theirs - (links[name] - both) - aside, columns[id(b)], weights),
                _weight_in(ours - (links[id(b)] - both) - aside, columns[name], weights),
            )
            # "Storage (optional)" is "Storage", but "Nova 15 Pro" isn't "Nova 15".
            is_same_name = bare[name] == bare[id(b)] != "" and _has_same_numbers(a, b)
            if weight < SHARED * larger and not is_same_name:
                continue
            if _share_more_than_signs(both):
                yield -weight / larger, a.order, b.order, a, b


def _has_same_numbers(a: Entry, b: Entry) -> bool:
    """Whether the names of two rows have the same numbers: "Tram (T1)" and "Tram (T2)" don't."""
    return values.numbers(a.subject) == values.numbers(b.subject)


def _are_days(before: str, after: str) -> bool:
    """Return True if two rows are named by dates: an event can move to another day."""
    return values.kind_of(before) == values.kind_of(after) == values.DATE


def _is_nested(ours: set[str], theirs: set[str]) -> bool:
    """Return True if a name only gained or lost words."""
    return bool(ours and theirs) and (ours < theirs or theirs < ours)


def _share_more_than_signs(shared: set[tuple[str, str]]) -> bool:
    return any(not values.is_sign(value) for _name, value in shared)


def _weight_in(
    cells: set[tuple[str, str]], columns: set[str], weights: Mapping[tuple[str, str], float]
) -> float:
    """Return the weight of a row's cells in the columns that another row also has."""
    return sum(weights[cell] for cell in cells if cell[0] in columns)


def _row_cells(entry: Entry) -> set[tuple[str, str]]:
    cells = {(name, _cell_key(value)) for name, value in entry.fields if value}
    return cells | {("", entry.key)} if entry.key else cells


def _links_of(entry: Entry) -> set[tuple[str, str]]:
    """Return the cells with a web address, except the row's own name."""
    return {
        (name, _cell_key(value))
        for name, value in entry.fields
        if name and value.startswith(("http://", "https://"))
    }


def _cell_key(value: str) -> str:
    return match_key(value) or value


def _add_changed(result: PageDiff, a: Entry, b: Entry, changed_columns: set[str]) -> None:
    cells = differing_cells(a, b, result.columns, changed_columns, result.words)
    result.pairs.append((a, b))
    if cells:
        result.differences.append(Difference(CHANGED, a, b, cells))
    else:
        result.unchanged.append(b)


def differing_cells(
    a: Entry,
    b: Entry,
    columns: Mapping[str, str] | None = None,
    changed_columns: Iterable[str] = (),
    words: Words = Words(),
) -> tuple[tuple[str, str, str], ...]:
    """Return the name, old and new value of the fields that differ. Columns are matched by name.

    `columns` has the old names of renamed ones. `changed_columns` were added to or removed from the
    whole table, so they say nothing about a row.
    """
    columns = columns or {}
    names = [name for name, _v in b.fields]
    pairs: list[tuple[str, str, str]] = []
    if a.kind == b.kind == ROW and not _is_same_name(a, b):
        pairs.append(("", a.subject, b.subject))
    if len(set(names)) == len(names) and any(names):
        old = dict(a.fields)
        # A column that only exists in one version is a change of the table, not of its rows.
        named = [(name, columns.get(name, name), value) for name, value in b.fields]
        pairs += [
            (name, old.get(was, ""), value)
            for name, was, value in named
            if name in columns or name not in changed_columns
        ]
        kept = {was for _name, was, _value in named}
        pairs += [
            (name, value, "")
            for name, value in a.fields
            if name not in kept and name not in changed_columns
        ]
    else:
        ours = [value for _n, value in b.fields]
        theirs = [value for _n, value in a.fields]
        if len(ours) != len(theirs):
            pairs = [("", "; ".join(theirs), "; ".join(ours))]
        else:
            pairs += [(b.fields[n][0], theirs[n], ours[n]) for n in range(len(ours))]
    found = tuple(p for p in pairs if not _is_same_value(p[1], p[2], words))
    return () if _is_one_value(found) else found


def _is_one_value(cells: Sequence[tuple[str, str, str]]) -> bool:
    """Whether a value that several fields had is only written once now, or the other way round."""
    gone = [before for name, before, after in cells if name and before and not after]
    come = [after for name, before, after in cells if name and after and not before]
    is_all = len(gone) + len(come) == len(cells) and min(len(gone), len(come)) == 1 < len(cells) - 1
    keys = {match_key(value) for value in (*gone, *come)}
    return is_all and len(keys) == 1 and keys != {""}


def _is_same_name(a: Entry, b: Entry) -> bool:
    """Return True if two rows have the same subject. "7.0" is another spelling of "7"."""
    if a.key == b.key:
        return True
    versions = [_VERSION.fullmatch(entry.subject.strip()) for entry in (a, b)]
    return all(versions) and len({_without_zeros(found[1]) for found in versions if found}) == 1


def _without_zeros(version: str) -> tuple[int, ...]:
    numbers = list(values.version_key(version))
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _is_same_value(before: str, after: str, words: Words) -> bool:
    """Whether two cells have the same value, even with dates or numbers in different forms."""
    if match_key(values.unpadded(before)) == match_key(values.unpadded(after)):
        if values.is_sign(before) or values.is_sign(after):
            return before.strip() == after.strip()
        return not values.are_other_measures(before, after)
    if _is_spelling(match_key(before).split(), match_key(after).split(), words):
        return True
    is_date = values.kind_of(before) == values.kind_of(after) == values.DATE
    is_same_date = is_date and values.typed_values(before) == values.typed_values(after)
    # "EOL 6 Nov 2023" says more than the date.
    return is_same_date and set(_CAPITALS.findall(before)) == set(_CAPITALS.findall(after))


def _is_spelling(before: Sequence[str], after: Sequence[str], words: Words) -> bool:
    """Return True if only one long word has a different spelling: merkelization, merkleization.

    Between other words, it can also have one more or less letter (functons, functions) or other
    accents. Another letter usually makes another word: adopted, adapted.
    """
    if len(before) != len(after):
        return False
    pairs = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    if len(pairs) != 1:
        return False
    [(old, new)] = pairs
    if min(len(old), len(new)) < SPELT_WORD or not (old + new).isalpha() or old[0] != new[0]:
        return False
    if len(before) >= FEW_WORDS and _without_accents(old) == _without_accents(new):
        return True
    is_near = sorted(old) == sorted(new) or (
        len(before) >= FEW_WORDS
        and len(old) != len(new)
        and Levenshtein.distance(old, new, score_cutoff=1) <= 1
    )
    return is_near and words.are_spellings(old, new)


def _without_accents(word: str) -> str:
    parts = normal_form(word, "NFD")
    return "".join(char for char in parts if not unicodedata.combining(char))


def _take_alike(left: _Unmatched, result: PageDiff) -> None:
    """Match sentences and items under one heading that were edited."""
    old: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for entry in left.old:
        if entry.kind in (SENTENCE, ITEM):
            old[result.renamed.get(entry.path, entry.path)].append(entry)
    new: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for entry in left.new:
        if entry.kind in (SENTENCE, ITEM):
            new[entry.path].append(entry)
    matched: set[int] = set()
    for path, ours in new.items():
        for a, b in _alike(old.get(path, [])[:MAX_ALIKE], ours[:MAX_ALIKE]):
            matched |= {id(a), id(b)}
            _add_edited(result, a, b)
    left.old = [entry for entry in left.old if id(entry) not in matched]
    left.new = [entry for entry in left.new if id(entry) not in matched]


def _take_moved(
    left: _Unmatched, result: PageDiff, version: Callable[[tuple[str, ...]], tuple[int, ...]]
) -> None:
    """Match long sentences and items that were edited and are below another heading now."""
    old, new = (
        [e for e in entries if e.kind in (SENTENCE, ITEM) and len(_words_that_tell(e)) >= FEW_LONG]
        for entries in (left.old, left.new)
    )
    taken: set[int] = set()
    for a, b in _alike(old[:MAX_ALIKE], new[:MAX_ALIKE], least=MOVED_ALIKE):
        # Each release has its own statements.
        if a.kind == b.kind and version(a.headings) == version(b.headings):
            taken |= {id(a), id(b)}
            _add_edited(result, a, b)
    left.old = [entry for entry in left.old if id(entry) not in taken]
    left.new = [entry for entry in left.new if id(entry) not in taken]


def _add_edited(result: PageDiff, a: Entry, b: Entry) -> None:
    result.pairs.append((a, b))
    pair = a.text, b.text
    if result.has_numbered_clauses:
        pair = unnumbered(a.text), unnumbered(b.text)
    if is_reworded(*pair):
        result.unchanged.append(b)
    else:
        result.differences.append(Difference(CHANGED, a, b, (("", a.text, b.text),)))


def _take_rewritten(left: _Unmatched, result: PageDiff) -> None:
    """Match sentences and items under one heading that say something else about the same.

    They begin with the same words, or share most of the long words of the shorter one.
    """
    old: defaultdict[Hashable, list[tuple[Entry, frozenset[str]]]] = defaultdict(list)
    new: defaultdict[Hashable, list[tuple[Entry, frozenset[str]]]] = defaultdict(list)
    for entries, found, renamed in ((left.old, old, result.renamed), (left.new, new, {})):
        for entry in entries:
            below = found[renamed.get(entry.path, entry.path), entry.kind]
            if entry.kind in (SENTENCE, ITEM) and len(below) < MAX_ALIKE:
                below.append((entry, _words_that_tell(entry)))
    pairs = [
        (-share, a.order, b.order, a, b)
        for place, mine in old.items()
        for a, ours in mine
        for b, theirs in new.get(place, ())
        if (share := _shared_words(a, ours, b, theirs))
    ]
    taken: set[int] = set()
    for _share, _i, _j, a, b in sorted(pairs, key=lambda each: each[:3]):
        if id(a) not in taken and id(b) not in taken:
            taken |= {id(a), id(b)}
            result.pairs.append((a, b))
            result.differences.append(Difference(CHANGED, a, b, (("", a.text, b.text),)))
    left.old = [entry for entry in left.old if id(entry) not in taken]
    left.new = [entry for entry in left.new if id(entry) not in taken]


def _take_replaced(left: _Unmatched, result: PageDiff) -> None:
    """Match a statement with the only one in its place, if they share a word.

    A statement is an item or a short paragraph, such as the answer below a question. Its place is
    below its heading, between the same neighbors. If a place has a few statements, those that share
    several words are matched, even an item with a paragraph.
    """
    partners = {id(a): id(b) for a, b in result.pairs}
    old_pairs, new_pairs = [a for a, _b in result.pairs], [b for _a, b in result.pairs]
    old = _by_place(left.old, old_pairs, partners, result.renamed)
    new = _by_place(left.new, new_pairs, {id(entry): id(entry) for entry in new_pairs}, {})
    taken: set[int] = set()
    for place in [place for place in new if place in old]:
        for before, after in _replaced(old[place], new[place]):
            a, b = _whole(before), _whole(after)
            taken |= {id(entry) for entry in (*before, *after)}
            result.differences.append(Difference(CHANGED, a, b, (("", a.text, b.text),)))
    left.old = [entry for entry in left.old if id(entry) not in taken]
    left.new = [entry for entry in left.new if id(entry) not in taken]


def _replaced(
    old: Sequence[Entry], new: Sequence[Entry]
) -> Iterable[tuple[Sequence[Entry], Sequence[Entry]]]:
    """Yield the statements of one place that were replaced, each with its sentences."""
    if _is_one(old) and _is_one(new):
        a, b = _whole(old), _whole(new)
        if a.kind == b.kind and _is_as_long(a, b) and _words_that_tell(a) & _words_that_tell(b):
            yield old, new
            return
    before, after = _statements_of(old), _statements_of(new)
    if max(len(before), len(after)) > FEW_SENTENCES:
        return
    pairs = []
    for i, some in enumerate(before):
        for j, others in enumerate(after):
            a, b = _whole(some), _whole(others)
            words = _words_that_tell(a), _words_that_tell(b)
            shared, least = len(words[0] & words[1]), min(map(len, words))
            is_enough = shared >= (FEW_WORDS - 1 if _is_as_long(a, b) else FEW_WORDS)
            if is_enough and shared >= REPLACED_SHARE * least:
                pairs.append((-shared / least, i, j))
    taken: set[tuple[int, int]] = set()
    for _share, i, j in sorted(pairs):
        if not {(0, i), (1, j)} & taken:
            taken |= {(0, i), (1, j)}
            yield before[i], after[j]


@dataclass(frozen=True)
class _Gap:
    """Unmatched statements of both versions between the same two matched ones."""

    old: list[Entry]
    new: list[Entry]
    neighbors: Sequence[tuple[Entry, Entry]]


def _take_in_place(
    left: _Unmatched,
    result: PageDiff,
    changed_columns: set[str],
    version: Callable[[tuple[str, ...]], tuple[int, ...]],
    only_rows: set[tuple[str, ...]],
) -> None:
    """Match statements between the same neighbors, below whichever heading.

    Rows of one table need similar names, unless it has no other row. Of sentences and items, most
    words must be the same. In a paragraph that is otherwise the same, one word is enough.
    """
    taken: set[int] = set()
    for gap in _gaps(left, result.pairs):
        pairs = [
            (-score, _place(a), _place(b), a, b)
            for a in gap.old[:MAX_IN_PLACE]
            for b in gap.new[:MAX_IN_PLACE]
            if (score := _likeness_in_place(a, b, result, version, only_rows))
        ]
        for _score, _i, _j, a, b in sorted(pairs, key=lambda each: each[:3]):
            if id(a) not in taken and id(b) not in taken:
                taken |= {id(a), id(b)}
                if a.kind == ROW:
                    _add_changed(result, a, b, changed_columns)
                else:
                    _add_edited(result, a, b)
        for before, after in _replaced_in_paragraph(gap, taken):
            taken |= {id(entry) for entry in (*before, *after)}
            a, b = _whole(before), _whole(after)
            result.differences.append(Difference(CHANGED, a, b, (("", a.text, b.text),)))
    left.old = [entry for entry in left.old if id(entry) not in taken]
    left.new = [entry for entry in left.new if id(entry) not in taken]


def _gaps(left: _Unmatched, pairs: Sequence[tuple[Entry, Entry]]) -> Iterable[_Gap]:
    """Yield what was replaced between neighbors. A statement that moved isn't a neighbor."""
    neighbors = _in_order(sorted(pairs, key=lambda pair: (_place(pair[0]), _place(pair[1]))))
    places = [_place(a) for a, _b in neighbors], [_place(b) for _a, b in neighbors]
    found: defaultdict[int, tuple[list[Entry], list[Entry]]] = defaultdict(lambda: ([], []))
    for side, entries in enumerate((left.old, left.new)):
        for entry in entries:
            found[bisect_left(places[side], _place(entry))][side].append(entry)
    for number, (old, new) in found.items():
        if old and new:
            yield _Gap(old, new, neighbors[max(number - 1, 0) : number + 1])


def _in_order(pairs: Sequence[tuple[Entry, Entry]]) -> list[tuple[Entry, Entry]]:
    """Return the most pairs, sorted by their old places, whose new places also rise."""
    lasts: list[tuple[int, int]] = []  # the least new place with which so many pairs can end
    numbers: list[int] = []
    before: list[int] = []
    for number, (_a, b) in enumerate(pairs):
        at = bisect_left(lasts, _place(b))
        before.append(numbers[at - 1] if at else -1)
        lasts[at : at + 1], numbers[at : at + 1] = [_place(b)], [number]
    results: list[tuple[Entry, Entry]] = []
    number = numbers[-1] if numbers else -1
    while number >= 0:
        results.append(pairs[number])
        number = before[number]
    return results[::-1]


def _place(entry: Entry) -> tuple[int, int]:
    return entry.order, entry.part


def _likeness_in_place(
    a: Entry,
    b: Entry,
    result: PageDiff,
    version: Callable[[tuple[str, ...]], tuple[int, ...]],
    only_rows: set[tuple[str, ...]],
) -> float:
    """Return the share of words that two statements in the same place have, or 0 if it's too small."""
    if a.kind == b.kind == ROW:
        is_same_table = result.renamed.get(a.path, a.path) == b.path
        return _likeness_of_rows(a, b, b.path in only_rows) if is_same_table else 0.0
    if not {a.kind, b.kind} <= {SENTENCE, ITEM} or version(a.headings) != version(b.headings):
        return 0.0
    ours, theirs = _words_that_tell(a), _words_that_tell(b)
    shared = len(ours & theirs)
    is_same_start = a.match.split()[:SAME_START] == b.match.split()[:SAME_START]
    longer = LONGER_SHARE / 2 if is_same_start else LONGER_SHARE
    if not shared or shared < longer * max(len(ours), len(theirs)):
        return 0.0
    share = shared / min(len(ours), len(theirs))
    weight = FEW_WORDS - 1 if is_wide_text(a.text) else 1  # a word is several pairs of characters
    is_alike = any(shared >= weight * words and share >= least for words, least in IN_PLACE)
    return share if is_alike else 0.0


def _likeness_of_rows(a: Entry, b: Entry, is_only_row: bool) -> float:
    """Return how alike the names of two rows are, or 0 if they are about different things.

    Most words of the shorter name must be the same, and something in one of their columns.
    """
    if is_only_row:
        return 1.0
    ours, theirs = (
        set(terms(entry.key) if is_wide_text(entry.key) else entry.key.split()) for entry in (a, b)
    )
    shared = ours & theirs
    if len(shared) <= 1 or not (any(map(_is_long, shared)) or is_wide_text(a.key)):
        return 0.0  # "Nova Max" isn't "Nova"
    if 2 * len(shared) <= min(len(ours), len(theirs)) or not _has_same_numbers(a, b):
        return 0.0
    if values.numbers(a.subject) and _is_nested(ours, theirs):
        return 0.0  # "Nova 15 Pro" isn't "Nova 15"
    before = dict(a.fields)
    has_same = any(
        {*match_key(value).split()} & {*match_key(before.get(name, "")).split()}
        for name, value in b.fields
    )
    return len(shared) / len(ours | theirs) if has_same else 0.0


def _only_rows(entries: Sequence[Entry]) -> set[tuple[str, ...]]:
    """Return the paths of the tables with a single row."""
    counts = Counter(entry.path for entry in entries if entry.kind == ROW)
    return {path for path, count in counts.items() if count == 1 and path}


def _replaced_in_paragraph(
    gap: _Gap, taken: set[int]
) -> Iterable[tuple[Sequence[Entry], Sequence[Entry]]]:
    """Yield the sentences of a paragraph that were replaced by others beside one that was kept."""
    for a, b in gap.neighbors:
        old, new = (
            [e for e in entries if e.order == beside.order and id(e) not in taken]
            for entries, beside in ((gap.old, a), (gap.new, b))
        )
        if not (old and new and a.kind == b.kind == SENTENCE):
            continue
        if max(len(old), len(new)) <= FEW_SENTENCES and _words_that_tell(
            _whole(old)
        ) & _words_that_tell(_whole(new)):
            yield old, new


def _is_as_long(a: Entry, b: Entry) -> bool:
    return 2 * len(b.match) >= len(a.match)


def _statements_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the items and short paragraphs among statements of one place."""
    results: list[list[Entry]] = []
    for entry in entries:
        is_next = bool(results) and results[-1][-1].kind == entry.kind == SENTENCE
        if is_next and results[-1][-1].order == entry.order:
            results[-1].append(entry)
        elif entry.kind in (ITEM, SENTENCE):
            results.append([entry])
    return [some for some in results if len(some) <= FEW_SENTENCES]


def _by_place(
    unmatched: Sequence[Entry],
    matched: Sequence[Entry],
    partners: Mapping[int, int],
    renamed: Mapping[tuple[str, ...], tuple[str, ...]],
) -> dict[Hashable, list[Entry]]:
    """Return unmatched statements by their headings and the matched one before them."""
    found: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    before: dict[tuple[str, ...], int] = {}
    for entry in sorted((*unmatched, *matched), key=lambda each: (each.order, each.part)):
        path = renamed.get(entry.path, entry.path)
        if (partner := partners.get(id(entry))) is not None:
            before[path] = partner
        elif path:
            found[path, before.get(path)].append(entry)
    return found


def _is_one(entries: Sequence[Entry]) -> bool:
    """Return True if statements are one item, or the few sentences of one paragraph in a row."""
    first = entries[0]
    if first.kind == ITEM:
        return len(entries) == 1 and len(first.match.split()) >= FEW_WORDS
    return (
        len(entries) <= FEW_SENTENCES
        and {(entry.kind, entry.order) for entry in entries} == {(SENTENCE, first.order)}
        and [entry.part - first.part for entry in entries] == list(range(len(entries)))
    )


def _whole(sentences: Sequence[Entry]) -> Entry:
    """Return an item, or the sentences of a paragraph, as one statement."""
    if len(sentences) == 1:
        return sentences[0]
    space = "" if is_wide_text(sentences[0].text) else " "
    said = (("", space.join(entry.text for entry in sentences)),)
    return replace(sentences[0], fields=said, quote=space.join(entry.quote for entry in sentences))


def _words_that_tell(entry: Entry) -> frozenset[str]:
    """Return the long words of a statement. Chinese and Japanese text has pairs of characters."""
    words = (
        terms(entry.match) if is_wide_text(entry.text) else filter(_is_long, entry.match.split())
    )
    return frozenset(words)


def _is_long(word: str) -> bool:
    return len(word) >= LONG_WORD


def _shared_words(a: Entry, ours: frozenset[str], b: Entry, theirs: frozenset[str]) -> float:
    """Return the share of the shorter one's long words that both have, or 0 if it's too small."""
    shared = len(ours & theirs)
    if shared < FEW_WORDS - 1:
        return 0.0
    share = shared / min(len(ours), len(theirs))
    old, new = a.match.split()[:SAME_START], b.match.split()[:SAME_START]
    length = min(len(old), len(new))  # "invalid syntax", "invalid syntax in a cell"
    is_same_start = length > 1 and old[:length] == new[:length]
    least = REWRITTEN_SHARE / 2 if is_same_start else REWRITTEN_SHARE
    return share if shared >= FEW_WORDS - is_same_start and share >= least else 0.0


def _alike(
    old: Sequence[Entry],
    new: Sequence[Entry],
    words_of: Callable[[Entry], str] = lambda entry: entry.match,
    least: int = ALIKE,
) -> Iterable[tuple[Entry, Entry]]:
    if not old or not new:
        return
    scores = process.cdist(
        list(map(words_of, old)), list(map(words_of, new)), scorer=fuzz.token_sort_ratio,
        score_cutoff=least,
    )  # fmt: skip
    pairs = sorted(
        (
            (float(scores[i][j]), i, j)
            for i in range(len(old))
            for j in range(len(new))
            if scores[i][j]
        ),
        key=lambda each: (-each[0], each[1], each[2]),
    )
    taken_old: set[int] = set()
    taken_new: set[int] = set()
    for _score, i, j in pairs:
        if i not in taken_old and j not in taken_new:
            taken_old.add(i)
            taken_new.add(j)
            yield old[i], new[j]


def is_reworded(before: str, after: str) -> bool:
    """Whether two sentences say the same with the same values, except for the spelling of words.

    A number before the sentence and an "or" after it belong to the list around it.
    """
    before, after = (_NUMBERING.sub("", _AND.sub("", text)) for text in (before, after))
    old, new = match_key(before), match_key(after)
    if values.are_other_measures(before, after):
        return False
    if old == new:
        return True
    gone, come = (
        Counter(old.split()) - Counter(new.split()),
        Counter(new.split()) - Counter(old.split()),
    )
    are_accents = min(map(len, gone), default=0) >= SPELT_WORD and (
        _without_accents(old) == _without_accents(new)
    )
    is_near = are_accents or fuzz.ratio(old, new) >= SAME
    if not is_near or values.typed_values(before) != values.typed_values(after):
        return False
    long_gone = [word for word in gone if len(word) >= LONG_WORD]
    long_come = [word for word in come if len(word) >= LONG_WORD]
    return all(
        any(_is_spelt_otherwise(word, other) for other in others)
        for words, others in ((long_gone, come), (long_come, gone))
        for word in words
    )


def _is_spelt_otherwise(word: str, other: str) -> bool:
    """Return True if two words are variants of one.

    Another beginning or another letter makes another word: weekly, biweekly; adopted, adapted. The
    endings -ise and -ize are variants.
    """
    word, other = (_without_accents(each).replace("is", "iz") for each in (word, other))
    if word == other:
        return True
    is_another_letter = len(word) == len(other) and Levenshtein.distance(word, other) == 1
    is_another_beginning = word[:1] != other[:1] or word.endswith(other) or other.endswith(word)
    return fuzz.ratio(word, other) >= SPELT and not is_another_letter and not is_another_beginning

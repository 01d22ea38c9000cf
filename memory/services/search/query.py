"""Parses and edits search queries: words, "phrases", and operators such as `kind:rule`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.cleaning import clean, one_line, shorten

# The values of each operator; () allows any text. Error messages list them. What an operator
# filters by is in `filters._CONDITIONS`, and for the index in `filters._OF_INDEX`.
OPERATORS: dict[str, tuple[str, ...]] = {
    "type": ("note", "observation", "fact", "report", "section"),
    "kind": ("log", "summary", "rule", "soul", "agent", "user"),
    "category": ("finding", "insight", "lesson"),
    "stability": ("volatile", "stable", "permanent"),
    "trust": ("owner", "agent", "external", "quarantined"),
    "sensitivity": ("normal", "sensitive"),
    "is": (
        "pinned", "locked", "expired", "superseded", "sensitive", "edited", "duplicate",
        "trashed", "struck", "retired", "used", "unused", "expiring", "kept", "paused",
    ),
    "tag": (),
    "topic": (),
    "source": (),
    "scope": (),
    "after": (),
    "before": (),
}  # fmt: skip
_TIMES = frozenset({"after", "before"})
_SAME = {"not": "is", "tags": "tag", "from": "source", "since": "after", "until": "before"}

MAX_TEXT = 10_000  # characters of one question; a longer one is cut, with a notice
MAX_FILTERS = 50
MAX_VALUES = 200  # of all operators together
MAX_APART = 100  # phrases and excluded words, since each is a separate lookup
MAX_PROBLEMS = 10  # shown at most; a text that isn't a query can have thousands

_QUOTED = r"\"[^\"]*\""
_VALUE = rf"(?:{_QUOTED}|[^\s,\"]+)"
TOKEN = re.compile(
    rf"(?P<minus>-)?(?P<name>[A-Za-z]+):(?P<values>{_VALUE}(?:,{_VALUE}?)*)"
    rf"|(?P<not>-)?(?P<phrase>{_QUOTED})"
    r"|(?P<word>\S+)"
)
_DAY = re.compile(r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?")
_AGO = re.compile(r"(\d{1,4})([dwmy])")
_LENGTHS = {"d": 1, "w": 7, "m": 30, "y": 365}


@dataclass(frozen=True, slots=True)
class Filter:
    """One operator: the field, its values (any of them can match), and whether it is negated."""

    field: str
    values: tuple[str, ...]
    negated: bool = False
    text: str = ""  # as it was typed, for a chip


NOT_PAUSED = Filter("is", ("paused",), negated=True)  # the index has it, see `filters._add_rules`
# What no agent gets, and no prompt.
FOR_AGENTS = (
    Filter("sensitivity", ("sensitive",), negated=True),
    Filter("trust", ("quarantined",), negated=True),
    NOT_PAUSED,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query.

    Results are ranked by `words`, which include the phrases. Each of `phrases` must occur in a hit,
    and none of `without` may. `problems` describe what was not understood and how it was handled.
    """

    text: str
    words: str
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    filters: tuple[Filter, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def has_words(self) -> bool:
        """Return True if the query has anything besides filters."""
        return bool(self.words or self.phrases or self.without)

    def asks(self, field: str, value: str) -> bool:
        """Return True if the query asks for exactly this value, not negated (`is`, `trashed`)."""
        return any(
            one.field == field and value in one.values and not one.negated for one in self.filters
        )


class _Reader:
    """Collects the parts of a query from its tokens."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.phrases: list[str] = []
        self.without: list[str] = []
        self.filters: list[Filter] = []
        self.problems: list[str] = []

    def take(self, match: re.Match[str]) -> None:
        if match["name"]:
            self._operator(match)
        elif match["phrase"]:
            self._phrase(match["phrase"].strip('"'), negated=bool(match["not"]))
        else:
            self._word(match["word"])

    def _word(self, word: str) -> None:
        if len(word) > 1 and word[0] == "-" and word[1].isalnum():
            self._apart(self.without, word[1:])
        else:
            self.words.append(word)

    def _phrase(self, phrase: str, *, negated: bool) -> None:
        if phrase := one_line(phrase):
            self._apart(self.without if negated else self.phrases, phrase)
            if not negated:
                self.words.append(phrase)

    def _apart(self, kept: list[str], text: str) -> None:
        """Add a phrase or an excluded word. Beyond the limit they are ignored, with a notice."""
        if len(kept) < MAX_APART:
            kept.append(text)
            return
        self.problems.append(
            _("Only the first %(most)d phrases and excluded words (-word) were used.")
            % {"most": MAX_APART}
        )

    def _operator(self, match: re.Match[str]) -> None:
        name = match["name"].casefold()
        negated = bool(match["minus"]) != (name == "not")
        name = _SAME.get(name, name)
        if name not in OPERATORS:
            self._unknown(match)
            return
        values = _values(match["values"])
        kept = [value for value in values if not self._problem_with(name, value)]
        room = MAX_VALUES - sum(len(one.values) for one in self.filters)
        if kept and (len(self.filters) == MAX_FILTERS or len(kept) > room):
            params = {"most": MAX_FILTERS, "values": MAX_VALUES}
            words = _("Only the first %(most)d operators and %(values)d values were used.")
            self.problems.append(words % params)
        if kept[:room] and len(self.filters) < MAX_FILTERS:
            kept = [_normal(name, value) for value in kept[:room]]
            self.filters.append(Filter(name, tuple(dict.fromkeys(kept)), negated))

    def _unknown(self, match: re.Match[str]) -> None:
        """Treat an unknown operator as words. URLs and times only look like operators."""
        self.words.append(match.group())
        if match["values"][0].isalpha() or match["values"][0] == '"':
            self.problems.append(
                _("“%(name)s:” isn’t an operator, so it was treated as text. Operators: %(known)s.")
                % {"name": shorten(match["name"], 30), "known": ", ".join(OPERATORS)}
            )

    def _problem_with(self, name: str, value: str) -> bool:
        """Note why a value is invalid, if it is."""
        known = OPERATORS[name]
        if name in _TIMES and _moment(value, datetime.now().astimezone()) is None:
            self.problems.append(
                _(
                    "“%(name)s:%(value)s” isn’t a date, so it was ignored. Use 2026-11-22, 2026-11, or an age: 7d, 2w, 3m, 1y."
                )
                % {"name": name, "value": shorten(value, 40)}
            )
            return True
        if known and _normal(name, value) not in known:
            self.problems.append(
                _(
                    "“%(value)s” isn’t a valid value for “%(name)s:”, so it was ignored. Choose from: %(known)s."
                )
                % {"name": name, "value": shorten(value, 40), "known": ", ".join(known)}
            )
            return True
        return False


def parse(text: str) -> Question:
    """Parse a typed query. Accepts any text and never raises.

    `name:value` filters, and `name:a,b` matches either value. `-` before an operator, a word or a
    phrase excludes it. `problems` lists what was not understood.
    """
    text = one_line(clean(text)[0])
    reader = _Reader()
    if len(text) > MAX_TEXT:
        reader.problems.append(
            _("The query has %(have)d characters. Only the first %(most)d were used.")
            % {"have": len(text), "most": MAX_TEXT}
        )
        text = text[:MAX_TEXT]
    for match in TOKEN.finditer(text):
        reader.take(match)
    if text.count('"') % 2:
        reader.problems.append(
            _("A closing quotation mark is missing, so the text was treated as separate words.")
        )
    return Question(
        text=text,
        words=one_line(" ".join(reader.words).replace('"', " ")),
        phrases=tuple(reader.phrases),
        without=tuple(word.replace('"', "") for word in reader.without),
        filters=tuple(reader.filters),
        problems=_problem_notices(reader.problems),
    )


def _problem_notices(problems: Iterable[str]) -> tuple[str, ...]:
    """Return each problem once; if there are many, the first ones and the number of the rest."""
    texts = list(dict.fromkeys(problems))
    more = len(texts) - MAX_PROBLEMS
    if more > 0:
        words = ngettext(
            "%(n)d other part of the search wasn’t understood.",
            "%(n)d other parts of the search weren’t understood.",
            more,
        )
        texts[MAX_PROBLEMS:] = [words % {"n": more}]
    return tuple(texts)


def moment(value: str, *, zone: tzinfo, now: datetime) -> datetime:
    """Return the time that `after:` or `before:` means: the start of a day or month, or an age.

    Raises ValueError for a value that `parse()` would have dropped.
    """
    found = _moment(value, now.astimezone(zone))
    if found is None:
        raise ValueError(value)
    return found


def _moment(value: str, now: datetime) -> datetime | None:
    value = value.strip().casefold()
    try:
        if day := _DAY.fullmatch(value):
            year, month, date = int(day[1]), int(day[2]), int(day[3] or 1)
            return datetime(year, month, date, tzinfo=now.tzinfo)
        if ago := _AGO.fullmatch(value):
            return now - timedelta(days=int(ago[1]) * _LENGTHS[ago[2]])
        if value in ("today", "yesterday"):
            today = now.replace(hour=0, minute=0, second=0, microsecond=0)
            return today - timedelta(days=value == "yesterday")
    except (ValueError, OverflowError):
        return None
    return None


def _values(text: str) -> list[str]:
    """Split values at commas, except at commas inside quotes."""
    found = re.findall(_VALUE, text)
    values = [one_line(value.strip('"')) for value in found]
    return [value for value in values if value]


def _normal(name: str, value: str) -> str:
    """Normalize a value of a fixed list: lower case and singular."""
    if not OPERATORS[name]:
        return value
    value = value.casefold()
    singular = {"summaries": "summary", "categories": "category"}.get(
        value, value.removesuffix("s")
    )
    return singular if value not in OPERATORS[name] and singular in OPERATORS[name] else value


# --- query text ---

_CHIP_VALUE = r"(?:\"[^\"]*\"|[^\s,\"]+)"
_CHIP_TOKEN = re.compile(
    rf"(?P<name>[A-Za-z]+):(?P<values>{_CHIP_VALUE}(?:,{_CHIP_VALUE})*)"
    rf"|-[A-Za-z]+:{_CHIP_VALUE}(?:,{_CHIP_VALUE})*"
    r"|-?\"[^\"]*\""
    r"|\S+"
)
_NEEDS_QUOTES = re.compile(r"[\s,\"]")


def _tokens(text: str) -> list[Filter]:
    """Return the tokens of the text, in which a negated operator has no name yet."""
    return [
        Filter(found["name"].casefold(), _split(found["values"]), text=found.group())
        if found["name"]
        else Filter("", (), text=found.group())
        for found in _CHIP_TOKEN.finditer(text)
    ]


def _split(values: str) -> tuple[str, ...]:
    return tuple(value.strip('"') for value in re.findall(_CHIP_VALUE, values))


def written(field: str, values: Iterable[str]) -> str:
    quoted = (
        '"{}"'.format(value.replace('"', "")) if _NEEDS_QUOTES.search(value) else value
        for value in values
    )
    return f"{field}:{','.join(quoted)}"


def split_operators(text: str) -> tuple[list[Filter], str]:
    """Return the operators of the text, and the text without them."""
    operators, rest = [], []
    for token in _tokens(text):
        negated = re.fullmatch(rf"-([A-Za-z]+):({_CHIP_VALUE}(?:,{_CHIP_VALUE})*)", token.text)
        name = negated[1].casefold() if negated else token.field
        if _SAME.get(name, name) in OPERATORS:
            values = _split(negated[2]) if negated else token.values
            operators.append(Filter(name, values, bool(negated), token.text))
        else:
            rest.append(token.text)
    return operators, " ".join(rest)


def with_any_of(text: str, field: str, values: Sequence[str], among: Collection[str]) -> str:
    """Return the text in which any of these values of `among` matches, and no other of them."""
    rest = with_choice(text, field, "", among)
    return f"{written(field, values)} {rest}".strip() if values else rest


def values_of(text: str, field: str) -> tuple[str, ...]:
    """Return the values of an operator in the text, without negated ones."""
    found = (value for token in _tokens(text) if token.field == field for value in token.values)
    return tuple(dict.fromkeys(found))


def with_choice(text: str, field: str, value: str, among: Collection[str]) -> str:
    """Return the text with only this value of `among`; "" removes all of them."""
    parts = [written(field, [value])] if value else []
    for token in _tokens(text):
        kept = [one for one in token.values if one not in among]
        if token.field != field or len(kept) == len(token.values):
            parts.append(token.text)
        elif kept:
            parts.append(written(field, kept))
    return " ".join(parts)

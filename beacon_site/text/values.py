"""Values in sentences: amounts in one unit, however they are written, and kinds of values.

"25,000 tonnes", "25 kilotonnes" and "twenty-five thousand tonnes" are one amount. So are "€210m"
and "210 million euros". Remove dates first (`without_dates`), or a day would be a count.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

from beacon_site.text.cleaning import match_key, normal_form

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_OTHER = {
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf vingt",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte",
}
_WORDS: dict[str, float] = {word: float(n) for n, word in enumerate(_ONES.split())}
_WORDS |= {word: 10.0 * n for n, word in enumerate(_TENS.split(), start=2)}
for _words in _OTHER.values():
    # "un", "once" and "sept" are other words too. Months are already removed from the text.
    _WORDS |= {
        word: float(n) for n, word in enumerate(_words.split()) if word not in ("un", "six", "once")
    }
_WORDS |= {"score": 20.0, "dozen": 12.0, "nil": 0.0, "decade": 10.0}
_SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "millions": 1e6,
    "millionen": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "milliarden": 1e9,
    "milliards": 1e9,
    "m": 1e6,
    "mn": 1e6,
    "bn": 1e9,
    "k": 1e3,
    "万": 1e4,
    "亿": 1e8,
}
_PARTS = {
    "half": 0.5,
    "third": 1 / 3,
    "thirds": 1 / 3,
    "quarter": 0.25,
    "quarters": 0.25,
    "fifth": 0.2,
    "fifths": 0.2,
    "tenth": 0.1,
    "tenths": 0.1,
}
# Each unit as its kind, and its factor to the kind's base unit.
_UNITS: dict[str, tuple[str, float]] = {
    word: (kind, factor)
    for kind, factor, words in (
        ("%", 1, "% percent prozent pourcent"),
        ("eur", 1, "€ euro euros eur"),
        ("usd", 1, "$ dollar dollars usd"),
        ("usd", 0.01, "cent cents"),
        ("gbp", 1, "£ pound pounds gbp"),
        ("chf", 1, "franc francs franken chf"),
        ("cny", 1, "yuan rmb 元"),
        ("crown", 1, "crown crowns krone kroner krona kronor koruna"),
        ("jpy", 1, "yen"),
        ("inr", 1, "rupee rupees"),
        ("g", 1, "gram grams"),
        ("g", 1e3, "kg kilogram kilograms kilos"),
        ("g", 1e6, "tonne tonnes ton tons tonnen 吨"),
        ("g", 1e9, "kilotonne kilotonnes"),
        ("m", 1, "m metre metres meter meters mètres mètre"),
        ("m", 1e3, "kilometre kilometres kilometer kilometers km kilomètres 公里"),
        ("m", 1_609.344, "mile miles mph"),
        ("m2", 1e4, "hectare hectares hektar ha"),
        ("m2", 4_046.86, "acre acres"),
        ("l", 1, "litre litres liter liters"),
        ("l", 100, "hectolitre hectolitres hectoliter hectoliters"),
        ("w", 1e3, "kw kilowatt kilowatts"),
        ("w", 1e6, "mw megawatt megawatts"),
        ("w", 1e9, "gw gigawatt gigawatts"),
        ("wh", 1e3, "kwh kilowatt-hour kilowatt-hours"),
        ("wh", 1e6, "mwh megawatt-hour megawatt-hours"),
        ("wh", 1e9, "gwh gigawatt-hour gigawatt-hours"),
        ("bit", 1e6, "megabit megabits"),
        ("bit", 1e9, "gigabit gigabits"),
        ("bit", 1e12, "terabit terabits"),
        ("byte", 1e3, "kb kilobyte kilobytes"),
        ("byte", 1e6, "mb megabyte megabytes"),
        ("byte", 1e9, "gb gigabyte gigabytes gigs"),
        ("byte", 1e12, "tb terabyte terabytes"),
        ("degree", 1, "degree degrees °c celsius °"),
        ("year", 1, "year years years' jahre ans"),
        ("month", 1, "month months"),
        ("day", 1, "day days"),
        ("day", 7, "week weeks"),
        ("hour", 1, "hour hours stunde stunden heures"),
        ("hour", 1 / 60, "minute minutes minuten"),
    )
    for word in words.split()
}
_TOKEN = re.compile(
    r"[€$£]|°\s?[cf]\b|°|%|百分之|\d+(?:[.,'’]\d+)*|[万亿元吨]|公里|[^\W\d_]+(?:[-'][^\W\d_]+)*"
)
_BETWEEN = "of more over under about around roughly some swiss used spent new de only than"
_SKIPPED = frozenset(_BETWEEN.split())
_JOINS = "to on by and in or against at from since but not as with for"
_JOINING = frozenset(["", *_JOINS.split()])
_HALF_MORE = re.compile(r"\b(\d+|one|two|three|four|five|six|seven|eight|nine|ten) and a half\b")
UNITS = frozenset(kind for kind, _factor in _UNITS.values())
CURRENCIES = frozenset(("eur", "usd", "gbp", "chf", "cny", "jpy", "inr", "crown"))
_SIGNS = (["€"], ["$"], ["£"])
_GROUPED = re.compile(r"\d{1,3}(?:[,'’]\d{3})+(?:\.\d+)?")
# "42.000 Fahrgäste", "48 000 voyageurs": digit groups in other languages.
_POINTED = re.compile(r"\d{1,3}(?:\.\d{3})*\.\d00|\d{1,3}(?:\.\d{3}){2,}")
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3}) (000)\b")
# Words that turn the unit after them into another: square metres, cubic metres, megawatt hours.
_SQUARE, _CUBIC = frozenset(("square", "sq")), frozenset(("cubic",))
# The largest whole in a share such as "one in seven".
_MAX_SHARE = 20


@dataclass(frozen=True, slots=True)
class Amount:
    """A value and the kind of its unit, or the word after it if that isn't a unit."""

    value: float
    unit: str

    def is_near(self, other: Amount, tolerance: float = 0.003) -> bool:
        """Return True if the values are the same within `tolerance`."""
        return abs(self.value - other.value) <= tolerance * max(abs(self.value), abs(other.value))


def amounts(text: str) -> list[Amount]:
    """Return the amounts in a case-folded text without dates, in order.

    A bare number takes the unit of its neighbor, as in "from 4.99 to 6.49 dollars".
    """
    tokens = _TOKEN.findall(_SPACED.sub(r"\1\2", _HALF_MORE.sub(_half_more, text)))
    results: list[Amount] = []
    place = 0
    while place < len(tokens):
        read = _value(tokens, place)
        if read is None:
            place += 1
            continue
        value, after = read
        before = tokens[place - 1] if place else ""
        kind, factor = _unit(before, tokens[after : after + 3])
        results.append(Amount(value * factor, kind))
        place = after
    return _with_units([_fahrenheit(amount) for amount in results])


def _with_units(found: list[Amount]) -> list[Amount]:
    """Give amounts without a unit the unit of their neighbor."""
    units = [amount.unit for amount in found]
    for place, unit in enumerate(units):
        if unit in UNITS:
            continue
        if place + 1 < len(units) and units[place + 1] in UNITS and unit in _JOINING:
            units[place] = units[place + 1]
        elif place and units[place - 1] in UNITS and unit in _JOINING:
            units[place] = units[place - 1]
    return [Amount(amount.value, unit) for amount, unit in zip(found, units, strict=True)]


def _half_more(match: re.Match[str]) -> str:
    return f"{(plain_number(match[1]) or 0) + 0.5:g}"


def _value(tokens: list[str], place: int) -> tuple[float, int] | None:
    """Return the value that begins at `place`, and where the tokens after it begin."""
    word = tokens[place]
    before, after = tokens[max(0, place - 1) : place], tokens[place + 1 : place + 2]
    if (word == "half" and before != ["second"] and before != ["first"]) or (
        word in _PARTS and before == ["a"] and after == ["of"]
    ):
        return 100 * _PARTS[word], place + 1
    number = plain_number(word)
    if number is None:
        return None
    place += 1
    whole = _out_of(tokens[place : place + 2], number)
    if whole:
        return 100 * number / whole, place + 2
    if word == "one" and after not in (["worker"], ["person"], ["child"]):
        return None  # usually a pronoun
    if place < len(tokens) and tokens[place] in _PARTS and number < 10 and word.isalpha():
        return 100 * number * _PARTS[tokens[place]], place + 1
    while place < len(tokens):
        follows = tokens[place]
        if follows in _SCALES and (follows not in ("m", "k") or before[:1] in _SIGNS):
            number *= _SCALES[follows]
        elif (
            follows == "and"
            and number >= 100
            and place + 1 < len(tokens)
            and tokens[place + 1] in _WORDS
        ):
            number += _WORDS[tokens[place + 1]]
            place += 1
        else:
            break
        place += 1
    return number, place


def _out_of(tokens: list[str], part: float) -> float:
    """Return the whole that `part` is a share of: the 7 of "one in seven", or 0."""
    if len(tokens) < 2 or tokens[0] != "in":
        return 0.0
    whole = plain_number(tokens[1]) or 0.0
    return whole if part < whole <= _MAX_SHARE else 0.0


def plain_number(token: str) -> float | None:
    """Return the number in a token, in digits or words, or None."""
    if token[0].isdigit():
        if _GROUPED.fullmatch(token):
            return float(re.sub(r"[,'’]", "", token))
        if _POINTED.fullmatch(token):
            return float(token.replace(".", ""))
        try:
            return float(token.replace(",", "."))
        except ValueError:
            return None  # a version with three parts
    if token in _WORDS:
        return _WORDS[token]
    left, _dash, right = token.partition("-")
    if left in _WORDS and right in _WORDS:
        return _WORDS[left] + _WORDS[right]
    return None


def _unit(before: str, after: list[str]) -> tuple[str, float]:
    if before == "百分之":
        return "%", 1.0
    if len(after) > 1 and after[0] in _SQUARE | _CUBIC:
        power = 2 if after[0] in _SQUARE else 3
        kind, factor = _UNITS.get(after[1], ("", 1.0))
        if kind == "m":  # a cubic metre is a thousand litres
            return ("m2", factor**2) if power == 2 else ("l", 1_000 * factor**3)
    for place, token in enumerate(after):
        word = token.replace(" ", "")
        if word == "°f":
            return "°f", 1.0
        if word in _UNITS:
            if word.startswith("degree") and "fahrenheit" in after:
                return "°f", 1.0
            kind, factor = _UNITS[word]
            follows = after[place + 1 : place + 2]
            return ("wh" if kind == "w" and follows in (["hour"], ["hours"]) else kind), factor
        if word not in _SKIPPED:
            break
    if before in _UNITS and before in "€$£":
        return _UNITS[before]
    word = next((t for t in after if t.isalpha() and t not in _SKIPPED), "")
    return word.removesuffix("s"), 1.0


def _fahrenheit(amount: Amount) -> Amount:
    if amount.unit != "°f":
        return amount
    return Amount((amount.value - 32) / 1.8, "degree")


def is_same(left: Amount, right: Amount) -> bool:
    """Return True if both are the same amount. A unit that is just a word can differ."""
    if not left.is_near(right):
        return False
    return left.unit == right.unit or left.unit not in UNITS or right.unit not in UNITS


def same_kind(left: Amount, right: Amount) -> bool:
    """Return True if two amounts can be values of the same thing."""
    return left.unit == right.unit or not (left.unit in UNITS or right.unit in UNITS)


def is_rounded(left: Amount, right: Amount) -> bool:
    """Return True if one is the other with fewer digits: 1,425 megawatts and 1.4 gigawatts."""
    if left.unit in UNITS and right.unit in UNITS and left.unit != right.unit:
        return False
    ours, theirs = _digits(left.value), _digits(right.value)
    fine, coarse, count = (left, right, theirs) if ours > theirs else (right, left, ours)
    if ours == theirs or not left.is_near(right, 0.04):
        return False
    return math.isclose(float(f"{fine.value:.{max(0, count - 1)}e}"), coarse.value)


def _digits(value: float) -> int:
    return len(f"{value:.9e}".split("e")[0].replace(".", "").rstrip("0"))


# --- kinds of values ---

DATE, VERSION, PERCENT, AMOUNT, NUMBER, STATUS, LINK, LIST, TEXT, NONE = (
    "date", "version", "percent", "amount", "number", "status", "link", "list", "text", "",
)  # fmt: skip
MAX_STATUS_WORDS = 5
MAX_LENGTH = 300  # characters of a value

# January to December, in the supported languages.
_MONTH_NAMES = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz maerz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)
# Lengths of time in English, German, French and Spanish, and in Chinese and Japanese.
_PERIOD_NAMES = {
    "second": (r"seconds|(?:\d+|per|a) second|sekunden?|secondes?|segundos?", "每秒|毎秒"),
    "minute": ("minutes?|minuten|minutos?", "每分钟|毎分"),
    "hour": (r"hours?|hourly|stunden?|stündlich\w*|heures?|horas?", "小时|時間"),
    "day": (r"days?|daily|(?:\d+|pro|am|je|jede[nrms]?|einem?) tag|tage[ns]?|täglich\w*|jours?|quotidien\w*|días?|diari[oa]s?", "每天|每日|毎日|日間"),
    "week": (r"weeks?|weekly|wochen?|wöchentlich\w*|semaines?|hebdomadaires?|semanas?|semanal\w*", "每周|毎週|週間"),
    "month": (r"months?|monthly|monate?n?s?|monatlich\w*|mois|mensuel\w*|mes(?:es)?|mensual\w*", "每月|个月|毎月|[かヶ]月"),
    "half_year": (r"half[- ]?yearly|biannual(?:ly)?|halbjähr\w*|semestr\w+", "每半年|半年"),
    "quarter": (r"quarterly|(?:per|each|every|a) quarter|quartale?n?s?|vierteljährlich\w*|trimestr\w+", "每季|四半期"),
    "year": (r"years?|yearly|annual(?:ly)?|jahre?n?s?|jährlich\w*|(?:\d+|un|deux|trois|par|les|chaque|des) ans?|années?|annuel\w*|años?|anual\w*", "每年|毎年|年間"),
}  # fmt: skip
_PERIOD = re.compile(
    "|".join(
        rf"(?P<{name}>\b(?:{spaced})\b|{wide})" for name, (spaced, wide) in _PERIOD_NAMES.items()
    )
)
MONTHS = {name: n for n, names in enumerate(_MONTH_NAMES, start=1) for name in names.split()}
_MONTH = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er)?"
_DATE = re.compile(
    rf"\b(?P<y1>\d{{4}})[-/.](?P<m1>\d{{1,2}})(?:[-/.](?P<d1>\d{{1,2}}))?\b(?![.\d])"
    rf"|\b(?P<d2>\d{{1,2}})[./](?P<m2>\d{{1,2}})[./](?P<y2>\d{{4}}|(?<=\d\d[./]\d\d[./])\d{{2}})\b(?![.\d])"
    rf"|\b(?P<d3>{_DAY})\.?\s+(?:of\s+|de\s+)?(?P<n3>{_MONTH})(?:,?\s+(?:de\s+)?(?P<y3>\d{{4}}))?\b"
    rf"|\b(?P<n4>{_MONTH})\s+(?P<d4>{_DAY})\b(?:,?\s+(?P<y4>\d{{4}}))?"
    rf"|\b(?P<n5>{_MONTH}),?\s+(?:de\s+)?(?P<y5>\d{{4}})\b"
    rf"|\b(?P<q6>[QH][1-4])[ /-]?(?P<y6>\d{{4}})\b"
    rf"|(?P<y7>\d{{4}})年(?:(?P<m7>\d{{1,2}})月(?:(?P<d7>\d{{1,2}})日)?)?|(?P<m8>\d{{1,2}})月(?P<d8>\d{{1,2}})日"
    # A bare year needs a word or a sign next to it: "1960 cells" isn't a date.
    r"|(?:(?<=\bin )|(?<=\bof )|(?<=\bim )|(?<=\ben )|(?<=\bby )|(?<=\bde )|(?<=since )|(?<=until )|(?<=from )|(?<=year )"
    r"|(?<=Jahr )|(?<=seit )|(?<=depuis )|(?<=\())(?P<y9>(?:19|20)\d\d)\b(?![.,]\d|\s?%)"
    r"|\b(?P<y0>(?:19|20)\d\d)\b(?=\s*(?:$|[;:)\]–—-]|[.,](?!\d)))",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"\bv?\d+(?:\.\d+)+(?:[-.]?(?:alpha|beta|rc|dev|pre|post|patch|p|b|a|M|SNAPSHOT|lts|final|ga|ea)[-.]?\d*)*[\w+-]*"
    r"|\bv\d+\b|\b\d+\.x\b|\b(?:alpha|beta|rc|candidate)\s?\d+\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    r"[-+−]?\d+(?:[.,]\d+)?\s*(?:%|percent\b|per cent\b|Prozent\b|pour cent\b|por ciento\b)"
)
_CURRENCY = r"(?:[$€£¥₹]|US\$|USD|EUR|GBP|CHF|JPY|CNY|元|円|원)"
_AMOUNT = re.compile(
    rf"{_CURRENCY}\s?\d[\d.,' ]*(?:\s?(?:[kMB]\b|million|billion|Mio|Mrd)\b)?"
    rf"|\d[\d.,']*\s?(?:[kMB]\b\s?)?(?:{_CURRENCY}|(?:k|M|G|T)i?B\b|[kMGT]?Wh?\b|kg\b|km\b|mm\b|cm\b|°C|ms\b|GHz\b|MHz\b"
    r"|million\b|billion\b|Millionen\b|Milliarden\b|days?\b|hours?\b|weeks?\b|months?\b|years?\b|Tage\b|Monate\b|Jahre\b"
    r"|jours\b|mois\b|ans\b|días\b|meses\b|años\b|天|年|个月|小时|万|亿)"
)
_NUMBER = re.compile(r"(?<![A-Za-z_.\d])[-+−]?\d+(?:[.,' ]\d{3}(?!\d))*(?:[.,]\d+)?(?![A-Za-z_\d])")
_DIGIT = re.compile(r"\d")
_PADDED = re.compile(r"(?<!\d)0(?=\d)")
_PADDED_TIME = re.compile(r"(?<![\w.,:])0(?=\d:\d\d(?!\d))")
_STATE = re.compile(
    r"\b(?:deprecated|obsolete|legacy|retired|archived|discontinued|unmaintained|unsupported|experimental|preview"
    r"|alpha|beta|stable|veraltet|eingestellt|archiviert|déprécié|obsolète|archivé|obsoleto|descontinuado)\b"
    r"|非推奨|廃止|已弃用|已废弃|实验性|测试版",
    re.IGNORECASE,
)
_MARKED = re.compile(r"[-−–<>≤≥~≈±$€£¥₹%‰°.+#]")
_MARK = re.compile(
    r"(?<![^\s(\[:=|/;,])(?<!\d\s)[-−–](?=[.,]?\d)"
    r"|(?<!\d)(?<!\d\s)(?:<=|>=|[<>≤≥~≈±])(?=\s?[-−+]?\d)"
    r"|[$€£¥₹](?=\s?[-−]?\d)|(?<=\d)\s?[$€£¥₹%‰°]"
    r"|(?<![\w.])\.(?=\d)|(?<=\d)\+(?![\w+])"
    r"|(?<!\w)[^\W\d_](?:\+\+|[+#]|-(?=$|[\s,.;)|]))(?![\w+#])"
)
_CLOCK = re.compile(r"\d\s?(am|pm|a\.m|p\.m|UTC|GMT|CES?T|[ECMP][SD]T)\b", re.IGNORECASE)
# The units of measurement that differ in one letter, each with its number.
_MEASURE = re.compile(
    r"(?<!\d)(?<!\d[.,])(\d+(?:[.,]\d+)*)\s?((?:[mkµμncdMGT]i?)?(?:g|m|l|L|s|A|V|W|Wh|Hz|B|Bit|bit|Pa|J|N|mol)|IE|IU)\b"
)
_SIGN_WORDS = [
    (re.compile(rf"\b(?:{words})\s+(?=[\d$€£¥₹])|(?:{wide})(?=\d)", re.IGNORECASE), sign)
    for sign, words, wide in (
        ("≥", "at least|mindestens|wenigstens|au moins|al menos|como mínimo", "至少|不少于"),
        ("≤", "at most|höchstens|au plus|como máximo", "至多|最多"),
        (
            "~",
            r"about|around|approximately|approx\.|circa|ca\.|etwa|rund|environ|unos|unas",
            "大约|约|約",
        ),
    )
]
_SAME_MARKS = {"−": "-", "–": "-", "<=": "≤", ">=": "≥", "≈": "~"}
_LINK = re.compile(r"https?://\S+|\bwww\.\S+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ORDER = (
    (DATE, _DATE),
    (PERCENT, _PERCENT),
    (AMOUNT, _AMOUNT),
    (VERSION, _VERSION),
    (NUMBER, _NUMBER),
)


def kind_of(value: str) -> str:
    """Return the kind of a whole value: a date with a weekday before it is a date."""
    text = value.strip()
    if not text or text in "-–—":
        return NONE
    if _LINK.fullmatch(text):
        return LINK
    rest = text
    results: list[str] = []
    # Every value has a digit, and a long text isn't a value.
    if _DIGIT.search(text) and len(text) <= MAX_LENGTH:
        for kind, pattern in _ORDER:
            rest, count = pattern.subn(" ", rest)
            results += [kind] * count
    words = [word for word in re.findall(r"[^\W\d_]+", rest) if len(word) > 1]
    if results and len(words) <= 2:
        return results[0] if len(results) <= 2 else LIST
    if not results and len(text.split()) <= MAX_STATUS_WORDS and len(text) <= 60:
        return STATUS
    return TEXT


def is_sign(value: str) -> bool:
    """Return True if a value consists only of signs such as ✅, 🚫 or +. A dash is an empty cell."""
    text = value.strip()
    return bool(text) and text not in "-–—" and not any(map(str.isalnum, text))


def marks(text: str) -> tuple[str, ...]:
    """Return the signs that belong to the numbers and grades of a text, sorted; `match_key` drops them.

    For example: -5, <20, 20 €, 20 %, .5, 18+, A+ and C#. A hyphen in a range or a date isn't one.
    """
    found = (match[0].strip() for match in _MARK.finditer(text)) if _MARKED.search(text) else ()
    return tuple(sorted(_SAME_MARKS.get(sign, sign) for sign in found))


def identity(text: str) -> tuple[str, tuple[str, ...]]:
    """Return what equal statements share: their words and numbers, with the signs of the numbers."""
    return match_key(text), marks(text)


def are_other_measures(before: str, after: str) -> bool:
    """Return True if numbers have other signs or units: "-5", "<5 mg", "5 µg", "10:00 pm"."""
    if marks(before) != marks(after) and marks(_signed(before)) != marks(_signed(after)):
        return True
    clocks = (
        {found.casefold().replace(".", "") for found in _CLOCK.findall(text)}
        for text in (before, after)
    )
    return len({*map(frozenset, clocks)}) > 1 or are_other_units(before, after)


def _signed(text: str) -> str:
    """Return a text with signs in place of words: "at least 20" is "≥20", "about 20" is "~20"."""
    for words, sign in _SIGN_WORDS:
        text = words.sub(sign, text)
    return text


def are_other_units(before: str, after: str) -> bool:
    """Return True if the same number has another unit of measurement: "5 mg" and "5 µg"."""
    old, new = _units(before), _units(after)
    return any(number in old and old[number] != units for number, units in new.items())


def _units(text: str) -> dict[str, set[str]]:
    """Return the units of measurement of each number, in one spelling."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for number, unit in _MEASURE.findall(normal_form(text)):
        found[number].add(unit.replace("L", "l").replace("Bit", "bit").replace("IE", "IU"))
    return found


def typed_values(text: str) -> Counter[tuple[str, str]]:
    """Return the dates, versions, amounts and numbers of a sentence, each with its kind.

    A date is the same value however it is written: `2025-11-13`, `13 November 2025`, `13.11.2025`.
    """
    return Counter(_typed_values(text)) if _DIGIT.search(text) else Counter()


@lru_cache(maxsize=4_096)
def _typed_values(text: str) -> Counter[tuple[str, str]]:
    rest = _LINK.sub(" ", normal_form(text))
    found: Counter[tuple[str, str]] = Counter()
    for kind, pattern in _ORDER:
        for match in pattern.finditer(rest):
            value = "-".join(_date_parts(match)) if kind == DATE else _canonical(match.group())
            found[kind, value] += 1
        rest = pattern.sub(" ", rest)
    return found


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text in one spelling, dates by their parts: `2025`, `m11`, `d13`."""
    found: set[str] = set()
    for kind, value in typed_values(text):
        if kind == DATE:
            found.update(value.split("-"))
        else:
            found.update(re.findall(r"\d+(?:\.\d+)*", value.replace(",", "").replace("'", "")))
    return frozenset(found)


def _date_parts(match: re.Match[str]) -> list[str]:
    """Return the year, month and day of a date, as far as given: `2025`, `m11`, `d13`."""
    groups = {name[0]: value for name, value in match.groupdict().items() if value}
    parts = []
    if year := groups.get("y"):
        parts.append(year if len(year) == 4 else f"20{year}")
    if "q" in groups:
        parts.append(groups["q"].casefold())
    month = groups.get("m") or MONTHS.get(groups.get("n", "").casefold().rstrip("."))
    if month:
        parts.append(f"m{int(month)}")
    if day := groups.get("d"):
        parts.append(f"d{int(re.sub(r'[^0-9]', '', day))}")
    return parts


def without_dates(text: str) -> str:
    return _DATE.sub(" ", text)


def unpadded(text: str) -> str:
    """Return a text whose dates and times have no zeros in front. Those of codes count."""
    text = _DATE.sub(lambda match: _PADDED.sub("", match.group()), text)
    return _PADDED_TIME.sub("", text)


def states(text: str) -> list[str]:
    """Return the words by which a name or a badge says which state a thing is in."""
    return [found.casefold() for found in _STATE.findall(text)]


def addresses(text: str) -> set[str]:
    return set(_ADDRESS.findall(text.casefold()))


def periods(text: str) -> Counter[str]:
    """Return how often a text names each length of time, such as "day" for "daily" or "per day"."""
    return Counter(str(found.lastgroup) for found in _PERIOD.finditer(text.casefold()))


def without_links(text: str) -> str:
    """Return a text without its links and email addresses."""
    return _ADDRESS.sub(" ", _LINK.sub(" ", text))


def without_values(text: str) -> str:
    """Return a text without its dates, amounts, versions and numbers."""
    for _kind, pattern in _ORDER:
        text = pattern.sub(" ", text)
    return text


def frame_of(text: str) -> str:
    """Return a sentence with its values replaced by their kinds, which similar sentences share."""
    rest = _LINK.sub(" ", normal_form(text).casefold())
    for kind, pattern in _ORDER if _DIGIT.search(rest) else ():
        rest = pattern.sub(f" <{kind}> ", rest)
    return " ".join(re.findall(r"<\w+>|[^\W\d_]+", rest))


def changed_kinds(before: str, after: str) -> set[str]:
    """Return the kinds for which both texts have values, but different ones."""
    old, new = typed_values(before), typed_values(after)
    gone, come = old - new, new - old
    return {kind for kind, _v in gone} & {kind for kind, _v in come}


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, which sort as versions do."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:6])


_CANDIDATE = re.compile(
    r"\bv?(\d+(?:\.\d+)+)(?:[-. ]?(?:alpha|beta|rc|candidate|pre|snapshot)|[-.]?[ab](?=\d))[-. ]?(\d*)",
    re.IGNORECASE,
)


def release_of(text: str) -> str:
    """Return the release that a text's first version is a candidate of: "1.4" for "v1.4-rc.1"."""
    match = _CANDIDATE.search(text)
    return match[1] if match else ""


def _canonical(value: str) -> str:
    # A comma or apostrophe between thousands isn't part of a number.
    plain = re.sub(r"(?<=\d)[,'](?=\d{3}(?!\d))", "", value.casefold())
    return " ".join(plain.split()).strip(" .")


def is_same_release(one: str, other: str) -> bool:
    """Return True if two versions are the same, or one is a release of the other: 13 and 13.23."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")

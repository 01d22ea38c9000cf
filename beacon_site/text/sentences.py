"""The running text of a page and its sentences, without code, headings, menus and tables."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import pysbd
from pysbd.languages import LANGUAGE_CODES

from beacon_site.text.cleaning import (
    plain,
    width,
    without_citations,
    without_references,
    without_rst,
)

# No more of a page is read, whatever a topic's limits are (research.services.budgets.budget).
MAX_TEXT_LENGTH = 120_000

_BLOCKS = re.compile(r"\n(?:[^\S\n]*\n)+")
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t-].*\n)+---[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ITEM = re.compile(r"\s{0,8}(?:[-*+•·▪►‣–]|\d{1,3}[.)、]|\(\d{1,2}\)|\[\d+\]:?|>)\s+")
_HEADING = re.compile(r"\s*#{1,6}\s")
_UNDERLINE = re.compile(r"\s*([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_NOT_PROSE = re.compile(
    r"""\s*(?:
      \|  | .*\s\|\s.*\s\|  | \+[-=]{3,}       # rows and rules of tables
    | \.\.(?:\s|$)  | :[\w\- ]{1,30}:(?:\s|$)  # directives and fields of reStructuredText
    | \[?!\[  | \[\^?[^\]]{1,60}\]:            # badges, pictures, link targets
    | </?[a-zA-Z!][^>]*>\s*$                   # a line of markup
    | >>>\s | \$\s | %\s | [#>]!               # a terminal
    | @\w+[({\s] | (?:from|import|def|class|const|let|var|func|public|private|return)\s.*[({;:=]\s*$
    )""",
    re.VERBOSE,
)
_LINK = re.compile(r"!?\[[^\]]{0,300}\]\([^)\s]{0,500}[^)]{0,200}\)|https?://\S+")
_ENDS = re.compile(r"[.!?…。．！？][\"'”’»」』）)\]*_]*(?:\s*\[\d+\])*$")


def paragraphs(text: str) -> list[str]:
    """Return the running text of a page, with one line per paragraph.

    Each paragraph is an exact part of `one_line(text)`, so that it can be quoted, without its list
    marker.  Only the first `MAX_TEXT_LENGTH` characters are read.
    """
    text = text[:MAX_TEXT_LENGTH].replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    text = _FRONT_MATTER.sub("", text)
    text = _COMMENT.sub("\n\n", _FENCED.sub("\n\n", text))
    results: list[str] = []
    code_may_follow = True
    for block in _BLOCKS.split(text):
        lines = block.strip("\n").split("\n")
        if code_may_follow and _is_indented_code(lines):
            continue
        code_may_follow = not _ITEM.match(lines[0])
        results += [" ".join(group.split()) for group in _groups(lines)]
    return [paragraph for paragraph in results if paragraph]


def _is_indented_code(lines: list[str]) -> bool:
    """Return True if a whole block is indented by four spaces, like code in Markdown and RST."""
    return all(line.startswith("    ") for line in lines if line.strip()) and not _ITEM.match(
        lines[0]
    )


def _groups(lines: list[str]) -> list[str]:
    """Join the lines of one block that belong to one paragraph, and drop lines that aren't prose."""
    longest = max(map(len, lines))
    groups: list[list[str]] = [[]]
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if _drops(line, after):
            groups.append([])
        elif _ITEM.match(line):
            groups.append([_ITEM.sub("", line, count=1)])
        elif groups[-1] and _breaks(groups[-1][-1], line, longest):
            groups.append([line])
        else:
            groups[-1].append(line)
    return [" ".join(group) for group in groups if group and not _is_links(" ".join(group))]


def _drops(line: str, after: str) -> bool:
    if not line.strip() or _HEADING.match(line) or _UNDERLINE.match(line):
        return True
    under = _UNDERLINE.match(after)
    return bool(_NOT_PROSE.match(line)) or (under is not None and not _ENDS.search(line))


def _breaks(before: str, line: str, longest: int) -> bool:
    """Whether `line` begins a paragraph, because the line before is short and doesn't end a sentence."""
    starts = line.lstrip()[:1]
    begins = starts.isupper() or is_wide(starts)
    return begins and len(before) < 0.6 * longest and not _ENDS.search(before.rstrip())


def _is_links(line: str) -> bool:
    """Return True if most of a line is links, as in a menu or a list of further reading."""
    line = line[:1_500]
    links = _LINK.findall(line)
    return bool(links) and sum(map(len, links)) > 0.6 * len(line)


def is_wide(char: str) -> bool:
    """Return True if a character is East Asian wide (Chinese, Japanese, Korean)."""
    return bool(char) and unicodedata.east_asian_width(char) in "WF"


def close_up(text: str) -> str:
    """Remove the spaces that a line break left between two East Asian wide characters."""
    if " " not in text or text.isascii():
        return text
    words = text.split(" ")
    joined = words[0]
    for before, word in pairwise(words):
        gap = "" if before and word and is_wide(before[-1]) and is_wide(word[0]) else " "
        joined += gap + word
    return joined


def ends_like_a_sentence(text: str) -> bool:
    """Return True if the text ends with a full stop or similar, ignoring brackets and citations."""
    return _ENDS.search(text) is not None


# --- sentences ---

# Some patterns of the splitter are slow on long texts, so it gets one paragraph at a time.
MAX_PARAGRAPH_LENGTH = 2_000
# If full stops are closer than this on average, there are no sentences.
MIN_AVERAGE_LENGTH = 12
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ur", re.compile(r"[\u0679\u0688\u0691\u06d2]")),
    ("fa", re.compile(r"[\u067e\u0686\u0698\u06af]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("hy", re.compile(r"[\u0530-\u058f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("am", re.compile(r"[\u1200-\u137f]")),
    ("my", re.compile(r"[\u1000-\u109f]")),
)
_COMMON = {
    "en": "the of and to in is that for with are was by from this which be",
    "de": "der die das und ist nicht ein eine mit von den zu im für auf wird werden sich",
    "fr": "le la les des est une dans pour qui sur que au du avec sont par plus",
    "es": "el la los las de que en es una por con para del se como más fue",
    "it": "il la di che è un una per con del della sono nel gli più dei",
    "nl": "de het een van en is dat niet op te voor met zijn aan door",
    "pl": "i w na z się jest nie do że to od przez dla oraz jak",
    "da": "og i at det er en til af den for på med der ikke som",
    "pt": "o a os as de que em um uma para com não por mais foi são do da",
}
_COMMON_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_WORD = re.compile(r"[^\W_]+(?:[.'’\-/][^\W_]+)*")
_STOP = re.compile(r"[.!?…][\"'”’)\]]*\s+")
# "．" ends sentences in Japanese and Chinese papers, but it also comes between digits.
_WIDE_END = re.compile(r"(?:(?<=[。！？])|(?<=[^\W\d]．))\s*(?![。！？”’」』）)\s])")
_OPENING, _CLOSING = re.compile("[“‘「『（(《]"), re.compile("[”’」』）)》]")
# A word after which a full stop certainly ends a sentence, if a capital letter follows.
_SURE_END = re.compile(r"(?:^|[\s(\"“])(?:[a-z]{3,}(?:-[a-z]+)*|\d{2,}|[a-z]+\d+)[.!?]\s+$")
_SHORTENED = frozenset(
    (
        "etc approx incl excl est ext dept univ fig figs vol vols ref refs sec secs ch chap "
        "para inc corp ltd bros prof gen rep sen gov col sgt capt adm rev hon min max resp "
        "avg std eds jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat "
        "sun cf viz vs"
    ).split()
)
# Abbreviations that never end a sentence.
_NEVER_LAST = frozenset(
    (
        "bspw bzw ggf gem lt sog evtl zzgl inkl exkl vgl nr abs núm p.ej z.b d.h u.a i.d.r i.v.m i.s.d "
        "e.g i.e"
    ).split()
)
# "16. Juli" is never split, whatever the text's language seems to be.
_DAY = re.compile(r"(?:^|\D)\d{1,2}\\?\.$")
_GOES_ON = re.compile(
    r"(?:januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember)\b",
    re.IGNORECASE,
)
# Characters that can follow a full stop without a space.
_MAY_FOLLOW = "[(\"'“‘「『（"
_MARKS = re.compile(r"(?:\[\d{1,3}\]\s*)+(?=\S|$)")
# Only real elements, since `<repository>` is a placeholder in documentation.
_ELEMENT = (
    "a|abbr|b|big|blockquote|br|center|cite|code|dd|del|details|dfn|div|dl|dt|em|figure|font|h[1-6]|hr|i"
    "|img|ins|kbd|li|mark|ol|p|picture|pre|q|s|samp|section|small|span|strong|sub|summary|sup|table|tbody"
    "|td|th|thead|tr|tt|u|ul|var|video"
)
_MARKUP = re.compile(
    rf"\[\^\w+\]|\[edit\]|</?(?:{_ELEMENT})(?:\s[^<>]{{0,200}})?/?>",
    re.IGNORECASE,
)
_MARKED = re.compile(r"[\[\]`*_<>#|]|^\s*[-+•·–—>\d]")
_REFERENCE = re.compile(r"\[([^\[\]]{1,200})\]\[[^\[\]]{0,60}\]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a page.

    `text` is plain, without markup and citation marks; `quote` is the same sentence exactly as in
    `one_line(page)`; `position` counts the sentences and `paragraph` the paragraphs before it.
    """

    text: str
    quote: str
    position: int
    paragraph: int


def sentences(text: str, language: str = "") -> list[Sentence]:
    """Return the whole sentences of a page's running text, in order; fragments are left out.

    `language` is a two-letter code, or it is guessed.  Only the first 60,000 characters are read, and paragraphs are split one by one, so that a hostile
    page takes limited time.
    """
    prose = paragraphs(text)
    language = language[:2].lower() or language_of(" ".join(prose[:40]))
    results: list[Sentence] = []
    for number, paragraph in enumerate(prose):
        for quote in split(paragraph, language):
            if ends_like_a_sentence(quote):
                results.append(Sentence(readable(quote), quote, len(results), number))
    return results


def split_sentences(text: str) -> list[str]:
    """Return a page's running text as unchanged sentences, including fragments."""
    prose = paragraphs(text)
    language = language_of(" ".join(prose[:40]))
    return [piece for paragraph in prose for piece in split(paragraph, language)]


def split(paragraph: str, language: str = "en") -> list[str]:
    """Split one line of running text into unchanged sentences.

    Citation marks after a full stop stay with the sentence before them.
    """
    whole: list[str] = []
    for chunk in _chunks(paragraph):
        for part in _split_chunk(chunk, language):
            marks = _MARKS.match(part)
            if marks and whole:
                whole[-1] = f"{whole[-1]} {marks.group().strip()}"
                part = part[marks.end() :].strip()
            if part:
                whole.append(part)
    return [part for part in whole if part in paragraph]


def _split_chunk(chunk: str, language: str) -> list[str]:
    if language in ("zh", "ja"):
        return _split_wide(chunk)
    stops = list(_STOP.finditer(chunk))
    if all(_surely_ends(chunk, stop, language) for stop in stops):
        edges = [0, *(stop.end() for stop in stops), len(chunk)]
        parts = [chunk[start:end].strip() for start, end in pairwise(edges)]
        return [part for part in parts if part]
    if len(stops) * MIN_AVERAGE_LENGTH > len(chunk):
        return []
    return _by_rules(chunk, language)


def _split_wide(chunk: str) -> list[str]:
    """Split Chinese or Japanese, but not inside quotes or brackets."""
    whole: list[str] = []
    opened = 0
    for part in _WIDE_END.split(chunk):
        if opened > 0:
            whole[-1] += part
        else:
            whole.append(part)
        opened += len(_OPENING.findall(part)) - len(_CLOSING.findall(part))
        # An unclosed bracket must not swallow the page.
        opened = opened if whole[-1] and width(whole[-1]) < 400 else 0
    return [part.strip() for part in whole if part.strip()]


def _surely_ends(chunk: str, stop: re.Match[str], language: str) -> bool:
    """Return True if a full stop certainly ends a sentence, so that pysbd's rules aren't needed."""
    before = _SURE_END.search(chunk[max(0, stop.start() - 40) : stop.end()])
    if before is None or not chunk[stop.end() : stop.end() + 1].isupper():
        return False
    word = before.group().strip(' .!?("“')
    if word.isdigit() and _GOES_ON.match(chunk, stop.end()):
        return False
    return word not in _SHORTENED | _NEVER_LAST and not (word.isdigit() and language != "en")


def _by_rules(chunk: str, language: str) -> list[str]:
    """Split with pysbd; if it changed the text, return it unsplit."""
    code = language if language in LANGUAGE_CODES else "en"
    # One for each call, because a segmenter stores the text it works on.
    segmenter = pysbd.Segmenter(language=code, clean=False)
    parts = [part.strip() for part in segmenter.segment(chunk)]
    return _rejoined([part for part in parts if part and part in chunk], chunk)


def _rejoined(parts: list[str], chunk: str) -> list[str]:
    """Rejoin names that were split, such as `.gitmodules`, and what follows an abbreviation."""
    rejoined: list[str] = []
    for part in parts:
        if rejoined and _never_ends(rejoined[-1], part):
            joined = f"{rejoined[-1]} {part}"
            if joined in chunk:
                rejoined[-1] = joined
                continue
        whole = f"{rejoined[-1]}{part}" if rejoined else ""
        if rejoined and part[0] not in _MAY_FOLLOW and whole in chunk:
            rejoined[-1] = whole
        else:
            rejoined.append(part)
    return rejoined


def _never_ends(before: str, after: str) -> bool:
    """Whether a full stop between two parts of a chunk belongs to an abbreviation or a date."""
    if before.rsplit(" ", 1)[-1].lower().rstrip(".") in _NEVER_LAST:
        return True
    return _DAY.search(before) is not None and _GOES_ON.match(after) is not None


def _chunks(paragraph: str) -> list[str]:
    """Cut an overlong paragraph after full stops."""
    chunks = []
    while len(paragraph) > MAX_PARAGRAPH_LENGTH:
        head = paragraph[:MAX_PARAGRAPH_LENGTH]
        cut = max(head.rfind(". "), head.rfind("。"), head.rfind("؟"), head.rfind("। ")) + 1
        cut = cut if cut > MAX_PARAGRAPH_LENGTH // 4 else MAX_PARAGRAPH_LENGTH
        chunks.append(paragraph[:cut].strip())
        paragraph = paragraph[cut:].strip()
    return [*chunks, paragraph]


def readable(quote: str) -> str:
    """Return a quoted span without markup and citation marks."""
    if not _MARKED.search(quote):
        return close_up(quote)
    text = _REFERENCE.sub(r"\1", without_rst(quote))
    return close_up(without_citations(without_references(plain(_MARKUP.sub("", text)))))


@lru_cache(maxsize=512)
def language_of(text: str) -> str:
    """Guess a two-letter code by script, and for Latin letters by the most common words.

    The default is "en".  A script counts if it has at least a tenth of the letters.
    """
    sample = text[:3_000]
    letters = sum(char.isalpha() for char in sample)
    for language, script in _SCRIPTS:
        floor = 0.03 if language in ("ja", "ur", "fa") else 0.1
        if len(script.findall(sample)) > floor * max(letters, 1):
            return language
    words = sample.casefold().split()
    hits = {code: sum(word in common for word in words) for code, common in _COMMON_WORDS.items()}
    best = max(hits, key=lambda code: hits[code])
    return best if hits[best] > 1.2 * hits["en"] else "en"


FIRST_WIDE = "\u1100"


def word_count(text: str) -> int:
    """Count words; two East Asian wide characters, which have no spaces between words, count as one.

    So 8 to 45 words contain about as much meaning in every language.
    """
    if text.isascii() or max(text) < FIRST_WIDE:
        return len(_WORD.findall(text))
    wide = "".join(char for char in text if is_wide(char) and char.isalnum())
    narrow = "".join(" " if is_wide(char) else char for char in text)
    return len(_WORD.findall(narrow)) + width(wide) // 4

"""Finds wording that doesn't read as natural English, in all text that people or models read.

    python scripts/words.py                    print how many hits each kind of text has
    python scripts/words.py --list [KIND]      print every hit, with what to write instead
    python scripts/words.py --check            fail if there are more hits than in scripts/words.json
    python scripts/words.py --write            store today's counts in scripts/words.json
    python scripts/words.py --sample 100 --seed 7 [--of KIND]
                                               print random texts, for a person to rate

Hits are counted for each kind of text and each pattern. A count that isn't in words.json must be
zero. A legitimate use goes into scripts/words_exceptions.txt. Not searched are text inside
backticks, code blocks, placeholders, URLs, paths, and the variables of a template's context. The
patterns miss more than half of all unnatural sentences, so a clean result doesn't prove that a text
reads well.

The kind `names` is different: it counts words in the names that the product's code binds, of
functions, classes, parameters, variables and attributes. Their counts can only fall. After a rename,
store the lower ones with --write.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "scripts" / "words.json"
EXCEPTIONS = ROOT / "scripts" / "words_exceptions.txt"

APPS = ("beacon_site", "memory", "research", "clients", "manage.py")
TOOLS = ("scripts", "benchmarks", "hatch_build.py")
OTHERS = (
    *("tests", "templates", "static", "docs", ".ci", "Makefile", "Dockerfile"),
    *("docker-compose.yml", "pyproject.toml"),
)
# Elsewhere Markdown is data of tests and benchmarks.
WITH_MARKDOWN = ("docs", "templates", "clients")
SUFFIXES = {".py", ".md", ".html", ".txt", ".js", ".css", ".toml", ".yml", ""}
SKIPPED = {"vendor", "migrations", "locale", "__pycache__", "node_modules", "data"}

KINDS = {
    "templates": "translated and visible text, and attributes such as title",
    "messages": "gettext strings in Python",
    "strings": "other sentences in Python and JavaScript: exceptions, logs, help texts",
    "interfaces": "descriptions of REST operations, MCP tools and their fields",
    "prompts": "templates/prompts",
    "docs": "docs/ without the reference, README, CHANGELOG and the other Markdown files",
    "reference": "docs/reference, which is generated from the code",
    "docstrings": "docstrings of the product",
    "comments": "comments of the product: Python, templates, JavaScript, CSS, settings",
    "tests": "docstrings and comments of tests",
    "tools": "docstrings, comments and output of scripts and benchmarks",
    "names": "names that the product's code binds, split into words",
}
UI = ("templates", "messages")
SHOWN = (*UI, "strings")
READ = (*SHOWN, "docs")
PRODUCT = (*READ, "interfaces", "prompts", "reference")
ALL = tuple(kind for kind in KINDS if kind != "names")

# Quotes: requirements as they were given, reports on real pages, and the patterns themselves.
QUOTED = re.compile(
    r"docs/dev/requirements\.md|docs/examples/.*-run-\d+\.md"
    r"|scripts/words\.py|tests/site/test_words\.py"
)


class Pattern(NamedTuple):
    """Wording to avoid; a space in the expression also matches a line break."""

    name: str
    expression: str
    instead: str
    kinds: tuple[str, ...] = ALL
    longest: int = 0  # words of a sentence; 0 if the expression is searched


PATTERNS = (
    # Verbs of posture for "is"
    Pattern("stands", r"\b(stands?|stood)\b(?!-| (in )?for\b| out\b)", "is, remains"),
    Pattern(
        "lies",
        r"\b(lies|lain)\b|\b(lie|lay|lying) (in|on|at|under|below|beside|behind|within|there|around)\b",
        "is",
    ),
    Pattern("go on", r"\b(go|goes|going|went|gone) on\b(?! (a|an|the|it|its)\b)", "continue"),
    Pattern("holds", r"\bholds? (for|from|again)\b", "applies"),
    # `is no` instead of `isn't a`
    Pattern(
        "is no",
        r"(?<!there )(?<!what )\b(is|are|was|were) "
        r"((?-i:no) (?!longer|more|less|fewer|different|better|worse|matter)\w|(?-i:none)\b)",
        "isn't a",
    ),
    # Passive of telling, asking, looking
    Pattern(
        "is told",
        r"\b(is|are|was|were|be|been|being) ((not|never|only|then|also|still|always) )?told\b(?! apart)",
        "you see, Beacon reports",
    ),
    Pattern(
        "is looked at",
        r"\b(is|are|was|were|be|been) ((not|never) )?"
        r"(looked (at|for|into|through|over|after)|heard (of|from)|waited for|spoken of)\b",
        "name who does it, or: reviewed, searched, checked in",
    ),
    # Archaic and stacked adverbs
    Pattern("anew", r"\banew\b", "again, new"),
    Pattern(
        "any more",
        r"\bany more\b(?=[^\w\s%]|$| (and|or|but|if|when|in|on|at|to|for|by|here|there|because|is)\b)",
        "no longer",
    ),
    Pattern("meanwhile", r"\bmeanwhile\b", "since then, in the meantime"),
    Pattern("once more", r"\bonce more\b(?! than)", "again"),
    Pattern("for good", r"\bfor good\b(?! [a-z]+s?\b(?<!and)(?<!or)(?<!by))", "permanently"),
    Pattern(
        "alone",  # but `leave it alone` is English
        r"(?<!\S)((((?!leav|left\b|let\b)\S+ ){4}|\A((?!leav|left\b|let\b)\S+ ){0,3}))"
        r"(?<!is )(?<!be )(?<!stand )(?<!stands )(?<!MiniLM )alone\b",
        "only, by itself",
    ),
    Pattern("from … on", r"\bfrom (?!now |then )(\S+ ){1,4}on(?=[.,;:!?)]|$)", "starting with"),
    Pattern("lest", r"\b(lest|thereof|therein|wherein|whereupon|henceforth|hitherto)\b", "so that"),
    # Verbs for standard actions
    Pattern("mend", r"\bmend(s|ed|ing)?\b", "fix"),
    Pattern(
        "take back",
        r"\b(take|takes|taken|took|taking) ((it|that|them|this|one) )?back\b",
        "undo",
    ),
    Pattern(
        "tick",
        r"\b(un)?ticked\b|\b(un)?ticks? (the|a|an|one|it|them|those|these|all|each|which|what|at)\b",
        "select",
    ),
    Pattern("put off", r"\b(put|puts|putting) ((it|them|that) )?(off|away)\b", "postpone, delete"),
    Pattern("look through", r"\blooked through\b|\blook through (it|the|an?)\b", "preview, review"),
    Pattern("let in", r"\blet (\w+ )?in( again)?(?=[.,;:)”]|$)|\blet in\b", "unblock, allow"),
    Pattern(
        "take up",
        r"\b(take|takes|taken|took) (it|them|that|this) (up|off|in)\b(?! time)",
        "resume, remove",
    ),
    Pattern(
        "make",
        r"(?-i:\bMake) (it (?!smaller|shorter|larger|easier)|the |a |an |my )|(?<!archive )\b(is|are|was|were) made\b"
        r"(?! (of|up|from|by|to|with|for|in|at|as|sure|when|if)\b)",
        "create",
        SHOWN,
    ),
    Pattern(
        "is made",
        r"\b(topic|account|token|link|note|file|record|table|database|row|index|copy|folder|key|feed"
        r"|session|proposal|user|person|column|schema)s? (is|are|was|were) made\b(?! (of|up|from)\b)",
        "created",
        tuple(kind for kind in ALL if kind not in SHOWN),
    ),
    # Chains of "of"; units
    Pattern(
        "a month",
        r"(\d|[%}]|\b(hours?|minutes?|seconds?|days|dollars?|USD|tokens?|calls|pages|requests"
        r"|limits?|quota|budget|MB|MiB|KB|KiB|bytes|queries|searches|sources|messages|items)) "
        r"an? (month|run|day|hour|minute|second|week|year|page|topic|call|million|request)\b(?!['’]s)"
        r"|\bruns a (month|day|hour|minute|second|week|year)\b(?! time)",
        "per month",
    ),
    Pattern(
        "of its own",  # but `a page of its own` is English
        r"\bof (yours|theirs)\b"
        r"|(?:(?!an? |no |one )\S+ ){2}[\w-]+ of (its|your|their|his|her|our|one's) own\b",
        "your own",
    ),
    # Stiff or vague
    Pattern(
        "somebody",
        r"\b(some|every|any|no)body\b(?!@)|\bwho(so)?ever\b",
        "you, your admin, someone, everyone",
    ),
    Pattern(
        "may",
        r"\b(you|who|they|he|she|it|agents?|tokens?|programs?|clients?|models?|persons?|people|users?"
        r"|accounts?|callers?|admins?|runs?|topics?) may (?!be\b|have\b|need\b|take\b|want\b|answer\b|mean\b"
        r"|hold\b|contain\b|differ\b|end\b|still\b|not (be|have|know|want)\b)|\bmay not\b(?! (be|have|know|want)\b)"
        r"|\bmay only\b",
        "can, can't",
    ),
    Pattern("shall", r"\bshall\b", "will, should"),
    Pattern(
        "like that",
        r"\b(is|are|was|looks?) like (that|this)\b(?!:)|\bso already\b|\balready so\b",
        "name the thing",
    ),
    Pattern("of this kind", r"\b(nothing|no \w+) of (this|that) kind\b", "name the thing", UI),
    Pattern(
        "what …",
        r"\A(?-i:What|Who) (?!happened\Z|is\b|are\b|do\b|does\b|did\b|can\b|should\b|would\b|changed|['’])"
        r"[^?]*\Z",
        "a noun",
        UI,
    ),
    # German word order
    Pattern(
        "verb first",
        r"(\A|(?<=[.!:] ))(?-i:Is|Are|Has|Does|Was|Were|Did) "
        r"(it|its|this|that|a|an|the|there|no|one|none|you|they)\b[^.?!]{3,160}[.;]",
        "If …",
    ),
    Pattern(
        "participle first",
        r"(\A|(?<=[.;:] ))(Not )?(?-i:[A-Z])(?!eed|ndeed|peed)\w+(?<!eed)(?<!mbed)(?<!oken)(?<!ildren)"
        r"(ed|en|ept|eft out|ound|old) (is|are|was|were) (?!raised|returned)",
        "subject first",
    ),
    Pattern(
        "of …",
        r"(\A|(?<=[.!] ))(?-i:Of) (a|an|the|each|every|what|all|these|those|several|two)\b",
        "subject first",
    ),
    # Terms
    Pattern("the trash", r"\b(the|its|your) trash\b", "Trash", READ),
    Pattern("desk", r"\b(conflict|source)s? desk\b|\bthe desk\b", "Conflicts, Sources"),
    Pattern(
        "gives orders",
        r"\b(give|gives|giving|gave) orders\b|\bsmells? of\b|\bspeaks? to (its|the) readers?\b",
        "prompt injection",
    ),
    Pattern("staff", r"\bstaff\b", "admin", READ),
    Pattern("programs", r"\bprograms?\b", "app, client", UI),
    Pattern(
        "struck", r"\bstr(uck|ike|ikes|iking)\b(?! (out|through|from)\b)", "mark as wrong", READ
    ),
    Pattern("upkeep", r"\b(the|an|its|one|by) upkeep\b|\bBeacon's upkeep\b", "maintenance", READ),
    Pattern(
        "the house",
        r"(?-i:\bThe house\b)|\bthe house['’]s\b|\bhouse rules?\b",
        "Beacon, the code, the conventions",
    ),
    Pattern("email", r"\be-mails?\b|\bmails\b|\b(a|by|each|per) mail\b(?! \w)", "email"),
    Pattern(
        "log in", r"\b(log ?in|log-in|logs in|logged in|log ?out)\b", "sign in, sign out", READ
    ),
    # Spelling and punctuation
    Pattern(
        "British spelling",
        r"\b((colour|behaviour|favour|honour|neighbour|labour|grey|licence|defence|centre|catalogue"
        r"|judgement|whilst|amongst|learnt)\w*|\w*(organis|recognis|summaris|normalis|serialis"
        r"|initialis|optimis|minimis|maximis|prioritis|synchronis|authoris|customis|tokenis|analys(?=e[ds]?\b"
        r"|ing))\w*|(label|model|travel|signal)ling)\b",
        "American spelling",
    ),
    Pattern("(s)", r"(?<!http)(?<=\w)\(s\)", "ngettext", PRODUCT),
    Pattern("exclamation mark", r"\w!(?=\s|\Z)", "a full stop", UI),
    Pattern("straight quotes", r"""(?<=\w)'(?=\w)|(?<!\S)["'](?=\w)|(?<=s)'(?= )""", "“ ” ’", UI),
    Pattern("semicolon", r";(?= )", "two sentences", UI),
    Pattern("we", r"(?-i:\b([Ww]e|[Oo]ur|us)\b)", "Beacon, you", UI),
    Pattern(
        "number word",
        r"(?<!the )(?<!of )\b((three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty) "
        r"[a-z]+s\b|(one|two) (weeks?|days?|hours?|minutes?|seconds?|months?|years?|words|lines)\b)",
        "digits",
        UI,
    ),
    Pattern(
        "no contraction",
        r"\b(cannot|(do|does|did|is|are|was|were|has|have|could|would|should) not)\b",
        "can't, isn't, don't",
        (*UI, "docs"),
    ),
    Pattern("long sentence", "", "split it: at most 25 words", UI, 25),
    Pattern("long sentence in docs", "", "split it: at most 30 words", ("docs",), 30),
    # Names. A noun in the field's standard terms says what a name holds.
    *(
        Pattern(f"{word} in a name", rf"\b{word}\b", instead, ("names",))
        for word, instead in {
            "told": "params, message, text, rows",
            "said": "message, text",
            "asked": "args, query, options, requested",
            "wanted": "query, filters, requested, expected",
            "made": "created, row",
            "anew": "again, re-",
            "beside": "next to, related",
            "taken in": "imported",
            "put away": "trashed, archived",
            "foremost": "top",
            "happened": "events",
        }.items()
    ),
)


class Text(NamedTuple):
    """A piece of text and the line that it begins in."""

    kind: str
    path: str
    line: int
    text: str


class Hit(NamedTuple):
    """A place where a pattern matches."""

    kind: str
    pattern: Pattern
    path: str
    line: int
    around: str  # the match with a few words around it


# --- what is read ---


def texts(root: Path) -> Iterator[Text]:
    """Yield all text that people or models read."""
    for path in files(root):
        name = path.relative_to(root).as_posix()
        content = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            yield from python_texts(name, content)
        elif path.suffix == ".md":
            yield from markdown_texts(name, content)
        elif name.startswith("templates/"):
            yield from template_texts(name, content)
        elif path.suffix in (".js", ".css"):
            yield from browser_texts(name, content)
        else:
            yield from comment_blocks("comments", name, content)


def files(root: Path) -> Iterator[Path]:
    """Yield the files to read, without vendored and generated ones."""
    for top in (*APPS, *TOOLS, *OTHERS, *sorted(path.name for path in root.glob("*.md"))):
        for path in [root / top] if (root / top).is_file() else sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            is_data = path.suffix == ".md" and top not in (name, *WITH_MARKDOWN)
            if path.suffix not in SUFFIXES or is_data or QUOTED.search(name):
                continue
            if path.is_file() and not SKIPPED & {*path.relative_to(root).parts}:
                yield path


PYTHON_COMMENT = re.compile(
    r"(\"{3}|'{3})(?:\\.|.)*?\1"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<comment>#[^\n]*)",
    re.S,
)
DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|pragma|nosec|ruff:|mypy:|!).*|(?<=\s)#\s*nosec.*")
# Functions that translate, with how many of their arguments are text.
TRANSLATIONS = {"_": 1, "_lazy": 1, "translate": 1, "gettext": 1, "gettext_lazy": 1}
TRANSLATIONS |= {"ngettext": 2, "ngettext_lazy": 2}


def python_texts(name: str, content: str) -> Iterator[Text]:
    """Yield docstrings, comments, translated strings and other sentences of a Python file."""
    top = name.partition("/")[0]
    of_tests, of_tools = top == "tests", top in TOOLS
    own = "tests" if of_tests else "tools" if of_tools else ""
    yield from comment_blocks(own or "comments", name, content, PYTHON_COMMENT)

    is_interface = bool(re.search(r"/(api|mcp|toolkit)/", name))
    tree = ast.parse(content)
    docs, translated = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.body and isinstance(node.body[0], ast.Expr) and is_text(node.body[0].value):
                docs.add(node.body[0].value)
                shown = is_interface and not isinstance(node, ast.Module) and node.name[0] != "_"
                kind = own or ("interfaces" if shown else "docstrings")
                yield Text(kind, name, node.body[0].lineno, node.body[0].value.value)
        elif isinstance(node, ast.Call) and not of_tests:
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            for argument in node.args[: TRANSLATIONS.get(called, 0)]:
                if is_text(argument):
                    translated.add(argument)
                    yield Text("messages", name, argument.lineno, argument.value)
    if of_tests:
        return
    if top in APPS and top != "clients":
        for line, words in bound_names(tree):
            yield Text("names", name, line, words)
    for node in ast.walk(tree):
        if is_text(node) and node not in docs | translated and is_sentence(node.value):
            kind = own or ("interfaces" if is_interface else "strings")
            yield Text(kind, name, node.lineno, node.value)


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that code binds, with their lines, as words: `TakenIn.put_away` is two names."""
    for node in ast.walk(tree):
        bound = ""
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound = node.name
        elif isinstance(node, ast.arg):
            bound = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound = node.attr
        if bound:
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", bound)
            yield getattr(node, "lineno", 1), words.strip().lower()


def is_text(node: ast.AST) -> bool:
    """Return whether a node is a string constant."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_sentence(text: str) -> bool:
    """Return whether a string looks like prose, and not like SQL, HTML or a list of words."""
    words = re.findall(r"[A-Za-z’']+", text)
    if len(words) < 3 or re.match(r"\s*[A-Z]{3,} ", text):
        return False
    if "\\" in text or "(?" in text or "<" in text or "\n  " in text or text.count("|") > 2:
        return False
    if len(words) > 12 and not re.search(r"[.,:;]", text):
        return False
    return bool(re.search(r"\b(a|an|the|is|are|not|no|of|to|it|in|for|by|and|or|has|with)\b", text))


HASH_COMMENT = re.compile(r"(?:^|(?<=\s))(?P<comment>#[^\n]*)", re.M)


def comment_blocks(
    kind: str, name: str, content: str, finder: re.Pattern[str] = HASH_COMMENT
) -> Iterator[Text]:
    """Yield comments that begin with #."""
    found = []
    for match in finder.finditer(content):
        if match["comment"]:
            at = match.start("comment")
            is_whole_line = not content[content.rfind("\n", 0, at) + 1 : at].strip()
            text = DIRECTIVE.sub("", match["comment"]).lstrip("#:").strip()
            found.append((content.count("\n", 0, at) + 1, is_whole_line, text))
    for line, text in joined(found):
        yield Text(kind, name, line, text)


def joined(found: Iterable[tuple[int, bool, str]]) -> Iterator[tuple[int, str]]:
    """Join comments on consecutive lines; one that follows code on its line stays by itself."""
    begin, block = 0, list[str]()
    for line, is_whole_line, text in found:
        if is_whole_line and block and line == begin + len(block):
            block.append(text)
            continue
        if block:
            yield begin, "\n".join(block)
            block = []
        if is_whole_line:
            begin, block = line, [text]
        else:
            yield line, text
    if block:
        yield begin, "\n".join(block)


TEMPLATE_PART = re.compile(
    r"\{#(?P<comment>.*?)#\}"
    r"|\{% *comment\b.*?%\}(?P<long>.*?)\{% *endcomment *%\}"
    r"|<!--(?P<html>.*?)-->"
    r"|\{% *blocktrans(?:late)?\b.*?%\}(?P<block>.*?)\{% *endblocktrans(?:late)? *%\}"
    r"|<(?P<script>script|style|svg)\b[^>]*>.*?</(?P=script)>"
    r"|<pre\b(?:(?!</pre>|\{% *(?:block)?trans).)*</pre>"
    r"|\{%(?P<tag>.*?)%\}"
    r"|\{\{(?P<variable>.*?)\}\}",
    re.S,
)
TRANSLATED = re.compile(r"""\b(?:trans(?:late)?\s+|_\()(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)')""")
PLURAL = re.compile(r"\{% *plural *%\}")
# Not a CSS selector, such as [data-rows].
ATTRIBUTE = re.compile(
    r"""\b(?:title|aria-label|placeholder|alt|data-[a-z-]+)="(?![^"]*\[[a-z-]+[]=])"""
    r"""([^"<>{}]* [^"<>{}]*)\""""
)


def template_texts(name: str, content: str) -> Iterator[Text]:
    """Yield comments, translated text, and text and attributes that a reader sees."""
    prompt = name.startswith("templates/prompts/")
    kind = "prompts" if prompt else "templates"

    def line(at: int) -> int:
        return content.count("\n", 0, at) + 1

    rest = list(content)
    for match in TEMPLATE_PART.finditer(content):
        for group in ("comment", "long", "html"):
            if match[group]:
                yield Text("comments", name, line(match.start(group)), match[group])
        if match["block"]:
            at = match.start("block")
            for part in PLURAL.split(match["block"]):
                at = content.find(part, at)
                yield Text(kind, name, line(at), part)
        for inside in TRANSLATED.finditer(match["tag"] or match["variable"] or ""):
            at = match.start("tag") if match["tag"] else match.start("variable")
            group = "a" if inside["a"] is not None else "b"
            yield Text(kind, name, line(at + inside.start(group)), inside[group])
        filler = "\n" if match["tag"] else "…"
        rest[match.start() : match.end()] = [c if c == "\n" else filler for c in match[0]]
    visible = "".join(rest)
    if prompt:
        for block in re.finditer(r"[^\n]+", visible):
            yield Text(kind, name, line(block.start()), block[0])
        return
    for found in ATTRIBUTE.finditer(content):
        yield Text(kind, name, line(found.start(1)), found[1])
    untagged = re.sub(r"<[^>]*>", lambda tag: "\n" * len(tag[0]), visible)
    for found in re.finditer(r"[^\n<>]*[A-Za-z]{2} [A-Za-z]{2}[^\n<>]*", untagged):
        yield Text(kind, name, line(found.start()), found[0])


BROWSER_PART = re.compile(
    r"/\*(?P<block>.*?)\*/|(?:^|(?<=\s))//(?P<line>[^\n]*)|\"(?P<a>(?:\\.|[^\"\\\n])*)\""
    r"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`",
    re.S | re.M,
)


def browser_texts(name: str, content: str) -> Iterator[Text]:
    """Yield comments and sentences of JavaScript and CSS."""
    found = []
    for match in BROWSER_PART.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        if match["block"]:
            yield Text("comments", name, line, re.sub(r"(?m)^[ \t*]+", "", match["block"]))
        elif match["line"]:
            found.append((line, True, match["line"].strip()))
        elif match["a"] and name.endswith(".js") and is_sentence(match["a"]):
            yield Text("strings", name, line, match["a"])
    for line, text in joined(found):
        yield Text("comments", name, line, text)


FENCE = re.compile(r"^( *)(```|~~~).*?^ *\2 *$|<!--.*?-->", re.S | re.M)
LINK = re.compile(r"(?<=\])\([^)\s]*\)")
NEW_BLOCK = re.compile(r"\s*([-*+] |\d+\. |#+ |\||>)")


def markdown_texts(name: str, content: str) -> Iterator[Text]:
    """Yield the paragraphs, list items, headings and table cells of a document."""
    kind = "reference" if name.startswith("docs/reference/") else "docs"
    kind = "templates" if name.startswith("templates/") else kind
    content = FENCE.sub(lambda m: "\n" * m[0].count("\n"), content)
    content = LINK.sub("", content)
    if kind == "templates":
        content = re.sub(r"\{%.*?%\}", "", content)
    block: list[str] = []
    begin = 1
    for number, line in enumerate([*content.splitlines(), ""], start=1):
        row = line.lstrip().startswith("|")
        if block and (not line.strip() or NEW_BLOCK.match(line)):
            yield Text(kind, name, begin, "\n".join(block))
            block = []
        if row:
            for cell in re.split(r"(?<!\\)\|", line):
                yield Text(kind, name, number, cell.strip())
        elif line.strip():
            begin = begin if block else number
            block.append(re.sub(r"^\s*([-*+] |\d+\. |#+ |> ?)", "", line))


# --- what is found ---

NOT_PROSE = re.compile(
    r"\bContext: [a-z_, ]+|``.+?``|`[^`]+`|%\([a-z_]+\)[sd]?|\{[^{}\s]*\}|\{\{.*?\}\}|\{%.*?%\}|https?://\S+|<[^<>]*>"
    r"|(?<!\w)[\w.-]+/[\w./#-]+|\b\w+(?:\.\w+)+\b|\b\w*_\w*\b|--[a-z-]+",
    re.S,
)


@cache
def compiled(pattern: Pattern) -> re.Pattern[str]:
    """Return the expression, ignoring case."""
    return re.compile(pattern.expression, re.I)


def prose(text: str) -> str:
    """Return the text with code, placeholders and URLs replaced by a filler of the same length."""
    return NOT_PROSE.sub(lambda found: "x" * len(found[0]), text)


def exceptions(path: Path) -> dict[str, str]:
    """Return the reviewed phrases with their reasons."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            phrase, bar, reason = line.partition(" | ")
            if not bar or not reason.strip():
                sys.exit(f"{path.name}:{number} has no reason. Write: phrase | reason")
            found[phrase.strip().lower()] = reason.strip()
    return found


def hits(pieces: Iterable[Text], phrases: Iterable[str] = ()) -> Iterator[Hit]:
    """Yield what the patterns find, without what a reviewed phrase contains."""
    phrases = [re.compile(re.escape(one), re.I) for one in phrases]
    for piece in pieces:
        plain = re.sub(r"\s+", " ", piece.text)
        text = prose(plain)
        for pattern in PATTERNS:
            if piece.kind not in pattern.kinds:
                continue
            for begin, end in found_in(pattern, text):
                allowed = (found.span() for one in phrases for found in one.finditer(plain))
                if any(first <= begin and end <= last for first, last in allowed):
                    continue
                # In the original, any white space may be several characters, and hold a line break.
                original = [found.start() for found in re.finditer(r"\s+|\S", piece.text)]
                line = piece.line + piece.text.count("\n", 0, original[begin])
                around = plain[max(0, begin - 50) : end + 50].strip()[:200]
                yield Hit(piece.kind, pattern, piece.path, line, around)


def found_in(pattern: Pattern, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a pattern matches."""
    if not pattern.longest:
        yield from (found.span() for found in compiled(pattern).finditer(text))
        return
    for sentence in re.finditer(r"\S.*?(?:[.!?:](?=\s)|\Z)", text):
        if len(re.findall(r"(?<!\S)\S*\w\S*", sentence[0])) > pattern.longest:
            yield sentence.span()


# --- what is printed ---


def counted(found: Iterable[Hit]) -> dict[str, dict[str, int]]:
    """Return the number of hits by kind and pattern."""
    counts = Counter((hit.kind, hit.pattern.name) for hit in found)
    return {
        kind: {p.name: counts[kind, p.name] for p in PATTERNS if counts[kind, p.name]}
        for kind in KINDS
        if any(key[0] == kind for key in counts)
    }


def grown(found: list[Hit], stored: dict[str, dict[str, int]]) -> list[Hit]:
    """Return the hits of each kind and pattern that has more of them than were stored."""
    too_many = {
        (kind, name)
        for kind, counts in counted(found).items()
        for name, count in counts.items()
        if count > stored.get(kind, {}).get(name, 0)
    }
    return [hit for hit in found if (hit.kind, hit.pattern.name) in too_many]


def show(found: Iterable[Hit]) -> None:
    """Print hits with what to write instead."""
    for hit in found:
        place = f"{hit.path}:{hit.line}"
        print(f"{place}: {hit.kind}: {hit.pattern.name} -> {hit.pattern.instead}: {hit.around}")


def summary(found: list[Hit], stored: dict[str, dict[str, int]]) -> None:
    """Print the counts of each kind and pattern beside those that were stored."""
    counts = counted(found)
    for kind, about in KINDS.items():
        now, before = counts.get(kind, {}), stored.get(kind, {})
        print(f"{kind:12}{sum(now.values()):6,}  stored {sum(before.values()):6,}  {about}")
        named = ", ".join(f"{name} {count}" for name, count in now.items())
        if named:
            print(textwrap.fill(named, 100, initial_indent=" " * 4, subsequent_indent=" " * 4))
    print(f"{'all':12}{len(found):6,}")


def sample(pieces: list[Text], kinds: tuple[str, ...], number: int, seed: int) -> list[str]:
    """Return random texts of at least three words; of documents, only whole sentences."""
    found = set()
    for piece in pieces:
        if piece.kind in kinds:
            text = " ".join(piece.text.split())
            parts = [text]
            if piece.kind == "docs":
                parts = [
                    part
                    for part in re.split(r"(?<=[.!?]) ", text)
                    if part.endswith((".", "!", "?"))
                ]
            found |= {part for part in parts if len(re.findall(r"[A-Za-z]{2,}", part)) > 2}
    return sorted(found, key=lambda text: sha256(f"{seed} {text}".encode()).digest())[:number]


def main(arguments: list[str]) -> int:
    """Print counts, hits or a sample, and compare or store the counts as asked."""
    parser = argparse.ArgumentParser(description="Wording that doesn't read as natural English.")
    parser.add_argument("--list", nargs="?", const="all", choices=["all", *KINDS], help="every hit")
    parser.add_argument("--check", action="store_true", help="fail if a count has grown")
    parser.add_argument("--write", action="store_true", help="store the counts of today")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="print random texts")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--of", choices=["ui", *KINDS], default="ui", help="kind of the sample")
    chosen = parser.parse_args(arguments)

    pieces = list(texts(ROOT))
    if chosen.sample:
        kinds = UI if chosen.of == "ui" else (chosen.of,)
        for number, text in enumerate(sample(pieces, kinds, chosen.sample, chosen.seed), start=1):
            print(f"{number}. {text}")
        return 0
    found = list(hits(pieces, exceptions(EXCEPTIONS)))
    if chosen.list:
        show(hit for hit in found if chosen.list in ("all", hit.kind))
        return 0
    if chosen.write:
        BASELINE.write_text(json.dumps(counted(found), indent=2) + "\n", encoding="utf-8")
    stored: dict[str, dict[str, int]] = json.loads(BASELINE.read_text(encoding="utf-8"))
    if not chosen.check:
        summary(found, stored)
        return 0
    new = grown(found, stored)
    show(new)
    if new:
        print(
            "Of each pattern above there are more hits than scripts/words.json allows in that kind of "
            "text. Reword yours. If it is a legitimate use, add the phrase with a reason to "
            "scripts/words_exceptions.txt."
        )
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

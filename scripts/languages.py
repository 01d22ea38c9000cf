r"""The catalogs of translations in locale/.  `make languages` updates them.

    python -m scripts.languages update    add new messages, remove those no longer used, compile
    python -m scripts.languages missing   print each language's messages without a translation
    python -m scripts.languages fill DIR  read DIR/<language>.json ({message: translation}), compile

In these files, `context\x04message` is a message of one context, as in compiled catalogs.

Messages are read as Django's makemessages reads them, but with Babel, because GNU gettext isn't
a Python package.  A translation whose English text has changed is a new message: nothing is guessed.
Babel overlooks messages in f-strings and behind assigned names.  `missing` lists those too.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "locale"
FORMS = {"de": 2, "es": 2, "fr": 2, "ja": 1, "zh_Hans": 1}  # of a plural
STARTED = tuple(code for code in FORMS if (LOCALE / code).is_dir())
# Only complete catalogs are compiled, and only compiled ones are offered.
LANGUAGES = tuple(c for c in STARTED if (LOCALE / c / "LC_MESSAGES" / "django.mo").is_file())
PYTHON = ("beacon_site", "memory", "research")
TEMPLATES = (".html", ".txt", ".xml", ".md", ".json")
KEYWORDS: dict[str, Any] = {
    name: arguments
    for base, arguments in {
        "gettext": (1,),
        "ngettext": (1, 2),
        "pgettext": ((1, "c"), 2),
        "npgettext": ((1, "c"), 2, 3),
    }.items()
    for name in (base, f"{base}_lazy", f"{base}_noop")
} | {"_": (1,)}
# Names under which modules import the functions above.
_IMPORTED = re.compile(r"^\s*from django\.utils\.translation import (.+?)$", re.MULTILINE)
_AS = re.compile(r"(\w+) as (\w+)")
PLACEHOLDER = re.compile(
    r"%\(\w+\)[sdr]|%[sd%]|\{[\w.:]*\}|</?[a-zA-Z][^>]*>|`[^`]*`"
    # A URL, without the punctuation that follows it: Japanese and Chinese have their own.
    r"|https?://(?:[!#-(*-~]*[0-9A-Za-z/])?"
)
_NEVER = datetime(2026, 1, 1, tzinfo=UTC)  # Babel would write the current time into each catalog
Key = tuple[str | None, str | tuple[str, ...]]  # context and message


def messages() -> Iterator[tuple[str, int, Key, list[str]]]:
    """Yield each message of the product: file, line, key, and the comments for translators."""
    for path in _files():
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        if path.suffix != ".py":
            text = _as_python(text, name)
        keywords = _keywords(text)
        found = extract_python(io.BytesIO(text.encode()), keywords, ["Translators:"], {})
        for line, function, given, comments in found:
            if function is not None and (key := _key(keywords[function], given)):
                yield name, line, key, comments


def _keywords(source: str) -> dict[str, Any]:
    """Return the functions that translate, under the names that they have in this module."""
    return KEYWORDS | {
        new: KEYWORDS[old]
        for line in _IMPORTED.findall(source)
        for old, new in _AS.findall(line)
        if old in KEYWORDS
    }


def overlooked() -> Iterator[str]:
    """Yield the places in the code whose messages Babel overlooks."""
    for path in _files():
        if path.suffix == ".py":
            for line, why in overlooked_in(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(ROOT).as_posix()}:{line}: {why}"


def overlooked_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module whose messages Babel overlooks, and why."""
    keywords = _keywords(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
            for name in calls:
                if isinstance(name, ast.Name) and name.id in keywords:
                    yield name.lineno, f"{name.id}() in an f-string. Assign the message first."
        elif (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Name)
            and node.value.id in keywords
        ):
            yield node.lineno, f"another name for {node.value.id}. Import it “as” this name."


def _files() -> Iterator[Path]:
    for folder in PYTHON:
        yield from sorted(p for p in (ROOT / folder).rglob("*.py") if "migrations" not in p.parts)
    yield from sorted(p for p in (ROOT / "templates").rglob("*") if p.suffix in TEMPLATES)


def _as_python(text: str, name: str) -> str:
    from django.conf import settings
    from django.utils.translation.template import templatize

    if not settings.configured:
        settings.configure(USE_I18N=True)
    source: str = templatize(text, origin=name)
    return re.sub(r"^[ \t]+", "", source, flags=re.MULTILINE)  # Python would see blocks


def _key(arguments: tuple[Any, ...], given: Any) -> Key | None:
    texts = list(given) if isinstance(given, (tuple, list)) else [given]
    context: str | None = None
    if isinstance(arguments[0], tuple):
        context = texts[0]
    wanted = [n for n in arguments if isinstance(n, int)]
    chosen = [texts[n - 1] if n <= len(texts) else None for n in wanted]
    if any(not isinstance(one, str) or not one for one in chosen):
        return None  # a variable
    return context, chosen[0] if len(chosen) == 1 else tuple(chosen)


def template() -> Catalog:
    """Return the catalog of all messages, without translations."""
    catalog = Catalog(domain="django", charset="utf-8")
    for name, _line, (context, text), comments in messages():
        # Without line numbers, an edit elsewhere in a file changes no catalog.
        catalog.add(text, locations=[(name, 0)], auto_comments=comments, context=context)
    return catalog


def path_of(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / "django.po"


def read(language: str) -> Catalog:
    """Return a language's catalog as it is stored, empty if there is none."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        catalog = read_po(file, locale=language)
    catalog.creation_date = catalog.revision_date = _NEVER
    return catalog


def updated(language: str, wanted: Catalog) -> Catalog:
    """Return the catalog with exactly the messages of `wanted`, and the known translations.

    A message that is used both with and without a plural is one entry, as gettext demands.
    """
    old = read(language)
    made = Catalog(locale=language, domain="django", charset="utf-8", fuzzy=False)
    made._num_plurals = FORMS[language]
    made._plural_expr = {"de": "(n != 1)", "es": "(n != 1)", "fr": "(n > 1)"}.get(language, "0")
    for message in sorted(_of(wanted), key=lambda one: (sorted(one.locations)[:1], str(one.id))):
        known = old.get(message.id, message.context)
        made.add(
            message.id,
            known.string if known is not None and not known.fuzzy else None,
            locations=sorted({(name, 0) for name, _line in message.locations}),
            auto_comments=message.auto_comments,
            context=message.context,
            flags=message.flags,
        )
    return made


def _of(catalog: Catalog) -> list[Message]:
    return [message for message in catalog if message.id]


def save(language: str, catalog: Catalog) -> None:
    """Write the catalog, and the compiled one that Django reads if it is complete.

    An incomplete catalog that was compiled before is compiled too, and a test fails.
    """
    path = path_of(language)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=0, omit_header=False, include_lineno=False)
    # Babel also writes when and by whom it was made.
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [one for one in lines if not one.startswith(_CHANGING)]
    path.write_text("".join(kept), encoding="utf-8")
    if language in LANGUAGES or not any(problems(language, catalog)):
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, read(language))


_CHANGING = (
    '"POT-Creation-Date', '"PO-Revision-Date', '"Last-Translator', '"Language-Team', '"Generated-By',
    '"Report-Msgid-Bugs-To', '"Project-Id-Version', "# ", "#\n",
)  # fmt: skip


def forms_of(message: Message) -> list[str]:
    """Return a message's translations: one, or one for each plural form."""
    given = message.string
    return [one or "" for one in given] if isinstance(given, (tuple, list)) else [given or ""]


def problems(language: str, catalog: Catalog) -> Iterator[str]:
    """Yield what is wrong with translations: none, other placeholders, tags or blanks at the ends."""
    for message in _of(catalog):
        texts = message.id if isinstance(message.id, tuple) else (message.id,)
        forms = forms_of(message)
        if not all(forms):
            yield f"{language}: no translation of {texts[0]!r}"
            continue
        if isinstance(message.id, tuple) and len(forms) != FORMS[language]:
            yield f"{language}: {len(forms)} forms of {texts[0]!r}"
        every = {one for text in texts for one in PLACEHOLDER.findall(text)}
        last = sorted(PLACEHOLDER.findall(texts[-1]))
        for number, form in enumerate(forms):
            found = sorted(PLACEHOLDER.findall(form))
            # The form for one thing may leave its number out.
            is_right = set(found) <= every if len(forms) > 1 and number == 0 else found == last
            if not is_right:
                yield f"{language}: other placeholders or tags in {form!r}, for {texts[-1]!r}"
            if _ends(form) != _ends(texts[-1]):
                yield f"{language}: other blanks at the ends of {form!r}, for {texts[-1]!r}"


def _ends(text: str) -> tuple[bool, bool]:
    return text[:1].isspace(), text[-1:].isspace()


def update() -> int:
    """Update and compile all catalogs; print what is missing."""
    wanted = template()
    for language in STARTED:
        catalog = updated(language, wanted)
        save(language, catalog)
        found = list(problems(language, catalog))
        print(f"{language}: {len(_of(catalog))} messages, {len(found)} problems")
    return 0


def missing() -> int:
    """Print overlooked messages and problems of catalogs; return 1 unless languages are complete."""
    wanted = template()
    found = {name: list(problems(name, updated(name, wanted))) for name in STARTED}
    unread = list(overlooked())
    print(
        "\n".join([*unread, *(one for some in found.values() for one in some)])
        or "All translations are complete."
    )
    return int(bool(unread) or any(found[name] for name in LANGUAGES))


def fill(folder: Path) -> int:
    """Take translations from files, one for each language, and update the catalogs."""
    wanted = template()
    for language in FORMS:
        path = folder / f"{language}.json"
        if not path.exists():
            continue
        given = json.loads(path.read_text(encoding="utf-8"))
        catalog = updated(language, wanted)
        for message in _of(catalog):
            first = message.id[0] if isinstance(message.id, tuple) else message.id
            named = f"{message.context}\x04{first}" if message.context else first
            if (text := given.get(named, given.get(first))) and not all(forms_of(message)):
                is_plural = isinstance(message.id, tuple)
                message.string = tuple(text) if is_plural else text
        save(language, catalog)
    return 0


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "update"
    sys.exit(
        fill(Path(sys.argv[2]))
        if name == "fill"
        else {"update": update, "missing": missing}[name]()
    )

"""Form fields for lists, with one entry per line or separated by commas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf.locale import LANG_INFO
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, one_line
from beacon_site.web.responses import CleanTextField
from memory.models.errors import InvalidValue
from research.models.topics import is_page
from research.services.topics.settings import standing_rules
from research.services.topics.settings.editing import NotADomain, domain_from, readable_domain

_MAX_LINES = 200


class CronField(CleanTextField):
    """A cron expression, required if visible. Presets without one don't send it."""

    def clean(self, value: Any) -> str:
        """Return the expression. The schedule validates it."""
        return str(super().clean(value)) if value else ""


class DefaultChoiceField(forms.TypedChoiceField):
    """A choice with a default: no value means the default."""

    def __init__(self, *, usual: Any, **more: Any) -> None:
        self.usual = usual
        super().__init__(initial=usual, **more)

    def clean(self, value: Any) -> Any:
        """Return the choice, or the default if none was sent."""
        return super().clean(self.usual if value in (None, "") else value)


class LinesField(CleanTextField):
    """A list with one entry per line. Empty lines and duplicates are dropped."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
    longest = 2000

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return "\n".join(self.shown(entry) for entry in value)
        return value

    def to_python(self, value: Any) -> Any:
        """Return the entries. Raises ValidationError with a message for each invalid line."""
        lines = [one_line(line) for line in (super().to_python(value) or "").splitlines()]
        lines = list(dict.fromkeys(line for line in lines if line))
        if len(lines) > _MAX_LINES:
            raise ValidationError(
                _("Use at most %(most)d lines (currently %(have)d).")
                % {"most": _MAX_LINES, "have": len(lines)}
            )
        entries, problems = [], []
        for line in lines:
            try:
                entries.append(self.entry(line))
            except ValidationError as exc:
                problems += exc.messages
        if problems:
            raise ValidationError(problems)
        return list(dict.fromkeys(entries))

    def entry(self, line: str) -> str:
        """Return a line in its stored form. Raises ValidationError."""
        return line

    def shown(self, entry: str) -> str:
        """Return a stored entry as the field shows it."""
        return entry


class DomainsField(LinesField):
    """Domains, one per line. If someone enters a URL, the field offers its domain instead."""

    def entry(self, line: str) -> str:
        try:
            return domain_from(line)
        except NotADomain as exc:
            raise ValidationError(str(exc)) from exc

    def shown(self, entry: str) -> str:
        """Return the domain in readable form (Unicode)."""
        return readable_domain(entry)


def offered_domains(text: str) -> str:
    """Return the lines of `text`, with each URL replaced by its domain."""
    lines = []
    for line in clean(text)[0].splitlines():
        try:
            lines.append(readable_domain(domain_from(line)) if line.strip() else "")
        except NotADomain as exc:
            lines.append(readable_domain(exc.suggestion) or line)
    return "\n".join(lines)


class FeedsField(LinesField):
    """URLs of feeds, one per line."""

    def entry(self, line: str) -> str:
        """Return the URL. Raises ValidationError unless it is http(s) with a host."""
        try:
            parts = urlsplit(line)
            has_host = bool(parts.hostname) and parts.port != 0
            usable = parts.scheme in ("http", "https") and has_host
        except ValueError:
            usable = False
        if not usable or " " in line or len(line) > self.longest:
            raise ValidationError(
                _(
                    "“%(line)s” isn’t a valid feed URL. Enter a URL that starts with http:// or https://."
                )
                % {"line": line[:200]}
            )
        return line


class PagesField(LinesField):
    """URLs of single pages that runs skip, one per line."""

    def entry(self, line: str) -> str:
        """Return the page's canonical URL. Raises ValidationError."""
        if not is_page(line):
            raise ValidationError(
                _(
                    "“%(line)s” isn’t a valid page URL. Enter a URL that starts with http:// or https://."
                )
                % {"line": line[:200]}
            )
        return _as_rule(standing_rules.place_from, line)


class ChecksField(LinesField):
    """What every run checks, one per line: search terms, or URLs to read."""

    def to_python(self, value: Any) -> Any:
        """Return the entries. Raises ValidationError if one is invalid or there are too many."""
        rules = list({rule.casefold(): rule for rule in super().to_python(value)}.values())
        if len(rules) > standing_rules.MAX_CHECKS:
            raise ValidationError(
                _("Use at most %(most)d lines (currently %(have)d).")
                % {"most": standing_rules.MAX_CHECKS, "have": len(rules)}
            )
        return rules

    def entry(self, line: str) -> str:
        """Return a line in its stored form. Raises ValidationError."""
        return _as_rule(standing_rules.check_from, line)


def _as_rule(take: Callable[[str], str], line: str) -> str:
    try:
        return take(line)
    except InvalidValue as exc:
        raise ValidationError(str(exc)) from exc


class WordsField(CleanTextField):
    """A list separated by commas, without duplicates."""

    separators = ",，、;\n"

    def prepare_value(self, value: Any) -> Any:
        """Return a stored list as the field shows it."""
        if isinstance(value, list | tuple):
            return ", ".join(self.shown(entry) for entry in value)
        return value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        for separator in self.separators:
            text = text.replace(separator, ",")
        words = [one_line(word) for word in text.split(",")]
        return list(dict.fromkeys(self.entry(word) for word in words if word))

    def entry(self, word: str) -> str:
        """Return a word in its stored form. Raises ValidationError."""
        return word

    def shown(self, entry: str) -> str:
        """Return a stored entry as the field shows it."""
        return entry


class LabelsField(WordsField):
    longest = 40
    most = 20

    def to_python(self, value: Any) -> Any:
        """Return the labels, without duplicates that differ only in case."""
        labels: dict[str, str] = {}
        for label in super().to_python(value):
            labels.setdefault(label.casefold(), label)
        if len(labels) > self.most:
            raise ValidationError(_("Use at most %(most)d labels.") % {"most": self.most})
        return list(labels.values())

    def entry(self, word: str) -> str:
        if len(word) > self.longest:
            raise ValidationError(
                _("“%(word)s” is too long for a label. Use at most %(most)d characters.")
                % {"word": word, "most": self.longest}
            )
        return word


def _language_names() -> dict[str, str]:
    """Return language codes by all their names: code, English name, native name."""
    names = {"zh": "zh", "chinese": "zh", "中文": "zh", "汉语": "zh", "漢語": "zh"}
    for code, info in LANG_INFO.items():
        if "name" in info:
            for name in (code, info["name"], info["name_local"]):
                names.setdefault(name.casefold(), code)
    return names


class LanguagesField(WordsField):
    """Languages by code or name, the main one first. Stored as codes."""

    most = 10

    def to_python(self, value: Any) -> Any:
        codes = super().to_python(value)
        if len(codes) > self.most:
            raise ValidationError(_("Use at most %(most)d languages.") % {"most": self.most})
        return codes

    def entry(self, word: str) -> str:
        """Return the language's code. Raises ValidationError if it is unknown."""
        code = _language_names().get(word.casefold().replace("_", "-"))
        if code is None:
            raise ValidationError(
                _(
                    "“%(word)s” isn’t a known language. Enter names or codes, such as “English”, “de” "
                    "or “中文”, separated by commas."
                )
                % {"word": word}
            )
        return code

    def shown(self, entry: str) -> str:
        """Return the language's name in that language."""
        if entry == "zh":
            return "中文"
        return str(LANG_INFO.get(entry, {}).get("name_local", entry))

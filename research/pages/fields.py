"""Fields whose words are kept as lists: one a line, or with commas between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf.locale import LANG_INFO
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, one_line
from memory.core.errors import InvalidValue
from memory.web.fields import CleanTextField
from research.topic_settings import standing_rules
from research.topic_settings.editing import NotADomain, domain_from, shown

_MOST_LINES = 200


class CronField(CleanTextField):
    """A cron line, needed where it is shown; where the preset has none, nothing is sent."""

    def clean(self, value: Any) -> str:
        """Return the line; whether it can be one is the schedule's question."""
        return str(super().clean(value)) if value else ""


class UsualChoiceField(forms.TypedChoiceField):
    """A choice that is always made: what is not sent is the usual one."""

    def __init__(self, *, usual: Any, **more: Any) -> None:
        self.usual = usual
        super().__init__(initial=usual, **more)

    def clean(self, value: Any) -> Any:
        """Return the choice, or the usual one where none was sent."""
        return super().clean(self.usual if value in (None, "") else value)


class LinesField(CleanTextField):
    """A list, one entry a line; empty lines do not count and each entry counts once."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})
    longest = 2000

    def prepare_value(self, value: Any) -> Any:
        """Return a stored list as the lines that stand in the field."""
        if isinstance(value, list | tuple):
            return "\n".join(self.shown(entry) for entry in value)
        return value

    def to_python(self, value: Any) -> Any:
        """Return the entries.  Raises ValidationError with a message for each wrong line."""
        lines = [one_line(line) for line in (super().to_python(value) or "").splitlines()]
        lines = list(dict.fromkeys(line for line in lines if line))
        if len(lines) > _MOST_LINES:
            raise ValidationError(
                _("At most %(most)d lines; these are %(have)d.")
                % {"most": _MOST_LINES, "have": len(lines)}
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
        """Return a line as it is kept.  Raises ValidationError."""
        return line

    def shown(self, entry: str) -> str:
        """Return a kept entry as it stands in the field."""
        return entry


class DomainsField(LinesField):
    """Domains, one a line; an address is explained and its domain offered."""

    def entry(self, line: str) -> str:
        """Return the domain in IDNA.  Raises ValidationError."""
        try:
            return domain_from(line)
        except NotADomain as exc:
            raise ValidationError(str(exc)) from exc

    def shown(self, entry: str) -> str:
        """Return the domain as a person reads it."""
        return shown(entry)


def offered_domains(text: str) -> str:
    """Return the lines of `text` with each address replaced by its domain."""
    lines = []
    for line in clean(text)[0].splitlines():
        try:
            lines.append(shown(domain_from(line)) if line.strip() else "")
        except NotADomain as exc:
            lines.append(shown(exc.suggestion) or line)
    return "\n".join(lines)


class FeedsField(LinesField):
    """Addresses of feeds, one a line."""

    def entry(self, line: str) -> str:
        """Return the address.  Raises ValidationError unless it is http(s) with a host."""
        try:
            parts = urlsplit(line)
            has_host = bool(parts.hostname) and parts.port != 0
            usable = parts.scheme in ("http", "https") and has_host
        except ValueError:
            usable = False
        if not usable or " " in line or len(line) > self.longest:
            raise ValidationError(
                _("“%(line)s” is no address of a feed: it begins with http:// or https://.")
                % {"line": line[:200]}
            )
        return line


class PagesField(LinesField):
    """Addresses of single pages where runs do not look, one a line."""

    def entry(self, line: str) -> str:
        """Return the page's canonical address.  Raises ValidationError."""
        if not standing_rules.is_address(line):
            raise ValidationError(
                _("“%(line)s” is no address of a page: it begins with http:// or https://.")
                % {"line": line[:200]}
            )
        return _as_rule(standing_rules.place_from, line)


class ChecksField(LinesField):
    """What every run checks, one a line: words to search for, or addresses to read."""

    def to_python(self, value: Any) -> Any:
        """Return the rules.  Raises ValidationError, also where there are too many."""
        rules = list({rule.casefold(): rule for rule in super().to_python(value)}.values())
        if len(rules) > standing_rules.MOST_CHECKS:
            raise ValidationError(
                _("At most %(most)d lines; these are %(have)d.")
                % {"most": standing_rules.MOST_CHECKS, "have": len(rules)}
            )
        return rules

    def entry(self, line: str) -> str:
        """Return a line as it is kept.  Raises ValidationError."""
        return _as_rule(standing_rules.check_from, line)


def _as_rule(take: Callable[[str], str], line: str) -> str:
    try:
        return take(line)
    except InvalidValue as exc:
        raise ValidationError(str(exc)) from exc


class WordsField(CleanTextField):
    """A list with commas between; each entry counts once."""

    separators = ",，、;\n"

    def prepare_value(self, value: Any) -> Any:
        """Return a stored list as it stands in the field."""
        if isinstance(value, list | tuple):
            return ", ".join(self.shown(entry) for entry in value)
        return value

    def to_python(self, value: Any) -> Any:
        """Return the entries.  Raises ValidationError."""
        text = super().to_python(value) or ""
        for separator in self.separators:
            text = text.replace(separator, ",")
        words = [one_line(word) for word in text.split(",")]
        return list(dict.fromkeys(self.entry(word) for word in words if word))

    def entry(self, word: str) -> str:
        """Return a word as it is kept.  Raises ValidationError."""
        return word

    def shown(self, entry: str) -> str:
        """Return a kept entry as it stands in the field."""
        return entry


class LabelsField(WordsField):
    """Labels by which a person sorts topics."""

    longest = 40
    most = 20

    def to_python(self, value: Any) -> Any:
        """Return the labels, without repeats that differ in case alone."""
        labels: dict[str, str] = {}
        for label in super().to_python(value):
            labels.setdefault(label.casefold(), label)
        if len(labels) > self.most:
            raise ValidationError(_("At most %(most)d labels.") % {"most": self.most})
        return list(labels.values())

    def entry(self, word: str) -> str:
        """Return the label.  Raises ValidationError if it is too long."""
        if len(word) > self.longest:
            raise ValidationError(
                _("“%(word)s” is too long for a label: at most %(most)d characters.")
                % {"word": word, "most": self.longest}
            )
        return word


def _language_names() -> dict[str, str]:
    """Return language codes by every way to write them: code, English name, own name."""
    names = {"zh": "zh", "chinese": "zh", "中文": "zh", "汉语": "zh", "漢語": "zh"}
    for code, info in LANG_INFO.items():
        if "name" in info:
            for name in (code, info["name"], info["name_local"]):
                names.setdefault(name.casefold(), code)
    return names


class LanguagesField(WordsField):
    """Languages by code or name, the leading one first; kept as codes."""

    most = 10

    def to_python(self, value: Any) -> Any:
        """Return the codes.  Raises ValidationError."""
        codes = super().to_python(value)
        if len(codes) > self.most:
            raise ValidationError(_("At most %(most)d languages.") % {"most": self.most})
        return codes

    def entry(self, word: str) -> str:
        """Return the code of a language.  Raises ValidationError if there is none."""
        code = _language_names().get(word.casefold().replace("_", "-"))
        if code is None:
            raise ValidationError(
                _(
                    "“%(word)s” is no language known here. Write its name or its code, such as "
                    "“English”, “de” or “中文”, with commas between."
                )
                % {"word": word}
            )
        return code

    def shown(self, entry: str) -> str:
        """Return the language's own name."""
        if entry == "zh":
            return "中文"
        return str(LANG_INFO.get(entry, {}).get("name_local", entry))

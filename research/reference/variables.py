"""The reference of environment variables."""

from __future__ import annotations

from beacon_site.env import READ
from beacon_site.variables import VARIABLES, Variable
from research.reference import markdown

BEGUN = (
    "Read from the environment, then from `beacon.env` in the data folder. Unset variables use "
    "the default. [How settings work, and which can be changed in the UI](../settings.md)."
)


def written() -> str:
    """Return the page."""
    parts = [BEGUN]
    for group, variables in VARIABLES.items():
        heads = ("variable", "allowed values", "default", "description")
        parts += [f"## {group}", markdown.table(heads, map(_row, variables))]
    return markdown.page("Environment variables", *parts)


def _row(one: Variable) -> tuple[str, ...]:
    names = one.names.split()
    read = [READ[name] for name in names if name in READ]
    takes = dict.fromkeys(each.takes for each in read) or {"text": None}
    usual = dict.fromkeys(f"`{each.default}`" if each.default else "none" for each in read)
    return (
        ", ".join(f"`{name}`" for name in names),
        ", ".join(takes),
        one.usual or ", ".join(usual) or "none",
        one.does,
    )

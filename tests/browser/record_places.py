"""The pages of one note or observation, in their states; `places` includes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None]


def _menu(visitor: Visitor) -> None:
    visitor.page.locator("main .dropdown > summary").first.click()


def _bad_note(visitor: Visitor) -> None:
    visitor.page.locator("[name=kind]").select_option("rule")
    visitor.page.locator("[name=content]").fill("A rule without anything to rest on.")
    visitor.page.locator("[name=tags]").fill("t" * 100)
    visitor.press("Save")
    visitor.page.locator("[aria-invalid]").first.wait_for()
    unfold(visitor)


def _conflict(visitor: Visitor) -> None:
    """Save what was made from the first version, which others have changed since."""
    visitor.page.evaluate("document.querySelector('[name=version]').value = 1")
    box = visitor.page.locator("[name=content]")
    box.fill(box.input_value().replace("by **price**", "by **value**"))
    visitor.press("Save")
    visitor.page.locator(".merge-hunk").wait_for()


def _bad_purge(visitor: Visitor) -> None:
    visitor.page.locator("[name=name]").fill("something else")
    visitor.press("Delete permanently")
    visitor.page.locator("[aria-invalid]").wait_for()


def found(cast: dict[str, str]) -> list[tuple[str, str, Act | None]]:
    """Return name, path and act of each."""
    record = cast["record"]
    compare = f"{record}history/?from=1&to=4"
    return [
        ("record", record, None),
        ("record related", cast["record related"], None),
        ("names", "/memory/names/", None),
        ("names about", "/memory/about/?name=PostgreSQL", None),
        ("names about none", "/memory/about/?name=Zanzibar", None),
        ("record menu", record, _menu),
        ("record chain", cast["record chain"], None),
        ("record replaced", cast["record replaced"], None),
        ("record near", cast["record near"], None),
        ("record trashed", cast["record trashed"], None),
        ("record edit", f"{record}edit/", None),
        ("record conflict", f"{record}edit/", _conflict),
        ("record edit observation", f"{cast['record near']}edit/", None),
        ("record history", f"{record}history/", unfold),
        ("record compare", compare, None),
        ("record compare lines", f"{compare}&view=lines&show=all", None),
        ("record new", "/notes/new/", unfold),
        ("record new wrong", "/notes/new/", _bad_note),
        ("record new observation", "/observations/new/", None),
        ("record merge", cast["record merge"], None),
        ("record merge empty", "/notes/merge/", None),
        ("record supersede", cast["record supersede"], None),
        ("record forget", cast["record forget"], None),
        ("record forget nothing", "/forget/?source=run:999999", None),
        ("record purge", cast["record purge"], _bad_purge),
    ]

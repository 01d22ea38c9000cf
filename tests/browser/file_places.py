"""The states of memory files to check; `places` includes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor

Act = Callable[[Visitor], None] | None
EDITOR = ".cm-content"


def write(visitor: Visitor, text: str, *, anew: bool = True) -> None:
    """Type into the editor as a person would, over the existing text or at its end."""
    visitor.page.locator(EDITOR).click()
    visitor.page.keyboard.press("Control+a" if anew else "Control+End")
    visitor.page.keyboard.type(text)


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return name, path and act of each."""
    return [
        ("files", "/files/", None),
        ("file", cast["file month"], None),
        ("file edit", f"{cast['file month']}edit/", _editor),
        ("file edit plain", f"{cast['file month']}edit/", _plain),
        ("file edit find", f"{cast['file month']}edit/", _find),
        ("file draft", f"{cast['file draft']}edit/", _editor),
        ("file draft taken up", f"{cast['file draft']}edit/?draft=1", _editor),
        ("file preview", f"{cast['file preview']}edit/", _preview),
        ("file refused", f"{cast['file changed']}edit/", _refused),
        ("file conflict", f"{cast['file changed']}edit/", _conflict),
        ("file episode", "/files/new/", None),
        ("file episode wrong", "/files/new/", _bad_episode),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has only the first two files."""
    return [("files empty", "/files/"), ("file first", "/files/facts/memory.md/")]


def _editor(visitor: Visitor) -> None:
    visitor.page.locator(EDITOR).wait_for()


def _plain(visitor: Visitor) -> None:
    visitor.press("Plain text field")
    visitor.page.locator("[name=content]").wait_for()
    visitor.page.evaluate("localStorage.clear()")


def _find(visitor: Visitor) -> None:
    visitor.page.locator(EDITOR).press("Control+f")
    visitor.page.locator(".cm-search").wait_for()


def _preview(visitor: Visitor) -> None:
    write(visitor, "\n## Bare\n- Task: none\n", anew=False)
    visitor.press("Preview")
    visitor.page.locator("#preview-heading").wait_for()


def _refused(visitor: Visitor) -> None:
    visitor.press("Plain text field")
    visitor.page.locator("[name=content]").fill("# User\n\n" + ("建军" * 1_000 + "\n") * 3)
    visitor.page.evaluate("localStorage.clear()")
    visitor.press("Save")
    visitor.page.locator(".file-code[data-invalid]").wait_for()


def _conflict(visitor: Visitor) -> None:
    """Save what was made from the second version, which others have changed since."""
    visitor.page.evaluate("document.querySelector('[name=seen]').value = 2")
    visitor.press("Plain text field")
    box = visitor.page.locator("[name=content]")
    box.fill(box.input_value().replace("Fri 9", "Wed 10"))
    visitor.page.evaluate("localStorage.clear()")
    visitor.press("Save")
    visitor.page.locator(".merge-hunk").wait_for()


def _bad_episode(visitor: Visitor) -> None:
    visitor.page.get_by_label("Title").fill("Tokyo flights")
    visitor.page.get_by_label("Summary").fill("Spring is cheapest")
    visitor.page.get_by_label("Task").fill("compare flights")
    visitor.press("Add entry")
    visitor.page.locator("[aria-invalid]").wait_for()

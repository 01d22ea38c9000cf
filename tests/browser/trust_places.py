"""The checked states of Recall, Activity, the scratchpad and the trash: name, path, act, who."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.visitor import Visitor, unfold

Act = Callable[[Visitor], None] | None


def found(cast: dict[str, str]) -> list[tuple[str, str, Act]]:
    """Return the states of a person who has something."""
    edit = f"/scratchpad/{cast['scratchpad']}/"
    return [
        ("recall", "/memory/", None),
        ("recall hits", "/memory/?q=cells+price+dollars", unfold),
        ("recall rated", "/memory/?q=cells+price+dollars", _rated),
        ("recall panel", "/memory/?q=cells+price+dollars", _panel),
        ("remember", "/remember/?text=Never+deploy+on+Friday", None),
        ("remember also known", "/remember/", _also_known),
        ("extract", "/remember/extract/", None),
        ("extract found", "/remember/extract/", _extracted),
        ("recall notices", "/memory/?q=the+hosts+colour:red+%22unbalanced", None),
        ("recall none", "/memory/?q=zebra", None),
        ("recall operators", "/memory/?q=category:finding", None),
        ("activity", "/activity/", None),
        ("week", "/activity/week/", None),
        ("activity change", "/activity/?kind=changes&type=note", _change),
        ("activity one by one", "/activity/?actor=research&kind=changes", _one_by_one),
        ("activity runs", "/activity/?kind=runs", None),
        ("activity calls", "/activity/?kind=calls", None),
        ("activity warnings", "/activity/?warnings=1", None),
        ("activity none", "/activity/?q=nothing-is-like-this", None),
        ("activity one change", cast["change"], None),
        ("scratchpad", "/scratchpad/", None),
        ("scratchpad deeper", "/scratchpad/?prefix=plan/", _edit),
        ("scratchpad session", "/scratchpad/?scope=session:7f2", None),
        ("scratchpad new wrong", "/scratchpad/new/?key=plan/", _wrong),
        ("scratchpad conflict", edit, _conflict),
        ("trash", "/trash/", None),
        ("trash notes", "/trash/?type=note", None),
        ("trash ticked", "/trash/", _tick_and_ask),
        ("trash entry merge", cast["file entry"], None),
        ("trash failed run", f"{cast['failed']}trash/", None),
        ("topic several unread", f"/topics/{cast['sample']}/", _several_unread),
        ("trash emptied wrong", "/trash/empty/", _not_the_word),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has nothing."""
    return [
        ("recall empty", "/memory/"),
        ("activity empty", "/activity/?kind=runs"),
        ("scratchpad empty", "/scratchpad/"),
        ("all trash empty", "/trash/"),
    ]


def _panel(visitor: Visitor) -> None:
    visitor.page.locator(".memory-row a").first.click()
    visitor.page.wait_for_selector("#record-panel h2")


def _rated(visitor: Visitor) -> None:
    visitor.page.locator(".memory-row .rate-buttons button").nth(1).click()
    visitor.page.locator(".rate-reason input[type=text]").wait_for()


def _also_known(visitor: Visitor) -> None:
    typed = "The airport shuttle leaves every 30 minutes, until 9 December."
    visitor.page.locator("#remember-text").press_sequentially(typed)
    visitor.page.wait_for_selector(".known")


def _change(visitor: Visitor) -> None:
    visitor.page.locator(".stream .acts a").first.click()
    visitor.page.locator("#_activity_change").wait_for()


def _one_by_one(visitor: Visitor) -> None:
    run = visitor.page.locator(".stream > li:has(.line-group)").first
    run.locator("summary").first.click()
    changes = run.locator(".line-group").first
    changes.locator("summary").first.click()
    changes.locator(".acts a").first.click()
    visitor.page.locator("#_activity_change").wait_for()


def _edit(visitor: Visitor) -> None:
    visitor.page.locator(".entries .line-acts a").first.click()
    visitor.page.locator("#scratchpad_edit textarea").wait_for()


def _wrong(visitor: Visitor) -> None:
    visitor.page.locator("[name=key]").fill("x" * 300)
    visitor.page.evaluate(
        "document.querySelector('[name=scope]').add(new Option('everybody', 'everybody', true, true))"
    )
    visitor.page.locator("#scratchpad_new button[type=submit]").click()
    visitor.page.locator("[aria-invalid]").first.wait_for()


def _conflict(visitor: Visitor) -> None:
    visitor.page.evaluate("document.querySelector('[name=version]').value = '1'")
    visitor.page.locator("#scratchpad_edit textarea").fill("what I typed in the other window")
    visitor.page.locator("#scratchpad_edit button[type=submit]").click()
    visitor.page.locator("#scratchpad_edit [role=alert]").wait_for()


def _tick_and_ask(visitor: Visitor) -> None:
    visitor.page.locator(".trash-rows [name=record]").first.check()
    visitor.press("Delete selected permanently…")
    visitor.page.locator("#trash_empty [name=record]").first.wait_for(state="attached")


def _several_unread(visitor: Visitor) -> None:
    """Put reports back among the unread, which looking at the page has marked as read."""
    visitor.page.evaluate(
        """async () => await fetch(location.pathname + "unread/", {
          method: "POST",
          headers: {
            ...JSON.parse(document.body.getAttribute("hx-headers")),
            "Content-Type": "application/x-www-form-urlencoded",
          },
          body: "first=2&last=4",
        })"""
    )
    visitor.page.reload()
    visitor.page.locator(".read").wait_for()


def _not_the_word(visitor: Visitor) -> None:
    visitor.page.locator("[name=word]").fill("yes")
    visitor.page.locator("#trash_empty button[type=submit]").click()
    visitor.page.locator("[aria-invalid]").wait_for()


def _extracted(visitor: Visitor) -> None:
    visitor.page.locator("#extract-text").fill(
        "We agreed that the night train to Vienna costs 89 euros in the winter timetable. "
        "We learned that seats must be booked at least six weeks ahead."
    )
    visitor.press("Find observations")
    visitor.page.locator(".extract-items").wait_for()

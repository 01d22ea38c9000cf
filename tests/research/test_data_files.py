"""Data files and LaTeX, from the bytes that a server sends to the change that a report announces."""

from __future__ import annotations

import time

import pytest

from beacon_site.net import extract_child
from beacon_site.net.reflow import join_file
from beacon_site.text.cleaning import clean
from beacon_site.text.line_formats import has_own_lines
from research.claims.selection import PageText
from research.services.runs.reporting import rereading
from research.services.runs.search.reading import MAX_TEXT

CSV = """Line,Opens,Ends at
T1,2027-03-01,"Port, east"
T2,2028-05-01,
T3,2029-01-01,Zoo
"""
TOML = """# The tram lines
[[lines]]
name = "T1"
opens = 2027-03-01
stops = [
  "Port",
  "Zoo",
]

[[lines]]
name = "T2"
opens = 2028-05-01
"""
YAML = """lines:
  - name: T1
    opens: 2027-03-01
  - name: T2
    opens: 2028-05-01
  - name: T3
    opens: 2029-01-01
"""
CALENDAR = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART:20270301T100000
SUMMARY:Opening of the
  port line
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20280501
SUMMARY:Opening of the zoo line
END:VEVENT
END:VCALENDAR
"""
LATEX = r"""\documentclass{article}
\title{Trams in
  Halden}
\begin{document}
\section{Lines}
% Nobody reads this.
The tram to the zoo opens on
1 May 2028 with a party.
A day ticket for all the lines costs 6 euros. % for now
\begin{itemize}
  \item Bicycles travel free.
\end{itemize}
\end{document}
"""
FILES = {"csv": CSV, "toml": TOML, "yaml": YAML, "calendar": CALENDAR, "latex": LATEX}
OPENS_LATER = "Trams, T2: opens 2028-09-01 (was 2028-05-01)"


def stored(text: str, kind: str) -> str:
    """Return what a run stores of a page."""
    answer = extract_child.read(text.encode(), kind, "https://tram.example/lines")
    return clean(answer["text"])[0][:MAX_TEXT].strip()


def announced(old: str, new: str, kind: str) -> list[tuple[str, str]]:
    was, now = stored(old, kind), stored(new, kind)
    page = PageText(1, "https://tram.example/lines", "Trams", "tram.example", now, previous=was)
    news = rereading.compare_with_last(page).news
    return [(str(one.status), one.told or one.sentence) for one in news]


@pytest.mark.parametrize(
    ("kind", "text", "before", "after", "said"),
    [
        ("text/csv", CSV, "2028-05", "2028-09", OPENS_LATER.replace("opens", "Opens")),
        ("", CSV.replace(",", ";"), "2028-05", "2028-09", OPENS_LATER.replace("opens", "Opens")),
        ("text/plain", CSV.replace(",", "\t").replace("\n", "\r\n"), "2028-05", "2028-09", OPENS_LATER.replace("opens", "Opens")),
        ("application/toml", TOML, "2028-05", "2028-09", OPENS_LATER),
        ("text/yaml", YAML, "2028-05", "2028-09", OPENS_LATER),
        ("text/calendar", CALENDAR.replace("\n", "\r\n"), "202805", "202809", "Trams, Opening of the zoo line: start 2028-09-01 (was 2028-05-01)"),
        ("text/calendar", CALENDAR, "T100000", "T100000Z", "Trams, Opening of the port line: start 2027-03-01 10:00 UTC (was 2027-03-01 10:00)"),
        ("text/calendar", CALENDAR, "T100000", "T100000\nRRULE:FREQ=WEEKLY", "Trams, Opening of the port line: repeats FREQ=WEEKLY"),
        ("application/x-tex", LATEX, "1 May", "9 May", "The tram to the zoo opens on 9 May 2028 with a party."),
    ],
    ids=["csv", "semicolons", "tsv", "toml", "yaml", "calendar", "utc", "repeats", "latex"],
)  # fmt: skip
def test_a_change_in_a_fetched_file_is_announced(
    kind: str, text: str, before: str, after: str, said: str
):
    assert announced(text, text.replace(before, after), kind) == [("changed", said)]
    assert announced(text, text, kind) == []


def test_a_latex_file_has_its_title_and_data_has_none():
    titles = {name: extract_child.read_plain(text)["title"] for name, text in FILES.items()}

    assert titles == dict.fromkeys(FILES, "") | {"latex": "Trams in Halden"}


@pytest.mark.parametrize(
    "text",
    [
        "The tram opens\nin May, perhaps.\nBring a map, please.\n",
        "[links]\n\nThis isn't TOML,\nbut text.\n",
        "[1] Tram\nlines\n[2] Port = harbour\nand some words\nabout it\n",
        "Lines\n=====\n\nThe tram\nopens in May.\n\n- one, two\n  three\n- four, five\n",
        "Use `\\section{a}`\nin LaTeX\n\n\\item is for\nlists.\n",
        "Note: the tram\nis late today:\n\nIt comes at ten,\nor at eleven.\n",
    ],
)
def test_the_lines_of_prose_are_still_joined(text: str):
    assert not has_own_lines(text)
    assert join_file(text).count("\n") < text.strip().count("\n")


def test_a_file_whose_lines_were_joined_by_an_earlier_version_has_not_changed():
    page = PageText(
        1, "https://tram.example/lines", "Trams", "tram.example",
        stored(CSV, "text/csv"), previous=" ".join(CSV.split()),
    )  # fmt: skip

    assert rereading.compare_with_last(page).news == []


@pytest.mark.parametrize(
    "text", ["[a]\n" * 300_000, '"""' * 300_001, "a,b\n" + '"' * 1_000_000, "\\a{\n" * 300_000]
)
def test_looking_at_a_long_file_takes_little_time(text: str):
    started = time.perf_counter()
    has_own_lines(text)

    assert time.perf_counter() - started < 3


def test_yaml_with_long_texts_is_read_as_data_without_its_display():
    plan = "  - title: {}\n    icon: tram-{}\n    price: {}\n    terms: >\n      One stop.<br>\n      Two stops.<br>\n      No bus\n    button:\n      label: Buy {}\n"
    old = "plans:\n" + "".join(plan.format(name, 1, 9, "now") for name in ("Day", "Week", "Year"))
    new = old.replace("tram-1", "tram-2").replace("Buy now", "Get it")
    dearer = new.replace("price: 9", "price: 12", 1)

    assert has_own_lines(old)
    assert announced(old, new, "text/yaml") == []
    assert announced(old, dearer, "text/yaml") == [("changed", "Trams, Day: price 12 (was 9)")]


def test_a_yaml_file_of_a_few_lines_keeps_them():
    assert has_own_lines(
        "key: 627\nstores: false\nplatforms:\n  - web\nen: The stop at the zoo was moved.\n"
    )
    assert not has_own_lines("Note: trams are late.\nThey run again at noon.\n- T1\n- T2\n")

"""What `scripts/words.py` reports in the text of Beacon, and what makes `make lint` fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import words


def found(kind: str, text: str) -> list[str]:
    return [hit.pattern.name for hit in words.hits([words.Text(kind, "a.md", 1, text)])]


@pytest.mark.parametrize(
    ("kind", "text", "pattern"),
    [
        ("docs", "The reason stands in the log.", "stands"),
        ("docs", "The data lies in {folder}.", "lies"),
        ("docstrings", "Return what the run goes on with.", "go on"),
        ("messages", "“%(text)s” is no domain.", "is no"),
        ("docs", "A page is read, and its owner is told.", "is told"),
        ("interfaces", "Records that were not looked at yet.", "is looked at"),
        ("comments", "The list is read anew.", "anew"),
        ("messages", "The token opens nothing any more.", "any more"),
        ("templates", "It was changed meanwhile.", "meanwhile"),
        ("templates", "Delete it for good", "for good"),
        ("docs", "It is found by words alone.", "alone"),
        ("messages", "This applies from the next run on.", "from … on"),
        ("docs", "A change is taken\nback by one button.", "take back"),
        ("templates", "The ticked records", "tick"),
        ("templates", "Make the token", "make"),
        ("messages", "Tokens a month", "a month"),
        ("templates", "Ask whoever looks after Beacon.", "somebody"),
        ("messages", "An agent may not read it.", "may"),
        ("templates", "What Beacon set aside", "what …"),
        ("docs", "Is it wrong, select the sentence.", "verb first"),
        ("docs", "Mended are line ends of Windows.", "participle first"),
        ("templates", "Look in the trash", "the trash"),
        ("docs", "Each colour has a name.", "British spelling"),
        ("messages", "3 note(s)", "(s)"),
        ("messages", "It can't be read.", "straight quotes"),
        ("messages", "It is saved; reload the page.", "semicolon"),
        ("docs", "A source that does not answer is skipped.", "no contraction"),
        ("templates", "word " * 26, "long sentence"),
        ("names", "told held", "told in a name"),
        ("names", "files taken in", "taken in in a name"),
    ],
)
def test_unnatural_wording_is_found(kind: str, text: str, pattern: str):
    assert pattern in found(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("docs", "A fake stands in for the mail server. A standalone page, as you understand it."),
        ("docs", "There is no limit, and the page is no longer read."),
        ("comments", "The value is None."),
        ("docs", "Two runs can't be told apart."),
        ("docs", "Are there any more pages? From now on they count."),
        ("docs", "It fails for good reasons. It leaves the other page alone."),
        ("docs", "The list is made up of lines."),
        ("docs", "Each run has a page of its own."),
        ("docs", "Results may be incomplete. It may hold a secret."),
        ("docs", "Each page is checked 3 times per run, and every worker runs a topic."),
        ("docs", "Read [how](docs/notifications.md#e-mail)."),
        ("templates", "What changed since the last report?"),
        ("templates", "Is it wrong? Select the sentence."),
        ("docs", "Set `stands`, {lies}, %(anew)s, --tick and https://anew.example/mend/stands."),
        ("messages", "It can’t be read. “Trash” is empty."),
        ("docs", "Only http(s) links are kept; the rest is text."),
        ("templates", "word " * 25),
        ("docs", "What the model was asked, and what it made of it."),
    ],
)
def test_natural_wording_is_left_alone(kind: str, text: str):
    assert found(kind, text) == []


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small source tree with its own counts and exceptions."""
    for folder in ("memory/api", "templates/prompts", "static/js", "docs/reference", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "BASELINE", tmp_path / "words.json")
    monkeypatch.setattr(words, "EXCEPTIONS", tmp_path / "exceptions.txt")
    words.BASELINE.write_text("{}")
    words.EXCEPTIONS.write_text("# nothing\n")
    return tmp_path


def test_each_kind_of_text_is_read_with_its_line(root: Path):
    (root / "memory" / "notes.py").write_text(
        '"""Notes.\n\nOne stands here."""\n\n'
        'TITLE = _("It stands")  # it stands\n'
        'raise ValueError("It stands in the log.")\n'
        'NAMES = {"stands": 1}\n'
    )
    (root / "memory" / "api" / "notes.py").write_text('Field(description="It stands in a note.")\n')
    (root / "templates" / "page.html").write_text(
        '{# It stands here. #}\n{% translate "It stands" %}\n'
        "{% blocktranslate %}One\nstands{% plural %}\nMore stand{% endblocktranslate %}\n"
        '<p title="It stands there">\nA text that stands</p>\n<script>stands.in.code</script>\n<pre>it stands</pre>\n'
    )
    (root / "templates" / "prompts" / "ask.txt").write_text("Say what stands.\n")
    (root / "static" / "js" / "a.js").write_text(
        "// It stands\nlet stands = 1; /* it\n * stands */\n"
    )
    (root / "docs" / "a.md").write_text(
        "# A\n\nWhat is here\nstands.\n\n```\nit stands\n```\n\n| a | it stands |\n"
    )
    (root / "docs" / "reference" / "b.md").write_text("It stands.\n")
    (root / "tests" / "test_a.py").write_text(
        'def test_a():\n    """It stands."""\n    "It stands too."\n'
    )

    hits = [hit for hit in words.hits(words.texts(root)) if hit.pattern.name == "stands"]

    assert sorted((hit.path, hit.line, hit.kind) for hit in hits) == [
        ("docs/a.md", 4, "docs"),
        ("docs/a.md", 10, "docs"),
        ("docs/reference/b.md", 1, "reference"),
        ("memory/api/notes.py", 1, "interfaces"),
        ("memory/notes.py", 3, "docstrings"),
        ("memory/notes.py", 5, "comments"),
        ("memory/notes.py", 5, "messages"),
        ("memory/notes.py", 6, "strings"),
        ("static/js/a.js", 1, "comments"),
        ("static/js/a.js", 3, "comments"),
        ("templates/page.html", 1, "comments"),
        ("templates/page.html", 2, "templates"),
        ("templates/page.html", 4, "templates"),
        ("templates/page.html", 5, "templates"),
        ("templates/page.html", 6, "templates"),
        ("templates/page.html", 7, "templates"),
        ("templates/prompts/ask.txt", 1, "prompts"),
        ("tests/test_a.py", 2, "tests"),
    ]


def test_names_that_the_code_binds_are_read_as_words(root: Path):
    (root / "memory" / "notes.py").write_text(
        "class TakenIn:\n"
        "    def put_away(self, was_asked):\n"
        "        told = [one.said for one in was_asked]\n"
        "        self.made, row = told, print(said=told)\n"
    )
    (root / "tests" / "test_a.py").write_text("told = 1\n")

    hits = [hit for hit in words.hits(words.texts(root)) if hit.kind == "names"]

    assert sorted((hit.line, hit.around) for hit in hits) == [
        (1, "taken in"),
        (2, "put away"),
        (2, "was asked"),
        (3, "told"),
        (4, "made"),
    ]


def test_the_check_fails_once_a_count_has_grown(root: Path, capsys: pytest.CaptureFixture[str]):
    page = root / "docs" / "a.md"
    page.write_text("It stands here.\n")
    assert words.main(["--check"]) == 1
    assert "docs/a.md:1: docs: stands -> is, remains: It stands here." in capsys.readouterr().out

    words.main(["--write"])
    assert json.loads(words.BASELINE.read_text()) == {"docs": {"stands": 1}}
    assert words.main(["--check"]) == 0

    page.write_text("It stands here, and it stands there.\n")
    assert words.main(["--check"]) == 1

    page.write_text("It is here.\n")
    assert words.main(["--check"]) == 0


def test_fewer_hits_of_one_pattern_do_not_pay_for_another(root: Path):
    page = root / "docs" / "a.md"
    page.write_text("It stands here.\n")
    words.main(["--write"])

    page.write_text("It lies here.\n")

    assert words.main(["--check"]) == 1


def test_a_reviewed_phrase_is_not_reported(root: Path):
    page = root / "docs" / "a.md"
    page.write_text("This is the last stand\nof the old guard.\n")
    words.EXCEPTIONS.write_text("last stand of | an idiom that means something else\n")
    assert words.main(["--check"]) == 0

    page.write_text("The last stand of the guard stands.\n")
    assert words.main(["--check"]) == 1


def test_an_exception_needs_a_reason(root: Path):
    words.EXCEPTIONS.write_text("last stand\n")

    with pytest.raises(SystemExit, match=r"exceptions\.txt:1 has no reason"):
        words.main([])


def test_a_sample_is_the_same_for_the_same_seed(root: Path, capsys: pytest.CaptureFixture[str]):
    text = "\n\n".join(f"This is sentence {n}. Here comes another {n}." for n in range(20))
    (root / "docs" / "a.md").write_text(text)

    printed = []
    for seed in ("1", "1", "2"):
        words.main(["--sample", "5", "--seed", seed, "--of", "docs"])
        printed.append(capsys.readouterr().out)

    assert printed[0] == printed[1] != printed[2]
    assert len(printed[0].splitlines()) == 5

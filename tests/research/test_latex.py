"""LaTeX is read like Markdown: its headings, lists, tables and sentences, without its commands."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from beacon_site.text.line_formats import is_latex
from research.claims import blocks, latex
from research.claims.blocks import ITEM, ROW, SENTENCE

RULES = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\newcommand{\fine}{50~}
\newcommand{\Rule}[2]{\textbf{(#1)} #2}
\newenvironment{Clause}[2]{\centerline{{\bf Art. #1} [#2]}}{}
\title{Tram rules}
\begin{document}
\maketitle
% Nobody reads this.
\section[Short]{Fares \& fines}\label{sec:fares}
Riding without a ticket costs \fine euros in every zone of the town. % for now
\begin{enumerate}[label=(\arabic*)]
  \item \textbf{Dogs:} A dog pays up to 50\% of the fare,
  see~\ref{sec:zones}.
  \item Bicycles travel free:
  \begin{itemize}
    \item after 8~p.m.
  \end{itemize}
\end{enumerate}
The \Council{} may change this.
\begin{tabular}{l|r}
  \hline
  Zone & Fare \\ \hline
  \multirow{2}{*}{Centre} & 2.40 \\
  \textit{Harbour} & 3.10 \\[2ex]
\end{tabular}
\begin{Clause}{7}{Lost property}
\Rule{1}{Lost property is kept for ten days at the depot.}
\end{Clause}
\begin{verbatim}
\section{Code}
\end{verbatim}
\end{document}
"""


def test_latex_has_headings_items_rows_and_sentences():
    found = blocks.parse(RULES, "en")
    said = {(entry.kind, entry.headings[-1], entry.text) for entry in found}

    assert said >= {
        (SENTENCE, "Fares & fines", "Riding without a ticket costs 50 euros in every zone of the town."),
        (ITEM, "Fares & fines", "Dogs: A dog pays up to 50% of the fare, see zones."),
        (SENTENCE, "Fares & fines", "The Council may change this."),
        (ROW, "Fares & fines", "Centre: Fare: 2.40"),
        (ROW, "Fares & fines", "Harbour: Fare: 3.10"),
        (ITEM, "Art. 7 Lost property", "Lost property is kept for ten days at the depot."),
    }  # fmt: skip
    assert found[0].headings[0] == "Tram rules"
    assert next(e for e in found if e.text == "after 8 p.m.").headings[-1] == "Bicycles travel free"
    assert not any("Code" in entry.text or "Nobody" in entry.text for entry in found)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\"Uber \'{e}t\'e \ss{} \c{c}a", "Über été ß ça"),
        (r"``Line 1''---the tram~--- \emph{fast}", "“Line 1”—the tram — fast"),
        (
            r"It is \SI{200}{\centi\meter} wide, \textcolor{red}{red}",
            "It is 200 centimeter wide, red",
        ),
        (r"\href{https://example.org}{the map} at \S 5", "[the map](https://example.org) at §5"),
        (r"$a \geq 5$ and 5\,\% of \{x\}", "a ≥5 and 5 % of {x}"),
        (r"}} unbalanced\begin{itemize} \item one", "unbalanced\n- one"),
    ],
)
def test_commands_become_text(written: str, read: str):
    assert latex.as_markdown(written).strip() == read


def test_a_page_about_latex_is_not_latex():
    page = "# Writing\n\n```\n\\section{One}\n\\item a\n\\item b\n```\n\n## More\n\nUse `\\item` in it.\n"

    assert not is_latex(page)
    assert is_latex("\\section{One}\n\\begin{itemize}\n\\item a\n\\end{itemize}\n")
    assert is_latex("\\score{80}{a}\n\\score{90}{b}\n\\score{10}{c}\n")


@pytest.mark.parametrize(
    "page",
    [
        "\\section{" * 20_000,
        "{" * 100_000,
        "\\begin{itemize}" * 20_000,
        "\\item [" * 20_000,
        "\\newcommand{\\a}[1]{#1#1}" + "\\a{" * 50 + "x" + "}" * 50 + "\\item a\n" * 3,
        "\\newcommand{\\a}{xxxxxxxxxx}\\newcommand{\\b}{\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a}\n"
        + "\\b" * 50_000,
        "\\hl " * 50_000 + "\n" * 50_000,
    ],
)
def test_hostile_latex_takes_little_time(page: str):
    started = time.perf_counter()
    said = latex.as_markdown(page)

    assert time.perf_counter() - started < 5
    assert len(said) < 3 * latex.MAX_LENGTH


@pytest.mark.parametrize("columns", ["²", "9" * 5_000, "-1", "", "000", "३"])
def test_an_odd_number_of_columns_isnt_an_error(columns: str):
    said = latex.as_markdown(f"\\multicolumn{{{columns}}}{{c}}{{x}}")

    assert said.strip().strip("|") == "x"


def test_cells_span_columns():
    page = "\\begin{tabular}{ll}\n\\multicolumn{2}{c}{Port} & Zoo \\\\\n\\end{tabular}\n"

    assert "| Port |  | Zoo |" in latex.as_markdown(page)


# Written without a limit, each would have billions of characters.
@pytest.mark.parametrize(
    "page",
    [
        "\\newcommand{\\a}[1]{" + "#1" * 30_000 + "}\\a{" + "x" * 100_000 + "}",
        "\\newcommand{\\a}[1]{" + "#1" * 30_000 + "}" + ("\\a{" + "x" * 20_000 + "}") * 5,
        "\\newenvironment{e}{}{" + "x" * 100_000 + "}" + "\\end{e}" * 12_000,
        "\\newenvironment{e}{}{" + "x" * 100_000 + "}" + "\\begin{e}\\end{e}" * 6_000,
    ],
)
def test_what_macros_are_expanded_to_is_limited(page: str):
    tracemalloc.start()
    said = latex.as_markdown(page)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(said) < len(page) + latex.MAX_LENGTH
    assert peak < 100_000_000


# Each takes minutes if its cost grows with the cube or the square of its length.
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "page",
    [
        "\\def\n" + " " * 40_000 + "a\n" + " " * 40_000 + "x",
        "\\def\n" + " " * 40_000 + "{\n" + " " * 40_000 + "\\a\n" + " " * 40_000 + "x",
        "\\newcommand\\a\n" + " " * 40_000 + "[1]\n" + " " * 40_000 + "[x]\n" + " " * 40_000 + "x",
        "\n\n \f" * 100_000,
        "x\n\n" + " " * 200_000 + "x",
    ],
)
def test_spaces_in_latex_are_read_in_one_pass(page: str):
    assert len(latex.as_markdown(page)) <= len(page)


def test_a_macro_with_an_argument_that_is_too_long_is_left_out():
    page = "\\newcommand{\\a}[2]{#2, #1 and #3}\\a{one}{two}"

    assert latex.as_markdown(page) == "two, one and "

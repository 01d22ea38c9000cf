"""Write LaTeX as Markdown, so that its headings, lists, tables and sentences can be read.

One pass over the text. Macros that the text defines are expanded. Others keep their arguments,
because most of them only set how text looks. Pure functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from beacon_site.text.cleaning import one_line

DEEPEST = 60  # nested groups; deeper ones are left out
MAX_LENGTH = 2_000_000  # characters that macros may be expanded to

_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
    "subparagraph": 6,
}  # fmt: skip
_COMMENT = re.compile(r"^[ \t]*%.*\n?|(?<!\\)%.*", re.MULTILINE)
_TOKEN = re.compile(r"\\([a-zA-Z@]+)\*?[ \t]*|\\(.|\Z)|([{}&~$])|([^\\{}&~$]+)", re.DOTALL)
_OPTION = re.compile(r"\[((?:[^\[\]{}]|\{[^{}]{0,200}\}){0,400})\]")
_CONTROL = re.compile(r"\\[a-zA-Z@]+\*?|[{}]")
_DEFINED = re.compile(
    r"\s*+\{?\s*+\\?([a-zA-Z@]+)\*?\s*+\}?(?:\s*+\[(\d)\])?(?:\s*+\[([^\[\]]{0,200})\])?((?:#\d){0,9})\s*+(?=\{)"
)
_PLACEHOLDER = re.compile(r"#(\d)")
_COLUMNS = re.compile(r"\s{0,20}([0-9]{1,3})\s{0,20}")
_LINE_END = re.compile(r"[ \t]*(?:\n|\Z)")
_SPACE = re.compile(r"\s*")
_GAP = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_GAP_IN_LIST = re.compile(r"\n\n(?=[ \t]*- )")
_LIST = re.compile(r"item|enum|desc|^list", re.IGNORECASE)
_TABLE = re.compile(r"(?:long|x|l)?tab(?:ular[xy]?|u)|longtable|supertabular|(?:long)?tblr")
# Their arguments only say how large they are.
_SIZED = frozenset("minipage multicols wrapfigure figure table spacing adjustbox".split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|[@_:/-]+")
_REFERENCE = re.compile(r"(?!href)[a-zA-Z]*ref(?:sec|tab|fig|page)?")
_ROW, _CELL, _RULE = "\x1e", "\x1f", "\x1d"
_QUOTES = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ('"`', "„"), ("\"'", "“"))

# Environments that aren't text.
_LEFT_OUT = frozenset(
    "verbatim lstlisting minted comment tikzpicture filecontents thebibliography equation align gather".split()
)
# Commands whose arguments aren't text, or of which only those after the first ones are.
_WITHOUT_TEXT = frozenset(
    "addcontentsline addtocounter addtolength author bibliography bibliographystyle cite cline cmidrule color definecolor"
    " documentclass enlargethispage fontsize geometry graphicspath hspace hypersetup include includegraphics includepdf"
    " index input label let lstset markboth newcolumntype newcounter newlength nocite pagecolor pagenumbering pagestyle"
    " RequirePackage rowcolor rule sectionmark setcounter setlength setmainfont subfile thispagestyle usepackage"
    " usetikzlibrary vspace".split()
)
_BEFORE_TEXT = {
    "textcolor": 1, "colorbox": 1, "parbox": 1, "raisebox": 1, "multicolumn": 2, "multirow": 2,
}  # fmt: skip
_SILENT = frozenset(
    "appendix arraybackslash backmatter bf bfseries bigskip bottomrule centering clearpage cleardoublepage em endfirsthead"
    " endfoot endhead endlastfoot footnotesize frontmatter hfill hrule Huge huge it itshape large Large LARGE linebreak"
    " mainmatter makeatletter makeatother maketitle medskip newpage nobreak noindent nolinebreak nopagebreak normalfont"
    " normalsize onehalfspacing pagebreak printbibliography protect raggedleft raggedright relax rm sc scriptsize"
    " sffamily singlespacing sl sloppy small smallskip tableofcontents tiny toprule tt ttfamily vfill".split()
)
_SIGNS = {
    "ldots": "…", "dots": "…", "S": "§", "euro": "€", "texteuro": "€", "textbackslash": "\\", "times": "×",
    "copyright": "©", "geq": "≥", "ge": "≥", "leq": "≤", "le": "≤", "pm": "±", "ss": "ß", "rightarrow": "→",
    "to": "→", "degree": "°", "percent": "%", "quad": " ", "qquad": " ", "newline": "\n", "par": "\n\n",
    "textasciitilde": "~", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "aa": "å", "AA": "Å", "i": "i",
    "glqq": "„", "grqq": "“", "hline": _RULE, "midrule": _RULE,
}  # fmt: skip
_ACCENTS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a",
}  # fmt: skip


def as_markdown(text: str) -> str:
    message = _Reader(_COMMENT.sub("", text)).read()
    for written, sign in _QUOTES:
        message = message.replace(written, sign)
    message = re.sub(f"[{_ROW}{_CELL}{_RULE}]", " ", message)
    return _GAP_IN_LIST.sub("\n", _GAP.sub("\n\n", message))


@dataclass
class _Macro:
    """A macro or environment of the text: the number of its arguments, the default of the first, its text."""

    arguments: int
    default: str | None
    before: str
    after: str = ""


@dataclass
class _Reader:
    text: str
    place: int = 0
    depth: int = 0  # of groups and environments
    lists: int = 0
    tables: int = 0
    expanded: int = 0
    macros: dict[str, _Macro] = field(default_factory=dict)
    environments: dict[str, _Macro] = field(default_factory=dict)
    title: str = ""

    def read(self, end: str = "") -> str:
        """Read up to `}`, or up to the `\\end` of an environment, or the whole text."""
        parts: list[str] = []
        self.depth += 1
        while self.place < len(self.text):
            token = _TOKEN.match(self.text, self.place)
            assert token is not None  # noqa: S101 (each character is a token)  # nosec B101
            name, sign, mark, words = token.groups()
            if mark == "}" and end:
                # One in an environment ends the group around it.
                self.place += end == "}"
                break
            self.place = token.end()
            if name == "end":
                if (ended := self._group()) not in self.environments and end == name:
                    break
                parts.append(self._end_of(ended))
            elif name == "begin" and (begun := self._group()) == "document":
                parts = [f"# {self.title}\n\n" if self.title else ""]
            elif name == "begin":
                parts.append(self._environment(begun))
            elif name:
                is_first = not parts or parts[-1].rstrip(" \t").endswith("\n")
                parts.append(self._command(name, is_first=is_first))
            elif words:
                parts.append(words)
            elif mark == "{":
                parts.append(self._deeper("}"))
            elif mark:
                parts.append({"&": _CELL if self.tables else "&", "~": " "}.get(mark, ""))
            else:
                parts.append(self._sign(sign))
        self.depth -= 1
        return "".join(parts)

    def _deeper(self, end: str) -> str:
        return self.read(end) if self.depth < DEEPEST else ""

    def _group(self) -> str:
        """Read a group in braces, if one follows."""
        if not self.text.startswith("{", self.place):
            return ""
        self.place += 1
        return self._deeper("}")

    def _option(self) -> str | None:
        """Read an argument in brackets, if one follows."""
        match = _OPTION.match(self.text, self.place)
        if match is None:
            return None
        self.place = match.end()
        return one_line(_CONTROL.sub(" ", match[1]))

    def _arguments(self) -> list[str]:
        """Read all groups that follow."""
        results: list[str] = []
        self._option()
        while self.text.startswith("{", self.place):
            results.append(self._group())
            self._option()
        return results

    def _sign(self, sign: str) -> str:
        if sign == "\\":
            self._option()
            return _ROW if self.tables else "\n"
        if sign in _ACCENTS:
            return self._accented(_ACCENTS[sign])
        if sign.isspace():
            return " "
        return {",": " ", ";": " ", ":": " ", "/": "", "-": "", "!": ""}.get(
            sign, sign if sign not in "()[]" else ""
        )

    def _accented(self, accent: str) -> str:
        if self.text.startswith("{", self.place):
            letter = self._group()
        else:
            letter = self.text[self.place : self.place + 1]
            self.place += 1
        return unicodedata.normalize("NFC", letter[:1] + accent) + letter[1:]

    def _command(self, name: str, *, is_first: bool) -> str:
        if name in ("newcommand", "renewcommand", "providecommand", "def"):
            return self._define(self.macros)
        if name in ("newenvironment", "renewenvironment"):
            return self._define(self.environments)
        if name in self.macros:
            return self._expanded(self.macros[name])
        if name in _SIGNS or name in _SILENT:
            self.place += 2 * self.text.startswith("{}", self.place)
            return _SIGNS.get(name, "")
        if name in _ACCENTS and self.text.startswith("{", self.place):
            return self._accented(_ACCENTS[name])
        if name == "item":
            label = self._option()
            space = _SPACE.match(self.text, self.place)
            self.place = space.end() if space else self.place
            named = f"**{label}** " if label else ""
            return f"\n{'  ' * max(self.lists - 1, 0)}- {named}"
        parts = self._arguments()
        if name in _LEVELS:
            return f"\n\n{'#' * _LEVELS[name]} {one_line(' '.join(parts))}\n\n"
        if name in _WITHOUT_TEXT:
            return ""
        if name == "title":
            self.title = one_line(" ".join(parts))
            return ""
        if not any(parts):
            return _CAMEL.sub(" ", name)
        if _REFERENCE.fullmatch(name):  # the last part of a label often has the name of its section
            return _CAMEL.sub(" ", parts[0].rsplit(":", 1)[-1])
        text = self._worded(name, parts)
        # A command with several arguments on a line of its own is an entry of a list.
        is_line = is_first and _LINE_END.match(self.text, self.place) is not None
        is_entry = is_line and len(parts) > 1 and name not in _BEFORE_TEXT and name != "href"
        return f"\n- {text}" if is_entry else text

    def _worded(self, name: str, parts: list[str]) -> str:
        """Return the arguments of a command as text."""
        text = " ".join(filter(None, parts[_BEFORE_TEXT.get(name, 0) :]))
        if name in ("textbf", "textsc") and any(map(str.isalpha, text)) and "**" not in text:
            return f"**{text.strip()}**" + " " * text[-1:].isspace()
        if name == "footnote":
            return f" ({one_line(text)})"
        if name == "caption":
            return f"\n\n{one_line(text)}\n\n"
        if name == "href" and len(parts) > 1:
            return f"[{one_line(parts[1])}]({parts[0].strip()})"
        if name == "multicolumn" and (columns := _COLUMNS.fullmatch(parts[0])):
            return text + _CELL * (min(int(columns[1]), 20) - 1)
        return text

    def _define(self, known: dict[str, _Macro]) -> str:
        """Read the definition of a macro or an environment."""
        named = _DEFINED.match(self.text, self.place)
        if named is None:
            return ""
        self.place = named.end()
        before = self._group()
        after = ""
        if known is self.environments:
            self.place = (_SPACE.match(self.text, self.place) or named).end()
            after = self._group()
        known[named[1]] = _Macro(int(named[2] or len(named[4]) // 2), named[3], before, after)
        return ""

    def _expanded(self, macro: _Macro) -> str:
        texts: list[str] = []
        if macro.default is not None:
            option = self._option()
            texts.append(macro.default if option is None else option)
        while len(texts) < macro.arguments and self.text.startswith("{", self.place):
            texts.append(self._group())
        if not macro.arguments and self.text.startswith("{}", self.place):
            self.place += 2
        return self._filled(macro.before, texts)

    def _filled(self, text: str, texts: Sequence[str]) -> str:
        """Return the text of a macro with its arguments, or nothing if that is too long."""
        values = {f"{n}": value for n, value in enumerate(texts, start=1)}
        size = len(text) + sum(len(values.get(n, "")) for n in _PLACEHOLDER.findall(text))
        if self.expanded + size > MAX_LENGTH:
            return ""
        self.expanded += size
        return _PLACEHOLDER.sub(lambda found: values.get(found[1], ""), text)

    def _environment(self, name: str) -> str:
        bare = name.removesuffix("*")
        if bare in _LEFT_OUT:
            end = self.text.find(f"\\end{{{name}}}", self.place)
            self.place = len(self.text) if end < 0 else end + len(f"\\end{{{name}}}")
            return "\n\n"
        if name in self.environments:
            return f"\n\n{self._expanded(self.environments[name])}\n\n"
        is_table = _TABLE.fullmatch(bare) is not None
        parts = self._arguments()
        if is_table or bare in _SIZED:
            parts = []
        depths = self.lists, self.tables
        self.lists += bool(_LIST.search(bare))
        self.tables += is_table
        inner = self._deeper("end")
        self.lists, self.tables = depths
        if is_table:
            return self._table(inner)
        return "\n\n".join(["", *filter(None, [" ".join(parts)]), inner, ""])

    def _end_of(self, name: str) -> str:
        known = self.environments.get(name)
        return f"\n\n{self._filled(known.after, ())}\n\n" if known else "\n\n"

    def _table(self, text: str) -> str:
        """Write rows with bars. A first row that only has a rule below it is the header."""
        rows: list[list[str]] = []
        has_rule: list[bool] = []  # above each row
        for row in text.split(_ROW):
            cells = [
                one_line(cell.replace(_RULE, " ")).replace("|", "/") for cell in row.split(_CELL)
            ]
            if any(cells):
                rows.append(cells)
                has_rule.append(row.lstrip().startswith(_RULE))
        if self.tables:  # in a cell of another table
            return "; ".join(" ".join(filter(None, cells)) for cells in rows)
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        if len(rows) > 2 and (
            has_rule[1:3] == [True, False] or all(cell[:2] == "**" for cell in rows[0] if cell)
        ):
            lines.insert(1, "|" + " --- |" * len(rows[0]))
        return "\n\n" + "\n".join(lines) + "\n\n"

"""Prints how large and how entangled the product's code is, with the goal beside each figure.

    python scripts/house.py            print the figures
    python scripts/house.py --check    fail if a figure is larger than in scripts/house.json
    python scripts/house.py --write    store today's figures in scripts/house.json

It reads the syntax trees of the product's Python files and needs only the standard library.

A file is entered by a request if a function or class in it can be reached from the URL. Calls are
followed through imported names, `self` and base classes. Calls on other objects, what Django calls
itself and middleware aren't seen, so these figures are lower bounds.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASELINE = ROOT / "scripts" / "house.json"
APPS = ("beacon_site", "memory", "research")
GOALS = {
    "product files": 420,
    "product lines": 92_000,
    "packages in the layer test": 40,
    "import levels": 8,
    "folders in an import cycle": 0,
    "modules with exactly one importer": 80,
    "dataclasses": 200,
    "modules in an import cycle, TYPE_CHECKING included": 0,
    "files entered by a note edit": 10,
    "files entered by GET /recall": 18,
    "files entered by MCP memory_write": 22,
}
HTTP_METHODS = {"get", "post", "put", "patch", "delete"}
MCP_PACKAGE, ASGI_ARGUMENTS = "research.mcp", ["scope", "receive", "send"]
CLASS_HOOKS = ("__init__", "__post_init__", "__call__", "clean", "is_valid", "save")

Graph = dict[str, set[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


class Module:
    """One product file: its definitions and the names that it imports."""

    def __init__(self, path: Path, root: Path) -> None:
        parts = path.relative_to(root).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.folder = ".".join(parts[:-1])
        self.package = ".".join(self.name.split(".")[:2])  # or the flat module of an app
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))

    @cached_property
    def for_types(self) -> set[ast.AST]:
        """Everything below `if TYPE_CHECKING:`, which isn't imported at run time."""
        return {
            inside
            for node in self.nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inside in ast.walk(node)
        }

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Functions and classes of the module, and methods as `Class.method`."""
        found: dict[str, Definition] = {}
        for node in self.tree.body:
            if isinstance(node, Definition):
                found[node.name] = node
            if isinstance(node, ast.ClassDef):
                methods = (inner for inner in node.body if isinstance(inner, Function))
                found |= {f"{node.name}.{method.name}": method for method in methods}
        return found

    @cached_property
    def names(self) -> dict[str, str]:
        """Local names of imports, with their dotted names."""
        found = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return found


class House:
    """All product modules, and what is measured of them."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        paths = [path for app in APPS for path in sorted((root / app).rglob("*.py"))]
        modules = [Module(path, root) for path in paths if "migrations" not in path.parts]
        self.modules = {module.name: module for module in modules}
        self.imports = self._imports(types=False)
        self.imports_with_types = self._imports(types=True)

    def figures(self) -> dict[str, int]:
        """Return every figure under the name that it has in GOALS."""
        modules = self.modules.values()
        importers = Counter(name for names in self.imports_with_types.values() for name in names)
        values = (
            sum(bool(module.text.strip()) for module in modules),
            sum(len(module.text.splitlines()) for module in modules),
            len(self._packages_in_layer_test()),
            longest_path(self._grouped("package")),
            len(in_cycles(self._grouped("folder"))),
            sum(times == 1 for times in importers.values()),
            sum(is_dataclass(node) for module in modules for node in module.nodes),
            len(in_cycles(self.imports_with_types)),
            len(self.entered(self._page("note-edit"))),
            len(self.entered(self._operation("recall"))),
            len(self.entered(self._tool("memory_write"))),
        )
        return dict(zip(GOALS, values, strict=True))

    def _imports(self, *, types: bool) -> Graph:
        """Return which product modules each one imports; with `types` also for annotations only."""
        found: Graph = {}
        for module in self.modules.values():
            names = set()
            for node in module.nodes:
                if node in module.for_types and not types:
                    continue
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    inner = {f"{node.module}.{alias.name}" for alias in node.names}
                    names |= (inner & self.modules.keys()) or {node.module}
            found[module.name] = names & self.modules.keys() - {module.name}
        return found

    def _grouped(self, kind: str) -> Graph:
        """Return the imports between packages or folders at run time."""
        groups: dict[str, str] = {name: getattr(one, kind) for name, one in self.modules.items()}
        found: Graph = {group: set() for group in groups.values()}
        for name, others in self.imports.items():
            found[groups[name]] |= {groups[other] for other in others} - {groups[name]}
        return found

    def _packages_in_layer_test(self) -> list[str]:
        """Return the packages and flat modules that LAYERS in tests/test_architecture.py names."""
        tree = ast.parse((self.root / "tests" / "test_architecture.py").read_text("utf-8"))
        layers = next(
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS"
        )
        return [f"{app}.{name}" for app, names in layers.items() for name in names.split()]

    # --- which files a request enters ---

    def entered(self, starts: set[str]) -> set[str]:
        """Return the files of all functions and classes that can be reached from these."""
        seen: set[str] = set()
        waiting = list(starts)
        while waiting:
            name = waiting.pop()
            if name and name not in seen:
                seen.add(name)
                waiting += self._called(name)
        return {name.partition(":")[0] for name in seen}

    def _called(self, name: str) -> Iterator[str]:
        """Yield what a function or class calls, as `module:definition`."""
        home, _colon, inside = name.partition(":")
        module = self.modules[home]
        definition = module.definitions[inside]
        if isinstance(definition, ast.ClassDef):
            for hook in CLASS_HOOKS:
                yield self._method(module, inside, hook)
            for base in definition.bases:
                yield self._resolved(module, base)
            return
        owner = inside.partition(".")[0]
        for called in called_in(definition):
            receiver, _dot, method = ast.unparse(called).partition(".")
            if receiver in ("self", "cls"):
                yield self._method(module, owner, method)
            else:
                yield self._resolved(module, called)

    def _resolved(self, module: Module, node: ast.expr) -> str:
        """Return the definition of a name or `module.name`, or "" if it is external."""
        dotted = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        first, _dot, rest = dotted.partition(".")
        if dotted in module.definitions:
            return f"{module.name}:{dotted}"
        if first not in module.names:
            return ""
        return self._found(f"{module.names[first]}.{rest}".rstrip("."))

    def _found(self, dotted: str) -> str:
        """Return `module:definition` of a dotted name, also where a package hands it on."""
        parts = dotted.split(".")
        for end in range(len(parts) - 1, 0, -1):
            module = self.modules.get(".".join(parts[:end]))
            if module is None:
                continue
            rest = ".".join(parts[end:])
            if rest in module.definitions:
                return f"{module.name}:{rest}"
            if parts[end] in module.names:
                onward = ".".join([module.names[parts[end]], *parts[end + 1 :]])
                return self._found(onward) if onward != dotted else ""
            return ""
        return ""

    def _method(self, module: Module, owner: str, name: str) -> str:
        """Return where a class or one of its bases defines a method; empty if none of ours does."""
        definition = module.definitions.get(owner)
        if not isinstance(definition, ast.ClassDef):
            return ""
        if f"{owner}.{name}" in module.definitions:
            return f"{module.name}:{owner}.{name}"
        for base in definition.bases:
            found = self._resolved(module, base)
            if found:
                home, _colon, base_name = found.partition(":")
                if method := self._method(self.modules[home], base_name, name):
                    return method
        return ""

    # --- where a request begins ---

    def _page(self, name: str) -> set[str]:
        """Return the view of the URL with this name."""
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.Call) and _keyword(node, "name") == name:
                    return {self._resolved(module, node.args[1])}
        raise LookupError(f"No URL is named {name}.")

    def _operation(self, name: str) -> set[str]:
        """Return the function of a REST operation."""
        for module in self.modules.values():
            for inside, node in module.definitions.items():
                verbs = {getattr(call.func, "attr", "") for call in _decorators(node)}
                if inside == name and verbs & HTTP_METHODS:
                    return {f"{module.name}:{inside}"}
        raise LookupError(f"No REST operation is named {name}.")

    def _tool(self, name: str) -> set[str]:
        """Return the function of an MCP tool, and what the MCP server calls before it."""
        tool, server = set(), set()
        for module in self.modules.values():
            for node in module.nodes:
                if isinstance(node, ast.Call) and node.args and _constant(node.args[0]) == name:
                    given = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
                    tool |= {self._resolved(module, one) for one in given} - {""}
            for inside, node in module.definitions.items():
                key = f"{module.name}:{inside}"
                if any(call.args and _constant(call.args[0]) == name for call in _decorators(node)):
                    tool.add(key)
                if isinstance(node, Function) and module.package == MCP_PACKAGE:
                    is_asgi = [one.arg for one in node.args.args][1:] == ASGI_ARGUMENTS
                    if is_asgi or inside.endswith(".call_tool"):
                        server.add(key)
        if not tool or not server:
            raise LookupError(f"No MCP tool is named {name}, or {MCP_PACKAGE} has no server.")
        return tool | server


def _decorators(node: Definition) -> list[ast.Call]:
    return [one for one in node.decorator_list if isinstance(one, ast.Call)]


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _keyword(node: ast.Call, name: str) -> object:
    return next((_constant(k.value) for k in node.keywords if k.arg == name), None)


def called_in(function: Function) -> list[ast.expr]:
    """Return what a function calls; for a local variable, also what may have been assigned to it."""
    found = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    variables = {node.id for node in found if isinstance(node, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in variables for target in node.targets
        ):
            found += [n for n in ast.walk(node.value) if isinstance(n, ast.Name | ast.Attribute)]
    return found


def is_dataclass(node: ast.AST) -> bool:
    """Return whether a node defines a dataclass."""
    if not isinstance(node, ast.ClassDef):
        return False
    return any(ast.unparse(d).split("(")[0].endswith("dataclass") for d in node.decorator_list)


def in_cycles(graph: Graph) -> set[str]:
    """Return the nodes from which a path leads back to themselves."""
    reached = {name: set(others) for name, others in graph.items()}
    for middle in graph:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    return {name for name, others in reached.items() if name in others}


def longest_path(graph: Graph) -> int:
    """Return how many nodes the longest chain has; the graph must not have a cycle."""
    lengths: dict[str, int] = {}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as exc:
        sys.exit(f"These packages import each other: {' -> '.join(exc.args[1])}")
    for name in order:
        lengths[name] = 1 + max((lengths[other] for other in graph.get(name, ())), default=0)
    return max(lengths.values())


def main(arguments: list[str]) -> int:
    """Print the figures, and compare or store them as asked."""
    parser = argparse.ArgumentParser(description="How large and how entangled the code is.")
    parser.add_argument("--check", action="store_true", help="fail if a figure has grown")
    parser.add_argument("--write", action="store_true", help="store the figures of today")
    chosen = parser.parse_args(arguments)
    figures = House().figures()
    if chosen.write:
        BASELINE.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    stored: dict[str, int] = json.loads(BASELINE.read_text(encoding="utf-8"))
    print(f"{'':52}{'now':>8}{'stored':>8}{'goal':>8}")
    for name, figure in figures.items():
        print(f"{name:52}{figure:8,}{stored.get(name, 0):8,}{GOALS[name]:8,}")
    grown = [name for name, figure in figures.items() if figure > stored.get(name, 0)]
    if chosen.check and grown:
        print(
            f"Grown: {', '.join(grown)}. Make the change smaller. If it needs the growth, run "
            "`python scripts/house.py --write` and give the reason in the commit message."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

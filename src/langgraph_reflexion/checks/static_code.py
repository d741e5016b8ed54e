"""`static_code`: read the Python code of an answer without running it: it compiles, and it uses nothing forbidden.

Names are followed through imports, aliases, attributes (`random._os`) and text that is a constant (`getattr(m, "x")`).
What hides a name, such as `__globals__` or an import of computed text, is refused as well. This stops mistakes. Only
isolation stops an attack.
"""

from __future__ import annotations

import ast
import builtins
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from langgraph_reflexion.checks.check import Check
from langgraph_reflexion.checks.coding import code_of
from langgraph_reflexion.schemas import Run, Verdict
from langgraph_reflexion.text.tokens import word_set

DANGEROUS = (
    "os", "sys.modules", "subprocess", "socket", "shutil", "ctypes", "multiprocessing", "importlib", "pickle",
    "marshal", "signal", "urllib", "http", "requests", "eval", "exec", "compile", "open",
)  # fmt: skip
"""What `static_code` forbids by default."""
SAME_AS = {
    "os": ("posix", "nt"),
    "subprocess": ("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "pty"),
    "exec": ("runpy", "code", "codeop", "pdb", "bdb", "timeit", "trace", "profile", "cProfile"),
    "open": ("io.open", "io.FileIO", "codecs.open", "pathlib", "fileinput", "tempfile", "linecache"),
}
"""Other names of the standard library for the same thing. A leading underscore (`_socket`) needs no entry."""
_HIDES = word_set(
    """
    __subclasses__ __globals__ __builtins__ __loader__ __spec__ __mro__ __bases__ __code__ __closure__ f_globals
    f_builtins f_back gi_frame tb_frame cr_frame
    """
)
"""Attributes that lead from any object to what its code can reach."""
_BUILTINS = frozenset(dir(builtins))
_IMPORTERS = ("__import__", "importlib.import_module", "importlib.__import__")


def static_code(forbid: Iterable[str] = DANGEROUS) -> Check:
    """Accept an answer whose Python code compiles, and imports and uses nothing forbidden. The code is not run.

    `forbid` names modules (`os`), what is in them (`os.system`) and Python's own functions (`eval`).
    """
    listed = isinstance(forbid, Iterable) and not isinstance(forbid, (str, bytes))
    names = tuple(forbid) if listed else ()
    if not listed or not all(isinstance(name, str) and all(map(str.isidentifier, name.split("."))) for name in names):
        raise ValueError(f"`forbid` must be a list of names such as 'os', 'os.system' or 'eval', got {forbid!r}")
    forbidden = (*names, *(other for name in names for other in SAME_AS.get(name, ())))

    def judge(answer: Any, _run: Run) -> Verdict:
        issues = _issues(code_of(answer), forbidden)
        return Verdict(passed=not issues, issues=issues)

    return Check("static_code", judge)


def _issues(code: str, forbidden: Collection[str]) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(code, "<answer>", "exec", dont_inherit=True)
            tree = ast.parse(code)
        if not tree.body:
            return ["there is no code in the answer"]
        return list(dict.fromkeys(_forbidden_uses(tree, forbidden)))
    except (SyntaxError, ValueError) as fault:
        return [f"the code does not compile: {fault}"]
    except (RecursionError, MemoryError):
        return ["the code is nested too deeply"]


def _forbidden_uses(tree: ast.AST, forbidden: Collection[str]) -> Iterator[str]:
    names = _aliases(tree)
    arguments = set(_uses_of_arguments(tree, names))
    for node in ast.walk(tree):
        line = f"line {getattr(node, 'lineno', 0)}:"
        for path in () if node in arguments else _paths(node, names):
            if (name := _match(path, forbidden)) is not None:
                verb = "imports" if isinstance(node, (ast.Import, ast.ImportFrom)) else "uses"
                yield f"{line} it {verb} {path}, and {name} is forbidden"
        if forbidden and (hidden := _hidden_name(node, names, forbidden)):
            yield f"{line} {hidden}, which hides what it reaches"


def _match(path: str, forbidden: Collection[str]) -> str | None:
    """The forbidden name that a path reaches: as a whole, from its start, or in a standard library module."""
    parts = [part.lstrip("_") or part for part in path.split(".")]
    starts = range(len(parts)) if parts[0] in sys.stdlib_module_names else range(1)
    for name in forbidden:
        if path.endswith(".*") and f"{name}.".startswith(path[:-1]):  # from os import *
            return name
        for start in range(1) if name in _BUILTINS else starts:
            reached = ".".join(parts[start:])
            if path == name or reached == name or reached.startswith(f"{name}."):
                return name
    return None


def _aliases(tree: ast.AST) -> dict[str, str]:
    """The full names of imports, and of variables that are only aliases of them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for _ in range(4):  # a name of a name of a name
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                path = _path(node.value, names)
                for target in targets if path is not None else ():
                    if isinstance(target, ast.Name):
                        names.setdefault(target.id, str(path))
    return names


def _uses_of_arguments(tree: ast.AST, names: Collection[str]) -> Iterator[ast.AST]:
    """The nodes where a function uses its own arguments, which may have the name of a built-in function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = {argument.arg for argument in given} - set(names)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                yield from (inner for inner in ast.walk(part) if isinstance(inner, ast.Name) and inner.id in own)


def _paths(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """The full names of what a node imports or uses."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        path, root = _path(node, names), node
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value  # type: ignore[assignment]
        known = isinstance(root, ast.Call) or (
            isinstance(root, ast.Name) and (root.id in names or root.id in _BUILTINS)
        )
        if path is not None and known:
            yield path


def _path(node: ast.AST, names: dict[str, str]) -> str | None:
    """The dotted name that an expression reaches, as far as its text says."""
    if isinstance(node, ast.Name):
        return _bare(names.get(node.id, node.id))
    if isinstance(node, ast.Attribute):
        return _joined(_path(node.value, names), node.attr)
    if isinstance(node, ast.Subscript) and (key := _text(node.slice)):
        owner = _path(node.value, names)
        if owner in ("sys.modules", "__builtins__", "__dict__"):
            return _bare(key)
        if isinstance(node.value, ast.Call) and _path(node.value.func, names) in ("globals", "locals", "vars"):
            return _bare(names.get(key, key))
        if owner is not None and owner.endswith(".__dict__"):
            return _joined(owner.removesuffix(".__dict__"), key)
    if isinstance(node, ast.Call):
        called, given = _path(node.func, names), [_text(argument) for argument in node.args]
        if called in _IMPORTERS and given and given[0]:
            return given[0]
        if called == "getattr" and len(given) > 1 and given[1]:
            return _joined(_path(node.args[0], names), given[1])
    return None


def _joined(owner: str | None, name: str) -> str | None:
    return None if owner is None else _bare(f"{owner}.{name}")


def _bare(path: str) -> str:
    return path.removeprefix("builtins.").removeprefix("__builtins__.")


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _hidden_name(node: ast.AST, names: dict[str, str], forbidden: Collection[str]) -> str | None:
    """Code that reaches something whose name is not in the text."""
    word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if word in _HIDES:
        return f"it uses {word}"
    if not isinstance(node, ast.Call):
        return None
    called, first = _path(node.func, names), _text(node.args[0]) if node.args else None
    if called in _IMPORTERS and first is None:
        return f"it calls {called} with a computed name"
    if called == "getattr" and len(node.args) > 1 and not _text(node.args[1]):
        owner = (_path(node.args[0], names) or "").split(".")[0]
        of_module = owner in {path.split(".")[0] for path in names.values()}
        return "it calls getattr on a module with a computed name" if of_module else None
    if called in ("eval", "exec", "compile"):
        if first is None:
            return f"it calls {called} on computed text"
        inside = _issues(first, forbidden)
        return f"it calls {called} on {first!r} ({inside[0]})" if inside else None
    return "it calls vars on an object" if called == "vars" and node.args else None

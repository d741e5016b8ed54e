"""`static_code`: read the Python code of an answer without running it: it compiles, and it uses nothing forbidden.

Names are followed through imports and attributes. This stops mistakes. Only isolation stops an attack.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from langgraph_reflexion.checks.check import Check
from langgraph_reflexion.checks.coding import code_of, without_warnings
from langgraph_reflexion.driver import Waits, in_thread
from langgraph_reflexion.schemas import Run, Verdict

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
"""Other names of the standard library for the same thing."""
_BUILTINS = frozenset(dir(builtins))
_IMPORTERS = ("__import__", "importlib.import_module")


def static_code(forbid: Iterable[str] = DANGEROUS) -> Check:
    """Accept an answer whose Python code compiles, and imports and uses nothing forbidden. The code is not run.

    `forbid` names modules (`os`), what is in them (`os.system`) and Python's own functions (`eval`).
    """
    listed = isinstance(forbid, Iterable) and not isinstance(forbid, (str, bytes))
    names = tuple(forbid) if listed else ()
    if not listed or not all(isinstance(name, str) and all(map(str.isidentifier, name.split("."))) for name in names):
        raise ValueError(f"`forbid` must be a list of names such as 'os', 'os.system' or 'eval', got {forbid!r}")
    forbidden = (*names, *(other for name in names for other in SAME_AS.get(name, ())))

    def judge(answer: Any, _run: Run) -> Waits[Verdict]:
        issues = yield in_thread(lambda: _issues(code_of(answer), forbidden), own=True)
        return Verdict(passed=not issues, issues=issues)

    return Check("static_code", judge)


def _issues(code: str, forbidden: Collection[str]) -> list[str]:
    try:
        with without_warnings():
            tree = ast.parse(code, "<answer>")
            compile(tree, "<answer>", "exec", dont_inherit=True)
        if not tree.body:
            return ["there is no code in the answer"]
        return list(dict.fromkeys(_forbidden_uses(tree, forbidden)))
    except (SyntaxError, ValueError) as fault:
        return [f"the code does not compile: {fault}"]
    except (RecursionError, MemoryError):
        return ["the code is nested too deeply"]


def _forbidden_uses(tree: ast.AST, forbidden: Collection[str]) -> Iterator[str]:
    names = _imported_names(tree)
    arguments = set(_uses_of_arguments(tree, names))
    for node in ast.walk(tree):
        imported, used = _imports(node), None if node in arguments else _path(node, names)
        verb = "imports" if imported else "uses"
        for path in (*imported, used):
            if path and (name := _match(path, forbidden)) is not None:
                yield f"line {getattr(node, 'lineno', 0)}: it {verb} {path}, and {name} is forbidden"


def _match(path: str, forbidden: Collection[str]) -> str | None:
    """The forbidden name that a path reaches."""
    for name in forbidden:
        is_in_it = f"{path}.".startswith((f"{name}.", f"builtins.{name}."))
        if is_in_it or (path.endswith(".*") and name.startswith(path[:-1])):  # from os import *
            return name
    return None


def _imports(node: ast.AST) -> list[str]:
    """The full names of what is imported, without what is relative to the code's own place."""
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """The full names that imported names stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, path in zip(node.names, _imports(node), strict=False):
                if isinstance(node, ast.Import) and alias.asname is None:  # `import os.path` makes the name `os`
                    path = path.split(".")[0]
                found[alias.asname or path.split(".")[-1]] = path
    return found


def _uses_of_arguments(tree: ast.AST, names: Collection[str]) -> Iterator[ast.AST]:
    """The nodes where a function uses its own arguments, which may have the name of a built-in function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = {argument.arg for argument in given} - set(names)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                yield from (inner for inner in ast.walk(part) if isinstance(inner, ast.Name) and inner.id in own)


def _path(node: ast.AST, names: Mapping[str, str]) -> str | None:
    """The full name that an expression reaches, if it begins with an import or a built-in function."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id if node.id in _BUILTINS else None)
    if isinstance(node, ast.Attribute):
        owner = _path(node.value, names)
        return f"{owner}.{node.attr}".removeprefix("builtins.") if owner is not None else None
    if isinstance(node, ast.Call) and node.args and _path(node.func, names) in _IMPORTERS:
        module = node.args[0]
        return str(module.value) if isinstance(module, ast.Constant) else None
    return None

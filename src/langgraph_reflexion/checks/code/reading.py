"""Reading code without running it: does it compile, and does it reach for what is forbidden, by whatever name."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Collection, Iterator

from langgraph_reflexion.text.words import listed

DANGEROUS = (
    "os",
    "sys.modules",
    "subprocess",
    "socket",
    "shutil",
    "ctypes",
    "multiprocessing",
    "importlib",
    "pickle",
    "marshal",
    "signal",
    "urllib",
    "http",
    "requests",
    "eval",
    "exec",
    "compile",
    "open",
)
"""What `static_code` forbids where nothing else is named."""

_WAYS_ROUND = listed(
    """
    __subclasses__ __globals__ __builtins__ __loader__ __mro__ __bases__ __code__ __closure__ f_globals f_builtins
    f_back gi_frame tb_frame cr_frame
    """
)
_BUILTIN = frozenset(dir(builtins))
_RUNS_TEXT = ("eval", "exec", "compile")


def findings(code: str, forbid: Collection[str]) -> list[str]:
    """What is wrong with the code, a line each; nothing where it is fine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(code, "<answer>", "exec", dont_inherit=True)
            tree = ast.parse(code)
    except (SyntaxError, ValueError) as fault:
        return [f"the code does not compile: {fault}"]
    except (RecursionError, MemoryError):
        return ["the code does not compile: it is nested too deeply"]
    if not tree.body:
        return ["there is no code in the answer"]
    return list(dict.fromkeys(_found(tree, forbid)))


def _found(tree: ast.AST, forbid: Collection[str]) -> Iterator[str]:
    names = _aliases(tree)
    arguments = set(_arguments(tree, names))
    for node in ast.walk(tree):
        if node in arguments:
            continue
        line = getattr(node, "lineno", 0)
        for path in _paths(node, names):
            if (wrong := _forbidden(path, forbid)) is not None:
                how = "imports" if isinstance(node, (ast.Import, ast.ImportFrom)) else "uses"
                yield f"line {line}: it {how} {path}" + (
                    f", and {wrong} is forbidden" if wrong != path else ", forbidden"
                )
        if forbid and (hidden := _hidden(node, names, forbid)):
            yield f"line {line}: {hidden}, which hides what it reaches"


def _forbidden(path: str, forbid: Collection[str]) -> str | None:
    every = path.removesuffix("*") if path.endswith(".*") else None  # all of a module, and what of it is forbidden too
    return next(
        (
            one
            for one in forbid
            if path == one or path.startswith(f"{one}.") or (every is not None and one.startswith(every))
        ),
        None,
    )


def _aliases(tree: ast.AST) -> dict[str, str]:
    """What names of the code stand for, wherever in it they are given: imports, and assignments of what is known."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.split(".")[0]] = one.name if one.asname else one.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
    for _ in range(4):  # a name of a name of a name
        for node in ast.walk(tree):
            for target, value in _assigned(node):
                if isinstance(target, ast.Name) and (path := _path(value, names)) is not None:
                    names.setdefault(target.id, path)
    return names


def _arguments(tree: ast.AST, names: Collection[str]) -> Iterator[ast.AST]:
    """The uses of a function's own arguments, which may be called as a function of Python's is."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            own = {one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]} - set(names)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                yield from (one for one in ast.walk(part) if isinstance(one, ast.Name) and one.id in own)


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        given = [*node.args.posonlyargs, *node.args.args]
        yield from (
            (ast.Name(argument.arg), value)
            for argument, value in zip(given[len(given) - len(node.args.defaults) :], node.args.defaults, strict=True)
        )


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        if len(target.elts) == len(value.elts):
            for one, held in zip(target.elts, value.elts, strict=True):
                yield from _unpacked(one, held)
    else:
        yield target, value


def _path(node: ast.AST, names: dict[str, str]) -> str | None:
    """The dotted name that an expression reaches, as far as its text tells."""
    if isinstance(node, ast.Name):
        return _plain(names.get(node.id, node.id))
    if isinstance(node, ast.Attribute):
        owner = _path(node.value, names)
        return None if owner is None else _plain(f"{owner}.{node.attr}")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        owner = _path(node.value, names)
        if owner in ("sys.modules", "__builtins__", "__dict__"):
            return _plain(node.slice.value)
        if isinstance(node.value, ast.Call) and _path(node.value.func, names) in ("globals", "locals", "vars"):
            return _plain(names.get(node.slice.value, node.slice.value))
        if owner is not None and owner.endswith(".__dict__"):
            return _plain(f"{owner.removesuffix('.__dict__')}.{node.slice.value}")
    if isinstance(node, ast.Call):
        called = _path(node.func, names)
        first = node.args[0] if node.args else None
        if called in ("__import__", "importlib.import_module", "importlib.__import__") and _text(first):
            return _text(first)
        if called == "getattr" and len(node.args) > 1 and (name := _text(node.args[1])):
            owner = _path(node.args[0], names)
            return None if owner is None else _plain(f"{owner}.{name}")
    return None


def _plain(path: str) -> str:
    for stem in ("builtins.", "__builtins__."):
        path = path.removeprefix(stem)
    return path


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _paths(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """What a node imports or uses, by full names."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{one.name}" for one in node.names)
    elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        path = _path(node, names)
        if path is not None and _is_known(node, path, names):
            yield path


def _is_known(node: ast.AST, path: str, names: dict[str, str]) -> bool:
    """Whether a path starts from an import or from Python itself, and not from a variable that is merely called so."""
    root: ast.AST = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if isinstance(root, ast.Call):
        return True
    return isinstance(root, ast.Name) and (root.id in names or root.id in _BUILTIN or path.split(".")[0] in _BUILTIN)


def _hidden(node: ast.AST, names: dict[str, str], forbid: Collection[str]) -> str | None:
    """A way to reach something that its text does not tell."""
    if isinstance(node, ast.Attribute) and node.attr in _WAYS_ROUND:
        return f"it uses {node.attr}"
    if isinstance(node, ast.Name) and node.id in ("__builtins__", "__loader__", "__spec__"):
        return f"it uses {node.id}"
    if isinstance(node, ast.Subscript) and _path(node, names) in ("__builtins__", "__loader__"):
        return f"it uses {_path(node, names)}"
    if not isinstance(node, ast.Call):
        return None
    called = _path(node.func, names)
    if called in ("__import__", "importlib.import_module", "importlib.__import__"):
        return None if node.args and _text(node.args[0]) else f"it calls {called} with a name that is made as it runs"
    if called == "getattr" and len(node.args) > 1 and not _text(node.args[1]):
        owner = _path(node.args[0], names)
        reaches = owner is not None and (owner.split(".")[0] in {path.split(".")[0] for path in names.values()})
        return "it calls getattr on a module with a name that is made as it runs" if reaches else None
    if called in _RUNS_TEXT:
        text = _text(node.args[0]) if node.args else None
        if text is None:
            return f"it calls {called} on text that is made as it runs"
        inside = findings(text, forbid)
        return f"it calls {called} on {text!r} ({inside[0]})" if inside else None
    if called in ("globals", "vars", "locals") and not (called == "vars" and node.args):
        return None
    return "it calls vars on what it does not name" if called == "vars" else None

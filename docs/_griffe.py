"""Show the methods that `name, aname = both(_name)` makes in the reference; their async twins are alike."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class Both(griffe.Extension):
    """Give a method that `both` makes the signature and docstring of its source."""

    def on_class_members(self, *, node: Any, cls: griffe.Class, **_: Any) -> None:
        """Add these methods to the class."""
        for statement in getattr(node, "body", ()):
            match statement:
                case ast.Assign(
                    targets=[ast.Tuple(elts=[ast.Name(id=name), ast.Name()])],
                    value=ast.Call(func=ast.Name(id="both"), args=[ast.Name(id=source)]),
                ):
                    made = cls.members[source]
                    assert isinstance(made, griffe.Function)
                    returns = str(made.returns).partition("[")[2].removesuffix("]")
                    method = griffe.Function(
                        name,
                        lineno=statement.lineno,
                        parameters=made.parameters,
                        returns=returns,
                        docstring=made.docstring,
                    )
                    cls.set_member(name, method)

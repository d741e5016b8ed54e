"""Show a method and its async twin, made by `name, aname = both(_name)`, in the reference like two methods."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Twins(griffe.Extension):
    """Give each twin the signature and docstring of the generator it is made from."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Replace the attributes that `both` makes by functions."""
        for name, member in list(cls.members.items()):
            made = re.fullmatch(r"both\((\w+)\)", str(getattr(member, "value", "")))
            if made is None or not isinstance(source := cls.members[made[1]], griffe.Function):
                continue
            twin = griffe.Function(
                name,
                lineno=member.lineno,
                endlineno=member.endlineno,
                parameters=source.parameters,
                returns=re.sub(r"^\w+\[(.*)\]$", r"\1", str(source.returns)),
                docstring=source.docstring,
            )
            if name.startswith("a") and name[1:] in cls.members:
                twin.labels.add("async")
            cls.set_member(name, twin)

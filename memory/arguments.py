"""Check a caller's arguments, and fill the namespace of a run's memory from its context or config.

An error names the argument, its value and what to pass instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar

from langgraph.store.base import BaseStore

from langgraph_reflexion.context import FIELD, MemoryPolicy, Namespace, field_of
from langgraph_reflexion.schemas import Lesson
from langgraph_reflexion.text.literals import hide_password, is_address

T = TypeVar("T")
V = TypeVar("V", str, str | None)

DEFAULT_NAMESPACE: Namespace = ("reflexion", "reflexion_agent")
"""The namespace of an agent without a name and a namespace."""

_UNFIT = re.compile("[.~*/{}\x00-\x1f\x7f\ud800-\udfff]")
"""Characters that some store, or a path made of labels, cannot hold in a label."""


def resolve_namespace(
    policy: MemoryPolicy,
    agent_name: str,
    context: Any = None,
    user: str | None = None,
    configurable: Mapping[str, Any] | None = None,
) -> Namespace | None:
    """The namespace of this run's memory, or `None` if a field of it has no value.

    A policy without a namespace means `("reflexion", name of the agent)`. A field is read from the context,
    else from `configurable`, and escaped one to one, so that no two values ever share a memory. A `user` that the
    server has signed in fills `{user_id}`, whatever these say.
    """
    namespace = policy.namespace or (DEFAULT_NAMESPACE[0], label(agent_name) or DEFAULT_NAMESPACE[1])
    labels = []
    for pattern in namespace:
        names = FIELD.findall(pattern)
        values = {name: field_of(context, name) for name in names}
        values = {name: (configurable or {}).get(name) if value is None else value for name, value in values.items()}
        if user is not None and "user_id" in values:
            values["user_id"] = user
        if any(value is None or str(value) == "" for value in values.values()):
            return None
        # Two values in one label need a separator that neither can contain, or `a-b`, `c` would equal `a`, `b-c`.
        border = "~~" if len(names) > 1 else ""
        for name, value in values.items():  # a filled label has no braces, so none is filled twice
            pattern = pattern.replace(f"{{{name}}}", label(value) + border)
        labels.append(pattern)
    owner = user or field_of(context, "user_id") or (configurable or {}).get("user_id")
    return (*labels, label(owner)) if policy.by_user and owner and "{user_id}" not in namespace else tuple(labels)


def place_in(store: BaseStore, namespace: Namespace, context: Any, *, by_user: bool = False) -> Namespace:
    """The namespace of a book or notebook with its fields filled. An invalid store or namespace is refused."""
    if not hasattr(store, "batch") or isinstance(store, type):
        raise ValueError(f"`store` must be a LangGraph store, got {hide_password(repr(store))}{store_hint(store)}")
    policy = MemoryPolicy(namespace=namespace or (), by_user=by_user)  # `None` would mean the namespace of an agent
    resolved = resolve_namespace(policy, DEFAULT_NAMESPACE[1], context)
    if resolved is None:
        raise ValueError(f"`context` has no value for a field of `namespace`, got {tuple(namespace)!r}")
    return resolved


def label(value: object) -> str:
    """A value as a namespace label. What a store, or a path of labels, cannot hold becomes `~` and its bytes."""
    text = str(value)
    if text == "langgraph":
        return f"~{ord('l'):02x}anggraph"  # No store takes that label at the root.
    return _UNFIT.sub(lambda found: "".join(f"~{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass")), text)


def store_hint(value: Any) -> str:
    """What to pass as a store instead of a path or a database's address. Empty for any other value."""
    if not isinstance(value, (str, PathLike)):
        return ""
    if is_address(str(value)):
        return ": for a database, pass the store that `PostgresStore.from_conn_string` opens"
    return f": for a file, pass FaissStore({hide_password(repr(str(value)))})"


# ---------------------------------------------------------------- checks


def check_text(value: V, name: str, *, optional: bool = False) -> V:
    """A string, or None if it is `optional`."""
    if not isinstance(value, str) and not (optional and value is None):
        raise ValueError(f"`{name}` must be a string, got {value!r}")
    return value


def check_id(value: str, name: str = "id") -> str:
    """A lesson's or a run's id."""
    if isinstance(value, Lesson):
        raise ValueError(f"`{name}` must be a string, got a lesson: pass its `.id`, {value.id!r}")
    return check_text(value, name)


def check_choice(value: T, name: str, choices: Sequence[str]) -> T:
    """One of these words."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r:.200}")
    return value


def check_names(values: Iterable[str], name: str) -> set[str]:
    """Names or ids, one by one."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` must be a list of strings, got {values!r}")
    found = list(values)
    for value in found:
        if not isinstance(value, str):
            own: Any = getattr(value, "name", None)
            hint = f": pass {own!r}" if isinstance(own, str) else ""
            raise ValueError(f"`{name}` must contain only strings, got {value!r}{hint}")
    return set(found)


def check_instance(kind: type[T], value: T, name: str) -> T:
    """A value of this type. The error for a value that is nearly right says what would work."""
    if isinstance(value, kind):
        return value
    wanted = "class" if kind is type else kind.__name__
    message = f"`{name}` must be {'an' if wanted[0] in 'AEIOU' else 'a'} {wanted}, got {hide_password(repr(value))}"
    if isinstance(value, type) and issubclass(value, kind):
        message += f": make one, {value.__name__}(...)"
    elif hasattr(value, "__aenter__") or hasattr(value, "__enter__"):
        keyword = "async with" if not hasattr(value, "__enter__") else "with"
        message += f": open it first, `{keyword} ... as {name}:`"
    elif kind is BaseStore:
        message += store_hint(value)
    raise ValueError(message)


def check_count(value: int, name: str) -> int:
    """A whole number of 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"`{name}` must be a whole number of 0 or more, got {value!r}")
    return value


def check_place(value: T) -> T:
    """A path, or an open file."""
    if not (isinstance(value, (str, PathLike)) and str(value)) and not hasattr(value, "read"):
        raise ValueError(f"`path_or_file` must be a path or an open file, got {value!r}")
    return value

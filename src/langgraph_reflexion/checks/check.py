"""What every ready-made check is: a name, what it thinks, and two doors to ask it by."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from pydantic import BaseModel

from langgraph_reflexion.driver import Waits, run_async, run_sync
from langgraph_reflexion.nodes.checking import NamedCheck, named
from langgraph_reflexion.schemas import Run, Verdict

Judging = Callable[[Any, Run], Waits[Any]]
"""What a check thinks of an answer: a generator that waits, and returns what any check may return."""


@dataclass(frozen=True)
class Check:
    """A check of this package: call it with (answer, run), or await `acall` with the same."""

    name: str
    judging: Judging
    asks_model: bool = False
    wants_model: bool = False
    """Whether it asks the agent's own model, which it finds in `run.model`."""
    asks_person: bool = False
    """Whether its verdicts are a person's word."""
    in_place: bool = False
    """Whether a trial asks it in the step that made the answer."""

    def __call__(self, answer: Any, run: Run | None = None) -> Verdict:
        """What it says of the answer."""
        return self._read(run_sync(self.judging(answer, run or Run(task=""))))

    async def acall(self, answer: Any, run: Run | None = None) -> Verdict:
        """The same, awaited: nothing of it blocks the event loop."""
        return self._read(await run_async(self.judging(answer, run or Run(task=""))))

    def _read(self, said: Any) -> Verdict:
        return NamedCheck(self.name, self).read(said)


def at_once(name: str, judge: Callable[[Any, Run], Any], *, asks_person: bool = False) -> Check:
    """A check that waits for nothing."""

    def judging(answer: Any, run: Run) -> Waits[Any]:
        return judge(answer, run)
        yield

    return Check(name, judging, asks_person=asks_person)


def members(checks: Sequence[Any], of: str, *, as_given: bool = False) -> tuple[NamedCheck, ...]:
    """The checks that another is made of, dear ones last unless `as_given`; none at all is an error."""
    if not checks:
        raise ValueError(f"`{of}` needs one check or more, got none")
    try:
        return named(list(checks), as_given=as_given)
    except ValueError as fault:
        raise ValueError(str(fault).replace("`checks", f"`{of}", 1)) from None


def text_of(answer: Any) -> str:
    """The answer as text; a value of a response form as JSON."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, BaseModel):
        return answer.model_dump_json()
    return json.dumps(answer, ensure_ascii=False, default=str)


def config_here() -> RunnableConfig:
    """The config of the run that asks this check; outside of any run an empty one."""
    return var_child_runnable_config.get() or {}

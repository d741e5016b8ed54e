"""How much code one lesson passes through, counted while it runs: functions and files of the package alone.

The trip of a lesson begins with the reflector's reply and ends when the model is asked for the next decision: the reply
is parsed, screened and written to the book, and the prompt is built. A vector search is one `search` of a store.

    python benchmarks/trip.py
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.store.memory import InMemoryStore

import langgraph_reflexion
from langgraph_reflexion import FaissStore, Lesson, LessonBook, create_reflexion_agent
from langgraph_reflexion.schemas import Trigger
from langgraph_reflexion.testing import ScriptedModel, WordEmbeddings, call, reflection, say

HERE = Path(langgraph_reflexion.__file__).parent.resolve()
OTHERS = (
    ("Look up the weekday of a date before you name the day.", "a date is not a weekday"),
    ("Name the currency of every price.", "comparing the prices of flights"),
)
ROOMS = {HERE, *(entry.resolve() for entry in HERE.iterdir() if entry.is_dir())}


class Trip:
    """The functions of the package, its tests' doubles apart, that are called between `start` and `stop`."""

    def __init__(self) -> None:
        self.called: set[tuple[str, str]] = set()

    def start(self) -> None:
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        file = Path(code.co_filename)
        if event != "call" or code.co_name.startswith("<") or "testing" in file.parts:
            return
        if any(parent in ROOMS for parent in file.resolve().parents):
            self.called.add((str(file.resolve()), code.co_qualname))

    def report(self, what: str) -> None:
        files = {file for file, _ in self.called}
        print(f"{what}: {len(self.called)} functions in {len(files)} files")
        if "--names" in sys.argv:
            for file, name in sorted(self.called):
                print(f"  {Path(file).parent.name}/{Path(file).name}: {name}")


def trip_of_a_lesson(*, among_others: bool) -> Trip:
    """The trip of the first lesson of a book, or of one among others, where recall has something to weigh and show."""
    trip, store = Trip(), InMemoryStore()
    lessons = LessonBook(store)
    for text, when in OTHERS if among_others else ():
        lessons.add(Lesson(kind="rule", text=text, when=when, trigger=Trigger(signal="tool_error", tool="book")))

    def book(day: str) -> str:
        """Book the room for a day."""
        raise ValueError(f"{day} is not a weekday")

    def start(_: list[BaseMessage]) -> AIMessage | str:
        trip.start()
        return reflected

    def stop(_: list[BaseMessage]) -> Any:
        trip.stop()
        return say("Booked for Tuesday.")

    reflected: Any = reflection(
        patch_prompt="Call `book` with a weekday.",
        memory_to_write=[{"kind": "rule", "text": "Give `book` a weekday, never a date.", "when": "booking a room"}],
        confidence=90,
    )
    model = ScriptedModel([call("book", day="10 March"), stop])
    agent = create_reflexion_agent(model, [book], reflector=ScriptedModel([start]), store=store)
    result = agent.invoke({"messages": [("user", "Book the room for the press meeting.")]})
    assert len(result["outcome"].lessons_written) == 1
    assert bool(result["outcome"].lessons_used) == among_others
    return trip


def vector_search(folder: Path) -> Trip:
    trip = Trip()
    with FaissStore(folder / "trip.db", index={"dims": 64, "embed": WordEmbeddings(dims=64)}) as store:
        for number in range(20):
            store.put(("notes",), str(number), {"text": f"note {number} about rooms"})
        store.search(("notes",), query="rooms")
        trip.start()
        found = store.search(("notes",), query="note 7")
        trip.stop()
    assert found
    return trip


def main() -> None:
    from tempfile import TemporaryDirectory

    what = "a lesson, from the reflection's reply to the next decision"
    trip_of_a_lesson(among_others=False).report(what)
    trip_of_a_lesson(among_others=True).report(f"{what}, in a book with others, one of which is shown")
    with TemporaryDirectory() as folder:
        vector_search(Path(folder)).report("a vector search of FaissStore")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that leaves early, as `head` does, ends it quietly
    main()

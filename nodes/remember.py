"""Remember: save what a reflection asks to remember as lessons, if the book accepts them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion.context import MemoryPolicy
from langgraph_reflexion.driver import Waits, default_config, either, in_thread
from langgraph_reflexion.memory import Foreign, LessonBook, Written, refusal, topic_for
from langgraph_reflexion.nodes.budget import came_back
from langgraph_reflexion.nodes.host import emit_lesson
from langgraph_reflexion.nodes.models.calling import Meter, with_handlers
from langgraph_reflexion.nodes.models.prompt import failure_number
from langgraph_reflexion.nodes.models.transcript import has_run, readable, texts_of_blocks
from langgraph_reflexion.nodes.parts import Parts
from langgraph_reflexion.nodes.recall import best_effort, request_in, seconds_for_memory
from langgraph_reflexion.nodes.tool import details_of
from langgraph_reflexion.nodes.verdicts import RESPONSE_FORMAT, is_accepted
from langgraph_reflexion.schemas import DECISION_SIGNALS, Attempt, Failure, Lesson, Origin, Reflection, Trigger, Verdict
from langgraph_reflexion.state import (
    FEEDBACK_END,
    State,
    Update,
    is_from_user,
    is_persons_reply,
    is_users_word,
    replied_to,
    start_of_run,
    task_in,
    whole_conversation,
)
from langgraph_reflexion.text.likeness import same
from langgraph_reflexion.text.task import GENERAL, request_of, says_what

PROVIDER_RESULTS = ("output", "outputs", "results", "error", "tools", "annotations", "citations")
"""Fields of OpenAI's and Anthropic's blocks that contain a built-in tool's result, an MCP server's tools, or a cited
text."""
CLAUSES = re.compile(r"(?<=[.;,!?])\s+|(?<=[。；，！？])")


def remember(parts: Parts, state: State, config: RunnableConfig) -> Waits[Update]:
    """Write lessons from the newest reflection. Memos that may not be saved are used only in this run.

    An event says what happened to each memo. A memo that the book quarantines is also removed from this run's prompts,
    and so is a plan that says the same.
    """
    failure, written, quarantined = cast("Failure", state["failure"]), list[str](), set[str]()
    update: Update = {"progress": {"node": "remember", "lessons": written}}
    if len(state["reflections"]) == state["tally"]["remembered"]:  # a known lesson replaced it, or it was unreadable
        return update
    reflection, book = state["reflections"][-1], parts.memory.book(state, config, writing=True)
    writer = yield from _writer(parts, state, config, book)
    tool = failure.tool if failure.tool in parts.tools.own else None
    only_for_run = "memory is not written" if book is None else _why_not_saved(parts.memory.policy, reflection)
    for memo in reflection.memory_to_write:
        lesson = Lesson(
            kind=memo.kind,
            text=memo.text,
            when=memo.when,
            why=reflection.explanation,
            tags=memo.tags,
            trigger=Trigger(signal=failure.signal, tool=tool, fingerprint=failure.fingerprint or None),
            origin=_first_origin(parts, state, failure),
            confidence=reflection.confidence,
        )
        result = yield from writer.save(lesson, only_for_run)
        if result is not None and result.action == "quarantined":
            quarantined.add(memo.text)
        elif result is not None and result.kept is not None:
            written.append(result.kept.id)
    tally = parts.budget.tally(state, reflecting=writer.meter.spent)
    update["tally"] = {**tally, "remembered": len(state["reflections"])}
    if written:
        update["lessons_written"] = list(dict.fromkeys([*state["lessons_written"], *written]))
        update["tally"]["wrote"] = {**state["tally"]["wrote"], **dict.fromkeys(written, failure_number(state))}
    says_same = any(same(text, reflection.patch_prompt) for text in quarantined)
    if says_same:
        update["reflections"] = [*state["reflections"][:-1], reflection.model_copy(update={"patch_prompt": ""})]
    if quarantined and state["patch"]:
        turn = state["patch"][-1]
        memos = [memo for memo in turn["memos"] if memo["text"] not in quarantined]
        update["patch"] = [*state["patch"][:-1], {**turn, "memos": memos, **({"patch": ""} if says_same else {})}]
    return update


def remember_success(parts: Parts, state: State, config: RunnableConfig, book: LessonBook) -> Waits[Update]:
    """The lessons of a successful run. If it had failures, they include the strategy that worked.

    The strategy is the advice after which nothing failed and the answer was accepted, in the first wording that fits
    other tasks too.
    """
    reflection = _advice_that_worked(parts.memory.policy, state)
    if reflection is None:
        return {}
    when = next((memo.when for memo in reflection.memory_to_write if memo.when.strip()), "")
    update: Update = {}
    writer = yield from _writer(parts, state, config, book)
    for text in _wordings(state, reflection):
        lesson = Lesson(
            kind="strategy",
            text=text,
            when=when,
            why=f"{reflection.explanation} What came before it failed, and the answer after it was accepted.".strip(),
            origin=_origin_of_acceptance(parts, state, next(iter(state["attempts"][-2:-1]), None)),
            confidence=reflection.confidence,
        )
        result = yield from writer.save(lesson, report_refusals=False)
        if result is not None and result.kept is not None:
            update["lessons_written"] = list(dict.fromkeys([*state["lessons_written"], result.kept.id]))
            break
    update["tally"] = parts.budget.tally(state, reflecting=writer.meter.spent)
    return update


def confirm_lessons(parts: Parts, state: State, book: LessonBook, *, accepted: bool) -> Waits[None]:
    """Mark a lesson of this run as `verified` if what had failed succeeded after the advice."""
    for lesson_id, count in state["tally"]["wrote"].items():
        if not _is_confirmed(parts, state, count, accepted=accepted):
            continue
        get = either(book.get, book.aget, lesson_id)
        lesson = yield from best_effort(parts, state, "confirm", get, writing=True)
        if lesson is not None:
            again = lesson.model_copy(update={"origin": "verified", "sources": [state["about"]["id"]]})
            yield from best_effort(parts, state, "confirm", either(book.add, book.aadd, again), writing=True)


def _is_confirmed(parts: Parts, state: State, count: int, *, accepted: bool) -> bool:
    """Whether failure number `count` of the run did not come back, and what failed then verifiably succeeded."""
    if came_back(state["failures"], count):
        return False
    failure, attempts = state["failures"][count - 1], state["attempts"]
    if failure.signal in ("tool_error", "schema_error") and failure.tool is not None:
        later = [m for m in _messages_after(state, count) if isinstance(m, ToolMessage) and m.name == failure.tool]
        # A call that ran had passed the validator, whatever its result.
        return any(failure.signal == "schema_error" or message.status != "error" for message in later)
    if failure.signal in DECISION_SIGNALS:
        replied = any(isinstance(m, AIMessage) for m in _messages_after(state, count))
        return replied or any(attempt.answer is not None for attempt in attempts)
    misfit = next(
        (i for i, attempt in enumerate(attempts) if failure in attempt.failures and _fails_format(attempt)), None
    )
    if misfit is not None:
        return any(later.answer is not None and not _fails_format(later) for later in attempts[misfit + 1 :])
    # All other signals end with the answer: a check, a loop, no progress, the user's feedback.
    rejected = next((attempt for attempt in attempts if failure in attempt.failures), None)
    verified = accepted and _origin_of_acceptance(parts, state, rejected) == "verified"
    return verified and failure.signal != "feedback" and not failure.is_broken_check


def _fails_format(attempt: Attempt) -> bool:
    """Whether the response format rejected the attempt's answer."""
    return any(verdict.check == RESPONSE_FORMAT for verdict in attempt.verdicts)


def _messages_after(state: State, count: int) -> list[AnyMessage]:
    """The messages after a failure, or all of them if its place in the conversation is gone."""
    after = next((turn["after"] for turn in state["patch"] if turn["failure"] == count), None)
    messages = whole_conversation(state)
    since = next((i for i, message in enumerate(messages) if after is not None and message.id == after), -1)
    return messages[since + 1 :]


def _advice_that_worked(policy: MemoryPolicy, state: State) -> Reflection | None:
    """The advice between the last failure and the accepted answer, if it is certain enough to be saved.

    If no answer was rejected and its reflection left a lesson, that lesson already says the same.
    """
    if all(failure.is_broken_check for failure in state["failures"]):
        return None  # nothing was wrong but the check itself
    made, advised = state["reflections"], state["tally"]["advised"]
    rejected = len(state["attempts"]) - 1
    if not made or advised[-1] != rejected:
        return None
    if not rejected and (state["lessons_written"] or _has_failed_since_advice(state)):
        return None
    return None if _why_not_saved(policy, made[-1]) else made[-1]


def _has_failed_since_advice(state: State) -> bool:
    """Whether something failed after the last advice. A step may have several failures and only one reflection."""
    failures = state["failures"]
    if len(failures) == len(state["reflections"]):
        return False
    advised = next((turn["failure"] for turn in reversed(state["patch"]) if turn["patch"]), None)
    return advised is None or any(failure.step > failures[advised - 1].step for failure in failures[advised:])


def _why_not_saved(policy: MemoryPolicy, reflection: Reflection) -> str:
    """Why the memos of a reflection may not be saved for later runs. A missing confidence counts as enough."""
    least = policy.min_confidence
    if reflection.confidence is None or reflection.confidence >= least:
        return ""
    return f"its confidence of {reflection.confidence:g} is below `min_confidence`, {least:g}"


def _wordings(state: State, reflection: Reflection) -> Iterator[str]:
    """The plan that was followed, and the same plan without clauses that fit only this task."""
    plan = reflection.patch_prompt.strip()
    yield plan
    task, answer = _task_taught_by(state), state["attempts"][-1].answer
    clauses = filter(str.strip, CLAUSES.split(plan))
    held = [text for text in clauses if refusal(Lesson(kind="strategy", text=text), task, answer) is None]
    general = " ".join(held).strip(" ,;:，；")
    if general and general != plan:
        yield general if general[-1] in ".!?。" else f"{general}."


def _writer(parts: Parts, state: State, config: RunnableConfig, book: LessonBook | None) -> Waits[LessonWriter]:
    """A writer of lessons. The topic of the task is determined once."""
    seconds = seconds_for_memory(parts, state, writing=True)
    topic = state["topic"] or (yield from topic_for(request_in(state), parts.memory.policy, seconds))
    own_topic = None if topic == GENERAL else topic  # a lesson from a general task is for all topics
    foreign = yield in_thread(lambda: foreign_in(parts, state), own=True)
    return LessonWriter(parts, state, config, book, own_topic, foreign)


@dataclass(frozen=True)
class LessonWriter:
    """Saves the lessons of one run, with an event for each."""

    parts: Parts
    state: State
    config: RunnableConfig
    book: LessonBook | None
    topic: str | None
    foreign: Foreign
    meter: Meter = field(default_factory=Meter)
    """The cost of the guard."""

    def save(self, lesson: Lesson, only_for_run: str = "", *, report_refusals: bool = True) -> Waits[Written | None]:
        """The book's result for a lesson of this run and its topic. None if it was not saved.

        A lesson that is only for this run, for the reason `only_for_run`, is added to a temporary book. If that book
        quarantines it, this run may not show it either.
        """
        state, book = self.state, self.book
        lesson = lesson.model_copy(update={"topic": self.topic, "sources": [state["about"]["id"]]})
        shown = [recalled.lesson for recalled in state["recalled"] if recalled.shown]
        repeated = (known for known in shown if known.id in lesson.text or same(known.text, lesson.text))
        if not only_for_run and (known := next(repeated, None)) is not None:
            # It came from memory, so it is not new evidence.
            emit_lesson(self.config, lesson.kind, lesson.text, "unchanged", "this run was shown it", known.id)
            return None
        if only_for_run or book is None:
            memory = self.parts.memory
            book = LessonBook(InMemoryStore(), ("run",), memory.policy, memory.clock, prompts=memory.prompts)
        answer = state["attempts"][-1].answer if state["attempts"] else None
        add = either(book.add, book.aadd, lesson, task=_task_taught_by(state), answer=answer, foreign=self.foreign)
        add = add.inside(partial(default_config, with_handlers(self.config, self.meter)))
        result: Written | None = yield from best_effort(self.parts, state, "remember", add, writing=True)
        if result is None or (only_for_run and result.action != "quarantined"):
            why = only_for_run or "the store failed"
            emit_lesson(self.config, lesson.kind, lesson.text, "kept for this run", why)
            return None
        kept = result.kept
        if report_refusals or kept is not None:
            text = kept.text if kept is not None and result.action == "added" else lesson.text
            lesson_id = result.lesson.id if result.lesson is not None else None
            emit_lesson(self.config, lesson.kind, text, result.action, result.reason, lesson_id)
        return result


def _task_taught_by(state: State) -> str:
    """The task that the lessons of this run come from, with brief replies to its questions. They must not restate it.

    Feedback is no task: the user's own words are what a lesson should say. If there is no new message with it, the task
    is the one before, and none if there is no other message of the user.
    """
    failures, messages = state["failures"], state["messages"]
    start = start_of_run(messages, state["about"]["task_id"])
    if not failures or failures[0].signal != "feedback" or failures[0].evidence != task_in(state).strip():
        # A brief reply is a detail of the task, such as a number. A longer one may be a rule that is worth saving.
        return "\n\n".join([request_in(state), *(text for text in replies_in(messages[start:]) if not says_what(text))])
    for i in range(start - 1, -1, -1):
        if is_users_word(messages[i]) and not str(messages[i].id).endswith(FEEDBACK_END):
            return request_of(messages[i].text, replied_to(messages[:i]))
    return ""


def _first_origin(parts: Parts, state: State, failure: Failure) -> Origin:
    """The origin of a new lesson: a person's message, a model's verdict, or advice that was not tried yet."""
    if failure.signal == "feedback":
        return "told"
    if failure.signal != "check_failed" or failure.is_broken_check:
        return "observed"
    origin = _origin_of_checks(parts, _names_of_checks(parts, state["verdicts"], accepted=False))
    return "observed" if origin == "verified" else origin


def _origin_of_acceptance(parts: Parts, state: State, rejected: Attempt | None) -> Origin:
    """What the acceptance of the answer is based on: those checks that had rejected an earlier attempt, if any had."""
    accepting = {RESPONSE_FORMAT, *_names_of_checks(parts, state["verdicts"], accepted=True)}
    rejecting = _names_of_checks(parts, rejected.verdicts if rejected is not None else [], accepted=False)
    if rejecting and not accepting & rejecting:
        return "observed"  # what had failed was not asked again, or said nothing
    return _origin_of_checks(parts, accepting & rejecting or accepting - {RESPONSE_FORMAT})


def _names_of_checks(parts: Parts, verdicts: Sequence[Verdict], *, accepted: bool) -> set[str]:
    """The names of the checks that accepted, or rejected, an answer."""
    success_score = parts.budget.limits.success_score
    return {verdict.check for verdict in verdicts if is_accepted(verdict, success_score) is accepted}


def _origin_of_checks(parts: Parts, names: Set[str]) -> Origin:
    """What the verdicts of these checks are based on: a model, a person, or something verifiable."""
    by_name = {check.name: check.origin for check in parts.checks}
    origins = {by_name.get(name, "verified") for name in names} or {"verified"}
    return "verified" if "verified" in origins else "told" if "told" in origins else "judged"


def foreign_in(parts: Parts, state: State) -> Foreign:
    """The output of untrusted tools in this run, and the errors of a trial's worker. A lesson that repeats it is
    quarantined.

    The user's own messages are not foreign.
    """
    messages, trusted_tools = state["messages"], parts.memory.policy.trusted_tools
    start = start_of_run(messages, state["about"]["task_id"])
    # A direct answer or a structured response ends a run, so what follows in an earlier one is the user's next task.
    own = {name for name, tool in parts.tools.node.tools_by_name.items() if not tool.return_direct}
    endings = {message.name for message in messages if isinstance(message, ToolMessage)} - own
    earlier = added_by_tools(messages[:start], {*trusted_tools, *endings})
    added = [*earlier, *added_by_tools(messages[start:], trusted_tools)]
    ids = {id(message) for message in added}  # the user may have written the same
    users = [message.text for message in reversed(messages) if is_users_word(message) and id(message) not in ids]
    theirs = [*foreign_texts(whole_conversation(state), trusted_tools), *map(readable, added)]
    if parts.reflector.mode != "run":
        errors = [failure for failure in state["failures"] if failure.signal == "tool_error"]
        theirs += [*state["earlier_outputs"], *(error.evidence for error in errors if error.tool not in trusted_tools)]
    return Foreign(theirs, [task_in(state), *users])


def replies_in(run: Sequence[AnyMessage]) -> list[str]:
    """What a person said in a run after its first message, the task: above all replies to the model's questions."""
    ids = {id(message) for message in added_by_tools(run, ())}
    return [message.text for message in run[1:] if is_users_word(message) and id(message) not in ids]


def added_by_tools(run: Sequence[AnyMessage], trusted_tools: Collection[str | None]) -> list[AnyMessage]:
    """The messages in the user's role beside a tool's answer in a run, because a tool's `Command` may add some."""
    added: list[AnyMessage] = []
    answered = {message.tool_call_id for message in run if isinstance(message, ToolMessage) and has_run(message)}
    asked = set[str | None]()
    for message in run:
        if isinstance(message, AIMessage):
            asked = {call["name"] for call in message.tool_calls if call["id"] in answered}
        elif isinstance(message, ToolMessage) and has_run(message):
            asked.add(message.name)
        elif isinstance(message, HumanMessage) and not asked <= set(trusted_tools):
            added.append(message)
    return added


def foreign_texts(messages: Sequence[AnyMessage], trusted_tools: Collection[str] = ()) -> list[str]:
    """The output of tools in a conversation, and summaries, which may repeat it, newest first."""
    texts: list[str] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            details = details_of(message)
            is_agents = "error_class" in details and not details.get("exception")  # a denied call, a refused `Command`
            ours = is_agents or details.get("rejected") or is_persons_reply(message)
            if not ours and message.name not in trusted_tools:
                texts.append(readable(message))
        elif isinstance(message, HumanMessage) and not is_from_user(message):
            texts.append(readable(message))
        elif isinstance(message, AIMessage):
            texts += texts_of_blocks(list(_provider_results(message)))
    return texts


def _provider_results(message: AIMessage) -> Iterator[Any]:
    """The results of the provider's built-in tools and the texts that the model cites, in each provider's blocks."""
    content = message.content if isinstance(message.content, list) else []
    for block in (*content, *(message.additional_kwargs.get("tool_outputs") or ())):
        if isinstance(block, dict):
            block = block["value"] if isinstance(block.get("value"), dict) else block  # LangChain's `non_standard`
            is_result = str(block.get("type")).endswith("_result")
            yield block if is_result else [block.get(name) for name in PROVIDER_RESULTS]

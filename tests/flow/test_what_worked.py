"""A run that failed and then succeeded leaves what it changed; one that succeeds at once leaves its episode alone."""

from __future__ import annotations

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import FaissStore, Lesson, LessonBook
from langgraph_reflexion.testing import RoleModel, call, reflection, say

PLAN = "List the busy times of every guest, and take the first hour in none of them."


def until_eleven(answer, _run):
    return None if answer == "11:00" else "That hour is taken."


def kept(store):
    return [(one.kind, one.text) for one in LessonBook(store).lessons()]


@pytest.mark.req("D9")
def test_the_advice_after_which_the_answer_was_accepted_is_kept_as_a_strategy(run):
    store = InMemoryStore()
    seen = run(RoleModel([say("10:00"), say("11:00")], [reflection(PLAN)]), checks=[until_eleven], store=store)
    (lesson,) = LessonBook(store).lessons()
    assert (lesson.kind, lesson.text, lesson.origin, lesson.status) == ("strategy", PLAN, "verified", "candidate")
    assert seen.outcome.lessons_written == [lesson.id]
    assert lesson.sources == [seen.outcome.run_id]
    assert [event["kind"] for event in seen.told("lesson")] == ["strategy"]


@pytest.mark.req("D9")
def test_the_advice_that_worked_is_kept_out_of_several(run):
    store = InMemoryStore()
    model = RoleModel(
        [say("9:00"), say("10:00"), say("11:00")],
        [reflection("Ask the guests for their wishes by letter."), reflection(PLAN)],
    )
    run(model, checks=[until_eleven], store=store)
    assert kept(store) == [("strategy", PLAN)]


@pytest.mark.req("D9")
@pytest.mark.parametrize(
    ("replies", "left"),
    [
        ([say(""), say(""), say("11:00")], [("strategy", PLAN)]),
        ([say(""), say(""), say(""), say("11:00")], []),
    ],
    ids=["two bad replies before the advice", "and one after it"],
)
def test_advice_counts_as_what_worked_if_nothing_failed_after_it(run, replies, left):
    store = InMemoryStore()
    run(RoleModel(replies, [reflection(PLAN)]), checks=[until_eleven], store=store)
    assert kept(store) == left


@pytest.mark.req("D9")
def test_a_success_at_once_leaves_its_episode_and_no_lesson(run):
    store = InMemoryStore()
    seen = run(RoleModel([say("11:00")]), checks=[until_eleven], store=store)
    assert kept(store) == []
    assert LessonBook(store).explain(seen.outcome.run_id)["status"] == "success"


@pytest.mark.req("D9")
def test_a_run_is_found_in_the_store_by_a_similar_task(run, tmp_path):
    with FaissStore(tmp_path / "lessons.db") as store:
        for task in ("Plan an hour for the Berlin team.", "Who invented the telephone?"):
            run(RoleModel([say("11:00")]), task=task, checks=[until_eleven], store=store)
        episodes = (*LessonBook(store).namespace, "episodes")
        found = store.search(episodes, query="Plan an hour for the Paris team.", limit=1)
        assert [item.value["task"] for item in found] == ["Plan an hour for the Berlin team."]


@pytest.mark.req("D9", "D2")
@pytest.mark.fast_cases(2)
@pytest.mark.parametrize(
    ("plan", "left"),
    [
        ("List the busy times of every guest, then say 11:00.", ["List the busy times of every guest."]),
        ("Ask every guest. Then say 11:00; leave nobody out.", ["Ask every guest. leave nobody out."]),
        ("先列出每位客人的忙碌时间，再回答 11:00。", ["先列出每位客人的忙碌时间."]),
        ("Say 11:00.", []),
    ],
)
def test_advice_is_kept_without_the_answer_that_it_gives_away(run, plan, left):
    store = InMemoryStore()
    run(RoleModel([say("10:00"), say("11:00")], [reflection(plan)]), checks=[until_eleven], store=store)
    assert kept(store) == [("strategy", text) for text in left]


@pytest.mark.req("D9", "D4")
def test_a_strategy_stands_next_to_the_rule_of_the_same_reflection(run):
    store = InMemoryStore()
    memo = {"kind": "rule", "text": "Rule out each hour that somebody is busy.", "when": "planning an hour", "tags": []}
    plan = reflection(PLAN, memory_to_write=[memo])
    run(RoleModel([say("10:00"), say("11:00")], [plan]), checks=[until_eleven], store=store)
    assert sorted(kept(store)) == [("rule", memo["text"]), ("strategy", PLAN)]
    assert [one.when for one in LessonBook(store).lessons()] == ["planning an hour"] * 2


@pytest.mark.req("D9", "D8")
@pytest.mark.parametrize(
    "settings",
    [
        {"plan": reflection(PLAN, confidence=40)},
        {"limits": {"max_reflections": 0}},
        {"memory": {"write": False}},
        {"answers": ["10:00", "9:00"], "limits": {"max_attempts": 2}},
    ],
    ids=["unsure", "no reflection", "nothing is written", "no success"],
)
def test_nothing_is_kept_where_nothing_showed_that_the_advice_works(run, settings):
    store = InMemoryStore()
    plan, answers = settings.get("plan", reflection(PLAN)), settings.get("answers", ["10:00", "11:00"])
    given = {name: value for name, value in settings.items() if name not in ("plan", "answers")}
    run(RoleModel([say(one) for one in answers], [plan]), checks=[until_eleven], store=store, **given)
    assert kept(store) == []


@pytest.mark.req("D9")
def test_advice_that_was_refused_once_more_is_no_strategy(run):
    store = InMemoryStore()
    model = RoleModel([say("9:00"), say("10:00"), say("11:00")], [reflection(PLAN)])
    run(model, checks=[until_eleven], store=store, limits={"max_reflections": 1})
    assert kept(store) == []


@pytest.mark.req("D9")
def test_a_run_whose_tool_failed_leaves_what_it_changed_too(run, desk):
    store, plan = InMemoryStore(), "Ask for a weekday in place of a date."
    desk.answers = lambda query: LookupError("no such day") if "2031" in query else "eleven is free"
    model = RoleModel(
        [call("search", query="2031-03-04"), call("search", query="Tuesday"), say("11:00")], [reflection(plan)]
    )
    run(model, [desk.search], checks=[until_eleven], store=store)
    assert kept(store) == [("strategy", plan)]


@pytest.mark.req("D9")
def test_where_the_rule_of_a_tools_failure_was_kept_it_says_so_alone(run, desk):
    store, plan = InMemoryStore(), "Ask for a weekday in place of a date."
    desk.answers = lambda query: LookupError("no such day") if "2031" in query else "eleven is free"
    memo = {"kind": "rule", "text": "Never give the calendar a date.", "when": "planning an hour", "tags": []}
    asked = [call("search", query="2031-03-04"), call("search", query="Tuesday"), say("11:00")]
    model = RoleModel(asked, [reflection(plan, memory_to_write=[memo])])
    run(model, [desk.search], checks=[until_eleven], store=store)
    assert kept(store) == [("rule", memo["text"])]


@pytest.mark.req("D9")
def test_advice_after_which_a_tool_failed_once_more_is_no_strategy(run, desk):
    store, plan = InMemoryStore(), "Ask for a weekday in place of a date."
    desk.answers = lambda query: LookupError(f"no such day as {query}") if query != "Tuesday" else "eleven is free"
    asked = [call("search", query=one) for one in ("Someday", "Doomsday", "Tuesday")]
    limits = {"max_reflections": 1}
    run(
        RoleModel([*asked, say("11:00")], [reflection(plan)]),
        [desk.search],
        checks=[until_eleven],
        store=store,
        limits=limits,
    )
    assert kept(store) == []


@pytest.mark.req("D9")
def test_where_no_check_says_that_it_succeeded_nothing_is_left(run, desk):
    store = InMemoryStore()
    desk.answers = lambda query: LookupError("no such day") if "2031" in query else "eleven is free"
    model = RoleModel(
        [call("search", query="2031-03-04"), call("search", query="Tuesday"), say("11:00")], [reflection(PLAN)]
    )
    run(model, [desk.search], store=store)
    assert kept(store) == []


@pytest.mark.req("D21")
def test_what_always_holds_is_learned_from_a_refused_answer_and_no_later_run_goes_without_it(run):
    store, wish = InMemoryStore(), "The user likes short, direct answers."
    made = reflection(PLAN, memory_to_write=[{"kind": "preference", "text": wish}])
    run(RoleModel([say("10:00"), say("11:00")], [made]), checks=[until_eleven], store=store)
    for task in ("Write a poem.", "What is a quark?", "Mend my bike.", "Who reigned in 1066?", "Boil an egg."):
        model = RoleModel([say("11:00")])
        run(model, task=task, store=store, memory={"control_share": 1.0})
        assert wish in model.asked[0].text


@pytest.mark.req("D23")
@pytest.mark.parametrize("write", [True, False])
def test_no_lesson_is_withheld_from_a_run_that_leaves_no_record(run, write):
    store, advice = InMemoryStore(), "Give the calendar a weekday."
    book = LessonBook(store)
    book.add(Lesson(kind="rule", text=advice, when="planning a meeting", origin="told", shown=5, wins=5))
    model = RoleModel([say("11:00")])
    run(model, task="Plan a meeting.", store=store, memory={"control_share": 1.0, "write": write})
    assert (advice in model.asked[0].text) is not write

"""The stories that trials were built for, each from the first answer to the last word."""

from __future__ import annotations

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import LessonBook, MemoryPolicy, Verdict, create_trial_graph
from langgraph_reflexion.testing import RoleModel, reflection, say

PLAIN_DICT = """
class LRU:
    def __init__(self, size): self.size, self.kept = size, {}
    def get(self, key): return self.kept.get(key)
    def put(self, key, value): self.kept[key] = value
"""
ORDERED = """
from collections import OrderedDict
class LRU:
    def __init__(self, size): self.size, self.kept = size, OrderedDict()
    def get(self, key):
        if key in self.kept: self.kept.move_to_end(key)
        return self.kept.get(key)
    def put(self, key, value):
        self.kept[key] = value
        self.kept.move_to_end(key)
        if len(self.kept) > self.size: self.kept.popitem(last=False)
"""
CASES = {
    "what was put is got": (["put a 1", "get a"], 1),
    "what was never put is None": (["get a"], None),
    "the oldest goes first": (["put a 1", "put b 2", "put c 3", "get a"], None),
    "reading keeps a key": (["put a 1", "put b 2", "get a", "put c 3", "get b"], None),
    "writing keeps a key": (["put a 1", "put b 2", "put a 3", "put c 4", "get b"], None),
}


def cache_works(code, _run):
    issues = []
    for name, (moves, expected) in CASES.items():
        names: dict[str, object] = {}
        exec(code, names)  # the two answers of this very file
        cache, got = names["LRU"](2), None
        for move in moves:
            verb, *words = move.split()
            got = cache.put(*words[:1], int(words[1])) if verb == "put" else cache.get(words[0])
        if got != expected:
            issues.append(f"{name}: expected {expected}, got {got}")
    right = len(CASES) - len(issues)
    return Verdict(passed=not issues, score=100 * right // len(CASES), issues=issues)


@pytest.mark.req("S2", "C8", "D9")
def test_a_plain_dictionary_is_no_lru_cache_and_an_ordered_one_is(tried, student, thinker):
    plan = "Keep the keys in the order of their use, and drop the first when there are too many."
    store = InMemoryStore()
    seen = tried(
        student(PLAIN_DICT, ORDERED),
        checks=[cache_works],
        reflector=thinker(plan),
        task="Write an LRU cache.",
        store=store,
    )
    assert [attempt.score for attempt in seen.outcome.attempts] == [40, 100]
    assert len(seen.outcome.attempts[0].verdicts[0].issues) == 3
    assert all(name in seen.reflector.asked[0].text for name in list(CASES)[2:])
    assert plan in seen.prompts[1]
    (lesson,) = LessonBook(store, ("reflexion", "trials")).lessons()
    assert (lesson.kind, lesson.text) == ("strategy", plan)


@pytest.mark.req("S3", "G2")
def test_advice_on_sql_gets_better_with_every_lesson(tried, student, scores):
    taught = [
        reflection(plan, memory_to_write=[{"kind": "rule", "text": plan, "when": "giving advice on SQL", "tags": []}])
        for plan in ("Read the query's plan before you advise.", "Name the index by its columns.")
    ]
    check = scores(40, 65, 90)
    seen = tried(
        student("one", "two", "three"),
        checks=[check],
        reflector=RoleModel([], taught),
        task="Advise on a slow SQL query.",
    )
    first, second = (one["patch_prompt"] for one in taught)
    assert [(first in text, second in text) for text in seen.prompts] == [(False, False), (True, False), (True, True)]
    assert seen.outcome.score == 90
    assert seen.prompts[2].count(f"Plan: {first}") == 1, "a lesson of this trial is told once, as its reflection"


@pytest.mark.req("S4", "G3")
def test_an_answer_is_improved_by_the_three_suggestions(tried, student, scores):
    suggestions = ["name the year", "name the patent", "mention Meucci"]
    verdict = Verdict(passed=False, feedback="Not satisfactory yet.", issues=suggestions)
    seen = tried(student("Bell.", "Bell in 1876."), checks=[scores(verdict, True)], strategy="none", attempt="improve")
    assert seen.ending == ("success", "accepted")
    assert all(part in seen.prompts[1] for part in (*suggestions, "Bell.", "Who invented the telephone?"))
    assert seen.reflector.asked == [], "improving by what the check said takes no reflection"


@pytest.mark.req("S5", "F8", "G4")
def test_a_check_that_is_never_satisfied_gets_the_fallback_once_and_no_success(tried, scores):
    fallback = RoleModel([say("Perhaps Bell.")])
    seen = tried(checks=[scores("vague", "still vague")], fallback=fallback, limits={"max_attempts": 2})
    assert seen.ending == ("failure", "max_attempts")
    assert seen.outcome.answer == seen.result["messages"][-1].text == "Perhaps Bell."
    (asked,) = fallback.asked
    for part in (
        "Who invented the telephone?",
        "answer 2",
        "still vague",
        "no attempt was accepted (attempts allowed: 2)",
    ):
        assert part in asked.text
    assert seen.outcome.last.answer == "answer 2"


@pytest.mark.req("S7", "D4", "D13", "D19")
def test_a_lesson_about_one_invention_is_found_for_another(thinker, student):
    store, rule = InMemoryStore(), "Compare the dates of the patents before you name an inventor."
    memo = {"kind": "rule", "text": rule, "when": "a question asks who invented a machine", "tags": []}

    def one_trial(worker, task):
        graph = create_trial_graph(
            worker,
            [lambda answer, _run: answer in ("Bell, by the patent", "Wright, by the patent")],
            reflector=thinker("Compare the dates of the two patents.", memory_to_write=[memo]),
            memory=MemoryPolicy(control_share=0),
            store=store,
        )
        return graph.invoke({"messages": [("user", task)]})["outcome"]

    first = one_trial(student("Edison", "Bell, by the patent"), "Who invented the telephone?")
    worker = student("Wright, by the patent")
    second = one_trial(worker, "Who invented the flying machine?")
    (asked,) = worker.asked
    assert rule in asked.text
    assert "Edison" not in asked.text, "the trajectory belongs to its own trial"
    assert set(second.lessons_used) & set(first.lessons_written)
    assert (len(first.attempts), len(second.attempts)) == (2, 1)


@pytest.mark.req("S8", "A1", "D9")
def test_the_roots_of_an_equation_put_back_accept_at_once_and_leave_no_lesson(tried, student):
    def roots(answer, _run):
        return all(x * x + 5 * x + 6 == 0 for x in map(int, answer.split(", ")))

    store = InMemoryStore()
    seen = tried(student("-3, -2"), checks=[roots], store=store, task="Solve x² + 5x + 6 = 0.")
    assert seen.ending == ("success", "accepted")
    assert seen.reflector.asked == []
    assert LessonBook(store, ("reflexion", "trials")).lessons() == []
    assert LessonBook(store, ("reflexion", "trials")).stats()["episodes"] == 1


FAILED, ADVICE = "All A are C, because I say so", "Draw the three circles, one inside the other."


@pytest.mark.parametrize(
    ("strategy", "failed_is_shown", "advice_is_shown"),
    [
        pytest.param("none", False, False, marks=pytest.mark.req("G5")),
        pytest.param("reflexion", False, True, marks=pytest.mark.req("S9", "G5")),
        pytest.param("last_trial", True, False, marks=pytest.mark.req("S10", "G5")),
        pytest.param("both", True, True, marks=pytest.mark.req("S11", "G5")),
    ],
)
def test_the_second_trial_is_shown_what_its_strategy_says(
    tried, student, thinker, scores, strategy, failed_is_shown, advice_is_shown
):
    verdict = Verdict(passed=False, feedback="No proof.", issues=["B is not named", "no circle is drawn"])
    seen = tried(
        student(FAILED, "All A are C by B."),
        checks=[scores(verdict, True)],
        reflector=thinker(ADVICE),
        strategy=strategy,
        task="All A are B, all B are C. What of A and C?",
    )
    first, second = seen.prompts
    assert (FAILED in second, ADVICE in second) == (failed_is_shown, advice_is_shown)
    assert ("1. No proof.\n2. B is not named\n3. no circle is drawn" in second) == failed_is_shown
    assert len(seen.reflector.asked) == int(advice_is_shown)
    assert seen.ending == ("success", "accepted")
    if strategy == "none":
        assert first == second, "a blind retry is the same question"


@pytest.mark.req("S15", "C10", "F6")
def test_the_same_reflection_again_is_replaced_by_meta_and_alike_once_more_ends_the_trial(tried, scores, thinker):
    same, other = "Look the inventor up in two sources.", "Write down what would prove each name wrong."
    seen = tried(checks=[scores(10, 30, 60, 90)], reflector=thinker(same, same, other, same))
    assert seen.ending == ("failure", "reflections_alike")
    assert [one.depth for one in seen.outcome.reflections] == ["quick", "meta", "deep"]
    assert len(seen.prompts) == 3
    assert len(seen.reflector.asked) == 4

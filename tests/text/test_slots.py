"""Details of a task become slots, so that a rule outlives its instance; what says nothing without them is refused."""

from __future__ import annotations

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_reflexion import Lesson, LessonBook
from langgraph_reflexion.text.literals import literals, names
from langgraph_reflexion.text.slots import slotted

TASK = "Move order 8841 of Ms Quibbleton from 2031-03-04 to 2031-05-06; the form is forms/move/v2.pdf."


def book() -> LessonBook:
    return LessonBook(InMemoryStore())


@pytest.mark.req("D13", "D2")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "Read the payment method of order 8841 before the refund tool is called.",
            "Read the payment method of order <id> before the refund tool is called.",
        ),
        (
            "Convert 2031-03-04 to a weekday name before asking the calendar.",
            "Convert <date> to a weekday name before asking the calendar.",
        ),
        (
            "Check that 2031-05-06 is later than 2031-03-04 and no holiday before submitting the change.",
            "Check that <date> is later than <date 2> and no holiday before submitting the change.",
        ),
        (
            "Ask Ms Quibbleton for her time zone, and tell Quibbleton's assistant the outcome.",
            "Ask Ms <name> for her time zone, and tell <name>'s assistant the outcome.",
        ),
        (
            'Fill every page of "forms/move/v2.pdf" with the signature tool, then lock the document.',
            "Fill every page of <path> with the signature tool, then lock the document.",
        ),
        (
            "Treat a 404 of the archive as not found and look into the backup.",
            "Treat a 404 of the archive as not found and look into the backup.",
        ),
    ],
)
def test_a_rule_is_kept_with_a_slot_for_each_detail_of_its_task(text: str, kept: str) -> None:
    written = book().add(Lesson(kind="rule", text=text), task=TASK)
    assert (written.action, written.lesson and written.lesson.text) == ("added", kept)


@pytest.mark.req("D13", "D2")
@pytest.mark.parametrize(
    ("task", "text", "kept"),
    [
        ("给订单A-12退款。", "退款前先看订单A-12的付款方式。", "退款前先看订单<id>的付款方式。"),
        (
            "注文A-12を返金してください。",
            "返金の前に注文A-12の支払い方法を見る。",
            "返金の前に注文<id>の支払い方法を見る。",
        ),
        ("주문 A-12의 환불을 처리해 주세요.", "환불하기 전에 주문 A-12의 결제 수단을 확인한다.", "주문 <id>의 결제"),
    ],
)
def test_a_detail_is_found_between_words_that_no_space_parts(task: str, text: str, kept: str) -> None:
    written = book().add(Lesson(kind="rule", text=text), task=task)
    assert written.lesson is not None
    assert kept in written.lesson.text


@pytest.mark.req("D2", "D13")
@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("Always offer 2031-05-06.", "2031-05-06"),
        ("Order 8841 is a parcel, so it has to be weighed first.", "8841"),
        ("Quibbleton prefers mornings and quiet rooms.", "Quibbleton"),
        ("Weigh the parcel twice for order 8841.", "8841"),
        ("On 2031-03-04 the office closes early, so call before noon.", "2031-03-04"),
        ("Move order 8841 from 2031-03-04 to 2031-05-06.", "2031-03-04"),
    ],
)
def test_a_lesson_that_says_nothing_without_the_detail_stays_with_its_run(text: str, detail: str) -> None:
    written = book().add(Lesson(kind="rule", text=text), task=TASK)
    assert written.action == "refused"
    assert "retelling" in written.reason
    assert detail in written.reason


def test_when_and_tags_lose_the_detail_too() -> None:
    [kept] = slots_of("Sign the form before it is sent.", when="moving order 8841", tags=["8841", "forms"])
    assert (kept.when, kept.tags) == ("moving order <id>", ["forms"])
    [bare] = slots_of("Sign the form before it is sent.", when="Quibbleton")
    assert bare.when == ""


def slots_of(text: str, **fields: object) -> list[Lesson]:
    mine = book()
    mine.add(Lesson.model_validate({"kind": "rule", "text": text, **fields}), task=TASK)
    return mine.lessons()


@pytest.mark.req("D13")
def test_the_same_rule_of_two_instances_is_one_lesson_of_two_episodes() -> None:
    mine = book()
    for episode, number in (("e1", 8841), ("e2", 7720)):
        mine.add(
            Lesson(kind="rule", text=f"Read the payment method of order {number} before refunding.", sources=[episode]),
            task=f"Refund order {number} of the web shop.",
        )
    [lesson] = mine.lessons()
    assert lesson.text == "Read the payment method of order <id> before refunding."
    assert lesson.sources == ["e1", "e2"]


@pytest.mark.req("D13", "D4")
def test_a_lesson_with_slots_is_found_by_its_own_words_and_not_by_those_of_its_slots() -> None:
    mine = book()
    mine.add(Lesson(kind="rule", text="Read the payment method of order 8841 before refunding."), task=TASK)
    [found] = mine.recall("Refund the order of another customer and say by which payment method.")
    assert "<id>" in found.text
    assert mine.recall("Which id has the newest passport?") == []


def test_facts_and_what_has_a_name_keep_their_details() -> None:
    mine = book()
    for lesson in (
        Lesson(kind="project", text="Order 8841 is under review."),
        Lesson(kind="rule", text="Copy Quibbleton on every mail.", name="copies"),
    ):
        assert mine.add(lesson, task=TASK).action == "added"
        assert lesson.text in [one.text for one in mine.lessons()]


def test_a_slot_is_named_for_what_stood_there() -> None:
    task = (
        "See https://a.example/x and /var/log/app/x.log, open sales.csv at 09:30 with v2.14.7 for $1,299.50 or 4,500 "
        'in 1998, ticket 55123, node web-prod-17, say "good morning" to `parse_it` 《春潮》'
    )
    assert literals(task) == {
        "good morning": "text",
        "parse_it": "code",
        "春潮": "title",
        "https://a.example/x": "url",
        "/var/log/app/x.log": "path",
        "sales.csv": "file",
        "09:30": "time",
        "v2.14.7": "version",
        "$1,299.50": "amount",
        "4,500": "number",
        "1998": "year",
        "55123": "id",
        "web-prod-17": "id",
    }
    assert names("Compare Karlsbad with Brixen by area.") == ["Karlsbad", "Brixen"]


def test_what_many_tasks_name_is_no_detail() -> None:
    task = "Read README.md and package.json, save as UTF-8 with SHA-256, keep 1024 rows, use Node.js and/or Python 3."
    text = "Encode README.md as UTF-8 and hash package.json with SHA-256 in Node.js."
    assert slotted([text], task) == [text]
    assert slotted(["Compare the read/write and input/output speeds."], "Compare read/write and input/output.") == [
        "Compare the read/write and input/output speeds."
    ]


def test_one_name_in_two_words_is_one_slot() -> None:
    task = "Look up the order of the customer Delia Marsh and write to Marsh."
    assert slotted(["Greet Delia Marsh, then Marsh again, then Delia."], task) == [
        "Greet <name>, then <name> again, then <name>."
    ]


def test_a_lesson_with_slots_says_nothing_new_when_it_is_offered_again() -> None:
    mine = book()
    first = mine.add(Lesson(kind="rule", text="Convert 2031-03-04 to a weekday name first.", sources=["e"]), task=TASK)
    assert first.lesson is not None
    again = mine.add(first.lesson, task=TASK)
    assert again.action == "unchanged"


@pytest.mark.req("D2", "D13")
@pytest.mark.parametrize(
    ("task", "general"),
    [
        ("帮王先生和张伟女士在北京市预订酒店", "帮<name>和<name 2>女士在<name 3>市预订酒店"),
        ("联系华信科技有限公司的李经理，地点上海", "联系<name>的李经理，地点<name 2>"),
        ("请邀请 Anna Weber 参加会议，用Python写脚本", "请邀请 <name> 参加会议，用Python写脚本"),
        ("为王小明和李娜预订机票", "为<name>和<name 2>预订机票"),
        ("提醒员工赵六更新密码，再联系陈建国。", "提醒员工<name>更新密码，再联系<name 2>。"),
        ("把“张伟”的订单改到《春潮》首映之后", "把<name>的订单改到<title>首映之后"),
    ],
)
def test_people_towns_companies_and_titles_in_a_chinese_task_become_slots(task: str, general: str) -> None:
    assert slotted([task], task) == [general]


@pytest.mark.parametrize(
    "task",
    [
        "北京时间下午三点",
        "给黄色按钮加边框，为周末安排活动",
        "向马上到期的客户发通知，和余弦定理的推导",
        "为高中生写一篇与丁烷的反应有关的文章",
        "高级女士手表的价格",
        "给客户经理写邮件",
        "城市列表按人口排序",
        "在超市比较价格",
        "公司的总数",
        "把“重要”的邮件排在前面",
    ],
)
def test_what_only_looks_like_a_chinese_name_stays(task: str) -> None:
    assert names(task) == []
    assert slotted([task], task) == [task]


@pytest.mark.req("D13")
def test_a_chinese_rule_loses_the_person_of_its_task() -> None:
    rule = Lesson(kind="rule", text="预订之前，先问王先生是否需要早餐，再核对取消条款。")
    written = book().add(rule, task="帮王先生在杭州预订一家酒店。")
    assert written.lesson is not None
    assert written.lesson.text == "预订之前，先问<name>是否需要早餐，再核对取消条款。"

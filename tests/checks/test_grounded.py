"""What an answer names, counts and quotes comes from the question or from what was observed."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from langgraph_reflexion import Run, checks, create_reflexion_agent
from langgraph_reflexion.checks import grounded, static_code
from langgraph_reflexion.testing import RoleModel, call, say

SEEN = (
    'Edith Marlow patented the ring loom on 7 March 1876 in Leeds. She said: "It runs, come and see."',
    "The Marlow Company sold 1,200,000 looms; its seat was in the United States, at Port Ames, from 1881 to 1902.",
)
TASK = "Who patented the ring loom, and when?"


def verdict_on(answer, task=TASK, seen=SEEN):
    return grounded()(answer, Run(task=task, observations=seen))


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("answer", "stranger"),
    [
        ("Edith Barlow, in 1876.", "Barlow"),
        ("It was Edith Marlow, in 1867.", "1867"),
        ("On 8 March 1876.", "8 March 1876"),
        ("On 7 May 1876.", "7 May 1876"),
        ("In about 1870.", "1870"),
        ("Patented on 7 March 1876, and renewed on 9 May 1880.", "9 May 1880"),
        ("Marlow patented it in Bradford.", "Bradford"),
        ('She said: "It runs, go away."', "It runs, go away."),
        ("She sold 1.3 million looms.", "1.3 million"),
        ("John Hargreave", "John Hargreave"),
        ("Hargreave invented it.", "Hargreave"),
        ("The answer is Oslo.", "Oslo"),
        ("It was patented on a Monday.", "Monday"),
        ("a spinning wheel", "wheel"),
        ("艾米莉", "艾米莉"),
    ],
)
def test_unsupported_claims_are_named(answer, stranger):
    verdict = verdict_on(answer)
    assert verdict.passed is False
    assert any(stranger in issue for issue in verdict.issues), verdict.issues


@pytest.mark.req("E3")
def test_each_unsupported_claim_is_named_apart():
    assert len(verdict_on("The patent of Barlow was sold in Bradford in 1881.").issues) == 2


@pytest.mark.req("E3")
def test_the_parts_of_a_date_may_stand_apart_unless_another_date_has_one_of_them():
    seen = ("It was filed on 7 March 1876. The renewal was in June, on the 5th, of 1990. It had 9 claims.",)
    assert verdict_on("On 5 June 1990.", seen=seen).passed
    assert verdict_on("On 9 June 1876.", seen=seen).passed is False


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "answer",
    [
        "Edith Marlow, in 1876.",
        "Marlow's patent is of March 7, 1876.",
        "1876-03-07",
        "07/03/1876",
        "E. Marlow",
        "EDITH MARLOW",
        "Edith of Marlow",
        "However, Marlow patented it in 1876.",
        "She said: “It runs … come and see”.",
        "They sold 1.2 million looms.",
        "I do not know.",
        "I could not find it.",
        "不知道",
        "It was in the US.",
        "About 1.25 million looms",
        "Based on the search results, the answer is **Edith Marlow** [1].",
        "Yes",
        "1. First I looked it up.\n2. Then I read it.\n\nFinal answer: Edith Marlow",
    ],
)
def test_the_same_claim_may_be_written_differently(answer):
    assert verdict_on(answer).issues == []


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("seen", "right", "wrong"),
    [
        ("埃菲尔铁塔高330米。", "330米", "331米"),
        ("Es kamen 3,5 Millionen Besucher.", "3.5 million", "3,6 Millionen"),
        ("Es kostete 7.799.401 Francs.", "7,799,401", "7.799.402 Francs"),
        ("The point is (3, 5).", "(3,5)", "(3,6)"),
        ("Rooms 12,14 are free.", "12 and 14", "12 and 15"),
        ("name,height,year\nEiffel Tower,330,1889", "330 metres, 1889", "331 metres, 1889"),
        ('{"rooms":[12,14,30]}', "12, 14 and 30", "12, 14 and 31"),
        ('{"heights":[330,318,443]}', "330, 318 and 443", "330, 318 and 444"),
        ("Rooms 1,2,3 are free.", "1, 2 and 3", "1,2,9"),
        ('{"start": "2024-03-07T10:30:00Z"}', "At 10:30 on 7 March 2024", "At 10:30 on 7 May 2024"),
        ("It started at 2014-12-12T10:12:00Z.", "It started at 2014-12-12T10:12:00Z.", "2014-12-12T10:13:00Z"),
        ("They met at 9:00 May 3.", "At 9:00 on May 3.", "At 9:00 on May 4."),
        ("The call was at 22:00 Jan 14, 1951.", "At 22:00 Jan 14, 1951.", "At 21:00 Jan 14, 1951."),
        ("It starts at 11 am on 7 March 2024.", "2024-03-07T11:00:00", "2024-03-07T12:00:00"),
        ('{"start": "2024-03-07T14:30:00Z"}', "At 2:30 PM", "At 3:30 PM"),
        ("It starts at 2 p.m. on Monday.", "14:00", "15:00"),
        ("It starts at 14:00.", "At 2 P.M.", "At 3 P.M."),
        ("The tag is v1.2.3.", "It is 1.2.3", "v1.2.4"),
        ("It needs v3.11.", "3.11", "v3.12"),
        ("Chrome uses the V8 engine.", "the v8 engine", "the v9 engine"),
        ("host=10.0.0.1, port=80", "10.0.0.1", "10.0.0.2"),
        ("filed;7-Mar-2024", "On 2024-03-07", "On 2024-04-07"),
        ("In office: January 2010 - March 2012", "January 2010", "10 March 2012"),
        ("In 1763 there were 12 houses.", "12 houses in 1763", "25/12/1763"),
        ("Es kostet 1.234,50 Euro.", "1,234.50 euros", "1.234,60 Euro"),
        ("Il coûte 1\u202f234,50 euros.", "1 234.50 euros", "1\u202f234,60 euros"),
        ("The town has 1\u00a0234\u00a0567 people.", "1,234,567", "1\u00a0234\u00a0568"),
        ("Es kostet 1’234.50 Franken.", "1234.5", "1'234.60"),
        ('{"mass": 1.23e+05}', "123,000", "1.24e5"),
        ('{"mass": 2.5e-05}', "0.000025", "2.6e-05"),
        ("It holds 200,050 seats.", "two hundred thousand and fifty", "two hundred thousand and sixty"),
        ("[(16.666666666666668,)]", "16.67 or 16.7", "16.66"),
        ("[(2345678,)]", "2.35 million", "2.34 million"),
        ("They sold 4.2 tons in 1912.", "4.2", "1.9"),
    ],
)
def test_numbers_are_compared_however_languages_and_files_write_them(seen, right, wrong):
    assert verdict_on(right, "", [seen]).issues == []
    assert verdict_on(wrong, "", [seen]).passed is False


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("seen", "answer", "fine"),
    [
        ("It was made in the US.", "It was made in the U.S.", True),
        ("The U.S.A. joined in 1917.", "The USA", True),
        ("The United States of America joined in 1917.", "The USA", True),
        ("J.R.R. Tolkien wrote it.", "JRR Tolkien", True),
        ("JRR Tolkien wrote it.", "J.R.R. Tolkien", True),
        ("JRR Tolkien wrote it.", "J.B.B. Tolkien", False),
        ("Antonín Dvořák wrote it.", "Antonin Dvorak", True),
        ("It is 0.50 metres long.", "0.5 m long", True),
        ("One is 318 metres high, the other 330 metres.", "12 m higher", True),
        ("One is 318 metres high, the other 330 metres.", "13 m higher", False),
        ("It cost 1,200,000 dollars.", "$1.2m", True),
    ],
)
def test_names_need_no_dots_and_accents_and_metres_are_no_millions(seen, answer, fine):
    assert verdict_on(answer, "How much higher is it, and whose?", [seen]).passed is fine


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("seen", "right", "wrong"),
    [
        (json.dumps({"composer": "Antonín Dvořák"}), "Antonín Dvořák", "Antonín Brahms"),
        (json.dumps({"city": "北京"}), "北京", "南京"),
        (json.dumps({"text": "Height:\n330 m.\nParis is near."}), "330 m, near Paris", "331 m, near Paris"),
        ("Q&amp;A with Conan O&#39;Brien", "Conan O'Brien", "Conan O'Connor"),
        ("C:\\new\\table", "C:\\new\\table", "C:\\new\\chair"),
    ],
)
def test_what_json_and_html_escape_is_read_as_what_it_stands_for(seen, right, wrong):
    assert verdict_on(right, "", [seen]).issues == []
    assert verdict_on(wrong, "", [seen]).passed is False


@pytest.mark.req("E3")
def test_a_german_noun_is_no_name_but_what_follows_one_is():
    seen = ("Die Firma Meyer lieferte 40 Pumpen nach Kiel. Die Lieferung kam im Mai 2019 an.",)
    asked = "Wann kam die Lieferung an?"
    assert verdict_on("Nach den Unterlagen traf die Ware der Firma Meyer im Mai 2019 ein.", asked, seen).issues == []
    assert (
        verdict_on("Nach den Unterlagen traf die Ware der Firma Schulze im Mai 2019 ein.", asked, seen).passed is False
    )
    assert verdict_on("Nach den Unterlagen traf die Ware der Firma Meyer im Mai 2018 ein.", asked, seen).passed is False


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "answer",
    [
        "Ludwig Mies van der Rohe did die in Boston.",
        "Den arkitekt, der tegnede huset, boede i Boston.",
        "Het huis van der Rohe, die wie weet ooit verhuisde, staat in Boston.",
    ],
)
def test_words_that_other_languages_share_with_german_make_no_text_german(answer):
    assert verdict_on(answer, "Where did Ludwig Mies van der Rohe die?", ("He died in Chicago.",)).passed is False


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "answer",
    [
        "According to Wikipedia, the fee of the club is 20 EUR.",
        "Furthermore, the fee of the club is 20. Overall, the fee is low.",
        "Unfortunately the fee of the club is 20.",
        "Twenty",
    ],
)
def test_a_number_a_unit_or_the_opening_of_a_sentence_is_no_name(answer):
    assert verdict_on(answer, "What is the fee?", ("The club has a low fee: €20.",)).issues == []


@pytest.mark.req("E3")
def test_a_number_may_follow_where_the_question_asks_to_compute():
    assert verdict_on("21 years", "How many years was the seat at Port Ames?").passed
    assert verdict_on("Twenty-one", "How many years was the seat at Port Ames?").passed
    assert verdict_on("23 years", "How many years was the seat at Port Ames?").passed is False
    rooms = ("The red room holds 10 people, the blue room 20, the hall 42.",)
    assert verdict_on("3 rooms", "How many rooms are there?", rooms).passed
    assert verdict_on("72 people", "How many people do they hold in total?", rooms).passed
    sales = ("Sales rose from $2.5 million to $3 million.",)
    assert verdict_on("By 20 %", "By how much did sales rise in percent?", sales).passed
    assert verdict_on("By 25 %", "By how much did sales rise in percent?", sales).passed is False
    assert verdict_on("21", "What is seventeen plus four?", ()).passed
    assert verdict_on("22", "What is seventeen plus four?", ()).passed is False


@pytest.mark.req("E3")
async def test_it_looks_at_what_the_tools_of_the_run_gave():
    def look(where: str) -> str:  # noqa: ARG001
        """Look it up."""
        return SEEN[0]

    model = RoleModel([call("look", where="there"), say("Edith Marlow, 1876")])
    agent = create_reflexion_agent(model, [look], checks=[grounded()])
    assert (await agent.ainvoke({"messages": [("user", TASK)]}))["outcome"].status == "success"


@pytest.mark.req("E3", "E8")
def test_of_structured_data_the_values_are_read_and_not_the_names_of_fields():
    for year, right in ((1876, True), (1867, False)):
        assert verdict_on({"inventor": "Edith Marlow", "patent_year": year, "sure": True}).passed is right
    assert not static_code()({"program": "import os"}).passed
    add = {"about": "It adds two numbers.", "program": "def add(a, b):\n    return a + b", "complexity": "O(1)"}
    assert static_code()(add).passed
    assert checks.test_cases([("add(1, 2)", 3)])(add).passed


@pytest.mark.req("E3", "K5")
def test_odd_answers_are_read_without_a_fault():
    for answer in ("", " ", "?", "\0", "1" * 5000, '"' * 999, "A " * 5000, "²", "1,2,3,,4", "99/99/9999", "(" * 999):
        assert verdict_on(answer, "How many?").passed in (True, False)


@pytest.mark.req("K5")
@pytest.mark.parametrize(
    ("check", "unit"), [(grounded(), "\n"), (grounded(), "中"), (static_code(), "`"), (static_code(), "~")]
)
def test_a_long_answer_of_one_character_is_read_in_a_moment(check, unit):
    started = time.process_time()
    check(unit * 200_000, Run(task=TASK, observations=SEEN))
    assert time.process_time() - started < 1, "it takes some hundredths; where its time grew by the square, 2.5 or more"


@pytest.mark.slow
@pytest.mark.req("K5")
async def test_much_text_is_read_in_little_time_sync_and_async():
    seen = (" ".join(f"Name{i} was born in {i}" for i in range(20_000)),)
    run = Run(task=TASK, observations=seen)
    answer = "Name7 was born in 7. " * 400
    started = time.monotonic()
    assert grounded()(answer, run).passed
    assert (await grounded().acall(answer, run)).passed
    assert time.monotonic() - started < 20


@pytest.mark.req("E3", "K5")
@pytest.mark.slow
def test_cutting_a_long_answer_or_source_refuses_no_claim():
    seen = "Bell had the patent in 1876. "
    assert grounded()(seen * 2_000, Run(task=TASK, observations=[seen])).passed, "the cut itself claims nothing"
    aside = "The river is long and the town is old. " * 8_000
    run = Run(task=TASK, observations=[f"{aside}{seen}{aside}"])
    assert grounded()("Bell, in 1876", run).passed, "what bears on the answer is read wherever it stands"
    assert grounded()("Meucci, in 1871", run).passed is False


def benchmark():
    """The benchmark with the labeled answers."""
    file = Path(__file__).parents[2] / "benchmarks" / "grounded.py"
    spec = importlib.util.spec_from_file_location("benchmark_grounded", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("E3")
def test_most_wrong_held_out_answers_are_caught_with_few_false_alarms():
    module, answers = benchmark(), 0
    for half in module.halves():
        alarms, right, caught, wrong = module.counts(half)
        assert alarms / right <= 0.05
        assert caught / wrong >= 0.75
        answers += right + wrong
    assert answers >= 150


@pytest.mark.req("E3")
def test_the_result_of_a_computation_may_be_rounded() -> None:
    task, seen = "What percentage of the 30 parcels was late?", ["7 parcels were late."]
    assert verdict_on("23.3%", task, seen).passed
    assert verdict_on("23.4%", task, seen).passed is False


@pytest.mark.req("E3")
def test_a_number_follows_from_what_was_observed_for_the_question_and_not_from_earlier_questions() -> None:
    def asked(question: str, *observed: str) -> list[AnyMessage]:
        return [HumanMessage(question), *(ToolMessage(text, tool_call_id="1") for text in observed)]

    first = "What did the two harbour shops sell last week?"
    before = asked(first, "4312 and 2877")
    for question, passed in (("And the total?", True), ("How much did all hotels at the lake earn in spring?", False)):
        request = f"{first}\n\n{question}" if passed else question
        run = Run(task=question, request=request, messages=[*before, *asked(question)])
        assert grounded()("It is 7189.", run).passed is passed
        assert grounded()("It is 2877.", run).passed, "what was observed earlier counts as it is"


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    "document",
    [
        {"type": "text-plain", "text": "We sold 4711 units in May.", "mime_type": "text/plain"},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "We sold 4711 units in May."},
        },
    ],
    ids=["LangChain's", "Anthropic's"],
)
def test_what_stands_in_a_document_that_came_with_the_question_is_known(document) -> None:
    asked = HumanMessage([{"type": "text", "text": "How many units did we sell?"}, document])
    agent = create_reflexion_agent(RoleModel(say("4711 units, in May.")), checks=[grounded()])
    assert agent.invoke({"messages": [asked]})["outcome"].status == "success"


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("seen", "answer", "passes"),
    [
        ("6 errors in 3200 requests", "0.2 % failed.", True),
        ("6 errors in 3200 requests", "0.1 % failed.", False),
        ("6 errors in 11000 requests", "0.1 % failed.", True),
    ],
)
def test_a_small_percentage_may_be_rounded_but_not_further(seen, answer, passes):
    verdict = verdict_on(answer, "What percentage of the requests failed?", (seen,))
    assert (verdict is None or verdict.passed is not False) is passes

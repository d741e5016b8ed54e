"""An agent with `ReflexionMiddleware` on LangGraph's own server, driven through its SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.req("M5")
def test_it_learns_for_each_user_streams_its_events_and_keeps_what_is_private(
    signed_in: str, client: Callable[..., Any]
) -> None:
    here = client(signed_in, "ada")
    failures = []
    for _ in range(2):
        thread = here.threads.create()["thread_id"]
        given = {"messages": [{"role": "user", "content": "Plan an hour."}]}
        events = list(here.runs.stream(thread, "planning", input=given, stream_mode=["custom", "values"]))
        assert not [event.data for event in events if event.event == "error"]
        assert [event.data["type"] for event in events if event.event == "custom"][-1] == "outcome"
        values = here.threads.get_state(thread)["values"]
        assert values["messages"][-1]["content"] == "11:00"
        assert values["outcome"]["stop_reason"] == "unchecked"
        failures.append(len(values["outcome"]["failures"]))
    assert failures == [1, 0], "the second run knows the lesson"
    (assistant,) = here.assistants.search(graph_id="planning")
    schemas = here.assistants.get_schemas(assistant["assistant_id"])
    assert {"messages", "feedback"} == set(schemas["input_schema"]["properties"])
    assert "reflexion" not in schemas["output_schema"]["properties"]
    assert here.store.search_items(("reflexion", "planning", "ada", "lessons"))["items"]

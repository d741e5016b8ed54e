"""Record what a small model really writes, for the fast tests of the readers: python tests/real_model/record.py FILE

Each line has what was asked for (`decision`, `reflection`, `judgement`) and the reply as it came. Prompts are those of
the package: a scheduling agent under the JSON protocol with its tools, trials with structured reflections, and a judge.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from langchain_core.callbacks import BaseCallbackHandler

from langgraph_reflexion import Limits, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.checks import llm_judge
from langgraph_reflexion.evals import load_tasks
from langgraph_reflexion.graph.demo import TASK, busy_times, is_free
from small_model import small_model, small_model_server

KINDS = {"reflect": "reflection", "judge": "judgement"}
TEMPERATURES = (0.0, 0.5, 1.0)


class Recorder(BaseCallbackHandler):
    """Gathers replies by the name of the call."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[dict[str, str]] = []

    def on_chat_model_start(self, _serialized: Any, _messages: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.names[run_id] = kwargs.get("name") or ""

    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        kind = KINDS.get(self.names[run_id], "decision")
        self.lines.append({"asked": kind, "reply": response.generations[0][0].message.text})


def main() -> None:
    recorder = Recorder()
    once = Limits(max_steps=2, max_attempts=2, max_reflections=1)
    with small_model_server() as address:
        for temperature in TEMPERATURES:
            model = small_model(address, temperature=temperature, max_tokens=300)
            agent = create_reflexion_agent(model, [busy_times], checks=[is_free], protocol="json", limits=once)
            for task in (TASK, "On which days is the hour after 14:00 free?", "Greet Ada."):
                agent.invoke({"messages": [("user", task)]}, {"callbacks": [recorder]})
            trials = create_trial_graph(model, [llm_judge(model), lambda *_: False], strategy="reflexion", limits=once)
            for shipped in load_tasks("shipped")[:2]:
                trials.invoke({"messages": [("user", shipped.task)]}, {"callbacks": [recorder]})
    kept = dict.fromkeys((line["asked"], line["reply"]) for line in recorder.lines)
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        for asked, reply in kept:
            file.write(json.dumps({"asked": asked, "reply": reply}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

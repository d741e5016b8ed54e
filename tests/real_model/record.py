"""Record what a small model really writes, for the fast tests of the readers: python tests/real_model/record.py FILE

Each line has what was asked for (`decision`, `reflection`, `judgement`) and the reply as it came. Prompts are those of
the package: a scheduling agent under the JSON protocol with its tools, trials with structured reflections, and a judge;
each in words alone and with its schema enforced by the server.
"""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from langchain_core.callbacks import BaseCallbackHandler

from langgraph_reflexion import Limits, create_reflexion_agent, create_trial_graph
from langgraph_reflexion.checks import llm_judge
from langgraph_reflexion.evals.tasks import load_tasks
from langgraph_reflexion.graph.demo import TASK, busy_times, is_free
from small_model import DECISION_FORM, small_model, small_model_server

KINDS = {"reflect": "reflection", "judge": "judgement"}
TEMPERATURES = (0.0, 0.5, 1.0)


class Recorder(BaseCallbackHandler):
    """Writes each reply with what was asked for, by the name of the call."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.names: dict[Any, str] = {}

    def on_chat_model_start(self, _serialized: Any, _messages: Any, *, run_id: Any, **kwargs: Any) -> None:
        self.names[run_id] = kwargs.get("name") or ""

    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        line = {
            "asked": KINDS.get(self.names[run_id], "decision"),
            "reply": response.generations[0][0].message.text,
        }
        self.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.file.flush()


def main() -> None:
    once = Limits(max_steps=2, max_attempts=2, max_reflections=1)
    with small_model_server() as address, Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        config: Any = {"callbacks": [Recorder(file)]}
        for temperature, enforced in product(TEMPERATURES, (False, True)):
            profile = {"structured_output": True} if enforced else None
            model = small_model(address, temperature=temperature, max_tokens=150, profile=profile)
            agent = create_reflexion_agent(
                model.bind(response_format=DECISION_FORM) if enforced else model,
                [busy_times],
                reflector=model,
                checks=[is_free],
                protocol="json",
                limits=once,
            )
            agent.invoke({"messages": [("user", TASK)]}, config)
            trials = create_trial_graph(model, [llm_judge(model), lambda *_: False], strategy="reflexion", limits=once)
            trials.invoke({"messages": [("user", load_tasks("shipped")[0].task)]}, config)


if __name__ == "__main__":
    main()

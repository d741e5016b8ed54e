"""A client for a LangGraph server: stream a run of the demo agent, and print what it learned.

langgraph dev --no-browser        (in this repository, in another terminal; `pip install 'langgraph-reflexion[studio]'`)
python examples/server_client.py http://127.0.0.1:2024

`demo` runs without a key. `agent` runs with the model that `LANGGRAPH_REFLEXION_MODEL` names.
"""

from __future__ import annotations

import asyncio
import sys

from langgraph_sdk import get_client

TASK = (
    "Find one hour for the planning meeting on Tuesday 2026-03-03: it starts on the hour, "
    "strictly after 09:00, and ends by 14:00."
)


async def main(address: str) -> None:
    """Stream one run on a new thread."""
    client = get_client(url=address)
    thread = await client.threads.create()
    given = {"messages": [{"role": "user", "content": TASK}]}
    async for part in client.runs.stream(thread["thread_id"], "demo", input=given, stream_mode=["custom"]):
        event = part.data if part.event == "custom" else {}
        if event.get("type") == "failure":
            print("failed:", event["failure"]["signal"])
        elif event.get("type") == "lesson":
            print("learned:", event["text"])
        elif event.get("type") == "outcome":
            print("answered:", event["outcome"]["answer"], event["outcome"]["status"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else "http://127.0.0.1:2024"))

"""An agent that learns from the errors of an MCP server's tools. The server is this file, run as a separate process.

python examples/mcp_tools.py        (needs `pip install mcp langchain-mcp-adapters`)
"""

from __future__ import annotations

import asyncio
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp.server.fastmcp import FastMCP
from story import MODEL, TASK, busy_times, is_free

from langgraph_reflexion import create_reflexion_agent


def serve() -> None:
    """Serve the calendar as an MCP server, over standard input and output."""
    server = FastMCP("calendar", log_level="WARNING")
    server.tool()(busy_times)
    server.run()


async def main() -> None:
    """Run an agent that has the server's tools."""
    connection = {"transport": "stdio", "command": sys.executable, "args": [__file__, "serve"]}
    tools = await MultiServerMCPClient({"calendar": connection}).get_tools()  # type: ignore[dict-item]
    agent = create_reflexion_agent(MODEL, tools, checks=[is_free])  # or "openai:gpt-4o-mini"
    result = await agent.ainvoke({"messages": [("user", TASK)]})
    print([tool.name for tool in tools], result["messages"][-1].text, result["outcome"].status)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())

"""`python -m langgraph_reflexion`: the same as the command `langgraph-reflexion`."""

from __future__ import annotations

import sys

from langgraph_reflexion.cli import main

if __name__ == "__main__":
    sys.exit(main())

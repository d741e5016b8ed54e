"""A Python in which every warning is an error, as in the tests themselves (`filterwarnings` in `pyproject.toml`)."""

import sys

OPTIONS = ("-W", "error", "-W", "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning")
STRICT_PYTHON = (sys.executable, *OPTIONS)

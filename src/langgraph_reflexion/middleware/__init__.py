"""`ReflexionMiddleware` for LangChain's `create_agent`. Only this package needs LangChain."""

try:
    import langchain.agents.middleware  # noqa: F401 — to say what is missing
except ImportError as error:
    raise ImportError(
        "`ReflexionMiddleware` needs LangChain 1.4 or newer: `pip install 'langgraph-reflexion[middleware]'`"
    ) from error

from langgraph_reflexion.middleware.hooks import ReflexionMiddleware

__all__ = ["ReflexionMiddleware"]

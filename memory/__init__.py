"""Memory: lessons are kept, found, ranked and cleaned here, in any LangGraph store."""

from langgraph_reflexion.memory.arguments import check_choice, check_instance, resolve_namespace
from langgraph_reflexion.memory.book import LessonBook
from langgraph_reflexion.memory.choose import Selection
from langgraph_reflexion.memory.credit import replaces_reflection, withheld
from langgraph_reflexion.memory.estimate import record_text
from langgraph_reflexion.memory.evidence import Change
from langgraph_reflexion.memory.exchange import Loaded
from langgraph_reflexion.memory.findings import finding_of
from langgraph_reflexion.memory.gate import concrete, refusal
from langgraph_reflexion.memory.index import Indexes
from langgraph_reflexion.memory.models import given_topic, topic_for
from langgraph_reflexion.memory.notebook import ErrorNotebook
from langgraph_reflexion.memory.recall import Found
from langgraph_reflexion.memory.screening import Foreign, screen, suspicion
from langgraph_reflexion.memory.writing import Written

__all__ = [
    "Change",
    "ErrorNotebook",
    "Foreign",
    "Found",
    "Indexes",
    "LessonBook",
    "Loaded",
    "Selection",
    "Written",
    "check_choice",
    "check_instance",
    "concrete",
    "finding_of",
    "given_topic",
    "record_text",
    "refusal",
    "replaces_reflection",
    "resolve_namespace",
    "screen",
    "suspicion",
    "topic_for",
    "withheld",
]

"""Memory: lessons are kept, found, ranked and cleaned here, in any LangGraph store."""

from langgraph_reflexion.memory.findings import finding_of
from langgraph_reflexion.memory.fingerprints import fingerprint
from langgraph_reflexion.memory.floor import Floor, tries_again
from langgraph_reflexion.memory.gate import concrete
from langgraph_reflexion.memory.guard import suspicion
from langgraph_reflexion.memory.index import Reader
from langgraph_reflexion.memory.lessons import LessonBook
from langgraph_reflexion.memory.likeness import likeness
from langgraph_reflexion.memory.namespaces import resolve_namespace
from langgraph_reflexion.memory.notebook import ErrorNotebook
from langgraph_reflexion.memory.precedent import Precedent
from langgraph_reflexion.memory.topics import topic_of
from langgraph_reflexion.memory.values import Change, Found, Loaded, Repair, Written
from langgraph_reflexion.memory.words import count_tokens
from langgraph_reflexion.memory.worth import spares_a_reflection, withheld

__all__ = [
    "Change",
    "ErrorNotebook",
    "Floor",
    "Found",
    "LessonBook",
    "Loaded",
    "Precedent",
    "Reader",
    "Repair",
    "Written",
    "concrete",
    "count_tokens",
    "finding_of",
    "fingerprint",
    "likeness",
    "resolve_namespace",
    "spares_a_reflection",
    "suspicion",
    "topic_of",
    "tries_again",
    "withheld",
]

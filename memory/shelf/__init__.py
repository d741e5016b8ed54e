"""How lessons lie in any LangGraph store: namespaces, records, what is appended, the index of words."""

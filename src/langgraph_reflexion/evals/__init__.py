"""Experiments: run tasks under ten set-ups, evaluate the results, and compare two experiments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_reflexion.evals.experiment import Experiment, describe_model, run_experiment
    from langgraph_reflexion.evals.figures import (
        Difference,
        Row,
        compare_results,
        compare_with_baselines,
        format_difference,
        format_table,
        make_rows,
    )
    from langgraph_reflexion.evals.grading import check_for
    from langgraph_reflexion.evals.ledger import (
        LedgerError,
        Result,
        Trial,
        load_plan,
        load_results,
        load_times,
        lock_folder,
    )
    from langgraph_reflexion.evals.report import draw_curves, write_report
    from langgraph_reflexion.evals.setups import SETUPS, Setup, find_setups
    from langgraph_reflexion.evals.student import Student, make_student
    from langgraph_reflexion.evals.tasks import SHIPPED, Passage, Task, TaskError, load_tasks
    from langgraph_reflexion.evals.workers import search_tools

__all__ = [
    "SETUPS",
    "SHIPPED",
    "Difference",
    "Experiment",
    "LedgerError",
    "Passage",
    "Result",
    "Row",
    "Setup",
    "Student",
    "Task",
    "TaskError",
    "Trial",
    "check_for",
    "compare_results",
    "compare_with_baselines",
    "describe_model",
    "draw_curves",
    "find_setups",
    "format_difference",
    "format_table",
    "load_plan",
    "load_results",
    "load_tasks",
    "load_times",
    "lock_folder",
    "make_rows",
    "make_student",
    "run_experiment",
    "search_tools",
    "write_report",
]

_MODULES = ("ledger", "setups", "figures", "tasks", "student", "grading", "report", "workers", "experiment")
"""Where the public names are defined. Each module imports only modules before it."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because comparing two experiments needs no model."""
    for module in _MODULES if name in __all__ else ():
        found = import_module(f"langgraph_reflexion.evals.{module}")
        if hasattr(found, name):
            return globals().setdefault(name, getattr(found, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

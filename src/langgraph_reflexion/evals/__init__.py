"""Experiments: run tasks under ten set-ups, evaluate the results, and compare two experiments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph_reflexion.evals.experiment import Experiment, Pace, PacedModel, describe_model, run_experiment
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
    "Pace",
    "PacedModel",
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

_MODULES = {
    "experiment": ("Experiment", "Pace", "PacedModel", "describe_model", "run_experiment"),
    "figures": (
        "Difference",
        "Row",
        "compare_results",
        "compare_with_baselines",
        "format_difference",
        "format_table",
        "make_rows",
    ),
    "grading": ("check_for",),
    "ledger": ("LedgerError", "Result", "Trial", "load_plan", "load_results", "load_times", "lock_folder"),
    "report": ("draw_curves", "write_report"),
    "setups": ("SETUPS", "Setup", "find_setups"),
    "student": ("Student", "make_student"),
    "tasks": ("SHIPPED", "Passage", "Task", "TaskError", "load_tasks"),
    "workers": ("search_tools",),
}
"""Where each public name is defined."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because comparing two experiments needs no model."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"langgraph_reflexion.evals.{module}"), name))

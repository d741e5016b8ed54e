"""Experiments: tasks through ten set-ups, what came of them, and two runs told apart."""

from langgraph_reflexion.evals.experiment import Experiment, planned_calls, run
from langgraph_reflexion.evals.ledger import Ledger, LedgerError, Result, plan_in, results_in
from langgraph_reflexion.evals.setups import SETUPS, Setup, setups_named
from langgraph_reflexion.evals.tasks import SHIPPED, Task, TaskError, tasks_in

__all__ = [
    "SETUPS",
    "SHIPPED",
    "Experiment",
    "Ledger",
    "LedgerError",
    "Result",
    "Setup",
    "Task",
    "TaskError",
    "plan_in",
    "planned_calls",
    "results_in",
    "run",
    "setups_named",
    "tasks_in",
]

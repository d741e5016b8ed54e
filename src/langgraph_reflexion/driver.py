"""Wait for code that is not ours, sync or async: a model, a tool, a store, a caller's function.

Code that waits is written once, as a generator. It yields a `Wait`, which holds a sync and an async function for one
result, and receives that result from the `yield`. `run_sync` and `run_async` drive it. An exception is raised at the
`yield`, where the generator can handle it. A model may be given by its name (`model_named`), and called without being
shown to the user (`silent_config`).
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from langgraph_reflexion.errors import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

P = ParamSpec("P")
T = TypeVar("T")
Y = TypeVar("Y")

MAX_TIMEOUT = 1e8
"""The longest timeout in seconds, about three years. `threading` and `asyncio` refuse a longer one."""

INJECTED = frozenset({"config", "runtime", "store", "writer", "previous"})
"""Arguments that LangGraph injects if a function has a parameter of that name."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One result to wait for, with a sync and an async function to get it."""

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]

    def within(self, *limits: float | None) -> Wait:
        """Wait for the shortest of these seconds, then raise `OutOfTimeError`. A sync call runs on in its thread."""
        if not (given := [limit for limit in limits if limit is not None]):
            return self
        seconds = max(0.0, min(*given, MAX_TIMEOUT))
        return Wait(lambda: _sync_within(seconds, self.call), lambda: _async_within(seconds, self.acall))

    def inside(self, context: Callable[[], AbstractContextManager[Any]]) -> Wait:
        """The same wait, with its call made in a new context of this kind."""

        def call() -> Any:
            with context():
                return self.call()

        async def acall() -> Any:
            with context():
                return await self.acall()

        return Wait(call, acall)


Waits = Generator[Wait, Any, T]
"""A generator that yields what it waits for and returns a result."""


def either(call: Callable[P, Any], acall: Callable[P, Awaitable[Any]], /, *args: P.args, **kwargs: P.kwargs) -> Wait:
    """Wait for one call of a function or of its async twin."""
    return Wait(lambda: call(*args, **kwargs), lambda: acall(*args, **kwargs))


def run_sync(steps: Generator[Y, Any, T], wait: Callable[[Y], Any] = methodcaller("call")) -> T:
    """Run a generator to its end in sync code. For each value it yields, send it what `wait` returns or raises."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = wait(wanted)
            except Exception as error:  # noqa: BLE001 - handed to the generator, which decides
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as done:
        return cast("T", done.value)


async def run_async(steps: Generator[Y, Any, T], wait: Callable[[Y], Awaitable[Any]] = methodcaller("acall")) -> T:
    """Run a generator to its end in async code."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = await wait(wanted)
            except Exception as error:  # noqa: BLE001 - handed to the generator, which decides
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as done:
        return cast("T", done.value)


class OutOfTimeError(TimeoutError):
    """Our own time limit was reached. The call may still be running."""


class NeedsAsyncError(RuntimeError):
    """`invoke` reached an async function of the caller. Only the caller can fix that."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is async: use `ainvoke` or `astream`")
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what,)  # to unpickle an error, Python calls its class with these arguments


def call_function(what: str, function: Callable[..., Any], *args: Any) -> Wait:
    """Wait for a caller's function, sync or async, or one that returns an awaitable.

    `what` names an async function in the error that `invoke` raises. The user sees nothing of a model that it calls.
    """

    call = partial(function, *args)
    acall = call if is_async(function) else in_thread(call, own=True).acall
    wait = Wait(lambda: sync_result(what, call()), lambda: await_result(acall()))
    return wait.inside(partial(changed_config, silent_config))


def in_thread(function: Callable[[], Any], *, own: bool = False) -> Wait:
    """Wait for a sync function: directly, or under `ainvoke` in a thread of the loop's pool, or in its `own` thread.

    The loop's pool is small, so a function that may wait for long needs its own thread.
    """

    def guarded() -> Any:
        try:
            return function()
        except StopIteration as error:  # a future cannot carry it, and its caller would wait forever
            raise RuntimeError(f"StopIteration: {error}") from error

    if own:
        return Wait(function, lambda: asyncio.wrap_future(start_thread(guarded)))
    return Wait(function, lambda: asyncio.to_thread(guarded))


def start_thread(function: Callable[[], T]) -> Future[T]:
    """Run a function in its own daemon thread, so that the process can exit even if it hangs."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(context.run(function))
        except BaseException as error:  # noqa: BLE001 — passed on through the future
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _sync_within(seconds: float, call: Callable[[], Any]) -> Any:
    work = start_thread(call)
    if not futures.wait([work], timeout=seconds).done:
        raise _out_of_time(seconds)
    return work.result()


async def _async_within(seconds: float, acall: Callable[[], Awaitable[Any]]) -> Any:
    work = asyncio.ensure_future(acall())
    work.add_done_callback(lambda work: work.cancelled() or work.exception())  # nobody may wait for it any more
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work}, timeout=seconds)  # wait until it has cleaned up, as without a time limit
        raise
    if not done:
        work.cancel()
        raise _out_of_time(seconds)
    return work.result()


def _out_of_time(seconds: float) -> OutOfTimeError:
    return OutOfTimeError(f"no result after {round(seconds, 3):g} s; it may still be running")


def pause(seconds: float) -> Wait:
    """Sleep for `seconds`."""
    return Wait(lambda: time.sleep(seconds), lambda: asyncio.sleep(seconds))


def is_async(function: Any) -> bool:
    """Whether calling it returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def accepts(function: Any, *given: Any, besides: Collection[str] = ()) -> bool:
    """Whether it can be called with these arguments and, by name, with those of `besides` that it has.

    A builtin without a signature counts as callable.
    """
    try:
        signature = inspect.signature(function)
        signature.bind(*given, **{name: None for name in besides if name in signature.parameters})
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def sync_result(what: str, result: Any) -> Any:
    """Return the result of a function under `invoke`. An awaitable is refused."""
    if not inspect.isawaitable(result):
        return result
    if hasattr(result, "close"):  # Python warns about a coroutine that is never awaited
        result.close()
    raise NeedsAsyncError(what)


async def await_result(awaitable: Awaitable[Any]) -> Any:
    """Return the result of a function under `ainvoke`, even if it is a lambda around an async function."""
    result = await awaitable
    return await result if inspect.isawaitable(result) else result


def silent_config(config: RunnableConfig, **changes: Any) -> RunnableConfig:
    """The config, with these changes, for a model call that the user does not see.

    The tag keeps its tokens out of LangGraph's stream of messages, and the metadata keeps them out of the front ends of
    AG-UI, such as CopilotKit.
    """
    tags = [*dict.fromkeys([*(config.get("tags") or []), "nostream"])]
    metadata = {**(config.get("metadata") or {}), "emit-messages": False, "emit-tool-calls": False}
    return cast("RunnableConfig", {**config, "tags": tags, "metadata": metadata, **changes})


@contextmanager
def default_config(config: RunnableConfig) -> Iterator[None]:
    """A context in which a model that is called without a config gets this one."""
    from langchain_core.runnables.config import (
        var_child_runnable_config,
    )  # imported late: most users of this file need no model

    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def changed_config(change: Callable[[RunnableConfig], RunnableConfig]) -> AbstractContextManager[None]:
    """A context in which a model that is called without a config gets the current one with this change, if any."""
    from langchain_core.runnables.config import var_child_runnable_config

    config = var_child_runnable_config.get()
    return nullcontext() if config is None else default_config(change(config))


def model_named(name: str, **settings: Any) -> BaseChatModel:
    """The model of a `provider:model` string; `openai:` needs nothing more, others need `langchain`."""
    provider, _, model = name.partition(":")
    if not provider.strip() or (":" in name and not model.strip()):
        raise ModelError(
            f"The model {name!r} cannot be created: a name must be 'provider:model', such as 'openai:gpt-4o-mini'"
        )
    try:
        if provider == "openai" and model:
            from langchain_openai import ChatOpenAI

            return ChatOpenAI(model=model, **settings)
        chat_models = importlib.import_module("langchain.chat_models")
        return cast("BaseChatModel", chat_models.init_chat_model(name, **settings))
    except ModuleNotFoundError as error:
        if error.name not in ("langchain", "langchain.chat_models"):
            raise ModelError(f"The model {name!r} cannot be created: {error}") from error
        raise ModelError(
            f"The model {name!r} needs `pip install langchain` and its provider's package; "
            "`openai:<name>` needs nothing more, and OPENAI_BASE_URL names any other OpenAI-compatible server"
        ) from None
    except Exception as error:  # each provider's client has its own exceptions
        raise ModelError(f"The model {name!r} cannot be created: {error}") from error

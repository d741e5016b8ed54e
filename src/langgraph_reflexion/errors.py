"""Errors that a person has to fix. What a model can fix is data: an observation, a failure or a verdict."""

from __future__ import annotations


class ReflexionError(Exception):
    """Base class of the errors that this package raises for a person to fix."""


class PromptError(ReflexionError, ValueError):
    """A prompt file is missing or unreadable, or needs a value that is not given."""


class ModelError(ReflexionError, ValueError):
    """There is no model, or one given by name cannot be created."""


class LessonError(ReflexionError, ValueError):
    """A file or record of lessons cannot be read. The message names the line or the key."""


class StoreError(ReflexionError):
    """A store's file cannot be opened, read or written. The message names the file."""

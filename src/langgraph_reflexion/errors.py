"""What only a person can mend is raised under `ReflexionError`."""

from __future__ import annotations


class ReflexionError(Exception):
    """Something is wrong that no retry and no model can put right."""


class PromptError(ReflexionError, ValueError):
    """A prompt file is missing, cannot be read, or asks for a value nobody gives."""


class ModelError(ReflexionError, ValueError):
    """A model that was asked for by name cannot be made."""


class LessonError(ReflexionError, ValueError):
    """A file or record of lessons cannot be read; the message names the line or the key."""


class StoreError(ReflexionError):
    """A store's file cannot be opened, read or written; the message names the file."""

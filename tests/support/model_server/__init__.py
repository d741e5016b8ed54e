"""A local model provider for tests: it speaks OpenAI's protocol, refuses bad requests, and fails on demand."""

from model_server.moods import Mood
from model_server.server import ModelServer

__all__ = ["ModelServer", "Mood"]

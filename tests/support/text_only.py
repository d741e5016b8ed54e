"""Scripted models that support neither tools nor structured output, only text."""

from langchain_core.language_models import BaseChatModel

from langgraph_reflexion.testing import RoleModel, ScriptedModel


class TextOnlyScriptedModel(ScriptedModel):
    bind_tools = BaseChatModel.bind_tools


class TextOnlyRoleModel(RoleModel):
    bind_tools = BaseChatModel.bind_tools

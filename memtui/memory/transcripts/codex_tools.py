"""What tools are asked and answer in Codex CLI's rollouts: the shapes of several years."""

from __future__ import annotations

import json
import re
from typing import Final

from memtui.memory.transcripts.base import Record, mapping_in, text_in
from memtui.memory.transcripts.generated import Dropped
from memtui.memory.transcripts.turns import TurnMaker, parsed_arguments, texts_of
from memtui.model.conversations import Turn

_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_ANSWERS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "mcp_tool_call_output"}
)
_HEADER: Final = re.compile(r"\AWall time: [\d.]+ seconds\nOutput:(?:\n|\Z)", re.ASCII)
"""What newer releases put before the answer of a server's tool."""


def tool_turns(item: Record, kind: str, make: TurnMaker) -> list[Turn]:
    """The call or the answer that an item is, or both; empty for every other item."""
    call_id = item.get("call_id") or item.get("id")
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments" if kind == "function_call" else "input")
        return [make.call(_full_name(item), call_id, arguments)]
    if kind in _ANSWERS:
        output = item.get("output", item.get("result"))
        return [make.result("", call_id, output_text(output), is_error=has_failed(output))]
    if kind == "local_shell_call":
        return [make.call("local_shell", call_id, item.get("action"))]
    if kind == "web_search_call":
        return [make.call("web_search", call_id, item.get("action"))]
    if kind in ("mcp_tool_call_begin", "mcp_tool_call_end"):
        return _mcp_turns(item, kind, call_id, make)
    return []


def output_text(output: object) -> str:
    """What a tool answered as text: of a string, of blocks of content, or of an object."""
    if isinstance(output, str):
        output = _HEADER.sub("", output)
        value = parsed_arguments(output)
        if isinstance(value, dict) and isinstance(value.get("output"), str):
            return str(value["output"])
        blocks = texts_of(value, _TEXTS)
        return blocks or output
    if isinstance(output, list):
        return _HEADER.sub("", texts_of(output, _TEXTS))
    if isinstance(output, dict):
        for name in ("content", "output"):
            if name in output:
                return output_text(output[name])
        return json.dumps(output, ensure_ascii=False)
    return ""


def has_failed(output: object) -> bool:
    """Whether an answer says that the tool failed."""
    value = parsed_arguments(output) if isinstance(output, str) else output
    if not isinstance(value, dict):
        return False
    if value.get("success") is False or value.get("isError") is True or "Err" in value:
        return True
    code = mapping_in(value, "metadata").get("exit_code")
    return isinstance(code, int) and code != 0


def _full_name(item: Record) -> str:
    name, space = text_in(item, "name"), text_in(item, "namespace")
    if not space or name.startswith(space):
        return name
    return f"{space}{'' if space.endswith('__') else '__'}{name}"


def _mcp_turns(event: Record, kind: str, call_id: object, make: TurnMaker) -> list[Turn]:
    """The call of a server's tool, told again for the screen; nested calls are told only so."""
    invocation = mapping_in(event, "invocation")
    tool = f"mcp__{text_in(invocation, 'server')}__{text_in(invocation, 'tool')}"
    why = Dropped.DUPLICATE
    found = [make.call(tool, call_id, invocation.get("arguments"), left_out=why)]
    if kind == "mcp_tool_call_end":
        result = event.get("result")
        answer = result.get("Ok", result.get("Err")) if isinstance(result, dict) else result
        failed = has_failed(result) or has_failed(answer)
        found.append(make.result(tool, call_id, output_text(answer), is_error=failed, left_out=why))
    return found

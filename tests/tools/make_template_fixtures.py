#!/usr/bin/env python3
"""make_template_fixtures.py: render the templates of tests/data/templates with transformers (Jinja2) and write what
they give, or that they fail, to snippets.json and models.json there. Needs transformers and jinja2."""
import json
import sys
from pathlib import Path

from transformers.utils import chat_template_utils

DATA = Path(__file__).resolve().parent.parent / "data" / "templates"
sys.path.insert(0, str(Path(__file__).resolve().parent))
import template_snippets  # noqa: E402

MESSAGES = [
    {"role": "system", "content": "  You are a pirate, naïve & <b>bold</b>.\n"},
    {"role": "user", "content": "Hello, how are you? "},
    {"role": "assistant", "content": "I'm \"doing\" great.\nHow can I help?"},
    {"role": "user", "content": "日本語 😀 \t and\\more"},
]
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city, e.g. \"Genève\"",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The city <name>"},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14.5, "default": None}},
            "required": ["city"]}}},
    {"type": "function", "function": {"name": "stop", "description": "Stop", "parameters": {}}},
]
TOOL_CHAT = [
    {"role": "system", "content": "Use tools."},
    {"role": "user", "content": "Weather in Genève?"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call12345", "type": "function",
         "function": {"name": "get_weather", "arguments": {"city": "Genève", "days": 2, "exact": True}}}]},
    {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": "{\"temperature\": 21.5}"},
    {"role": "assistant", "content": "It is 21.5 degrees."},
    {"role": "user", "content": "Thanks"},
]
THINKING = [
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\nTwo."},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "reasoning_content": "Also easy.", "content": "Four."},
]


def conversations():
    """name, messages, add_generation_prompt, further variables"""
    yield "full", MESSAGES, True, {}
    yield "full, no prompt", MESSAGES, False, {}
    yield "no system", MESSAGES[1:], True, {}
    yield "ends with assistant", MESSAGES[:3], False, {}
    yield "no system, ends with assistant", MESSAGES[1:3], False, {}
    yield "one user", MESSAGES[1:2], True, {}
    yield "system only", MESSAGES[:1], True, {}
    yield "two users", MESSAGES[1:2] * 2, True, {}
    yield "unknown role", [{"role": "critic", "content": "no"}], True, {}
    yield "no messages", [], True, {}
    yield "content is a list", [{"role": "user", "content": [{"type": "text", "text": "part"}]}], True, {}
    yield "content is null", [{"role": "user", "content": None}], True, {}
    yield "tools", TOOL_CHAT, True, {"tools": TOOLS}
    yield "tools, no system", TOOL_CHAT[1:2], True, {"tools": TOOLS}
    yield "tools, call at the end", TOOL_CHAT[:3], False, {"tools": TOOLS}
    yield "tools, result at the end", TOOL_CHAT[:4], True, {"tools": TOOLS}
    yield "tool messages without tools", TOOL_CHAT, True, {}
    yield "thinking", THINKING, False, {}
    yield "thinking off", THINKING[:3], True, {"enable_thinking": False}
    yield "thinking on", THINKING[:3], True, {"enable_thinking": True}
    yield "date", MESSAGES, True, {"date_string": "26 Jul 2024", "tools_in_user_message": False}
    yield "date, tools", TOOL_CHAT[:2], True, {"date_string": "26 Jul 2024", "tools": TOOLS}


def render(template, messages, special, prompt, extra):
    values = dict(special)
    values.update({"tools": None, "documents": None})
    values.update(extra)
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        text = compiled.render(messages=messages, add_generation_prompt=prompt, **values)
        text.encode("utf-8")  # half a surrogate pair is no text
        return {"expected": text}
    except RecursionError:
        raise
    except Exception as error:  # every kind of failure is a refusal for us
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, indent=1)
    (DATA / name).write_text(text + "\n", encoding="utf-8")
    print(name, len(text), "bytes")


def main():
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    snippets = []
    for name, template in template_snippets.snippets():
        case = {"name": name, "template": template}
        case.update(render(template, MESSAGES, special, True, template_snippets.DATA))
        snippets.append(case)
    write("snippets.json", {"messages": MESSAGES, "special": special, "variables": template_snippets.DATA,
                            "cases": snippets})

    chats = [{"name": n, "messages": m, "add_generation_prompt": p, "extra": e} for n, m, p, e in conversations()]
    files = {}
    for path in sorted((DATA / "models").glob("*.jinja")) + sorted((DATA / "own").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        files[f"{path.parent.name}/{path.name}"] = [
            render(template, c["messages"], special, c["add_generation_prompt"], c["extra"]) for c in chats]
    write("models.json", {"special": special, "chats": chats, "files": files})


if __name__ == "__main__":
    main()

"""What texts and requests tell the fake model to do."""

from typing import Any

import pytest

from trunkline.testing.fake_model.asked import (
    Asked,
    read_chat,
    read_messages,
    read_responses,
    undecorated,
)
from trunkline.testing.fake_model.script import (
    CallTool,
    Cut,
    End,
    Endless,
    Fail,
    Flood,
    Garbage,
    Hang,
    Html,
    Report,
    Say,
    Step,
    Think,
    steps_of,
    words,
)

CASES: dict[str, tuple[Step, ...]] = {
    "hello  there": (Say(("hello", "  there")),),
    "": (Say(("(nothing)",)),),
    "SAY TOOL is a word": (Say(("TOOL", " is", " a", " word")),),
    "SLOW 3 50": (Say(("w0", " w1", " w2"), 0.05),),
    'TOOL exec {"command": "ls"}': (CallTool("exec", {"command": "ls"}),),
    "TOOL now": (CallTool("now", {}),),
    "TOOL a\nAGAIN b {}": (CallTool("a", {}), CallTool("b", {}, True)),
    "THINK it over\nso it is": (Think("it over"), Say(("so", " it", " is"))),
    "SAY so\nLENGTH": (Say(("so",)), End("length")),
    "FILTER": (End("filter"),),
    "ENDLESS": (Endless(0.0),),
    "ENDLESS 20": (Endless(0.02),),
    "FLOOD 1000": (Flood(1000),),
    "HANG": (Hang(),),
    "SLOW 1\nCUT": (Say(("w0",)), Cut()),
    "GARBAGE": (Garbage(),),
    "HTML": (Html(),),
    "ERROR no luck": (Report("no luck"),),
    "FAIL 503": (Fail(503),),
    "FAIL 429 after 2 times 1": (Fail(429, "2", 1),),
    "TOOL x {no json": (Say(("(the fake model cannot read 'TOOL x {no json')",)),),
}


@pytest.mark.parametrize("text", CASES)
def test_steps(text: str) -> None:
    assert steps_of(text) == CASES[text]


@pytest.mark.parametrize("text", ["a", "a b", "  a\n b ", "ä  ö\tü"])
def test_words_together_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text


def test_what_openclaw_adds_is_taken_off() -> None:
    text = "[Sun 2026-11-15 20:21 UTC] hi there\n\nRuntime: agent=main | session=agent:main:x"
    assert undecorated(text) == "hi there"
    added = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    messages = [{"role": "user", "content": text}, {"role": "user", "content": added}]
    assert read_chat({"messages": messages}).text == "hi there"


def test_what_claude_code_and_codex_add_is_taken_off() -> None:
    blocks = [
        {"type": "text", "text": "<system-reminder>\nbe nice\n</system-reminder>"},
        {"type": "text", "text": "SLOW 3 1"},
    ]
    assert read_messages({"messages": [{"role": "user", "content": blocks}]}).text == "SLOW 3 1"
    items = [
        _input("hello"),
        _input("<environment_context>\n<cwd>/</cwd>\n</environment_context>"),
    ]
    assert read_responses({"input": items}).text == "hello"


def _input(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


CHAT = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "AGAIN now"},
    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "now"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "noon"},
]
MESSAGES = [
    {"role": "user", "content": "AGAIN now"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "now"}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "noon"}],
            }
        ],
    },
]
RESPONSES = [
    _input("AGAIN now"),
    {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "noon"},
]


@pytest.mark.parametrize(
    "asked",
    [
        read_chat({"messages": CHAT}),
        read_messages({"messages": MESSAGES}),
        read_responses({"input": RESPONSES}),
    ],
    ids=["chat", "messages", "responses"],
)
def test_results_of_tools_are_told(asked: Asked) -> None:
    assert asked.results == (("now", "noon"),)
    assert asked.steps() == (Say(("now gave: noon\n",)), CallTool("now", {}, True))


def test_the_next_question_is_not_about_old_results() -> None:
    assert read_chat({"messages": [*CHAT, {"role": "user", "content": "hi"}]}).results == ()
    assert read_messages({"messages": [*MESSAGES, {"role": "user", "content": "hi"}]}).text == "hi"
    assert read_responses({"input": [*RESPONSES, _input("hi")]}).steps() == (Say(("hi",)),)


def test_a_plain_string_is_what_the_user_says() -> None:
    assert read_responses({"input": "hi", "stream": True}).is_streamed


@pytest.mark.parametrize("body", [{}, {"messages": 4, "input": 4}, {"messages": [4], "input": [4]}])
def test_a_request_that_asks_nothing(body: dict[str, Any]) -> None:
    for read in (read_chat, read_messages, read_responses):
        assert read(body).text == ""

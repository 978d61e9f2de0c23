import functools
from typing import Any

import pytest

from trunkline import Agent, Skill, Turn, agent
from trunkline.model.card import AgentExtension
from trunkline.testing import turn_request


async def rust_expert(turn: Turn) -> str:
    """Knows the borrow
    checker.

    And more.
    """
    return turn.text


def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    made = agent(rust_expert)
    assert (made.name, made.slug) == ("Rust expert", "rust-expert")
    assert made.description == "Knows the borrow checker."
    assert made.skills == (
        Skill(
            id="rust-expert",
            name="Rust expert",
            description=made.description,
            tags=("rust-expert",),
        ),
    )
    assert made.input_modes == made.output_modes == ("text/plain", "application/json")
    assert not made.direct


def test_what_is_said_wins() -> None:
    made = agent(
        name="R",
        slug="r",
        description="D",
        version="2.0",
        input_modes=["image/png"],
        output_modes=["audio/ogg"],
        extensions=["https://x.test/e", AgentExtension(uri="https://x.test/f", required=True)],
        direct=True,
    )(rust_expert)
    assert (made.name, made.slug, made.description, made.version) == ("R", "r", "D", "2.0")
    assert (made.input_modes, made.output_modes) == (("image/png",), ("audio/ogg",))
    assert [extension.uri for extension in made.extensions] == [
        "https://x.test/e",
        "https://x.test/f",
    ]
    assert made.direct


def test_a_function_that_cannot_take_the_turn_is_noticed_at_once() -> None:
    def no_turn() -> str:
        return "x"

    def more(turn: Turn, other: str) -> str:
        return other

    for wrong in (no_turn, more):
        with pytest.raises(TypeError, match=r"takes one argument, the turn: def \w+\(turn\)$"):
            agent(wrong)  # type: ignore[arg-type]
    assert agent(functools.partial(more, other="x")).name == "More"


def test_what_is_said_must_be_known() -> None:
    with pytest.raises(TypeError, match=r"@agent knows no skill; did you mean skills\?"):
        agent(name="R", skill=["ask"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="@agent knows no zzz; there is name, slug, description"):
        agent(zzz=1)  # type: ignore[call-overload]


async def test_an_agent_is_still_the_function() -> None:
    made = agent(rust_expert)
    assert await made(Turn(turn_request("hi"))) == "hi"
    assert made.fn is rust_expert


def test_skills_from_little() -> None:
    full = Skill(id="c", name="C", description="Does C", tags=("x",))
    made = Agent(
        rust_expert,
        skills=[
            "ask",
            {"name": "Fix a bug", "tags": ["bugs"], "input_modes": ["text/x-rust"]},
            full,
        ],
    )
    assert made.skills == (
        Skill(id="ask", name="Ask", description="Ask", tags=("ask",)),
        Skill(
            id="fix-a-bug",
            name="Fix a bug",
            description="Fix a bug",
            tags=("bugs",),
            input_modes=("text/x-rust",),
        ),
        full,
    )


@pytest.mark.parametrize(
    ("skills", "error", "says"),
    [
        ("ask", TypeError, r"skills=\['ask'\]"),
        ([3], TypeError, "a word, a dict or a Skill"),
        ([{}], ValueError, "id or a name"),
        ([{"id": "a", "colour": 1}], ValueError, "colour"),
    ],
)
def test_wrong_skills_say_so(skills: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Agent(rust_expert, skills=skills)


def test_only_callables() -> None:
    with pytest.raises(TypeError, match="above a function"):
        Agent("rust")  # type: ignore[arg-type]


def test_objects_and_partials_have_a_name_too() -> None:
    class Helper:
        """Not a description."""

        def __call__(self, turn: Turn) -> str:
            return "x"

    assert Agent(Helper()).slug == "helper"
    assert Agent(Helper()).description == "Helper"
    assert Agent(functools.partial(rust_expert)).slug == "rust-expert"
    assert Agent(lambda turn: "x").slug == "agent"

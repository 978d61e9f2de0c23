"""The agent of trunkline.toml in this folder."""

from collections.abc import AsyncIterator

from trunkline import Turn, agent


@agent(name="Rust expert", skills=["ask"])
async def rust(turn: Turn) -> AsyncIterator[str]:
    yield "thinking… "
    yield f"You said {turn.text!r}"

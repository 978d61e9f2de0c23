# mypy: disable-error-code="no-untyped-def"
"""Three agents debate a question, and a fourth one asks them. Run them with
`trunkline serve examples/debate/team.py`."""

import json

from trunkline import agent


@agent(name="Board")
async def board(turn):
    """Has the others debate your question."""
    debate = turn.debate(
        turn.text,
        proposer="planner",
        critics=[{"agent": "sceptic", "perspective": "What if the office burns?"}],
        resolver="judge",
    )
    async for step in debate:
        sure = f"{step['confidence']:.0%} sure" if "confidence" in step else step["status"]
        yield turn.note(f"{step['step']}: {step['agent']}, {sure}")
    result = await debate
    yield turn.artifact(name="debate", data=result)
    yield f"{result['conclusion']} ({result['status']}, {result['confidence']:.0%} sure)"


@agent(name="Planner")
async def planner(turn):
    """Proposes, and takes over what its critics prefer."""
    given = json.loads(turn.text)
    if "originalProposal" not in given:
        return {
            "output": "a disk in the office",
            "confidence": 0.5,
            "assumptions": ["The data fits on one disk."],
        }
    better = [each for critique in given["critiques"] for each in critique["alternatives"]]
    return {"output": " and ".join([given["originalProposal"], *better]), "confidence": 0.9}


@agent(name="Sceptic")
async def sceptic(turn):
    """Looks at a proposal from one point of view."""
    given = json.loads(turn.text)
    return {
        "flaws": [f"{given['perspective']} Then {given['proposal']} is lost as well."],
        "alternatives": ["a copy in another city"],
        "confidence": 0.3,
    }


@agent(name="Judge")
async def judge(turn):
    """Concludes from the debate."""
    given = json.loads(turn.text)
    return {"output": f"Keep {given['finalProposal']}.", "confidence": 0.9}

"""`@agent`: makes an agent of a function, with the skills of its card."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, overload

import msgspec

from trunkline.backends.python.turn import Turn
from trunkline.model.card import AgentExtension, AgentSkill

AgentFunction: TypeAlias = Callable[[Turn], Any]

# A thread costs little while it waits, but each may hold a connection or a model.
DEFAULT_MAX_THREADS = 32
SkillLike: TypeAlias = str | Mapping[str, Any] | AgentSkill
DEFAULT_MODES = ("text/plain", "application/json")


class Agent:
    """A function and how its card describes it. Calling it calls the function."""

    def __init__(
        self,
        fn: AgentFunction,
        *,
        name: str = "",
        slug: str = "",
        description: str = "",
        version: str = "1.0.0",
        skills: Iterable[SkillLike] = (),
        input_modes: Iterable[str] = DEFAULT_MODES,
        output_modes: Iterable[str] = DEFAULT_MODES,
        extensions: Iterable[str | AgentExtension] = (),
        documentation_url: str = "",
        direct: bool = False,
        pure: bool = False,
        max_threads: int = DEFAULT_MAX_THREADS,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"@agent goes above a function, not {type(fn).__name__}")
        identifier = _identifier(fn)
        _check_takes_turn(fn, identifier)
        usual = named_after(identifier)
        self.fn = fn
        self.name = name or usual["name"]
        self.slug = slug or usual["slug"]
        self.description = description or _first_paragraph(fn) or self.name
        self.version = version
        self.input_modes = tuple(input_modes)
        self.output_modes = tuple(output_modes)
        self.extensions = tuple(
            AgentExtension(uri=item) if isinstance(item, str) else item for item in extensions
        )
        self.documentation_url = documentation_url
        self.direct = direct
        self.pure = pure
        self.max_threads = max_threads
        self.skills: tuple[AgentSkill, ...] = skills_of(
            skills, of=self.name, slug=self.slug, description=self.description
        )

    def __call__(self, turn: Turn) -> Any:
        return self.fn(turn)

    def __repr__(self) -> str:
        return f"<agent {self.slug!r}>"


@overload
def agent(fn: AgentFunction, /) -> Agent: ...


@overload
def agent(
    *,
    name: str = ...,
    slug: str = ...,
    description: str = ...,
    version: str = ...,
    skills: Iterable[str | Mapping[str, Any] | AgentSkill] = ...,
    input_modes: Iterable[str] = ...,
    output_modes: Iterable[str] = ...,
    extensions: Iterable[str | AgentExtension] = ...,
    documentation_url: str = ...,
    direct: bool = ...,
    pure: bool = ...,
    max_threads: int = ...,
) -> Callable[[AgentFunction], Agent]: ...


def agent(fn: AgentFunction | None = None, /, **about: Any) -> Any:
    """Make an agent of a function; see `Agent` for the options."""
    if fn is not None:
        return Agent(fn)
    _check_known(about)
    return lambda fn: Agent(fn, **about)


def _check_known(about: Mapping[str, Any]) -> None:
    known = [*inspect.signature(Agent).parameters][1:]
    for name in about:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(known)}"
            raise TypeError(f"@agent knows no {name}; {hint}")


def _check_takes_turn(fn: AgentFunction, identifier: str) -> None:
    try:
        inspect.signature(fn).bind(None)
    except TypeError:
        raise TypeError(
            f"the function of an agent takes one argument, the turn: def {identifier}(turn)"
        ) from None
    except ValueError:
        # Some functions written in C have no signature; the first turn shows whether they fit.
        return


def named_after(identifier: str) -> dict[str, str]:
    """The usual name and slug of an agent that has this name in its file."""
    words = [word for word in identifier.split("_") if word] or ["agent"]
    return {"name": " ".join(words).capitalize(), "slug": "-".join(words).lower()}


def _identifier(fn: object) -> str:
    if isinstance(fn, functools.partial):
        return _identifier(fn.func)
    name = getattr(fn, "__name__", "") or type(fn).__name__
    return name if name.isidentifier() else "agent"


def _first_paragraph(fn: object) -> str:
    # `getdoc` of a callable object returns the docstring of its class, which is no description.
    if not inspect.isroutine(fn):
        return ""
    return " ".join((inspect.getdoc(fn) or "").partition("\n\n")[0].split())


def skills_of(
    skills: Iterable[SkillLike], *, of: str, slug: str, description: str
) -> tuple[AgentSkill, ...]:
    """The skills of the card, which needs at least one: the agent itself, if it names none."""
    if isinstance(skills, str):
        raise TypeError(f"skills is a list: write skills=[{skills!r}]")
    given = tuple(_skill(skill, agent=of, description=description) for skill in skills)
    return given or (AgentSkill(id=slug, name=of, description=description, tags=(slug,)),)


def _skill(skill: SkillLike, *, agent: str, description: str) -> AgentSkill:
    if isinstance(skill, AgentSkill):
        return skill
    if isinstance(skill, str):
        skill = {"id": skill}
    if not isinstance(skill, Mapping):
        raise TypeError(f"a skill is a word, a dict or a Skill, not {type(skill).__name__}")
    if not (identity := skill.get("id") or _slug(str(skill.get("name", "")))):
        raise ValueError("a skill needs an id or a name")
    fields = {_camel(key): value for key, value in skill.items()}
    fields["id"] = identity
    fields.setdefault("name", identity.replace("-", " ").replace("_", " ").capitalize())
    fields.setdefault("description", description if fields["name"] == agent else fields["name"])
    # A2A: tags is required, and a required array holds at least one element.
    fields.setdefault("tags", [identity])
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise ValueError(f"skill {identity!r} has unknown fields: {', '.join(sorted(unknown))}")
    return msgspec.convert(fields, AgentSkill)


_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(AgentSkill))


def _slug(name: str) -> str:
    return "-".join(name.lower().split())


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)

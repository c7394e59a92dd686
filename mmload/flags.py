"""Command-line flags out of the validated models: one place for a name, its help and its check.

Flags are read as text and judged by the model, so that a flag and a key of a YAML file fail
with the same words. A model's field `max_in_flight` is the flag `--max-in-flight`.
"""

from dataclasses import field, make_dataclass
from typing import Annotated, Any, get_args, get_origin

from cyclopts import Group, Parameter
from pydantic import BaseModel


def flags_of(
    model: type[BaseModel], group: str, *, place: int = 1, leave_out: tuple[str, ...] = ()
) -> type[Any]:
    """A dataclass of optional flags for a model, which cyclopts spreads into a command's own.

    `place` orders the groups in the command's help.
    """
    fields = []
    in_help = Group(group, sort_key=place)
    for name, info in model.model_fields.items():
        flag = (info.alias or name).replace("_", "-")
        if flag in leave_out:
            continue
        parameter = Parameter(
            name=f"--{flag}",
            help=info.description,
            group=in_help,
            negative=(),
            show_default=False,
        )
        attribute = name if name.endswith("_") else f"{name}_"  # `as` cannot be one
        fields.append(
            (attribute, Annotated[_kind(info.annotation) | None, parameter], field(default=None))
        )
    made = make_dataclass(f"{model.__name__}Flags", fields, frozen=True)
    made.__module__ = __name__  # where cyclopts looks the annotations up
    return made


def spread(command: Any, **classes: type[Any]) -> None:
    """Tells cyclopts to spread a flag class where `command` has a parameter of that name.

    Set after the fact, since a class that was made at run time is no annotation for a type checker.
    """
    for name, flags in classes.items():
        command.__annotations__[name] = Annotated[flags, Parameter(name="*")]
        command.__kwdefaults__[name] = flags()


def given(flags: Any) -> dict[str, Any]:
    """The flags that were typed, by key (`max_in_flight`, `as`)."""
    return {k.removesuffix("_"): value for k, value in vars(flags).items() if value is not None}


def _kind(annotation: Any) -> Any:
    """bool stays a switch, tuples may be repeated, all else is text for the model to judge."""
    if annotation is bool:
        return bool
    inner = (annotation, *get_args(annotation))
    if any(get_origin(part) is tuple and _plain(part) for part in inner):
        return list[str]
    return str


def _plain(kind: Any) -> bool:
    return not any(isinstance(a, type) and issubclass(a, BaseModel) for a in get_args(kind))

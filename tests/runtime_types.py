"""The checker of types and shapes at run time: an int is a float, as in PEP 484.

jaxtyping's own way checks every call thrice: it binds arguments to a signature, checks them, and checks them
again with the result. That took most of the time of tests whose functions are short. So what says nothing of
shapes is checked by beartype alone, and where shapes are told, the arguments are checked once.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ForwardRef, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

Check = Callable[..., Any]

_CHECKER = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeError))
_with_shapes = jaxtyping.jaxtyped
_known: dict[tuple[object, ...], Check] = {}


def install() -> None:
    """Have all that is imported of isoloss from now on checked."""
    jaxtyping.jaxtyped = _jaxtyped
    jaxtyping.install_import_hook("isoloss", "runtime_types.checked")


def _jaxtyped(*, typechecker: Check) -> Callable[[Any], Any]:
    """What jaxtyping's import hook puts above every function and class."""

    def decorated(defined: Any) -> Any:
        if inspect.isclass(defined):
            # jaxtyping has the checker speak last: a class may say itself what is wrong with its fields.
            speaks = hasattr(defined, "__post_init__")
            if not dataclasses.is_dataclass(defined) or speaks or _tells_shapes(defined.__init__):
                return _with_shapes(defined, typechecker=typechecker)
            if "__init__" in vars(defined):  # and is not one of a class above it, checked there
                defined.__init__ = _CHECKER(defined.__init__)
            return defined
        # What is defined anew in every call of another has its checker made once, which only `checked` can.
        if "<locals>" in defined.__qualname__ or _tells_shapes(defined):
            return _with_shapes(defined, typechecker=typechecker)
        return _CHECKER(defined)

    return decorated


def _tells_shapes(function: Check) -> bool:
    """Whether a hint is of an array's shape, or a text, which might be of one."""
    return any(
        isinstance(hint, str | ForwardRef)
        or (inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray))
        for hint in _parts(function.__annotations__.values())
    )


def _parts(hints: Iterable[Any]) -> Iterable[Any]:
    for hint in hints:
        yield hint
        yield from _parts(hint if isinstance(hint, list) else get_args(hint))


def checked(signature: Check) -> Check:
    """What checks calls by `signature`, a function without a body that jaxtyping makes of one of ours.

    Many of ours are never called by a process of tests, and some are defined anew in every call of
    another: to make a checker takes most of a millisecond, so it is made for the first call, and once for
    all functions of one place and one signature. jaxtyping asks for two, one for the parameters and one
    for the result, of which the second would check the parameters again; it checks the result alone.
    """
    hints = signature.__annotations__
    if hints.get("return", Any) is not Any:
        signature.__annotations__ = {"return": hints["return"]}
    place = (signature.__module__, signature.__qualname__, *signature.__code__.co_varnames)
    key = (*place, *signature.__annotations__.items())
    made: Check | None = None

    def check(*arguments: object, **named: object) -> object:
        nonlocal made
        if made is None:
            made = _known.get(key)
            if made is None:
                made = _known[key] = _CHECKER(signature)
        return made(*arguments, **named)

    return check

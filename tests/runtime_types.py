"""The checker of types and shapes at run time: an int is a float, as in PEP 484.

jaxtyping's own way binds the arguments of every call to a signature, checks them, and checks them again with
the result. That took most of the time of tests whose functions are short. So beartype alone checks, once, and
jaxtyping remembers the sizes of shapes meanwhile. Checkers are made when they are first needed: one takes a
millisecond, and many functions are never called by a process of tests.
"""

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, ForwardRef, get_args

import jaxtyping
import torch
from beartype import BeartypeConf, beartype
from jaxtyping._array_types import _anonymous_dim, _FixedDim, _NamedDim
from jaxtyping._decorator import _destring_annotation, _make_fn_with_signature
from jaxtyping._storage import _shape_storage

Function = Callable[..., Any]

_off = False


@contextmanager
def unchecked() -> Iterator[None]:
    """Within it nothing is checked, as for those who use the library."""
    global _off
    checkers = [(check, check.__code__) for check in _made]
    for check in _made:
        check.__code__ = _plain.__code__
    _off = True
    try:
        yield
    finally:
        _off = False
        for check, code in checkers:
            check.__code__ = code


_CHECKER = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeError))


def install() -> None:
    """Have all that is imported of isoloss from now on checked. Raises RuntimeError if some was before."""
    if "isoloss" in sys.modules:
        raise RuntimeError("isoloss was imported before its types were checked: in a conftest, import within")
    # As Python 3.12 does: 3.11 lists a protocol's attributes anew in every `isinstance`.
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)
    typing._is_callable_members_only = functools.cache(typing._is_callable_members_only)
    typing._ProtocolMeta.__instancecheck__ = _remembered(typing._ProtocolMeta.__instancecheck__)
    arrays = type(jaxtyping.AbstractArray)
    arrays.__instancecheck__ = _quickly(arrays.__instancecheck__)
    jaxtyping.jaxtyped = checked
    jaxtyping.install_import_hook("isoloss", "runtime_types.checked")


def _remembered(is_one: Callable[[Any, object], bool]) -> Callable[[Any, object], bool]:
    """An instance's class that has all that a protocol asks for is not searched again.

    To look an attribute up on the instance, as Python 3.11 does, computes what a property stands for.
    """
    known: set[tuple[type, type]] = set()

    def check(protocol: Any, instance: object) -> bool:
        pair = protocol, type(instance)
        if pair in known:
            return True
        found = is_one(protocol, instance)
        if (
            found
            and protocol._is_protocol
            and all(hasattr(pair[1], name) for name in typing._get_protocol_attrs(protocol))
        ):
            known.add(pair)
        return found

    return check


def _quickly(is_one: Callable[[Any, object], bool]) -> Callable[[Any, object], bool]:
    """jaxtyping's answer whether an array has a type and shape, told at once where it is plainly yes."""
    known: dict[tuple[type, type, object], Axes] = {}

    def check(hint: Any, array: object) -> bool:
        kind = hint, type(array), getattr(array, "dtype", None)
        axes = known.get(kind)
        if axes is not None and _fits(axes, array.shape):  # type: ignore[attr-defined]
            return True
        found = is_one(hint, array)
        if found and axes is None and (plain := _axes(hint)) is not None:
            known[kind] = plain
        return found

    return check


Axes = tuple[str | int | None, ...]
"""Of a shape, the name or size of each axis, or None for one of any size."""


def _axes(hint: Any) -> Axes | None:
    """Those of a shape that has nothing but such axes."""
    axes: list[str | int | None] = []
    for axis in hint.dims if hint.index_variadic is None else (None,):
        if type(axis) is _NamedDim and not (axis.broadcastable or axis.treepath):
            axes.append(axis.name)
        elif type(axis) is _FixedDim and not axis.broadcastable:
            axes.append(axis.size)
        elif axis is _anonymous_dim:
            axes.append(None)
        else:
            return None
    return tuple(axes)


def _fits(axes: Axes, shape: Sequence[int]) -> bool:
    """Whether each size is that of its axis or the first of it, which is remembered as jaxtyping does."""
    if len(axes) != len(shape):
        return False
    memos = _memos()
    sizes = memos[-1][0] if memos else {}
    first: dict[str, int] = {}
    for axis, size in zip(axes, shape, strict=True):
        if axis is None:
            continue
        expected = axis if type(axis) is int else sizes.get(axis)
        if expected is None:
            expected = first.setdefault(axis, size)  # type: ignore[arg-type]
        if expected != size:
            return False
    sizes.update(first)
    return True


def _memos() -> list[tuple[dict[str, Any], ...]]:
    """jaxtyping's sizes of shapes in the calls that this thread is in; its own functions take longer."""
    try:
        found: list[tuple[dict[str, Any], ...]] = _shape_storage.memo_stack
    except AttributeError:
        found = _shape_storage.memo_stack = []
    return found


def checked(*, typechecker: Function) -> Callable[[Any], Any]:
    """What jaxtyping's import hook puts above every function and class, in place of `jaxtyping.jaxtyped`."""

    def decorated(defined: Any) -> Any:
        if inspect.isclass(defined):
            if dataclasses.is_dataclass(defined) and "__init__" in vars(defined):
                speaks = hasattr(defined, "__post_init__")
                defined.__init__ = (_checked_once_made if speaks else _checked)(defined.__init__)
            return defined
        if all(hint is Any for hint in defined.__annotations__.values()):
            return defined
        # A generator's own checker would wait for the first of its values.
        apart = "<locals>" in defined.__qualname__ or inspect.isgeneratorfunction(defined)
        return (_checked_as_others if apart else _checked)(defined)

    return decorated


def _checked(function: Function) -> Function:
    if not _tells_shapes(function):
        check = functools.wraps(function)(FunctionType(_unmade.__code__, globals()))
        check.__kwdefaults__ = {"_check": check}
        return check
    made: Function | None = None

    @functools.wraps(function)
    def check_shapes(*arguments: object, **named: object) -> object:
        nonlocal made
        if _off or torch.compiler.is_compiling():  # to trace the memory of sizes would end the graph
            return function(*arguments, **named)
        if made is None:
            made = _checker_of(function)
        memos = _memos()
        memos.append(({}, {}, {}, {}))
        try:
            return made(*arguments, **named)
        finally:
            memos.pop()

    return check_shapes


def _unmade(*arguments: object, _check: Any, **named: object) -> object:
    """The first call: afterwards the function itself is the checker, without a call between."""
    if _off:
        return _check.__wrapped__(*arguments, **named)
    made = _checker_of(_check.__wrapped__)
    if made is _check.__wrapped__:  # none of its hints says anything
        made = _plain
    _check.__kwdefaults__ = {**(made.__kwdefaults__ or {}), "_check": _check}
    _check.__code__ = made.__code__
    _made.append(_check)
    return _check(*arguments, **named)


def _plain(*arguments: object, _check: Any, **named: object) -> object:
    return _check.__wrapped__(*arguments, **named)


_made: list[FunctionType] = []
"""Those that have become their checkers."""


def _checker_of(function: Function) -> Function:
    function.__annotations__ = {
        name: _destring_annotation(hint, function.__globals__)
        for name, hint in function.__annotations__.items()
    }
    return _CHECKER(function)


def _checked_once_made(initialise: Function) -> Function:
    """A class that says itself what is wrong with its fields speaks first."""
    parameters: Function | None = None

    @functools.wraps(initialise)
    def check(*arguments: object, **named: object) -> None:
        nonlocal parameters
        initialise(*arguments, **named)
        if _off:
            return
        if parameters is None:
            parameters = _parameters_of(initialise)
        memos = _memos()
        memos.append(({}, {}, {}, {}))
        try:
            parameters(*arguments, **named)
        finally:
            memos.pop()

    return check


_known: dict[CodeType, tuple[Function, Function]] = {}


def _checked_as_others(function: Function) -> Function:
    """What is defined anew in every call of another shares its checkers, which look at arguments at once."""
    code = function.__code__

    @functools.wraps(function)
    def check(*arguments: object, **named: object) -> object:
        if _off:
            return function(*arguments, **named)
        if code not in _known:
            _known[code] = _parameters_of(function), _result_of(function)
        parameters, result = _known[code]
        memos = _memos()
        memos.append(({}, {}, {}, {}))
        try:
            parameters(*arguments, **named)
            return result(function(*arguments, **named))
        finally:
            memos.pop()

    return check


def _parameters_of(function: Function) -> Function:
    """A function without a body that checks the parameters of calls of `function`."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=_destring_annotation(each.annotation, function.__globals__))
        for each in signature.parameters.values()
    ]
    signature = signature.replace(parameters=parameters, return_annotation=Any)
    name, qualified, module = function.__name__, function.__qualname__, function.__module__
    return _CHECKER(_make_fn_with_signature(name, qualified, module, signature, output=False))


def _result_of(function: Function) -> Function:
    def result(value: object) -> object:
        return value

    hint = function.__annotations__.get("return", object)
    result.__annotations__ = {"return": _destring_annotation(hint, function.__globals__)}
    result.__qualname__, result.__module__ = function.__qualname__, function.__module__
    return _CHECKER(result)


def _tells_shapes(function: Function) -> bool:
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

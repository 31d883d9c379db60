"""Models that no device holds: with weights in the processor's memory, or layers on several devices.

Of streamed weights, each layer's are on a device while it computes. Unlike after `accelerate.cpu_offload`,
which is for inference, every weight remains a parameter with gradients, and the backward pass holds no copies
either.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from isoloss.device import free_memory
from isoloss.errors import BadInput

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


def stream_weights(model: nn.Module, device: torch.device | str) -> None:
    """Compute `model` on `device` from now on, with its weights where they are; buffers move there.

    Copies of a module's own parameters are on the device during its forward pass, and again when its
    backward pass needs them: beside activations, the largest module's weights. A derivative of a derivative
    (as of the Hessian) and torch's function transforms hold all copies until they are done. Inputs are to be
    on the device. Called again, it moves the model to compute on another device.

    Raises BadInput for weights that bitsandbytes has quantised, of which there are no such copies.

    >>> layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    >>> before = layer(x)
    >>> stream_weights(layer, "cpu")
    >>> torch.equal(layer(x), before)
    True
    """
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() or hasattr(parameter, "quant_state"):
            raise BadInput(f"{name} is quantised, and cannot be kept off the device; load it there")
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            module._buffers[name] = buffer.to(device)
        _stream(module, torch.device(device))
    _fetch_others(model)


def stream_offloaded_weights(model: nn.Module) -> None:
    """Let gradients reach what accelerate has offloaded of `model`, by its `device_map` or `cpu_offload`.

    Modules that it keeps on a device stay there. The offloaded ones are computed where they were, but their
    weights are parameters again, in the processor's memory, also those that were on disk. Raises BadInput for
    a model of which nothing is offloaded, or whole layers at once (`preload_module_classes`).
    """
    offloaded = [(module, hook) for module in model.modules() for hook in _offloading(module)]
    if not offloaded:
        raise BadInput("nothing of this model is offloaded by accelerate; measure it as it is")
    for module, hook in offloaded:
        if hook.place_submodules:
            raise BadInput(
                f"{type(module).__name__} is offloaded as a whole; dispatch the model without "
                "preload_module_classes"
            )
    placed: dict[tuple[int, torch.Size], nn.Parameter] = {}
    for module, hook in offloaded:
        hook.offload = False
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_meta:
                module._buffers[name] = hook.weights_map[name].to(hook.execution_device)
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_meta:
                value = hook.weights_map[name]
                known = nn.Parameter(value, parameter.requires_grad)
                module._parameters[name] = placed.setdefault((value.data_ptr(), value.shape), known)
        _stream(module, torch.device(hook.execution_device))
    ties: Any = getattr(model, "tie_weights", None)
    if ties is not None:  # of tables on disk each reading is another array
        ties()
    _fetch_others(model)


def _offloading(module: nn.Module) -> Iterator[Any]:
    """The hooks of accelerate that bring a module's weights from elsewhere."""
    hook: Any = getattr(module, "_hf_hook", None)
    for each in getattr(hook, "hooks", (hook,)):
        if getattr(each, "offload", False) and hasattr(each, "weights_map"):
            yield each


def _stream(module: nn.Module, device: torch.device) -> None:
    parameters = [parameter for parameter in module._parameters.values() if parameter is not None]
    if not parameters:
        return
    for parameter in parameters:
        parameter.streamed_to = device  # type: ignore[attr-defined]
    known = _wrapper(module, _WithCopies)
    if known is None:
        module.forward = _WithCopies(module, module.forward, device)
    else:
        known.device = device


Wrapper = TypeVar("Wrapper", "_WithCopies", "_Fetching")


def _wrapper(module: nn.Module, kind: type[Wrapper]) -> Wrapper | None:
    """What was put around the module's forward pass before, if it was."""
    forward: object = module.forward
    while isinstance(forward, _WithCopies | _Fetching):
        if isinstance(forward, kind):
            return forward
        forward = forward.__wrapped__
    return None


@dataclass(eq=False)
class _WithCopies:
    """A module's forward pass with copies of its own parameters; autograd saves which they are."""

    module: nn.Module
    __wrapped__: Callable[..., Any]
    device: torch.device

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        parameters: dict[str, Any] = self.module._parameters
        originals = {name: each for name, each in parameters.items() if each is not None}
        copies = {name: _copied(each, self.device) for name, each in originals.items()}
        known = {
            copies[name].untyped_storage()._cdata: (ref(copies[name]), each)
            for name, each in originals.items()
        }
        parameters |= copies
        saving = saved_tensors_hooks(*_packing(known, self.device))
        try:
            with ExitStack() as held:
                with suppress(RuntimeError):  # within a function transform, which refuses such hooks
                    held.enter_context(saving)
                return self.__wrapped__(*inputs, **named)
        finally:
            parameters |= originals


def _fetch_others(model: nn.Module) -> None:
    """Copy, in the model's forward pass, also a weight that is read outside its own module's, as Mamba's are.

    Such a copy is kept on the device until the backward pass has read it.
    """
    if _wrapper(model, _Fetching) is None:
        model.forward = _Fetching(model.forward)


@dataclass(eq=False)
class _Fetching:
    """A model's forward pass in which every operation is given copies of the streamed parameters it reads."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with _CopiesForOperations():
            return self.__wrapped__(*inputs, **named)


class _CopiesForOperations(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name == "__get__":
            name = getattr(function.__self__, "__name__", "")
        if name not in _OF_NO_NUMBERS:
            arguments, named = tree_map(_fetched, (arguments, named))
        return function(*arguments, **(named or {}))


_OF_NO_NUMBERS = frozenset(
    {"to", "size", "dim", "numel", "stride", "dtype", "device", "shape", "ndim", "requires_grad", "grad"}
)
"""Operations that read none of a tensor's numbers, and `to`, by which it is copied."""


def _fetched(value: Any) -> Any:
    place = getattr(value, "streamed_to", None) if isinstance(value, nn.Parameter) else None
    return value if place is None else _copied(value, place)


def _copied(parameter: Tensor, device: torch.device) -> Tensor:
    # Also where it is there already: so a processor does what a card does.
    return parameter.to(device, copy=True)


@dataclass(frozen=True)
class _View:
    """How autograd saved a copy: which parameter's, and in which order, as that of a transposed matrix."""

    of: Tensor
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def on(self, device: torch.device) -> Tensor:
        return _copied(self.of.detach(), device).as_strided(self.size, self.stride, self.offset)


def _packing(
    known: dict[int, tuple[ReferenceType[Tensor], Tensor]], device: torch.device
) -> tuple[Pack, Unpack]:
    """What autograd does with a tensor to save, and to read it; those that are no copies as it was to do.

    `known` has each copy, and of what, by its storage, which is another's once the copy is gone.
    """
    pack_other, unpack_other = _present_hooks()

    def pack(tensor: Tensor) -> Any:
        copy, original = known.get(tensor.untyped_storage()._cdata, (None, None))
        if copy is None or copy() is None or original is None or original.dtype != tensor.dtype:
            return pack_other(tensor)
        return _View(original, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))

    def unpack(packed: Any) -> Tensor:
        return packed.on(device) if isinstance(packed, _View) else unpack_other(packed)

    return pack, unpack


def _present_hooks() -> tuple[Pack, Unpack]:
    """Those of an outer block of `saved_tensors_hooks`, of which torch itself applies the innermost alone."""
    autograd: Any = torch._C._autograd
    present: tuple[Pack, Unpack] | None = autograd._top_saved_tensors_default_hooks(True)
    return present or (torch.Tensor.detach, lambda packed: packed)


def spread_over_devices(model: nn.Module, devices: Sequence[torch.device]) -> None:
    """Put the model's layers on these devices, in order, about equally many bytes on each.

    Hooks of accelerate bring what a layer reads to its device, and scores to the first, where inputs are to
    be. Raises BadInput without that package, for a model that does not say which of its layers must stay
    whole, and where the free memory of the devices does not hold it.

    >>> layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> spread_over_devices(layers, [torch.device("cpu"), torch.device("cpu")])
    Traceback (most recent call last):
    isoloss.errors.BadInput: Sequential does not say which of its layers must stay whole: measure it on ...
    """
    try:
        from accelerate import dispatch_model, infer_auto_device_map
        from accelerate.utils import get_balanced_memory
    except ImportError as error:
        raise BadInput(
            "a model on several devices needs the package accelerate; pip install 'isoloss[accelerate]'"
        ) from error
    known: Any = model
    kept_whole = list(getattr(known, "_no_split_modules", None) or ())
    if not kept_whole:
        raise BadInput(
            f"{type(model).__name__} does not say which of its layers must stay whole: measure it on one "
            "device, with --offload if that does not hold it"
        )
    free = {number: free_memory(device) for number, device in enumerate(devices)}
    shares = get_balanced_memory(known, max_memory=free, no_split_module_classes=kept_whole)
    places = infer_auto_device_map(known, max_memory=shares, no_split_module_classes=kept_whole)
    if not set(places.values()) <= set(free):
        gigabytes = sum(parameter.nbytes for parameter in model.parameters()) / 1e9
        raise BadInput(
            f"{', '.join(map(str, devices))} do not hold the weights of {type(model).__name__}, which take "
            f"{gigabytes:.1f} GB: name more devices, or one with --offload"
        )
    device_map = {name: devices[number] for name, number in places.items()}
    dispatch_model(known, device_map, main_device=devices[0], force_hooks=True)

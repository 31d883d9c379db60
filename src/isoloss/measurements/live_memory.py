"""The memory of all tensors alive at once, and operations done, counted; also of those without storage."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


class LiveMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, follows what is alive, on any thread: `bytes` now, and at most `peak` so far.

    Counts the storages of `alive`, and of the result of every operation, once each, until the last tensor
    that views one is freed. What an operation takes and frees within itself is not seen.

    >>> import torch
    >>> weight = torch.zeros(100)
    >>> with LiveMemory([weight]) as memory:
    ...     first = weight + 1
    ...     del first
    ...     second = weight[:50] * 2
    >>> memory.peak, memory.bytes
    (800, 600)
    """

    def __init__(self, alive: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak = 0
        self._storages: dict[int, weakref.ref[Any]] = {}
        for tensor in alive:
            self._meet(tensor)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, Tensor):
                self._meet(each)
        return result

    def _meet(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        if place in self._storages:
            return

        def free(_: Any) -> None:
            del self._storages[place]
            self.bytes -= size

        self._storages[place] = weakref.ref(storage, free)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)


class ProductOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, counts the `operations` of matrix products, forward and backward.

    torch's FlopCounterMode also follows modules, by hooks that stand in the way of `torch.autograd.grad`
    where a weight is what a module is given, as positions' vectors are in DeBERTa.

    >>> import torch
    >>> with ProductOperations() as counted:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counted.operations
    48
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.operations += count(*args, **(kwargs or {}), out_val=result)
        return result

"""Processes that train a model together: each holds all of it and processes its share of every batch."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as distributed
from torch import Tensor

from isoloss.errors import BadInput, IsolossError
from isoloss.results.tensors import tensors_digest

T = TypeVar("T")

BUCKET_BYTES = 1 << 26
"""How much is averaged in one message: 64 MiB, enough for the connection's full rate."""
PATIENCE = timedelta(days=1)
"""How long processes wait for the main one, which may be measuring a checkpoint. A process that has died is
noticed at once, by its launcher or its closed connection, and not by this."""


@dataclass(frozen=True)
class Processes:
    """The processes that train a run together; all call the methods in the same order.

    They are those of torch's default process group, whose messages are tensors on `device`. One alone has the
    whole batch and does everything itself.
    """

    count: int = 1
    """How many train together."""
    number: int = 0
    """Which one this is, from 0; 0 is the main process."""
    device: torch.device | None = None
    """Where messages are; None for one alone, which sends none."""

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, bit-identical in all of them.

        Memory: a copy of `BUCKET_BYTES`, or of the largest tensor.
        """
        if self.count == 1:
            return
        for bucket in buckets(tensors, BUCKET_BYTES):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            with _others_there():
                distributed.all_reduce(flat)
            flat /= self.count
            pieces = torch.split(flat, [tensor.numel() for tensor in bucket])
            means = [piece.view_as(tensor) for piece, tensor in zip(pieces, bucket, strict=True)]
            torch._foreach_copy_(bucket, means)

    def on_main(self, work: Callable[[], T]) -> T:
        """Run `work` in the main process only; all wait, and return its result or raise its IsolossError.

        Several processes pickle the result.
        """
        if self.count == 1:
            return work()
        answers: list[Any] = [None]
        if self.number == 0:
            try:
                answers = [(work(), None)]
            except IsolossError as error:
                answers = [(None, error)]
        with _others_there():
            distributed.broadcast_object_list(answers, src=0)
        result, refusal = answers[0]
        if refusal is not None:
            raise refusal
        answer: T = result
        return answer

    def hold_the_same(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all processes hold the same tensors: compares the first 60 bits of a digest of them all."""
        if self.count == 1:
            return True
        digest = tensors_digest({f"{place:09}": tensor for place, tensor in enumerate(tensors)})
        held = int(digest[:15], 16)
        extremes = torch.tensor([held, -held], device=self.device)
        with _others_there():
            distributed.all_reduce(extremes, op=distributed.ReduceOp.MAX)
        largest, minus_smallest = extremes.tolist()
        return bool(largest == -minus_smallest)


ALONE = Processes()


@contextmanager
def launched_processes(device: str = "cpu") -> Iterator[Processes]:
    """The processes launched together with this one, for `pretrain`; `ALONE` in a single-process program.

    `torchrun --nproc_per_node 4 program.py` runs the program four times; on "cuda", process i of a machine
    uses its i-th device, on "cpu" the processes share the cores. When the block ends, all wait for each other
    and disconnect. Needs the package accelerate.

    Raises BadInput if it is missing, or for a device that processes cannot share.

    >>> with launched_processes() as processes:
    ...     processes.count
    1
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    if device not in ("cpu", "cuda"):
        raise BadInput(f"several processes train on cpu or cuda, not on '{device}'; start one process")
    try:
        from accelerate import PartialState  # takes a second, which a single process can save
    except ImportError as error:
        raise BadInput(
            "training in several processes needs the package accelerate; pip install 'isoloss[accelerate]'"
        ) from error
    state = PartialState(cpu=device == "cpu", timeout=PATIENCE)
    try:
        yield Processes(state.num_processes, state.process_index, state.device)
        state.wait_for_everyone()
    finally:
        # If this were left to the interpreter's exit, gloo's threads might abort a process whose work is
        # done.
        state.destroy_process_group()


def buckets(tensors: Sequence[Tensor], size: int) -> Iterator[list[Tensor]]:
    """The tensors in order, in lists of the same type and of at most `size` bytes, or of a single tensor.

    >>> small, large = torch.zeros(2), torch.zeros(3)
    >>> [len(bucket) for bucket in buckets([small, small, large, small.double()], size=16)]
    [2, 1, 1]
    """
    bucket: list[Tensor] = []
    for tensor in tensors:
        held = sum(other.nbytes for other in bucket)
        if bucket and (tensor.dtype != bucket[0].dtype or held + tensor.nbytes > size):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


@contextmanager
def _others_there() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise IsolossError(
            "another of the processes that train together has ended, and says why itself; start the same "
            "run again to go on from its last checkpoint"
        ) from error

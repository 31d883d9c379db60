"""The infinite stream of new sentences: batch k is a pure function of the seed and k."""

import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, Dataset

from isoloss.errors import BadInput, IsolossError
from isoloss.languages.language import SentenceSource
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.seeds import derived_seed

SENTENCES_PER_BLOCK = 8192
"""About how many sentences are drawn at once: enough to amortise a draw's fixed cost at laptop sizes."""


@dataclass(frozen=True)
class Stream:
    """An infinite stream of batches of `batch_size` sentences with their predictions.

    Batches are drawn in blocks of `batches_per_block`, each from a generator with its own seed; which process
    draws it, and at which batch reading starts, changes nothing. A block of n sentences of T words takes 9 n
    (T + 1) bytes, plus 24 per prediction, and what `SoftLabels` take.
    """

    language: SentenceSource
    objective: PretrainingObjective
    batch_size: int
    seed: int

    @property
    def batches_per_block(self) -> int:
        """How many batches one draw makes."""
        return max(1, SENTENCES_PER_BLOCK // self.batch_size)

    def block(self, number: int) -> Batch:
        """Batches `number * batches_per_block` and following, concatenated."""
        generator = torch.Generator().manual_seed(derived_seed(self.seed, "sentences", number))
        sentences = self.language.sample(self.batch_size * self.batches_per_block, generator)
        if isinstance(self.objective, SoftLabels):
            return self.objective.draw_from(self.language, sentences, generator)
        return self.objective.draw(sentences, generator)

    def batch(self, number: int) -> Batch:
        """Batch `number` on its own; costs a whole block."""
        block, place = divmod(number, self.batches_per_block)
        return self._part(self.block(block), place)

    @contextmanager
    def batches(self, first: int, stop: int, workers: int = 0) -> Iterator[Iterator[Batch]]:
        """Batches first, first + 1, .., stop - 1, prepared by `workers` processes, or inline with none.

        Raises BadInput for a negative number of workers, and IsolossError when a worker is killed while the
        context is open (torch reports this from a signal handler, at any moment, not only in `next`).
        """
        if workers < 0:
            raise BadInput(f"the number of workers must be 0 or more, not {workers}")
        iterator = self._from_blocks(first, stop, workers)
        try:
            yield iterator
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise IsolossError(
                "a worker process that prepares batches was killed, perhaps for want of memory; "
                "start the same run again, with fewer workers, to go on from its last checkpoint"
            ) from error
        finally:
            iterator.close()

    def _from_blocks(self, first: int, stop: int, workers: int) -> Generator[Batch, None, None]:
        first_block = first // self.batches_per_block
        loader = DataLoader(
            _Blocks(self, first_block, -(-stop // self.batches_per_block)),
            batch_size=None,
            num_workers=workers,
            worker_init_fn=_leave_interrupts_to_the_parent,
            # Without its own generator the loader would draw from the global one.
            generator=torch.Generator(),
        )
        for number, block in enumerate(loader, start=first_block):
            if isinstance(block, IsolossError):
                raise block
            begin = number * self.batches_per_block
            for wanted in range(max(first, begin), min(stop, begin + self.batches_per_block)):
                yield self._part(block, wanted - begin)

    def _part(self, block: Batch, place: int) -> Batch:
        return block.part(place * self.batch_size, (place + 1) * self.batch_size)


class _Blocks(Dataset[Batch | IsolossError]):
    """Blocks `first` to `stop - 1` of a stream, for torch's loader."""

    def __init__(self, stream: Stream, first: int, stop: int) -> None:
        self.stream = stream
        self.first = first
        self.stop = stop

    def __len__(self) -> int:
        return max(0, self.stop - self.first)

    def __getitem__(self, index: int) -> Batch | IsolossError:
        try:
            return self.stream.block(self.first + index)
        except IsolossError as error:
            # If raised in a worker, it would arrive with the worker's traceback as its text.
            return error


def _leave_interrupts_to_the_parent(_worker: int) -> None:
    """Ctrl-C reaches the whole process group: without this every worker prints a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

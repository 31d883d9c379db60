import os

import pytest
import torch
from markov_language import MarkovLanguage
from runs import LANGUAGE, DiesInAWorker, FailingLanguage

from isoloss.errors import BadInput, IsolossError
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.stream import Stream
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout

STREAM = Stream(LANGUAGE, MaskedObjective(), batch_size=3000, seed=7)


def same(one: Batch, other: Batch) -> bool:
    assert one.soft_targets is other.soft_targets is None
    assert one.decoder_ids is other.decoder_ids is None
    assert one.token_types is other.token_types is None
    absent = ("soft_targets", "decoder_ids", "token_types")
    return all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in vars(one) if name not in absent
    )


def taken(stream: Stream, first: int, stop: int, workers: int = 0) -> list[Batch]:
    with stream.batches(first, stop, workers) as batches:
        return list(batches)


def test_several_batches_make_a_block() -> None:
    assert STREAM.batches_per_block == 2
    assert Stream(LANGUAGE, MaskedObjective(), 10_000, 0).batches_per_block == 1


@pytest.mark.parametrize(
    ("first", "workers"),
    [
        *((0, 0), (3, 1), (4, 2)),
        *(
            pytest.param(first, workers, marks=pytest.mark.thorough)
            for first, workers in ((0, 1), (0, 2), (3, 0), (3, 2), (4, 0), (4, 1))
        ),
    ],
)
def test_batch_k_is_a_function_of_seed_and_k_whatever_the_start_and_the_workers(
    first: int, workers: int
) -> None:
    batches = taken(STREAM, first, 9, workers)
    assert len(batches) == 9 - first
    for k, batch in enumerate(batches, start=first):
        assert same(batch, STREAM.batch(k))
        assert len(batch) == 3000


def test_batches_and_seeds_differ_and_the_global_generator_is_not_touched() -> None:
    before = torch.get_rng_state()
    batches = taken(STREAM, 0, 6)
    other = Stream(LANGUAGE, MaskedObjective(), batch_size=3000, seed=8)
    assert torch.equal(torch.get_rng_state(), before)
    for k, batch in enumerate(batches):
        assert not same(batch, other.batch(k))
        assert not any(same(batch, later) for later in batches[k + 1 :])


def test_the_batches_follow_the_language() -> None:
    """Frequencies of whole sentences against their distribution, and each batch a valid masked batch."""
    language = MarkovLanguage(stay=0.75, shortest=3, maximum_length=3)
    stream = Stream(language, MaskedObjective(), batch_size=512, seed=0)
    counts = torch.zeros(8, dtype=torch.float64)
    for batch in taken(stream, 0, 40):
        words = batch.input_ids.clone()
        words[batch.rows, batch.positions] = batch.targets
        numbers = (words[:, 1:] - 3) @ torch.tensor([4, 2, 1])
        counts += torch.bincount(numbers, minlength=8)
    distribution = torch.tensor([9, 3, 1, 3, 3, 1, 3, 9], dtype=torch.float64) / 32
    expected = distribution * counts.sum()
    assert counts.sum() == 40 * 512
    assert float(((counts - expected) ** 2 / expected).sum()) < 24.3  # 99.9 %, seven degrees of freedom


def test_no_two_draws_of_a_purpose_share_a_seed_and_seeds_have_32_bits() -> None:
    seeds = {derived_seed(3, "sentences", number) for number in range(30_000)}
    assert len(seeds) == 30_000
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert derived_seed(3, "sentences") != derived_seed(3, "dropout")
    assert derived_seed(3, "sentences") != derived_seed(4, "sentences")
    # torch reads no more bits than these, which is why seeds are permuted and not hashed.
    low, high = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32))
    assert torch.equal(torch.rand(4, generator=low), torch.rand(4, generator=high))


def test_dropout_is_a_function_of_seed_step_and_process_and_the_callers_state_comes_back() -> None:
    cpu = torch.device("cpu")
    before = torch.get_rng_state()
    with caller_randomness_kept(cpu):
        seed_dropout(0, 5, cpu)
        first = torch.nn.functional.dropout(torch.ones(100), 0.5)
        seed_dropout(0, 6, cpu)
        other = torch.nn.functional.dropout(torch.ones(100), 0.5)
        seed_dropout(0, 5, cpu)
        assert torch.equal(torch.nn.functional.dropout(torch.ones(100), 0.5), first)
        of_processes = []
        for number in (0, 1, 2):
            seed_dropout(0, 5, cpu, number)
            of_processes.append(torch.nn.functional.dropout(torch.ones(100), 0.5))
    assert torch.equal(of_processes[0], first)
    assert len(torch.stack(of_processes).unique(dim=0)) == 3
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_the_language_says_arrives_as_it_was_said(workers: int) -> None:
    stream = Stream(FailingLanguage(good=2, error=BadInput), MaskedObjective(), 10_000, 0)
    with stream.batches(0, 10, workers) as batches:
        next(batches)
        next(batches)
        with pytest.raises(BadInput) as caught:
            next(batches)
    assert str(caught.value) == "the language cannot be sampled"


def test_a_programming_error_is_not_dressed_up() -> None:
    stream = Stream(FailingLanguage(good=0, error=RuntimeError), MaskedObjective(), 10_000, 0)
    with pytest.raises(RuntimeError, match="cannot be sampled"), stream.batches(0, 10) as batches:
        next(batches)


def test_a_killed_worker_gives_one_sentence() -> None:
    stream = Stream(DiesInAWorker(parent=os.getpid()), MaskedObjective(), 10_000, 0)
    with (
        pytest.raises(IsolossError, match="worker process that prepares batches was killed"),
        stream.batches(0, 10, workers=1) as batches,
    ):
        next(batches)


def test_fewer_than_no_workers_are_refused() -> None:
    with pytest.raises(BadInput, match="-1"), STREAM.batches(0, 1, workers=-1):
        pass

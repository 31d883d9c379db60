"""How LSTMs are pre-trained on a hidden Markov model, at each scale."""

from dataclasses import replace

from isoloss.experiments.chosen_languages import small_hmm
from isoloss.experiments.language_runs import LanguageRuns
from isoloss.experiments.paper_languages import paper_hmm
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.languages.random_hmm import laptop_hmm
from isoloss.models.lstm import LSTM, LSTM_LAYERS, LSTM_WIDTHS
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.specification import log_spaced_steps

LANGUAGE_SEED = 5

HiddenMarkovRuns = LanguageRuns[LSTM]
"""LSTMs on the hidden Markov model. Its tasks are the paper's task-6 and task-10 of 16 words, or the states
at the same shares of a shorter sentence."""

SMOKE = HiddenMarkovRuns(
    language=ReadyLanguage(laptop_hmm(LANGUAGE_SEED)),
    tasks=("state-3", "state-5"),
    architectures=(LSTM(8, 2), LSTM(16, 2)),
    update_rule=AdamW(warm_up_steps=10),
    batch_size=32,
    steps=40,
    checkpoint_steps=log_spaced_steps(10, 40),
    saturated_from=20,
)

LAPTOP = HiddenMarkovRuns(
    language=ReadyLanguage(small_hmm()),
    tasks=("state-3", "state-5"),
    architectures=tuple(LSTM(width, layers=2, dropout=0.0) for width in (32, 48)),
    update_rule=AdamW(3e-3, warm_up_steps=500),
    batch_size=128,
    steps=4000,
    checkpoint_steps=(1000, 1414, *log_spaced_steps(2000, 4000, per_doubling=5)),
    saturated_from=2000,
    averaging_horizon=200,
)
"""The language was chosen by its room and price. Widths, rate and average are the grammar's; the steps are
what fits, and untried: whether the loss has come to rest by then is among the premises."""

NIGHT = replace(
    LAPTOP,
    architectures=tuple(LSTM(width, layers=2, dropout=0.0) for width in (32, 64, 128)),
    steps=12_000,
    checkpoint_steps=(1500, *log_spaced_steps(3000, 12_000, per_doubling=4)),
    saturated_from=3000,
)
"""Three times the laptop's steps; untried."""

PAPER = HiddenMarkovRuns(
    language=ReadyLanguage(paper_hmm()),
    tasks=("state-6", "state-10"),
    architectures=tuple(LSTM(*size) for size in zip(LSTM_WIDTHS, LSTM_LAYERS, strict=True)),
    update_rule=AdamW(warm_up_steps=1000),
    batch_size=4096,
    steps=120_000,
    checkpoint_steps=log_spaced_steps(7_500, 120_000, per_doubling=2),
    saturated_from=30_000,
)
"""A.1, A.4 and A.5. The paper lists widths and depths without saying which go together: in order, as its
counts of parameters say (see `LSTM`). It gives no steps: here those of the grammar."""

"""Small models that use their parameters in unusual ways, and batches for them."""

import torch
from torch import nn

from isoloss.objectives.batch import Batch


class Whole:
    """The objective of models that score every position of a batch's words themselves."""

    def logits(self, model, batch):
        return model(batch.input_ids)[batch.rows, batch.positions]


def predicting(words: list[list[int]], counts: list[int]) -> Batch:
    """The first words of each sentence are predicted, so many of each."""
    ids, numbers = torch.tensor(words), torch.tensor(counts)
    rows = torch.arange(len(ids)).repeat_interleave(numbers)
    positions = torch.cat([torch.arange(count) for count in counts])
    return Batch(ids, torch.ones_like(ids, dtype=torch.bool), rows, positions, ids[rows, positions])


def batch_of(n, width, predicted):
    """Each sentence's first `predicted` words are predicted; all are drawn from five, 0 among them."""
    ids = torch.randint(0, 5, (n, width), generator=torch.Generator().manual_seed(7))
    return predicting(ids.tolist(), [predicted] * n)


class Model(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(5, 4)
        self.output = nn.Linear(4, 5)
        for name, part in parts.items():
            setattr(self, name, part())
        self.double()

    def forward(self, ids):
        return self.output(self.inner(self.words(ids)))


class LookedAtElsewhere(Model):
    """A weight of one layer that is also used directly, as a matrix and as an embedding."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 5))

    def forward(self, ids):
        hidden = self.layer(self.words(ids)).tanh() @ self.layer.weight
        return self.output(hidden + 0.3 * nn.functional.embedding(ids, self.layer.weight))


class Copied(Model):
    """A matrix and a gain of which copies are used, and others that are used as complex numbers."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4, bias=False), turned=lambda: nn.Linear(4, 4))
        self.gain = nn.Parameter(torch.tensor([0.5, 1.0, -2.0, 1.5], dtype=torch.float64))

    def inner(self, x):
        x = x @ self.layer.weight.to(x, copy=True) * self.gain.to(x, copy=True)
        of_complex = (1 + 2j) * x.to(torch.complex128) @ self.turned.weight.to(torch.complex128)
        return (of_complex * self.turned.bias.to(torch.complex128)).real


class UnknownUse(Model):
    """The same weight in a layer and in a module that is not a layer."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4))

    def inner(self, x):
        return self.layer(x) * self.layer.weight.softmax(0).sum(1)


class ModuleOfTwo(Model):
    """A module with a matrix of unknown use is part of two others, as peft's tied tokens are."""

    def __init__(self):
        super().__init__(first=lambda: nn.ParameterDict({"weight": torch.randn(4, 4)}))
        self.second = nn.ModuleDict({"same": self.first})

    def inner(self, x):
        return torch.einsum("nsd,de->nse", x, self.first.weight).sin() @ self.second["same"].weight


TRANSPOSITIONS = {
    ".T": lambda weight: weight.T,
    ".mT": lambda weight: weight.mT,
    "t": lambda weight: weight.t(),
    "transpose": lambda weight: weight.transpose(0, 1),
    "permute": lambda weight: weight.permute(1, 0),
    "from the end": lambda weight: weight.permute(-1, -2),
}


class Transposed(Model):
    """A matrix that is transposed before it is multiplied with, as Falcon's and others' layers do."""

    def __init__(self, way):
        super().__init__(layer=lambda: nn.Linear(4, 4))
        self.turned = TRANSPOSITIONS[way]

    def inner(self, x):
        return (x @ self.turned(self.layer.weight) + self.layer.bias).tanh()


class LooseParameters(Model):
    """A number, a gain, a bias, a table of positions and a matrix that belong to no torch layer."""

    def __init__(self):
        super().__init__(
            scale=lambda: nn.Parameter(torch.tensor(1.5)),
            gain=lambda: nn.Parameter(torch.randn(4)),
            bias=lambda: nn.Parameter(torch.randn(4)),
            table=lambda: nn.Parameter(torch.randn(3, 4)),
            matrix=lambda: nn.Parameter(torch.randn(4, 4)),
        )

    def inner(self, x):
        x = x + self.table[: x.shape[1]]
        return torch.einsum("nsd,de->nse", x * self.gain + self.bias, self.matrix).sin() * self.scale


class ShiftedVectors(Model):
    """Gains of 1 + w, as in Gemma, and shifted by a table; and a shifted bias."""

    def __init__(self):
        super().__init__(
            gain=lambda: nn.Parameter(torch.randn(4)),
            other=lambda: nn.Parameter(torch.randn(4)),
            bias=lambda: nn.Parameter(torch.randn(4)),
        )
        self.register_buffer("table", torch.randn(6, 4, dtype=torch.float64))

    def inner(self, x):
        x = x * (1.0 + self.gain) * (self.other + self.table[: x.shape[1]])
        return (x + (2.0 + self.bias)).sin()


class OneForAll(Model):
    """A gain that is a single number, shared by all entries of a vector."""

    def __init__(self):
        super().__init__(gain=lambda: nn.Parameter(torch.tensor([1.5])))

    def inner(self, x):
        return (x * self.gain).sin()


class TwiceShifted(Model):
    """The term added to the weight depends on the weight, or is counted twice: not a constant shift."""

    def __init__(self):
        super().__init__(gain=lambda: nn.Parameter(torch.randn(4)))

    def inner(self, x):
        ones = torch.ones(4, dtype=torch.float64)
        return x * (self.gain + self.gain.sin()) * torch.add(ones, self.gain, alpha=2.0)


class SharedTable(Model):
    """A layer reads a table shared by all sentences, with as many rows as there are predictions, or words."""

    def __init__(self, rows):
        super().__init__(
            table=lambda: nn.Embedding(rows, 4), norm=lambda: nn.LayerNorm(4), layer=lambda: nn.Linear(4, 4)
        )

    def inner(self, x):
        return x + self.layer(self.norm(self.table.weight)).sin().sum(0)


class PositionsOfAll(Model):
    """Positions as in GPT-2, [1, S], or without the 1; added before or after they are scaled."""

    def __init__(self, dimensions, scale):
        super().__init__(places=lambda: nn.Embedding(6, 4, padding_idx=1))
        self.dimensions, self.scale = dimensions, scale

    def inner(self, x):
        places = torch.arange(x.shape[1]).view((1,) * (self.dimensions - 1) + (-1,))
        shared = self.places(places)
        return (x + (shared if self.scale == 1 else shared * self.scale)).sin()


class BiasOfPairs(Model):
    """A bias for each pair of positions from a table, [S, S], as in T5."""

    def __init__(self):
        super().__init__(pairs=lambda: nn.Embedding(9, 4))

    def inner(self, x):
        place = torch.arange(x.shape[1])
        bias = self.pairs(place[:, None] - place + 4)
        return torch.einsum("qkd,nkd->nqd", bias, x)


class PositionsFirst(Model):
    """The layout of recurrent networks: [S, n, d]."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4), norm=lambda: nn.LayerNorm(4))

    def inner(self, x):
        return self.norm(self.layer(x.transpose(0, 1)).sin()).transpose(0, 1)


class Recurrent(Model):
    def __init__(self):
        super().__init__(lstm=lambda: nn.LSTM(4, 4, batch_first=True))

    def inner(self, x):
        return self.lstm(x)[0]


class InPlace(Model):
    """Outputs of embeddings and layers are overwritten."""

    def __init__(self):
        super().__init__(layer=lambda: nn.Linear(4, 4))

    def inner(self, x):
        x *= 2.0
        y = self.layer(x)
        y += x
        return y.relu_()


class Normed(Model):
    def __init__(self, statistics=True):
        super().__init__(norm=lambda: nn.BatchNorm1d(4, track_running_stats=statistics))

    def inner(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)

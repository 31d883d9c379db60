"""A laboratory for a notebook: train, measure, average, flatten, polish, plot, in a line each.

Its functions are thin: each calls what the experiments call, on models in memory. A model is what they return
themselves, the folder or the hub's name of a Hugging Face model, such a model, or any torch module from token
numbers [n, S] to scores [n, S, v]. What is random has a seed, which has no default; a number has its standard
error; what cannot be done is refused in one sentence.

>>> from isoloss import lab
>>> from isoloss.experiments.languages import headline_grammar
>>> run = lab.train(headline_grammar(), 16, steps=20, seed=0, progress=lab.silent)
>>> run
train: 6 models, steps 1, 2, 4, 8, 16, 20; trained with seed 0
>>> lab.loss(run.last, sentences=50, seed=1, progress=lab.silent).unit
'nats'
"""

from isoloss.lab.measured import Measured, plot
from isoloss.lab.measuring import loss, probe, trace
from isoloss.lab.models import Model, Run, model
from isoloss.lab.sharing import push, save
from isoloss.lab.training import average, flatten, polish, train
from isoloss.lab.words import sentences
from isoloss.progress import silent

__all__ = [
    "Measured",
    "Model",
    "Run",
    "average",
    "flatten",
    "loss",
    "model",
    "plot",
    "polish",
    "probe",
    "push",
    "save",
    "sentences",
    "silent",
    "trace",
    "train",
]

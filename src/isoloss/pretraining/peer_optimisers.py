"""Lion and SOAP, from the package pytorch-optimizer."""

import importlib
from dataclasses import dataclass
from types import ModuleType

from isoloss.errors import BadInput
from isoloss.pretraining.adamw import parameters_by_decay
from isoloss.pretraining.descent import Descent, GradientRule, check_moments, plain_rule
from isoloss.pretraining.update_rule import Training


def pytorch_optimizer() -> ModuleType:
    """The package. Raises BadInput, saying how to install it, if it is missing."""
    try:
        return importlib.import_module("pytorch_optimizer")
    except ImportError as error:
        raise BadInput(
            "Lion, SOAP and Sophia need the package pytorch-optimizer; pip install 'isoloss[optimisers]'"
        ) from error


@dataclass(frozen=True)
class Lion:
    """θ ← θ - η (sign(β1 m + (1 - β1) g) + w θ), then m ← β2 m + (1 - β2) g (Chen et al. 2023).

    The authors advise a learning rate 3 to 10 times lower than AdamW's and a weight decay higher by the same
    factor; weight decay as in `AdamW`, on matrices only. State: one number per parameter.
    """

    learning_rate: float = 1e-4
    warm_up_steps: int = 1000
    first_beta: float = 0.9
    second_beta: float = 0.99
    weight_decay: float = 0.1

    def __post_init__(self) -> None:
        check_moments(
            self.learning_rate, self.warm_up_steps, self.first_beta, self.second_beta, self.weight_decay
        )

    def descent(self, training: Training) -> Descent:
        """See `DescentSettings.descent`."""
        optimiser = pytorch_optimizer().Lion(
            parameters_by_decay(training.model, self.weight_decay),
            lr=self.learning_rate,
            betas=(self.first_beta, self.second_beta),
        )
        return Descent([optimiser], self.warm_up_steps, training.steps)

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`."""
        return plain_rule(training, self.descent(training))


@dataclass(frozen=True)
class SOAP:
    """Adam in the slowly turning eigenbasis of Shampoo's preconditioner (Vyas et al. 2024).

    The bases are updated every `basis_steps` steps; a dimension above 10,000 (a large vocabulary) keeps the
    identity. The first step only initialises the preconditioner and leaves the weights unchanged. Weight
    decay as in `AdamW`, on matrices only. State: two numbers per parameter, and 2 (a² + b²) for an a x b
    matrix.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.95
    second_beta: float = 0.95
    weight_decay: float = 0.01
    basis_steps: int = 10

    def __post_init__(self) -> None:
        check_moments(
            self.learning_rate, self.warm_up_steps, self.first_beta, self.second_beta, self.weight_decay
        )
        if self.basis_steps < 1:
            raise BadInput(
                f"SOAP's bases must be renewed every so many steps, at least 1, not {self.basis_steps}"
            )

    def descent(self, training: Training) -> Descent:
        """See `DescentSettings.descent`."""
        optimiser = pytorch_optimizer().SOAP(
            parameters_by_decay(training.model, self.weight_decay),
            lr=self.learning_rate,
            betas=(self.first_beta, self.second_beta),
            precondition_frequency=self.basis_steps,
        )
        return Descent([optimiser], self.warm_up_steps, training.steps)

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`."""
        return plain_rule(training, self.descent(training))

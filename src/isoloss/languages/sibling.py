"""Second languages that share a language's lower levels, to fine-tune its models to."""

import torch

from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, hmm
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import with_other_upper_rules


def sibling(language: Language, seed: int) -> Language:
    """The same words and lower levels under another top: a function of the language and `seed`.

    Of a layered grammar, other pairs below the roots alone (`with_other_upper_rules`); of an HMM, the same
    emissions with the states' roles in the transitions exchanged. Raises BadInput for other languages.

    >>> from isoloss.languages.random_hmm import laptop_hmm
    >>> first = laptop_hmm(0)
    >>> second = sibling(first, seed=1)
    >>> bool((second.emission == first.emission).all()), bool((second.transition == first.transition).all())
    (True, False)
    """
    if isinstance(language, PCFG):
        levels = language.maximum_length.bit_length() - 1
        return pcfg(with_other_upper_rules(language.grammar, levels - 1, seed))
    if isinstance(language, HMM):
        order = torch.randperm(len(language.initial), generator=torch.Generator().manual_seed(seed))
        roles = language.transition[order][:, order].contiguous()
        return hmm(language.words, language.initial[order], roles, language.emission, language.length)
    raise BadInput(
        f"a {type(language).__name__} has no levels that a second language could share; take a layered "
        "grammar or a hidden Markov model"
    )

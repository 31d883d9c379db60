"""A tiny model of each architecture, and a batch with several masks a sentence."""

import pytest

from thorough_cases import others_thorough

# Imported where they are used: what is imported here has no run-time checks of types.


@pytest.fixture(params=others_thorough(["PostLayerNormTransformer", "PreLayerNormTransformer"]))
def model(request):
    """In training mode."""
    import ragged_batches

    import tiny_models

    architecture = getattr(tiny_models, request.param)
    return tiny_models.tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)


@pytest.fixture
def several_masks():
    """Sentences with up to three masks."""
    import ragged_batches

    return ragged_batches.several_masks()

"""A tiny model of each architecture, and a language of the three words it knows."""

import pytest

from thorough_cases import others_thorough

# Imported where they are used: what is imported here has no run-time checks of types.


@pytest.fixture(params=others_thorough(["PostLayerNormTransformer", "PreLayerNormTransformer"]))
def model(request):
    """In training mode."""
    import tiny_models

    return tiny_models.tiny_model(getattr(tiny_models, request.param), words=3, maximum_length=4)


@pytest.fixture
def language():
    """Whose sentences are few enough to be listed."""
    from enumerated_language import EnumeratedLanguage

    return EnumeratedLanguage()

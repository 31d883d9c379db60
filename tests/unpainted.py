"""Pictures that are composed and not painted, which takes most of the time of writing a page."""

import json
from hashlib import sha256
from typing import Any

import pytest


def paint_nothing(patch: pytest.MonkeyPatch) -> None:
    """Have every picture's files hold what it would be painted from, or its digest."""
    import vl_convert

    def svg(picture: dict[str, Any]) -> str:
        return f'<svg class="unpainted" width="1" height="1"><text>{json.dumps(picture)}</text></svg>'

    def digest(text: str, scale: int = 1) -> bytes:
        return sha256(text.encode()).digest()

    patch.setattr(vl_convert, "vegalite_to_svg", svg)
    patch.setattr(vl_convert, "svg_to_png", digest)
    patch.setattr(vl_convert, "svg_to_pdf", digest)

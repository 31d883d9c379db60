"""The charts' JavaScript, which is bundled once and then kept."""

from pathlib import Path

import pytest
import vl_convert

from isoloss.report import frame


def test_the_script_is_bundled_once_and_again_where_what_is_kept_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled: list[str] = []

    def bundle(snippet: str, vl_version: str) -> str:
        bundled.append(vl_version)
        return f"// {snippet}"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    made = frame._charts_script.__wrapped__
    first = made()
    assert made() == first
    assert len(bundled) == 1
    kept = tmp_path / "isoloss" / "charts.js"
    assert kept.read_text() == first
    kept.write_text(first + "alert()")
    assert made() == first
    assert len(bundled) == 2
    assert kept.read_text() == first


def test_where_nothing_can_be_kept_the_script_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "isoloss").write_text("a file, where the folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet, vl_version: snippet)
    assert "vegaEmbed" in frame._charts_script.__wrapped__()

import pytest

from isoloss.lab.words import OneLine


def test_progress_is_one_line_that_is_rewritten_seldom_and_wiped_out_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = OneLine()
    progress("pre-training", 1, 4, "loss 2.1")
    progress("pre-training", 2, 4, "loss 1.9")  # too soon after the first
    progress("pre-training", 4, 4, "loss 1.5")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"\r{'pre-training: 25%  loss 2.1':<100}\r{'':<100}\r"

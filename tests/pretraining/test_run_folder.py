"""A folder belongs to one run, and to one process at a time."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from runs import FORK, LANGUAGE, outcome, small

from isoloss.errors import BadInput, IsolossError
from isoloss.files import only_process_in
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain


def test_a_second_run_in_the_folder_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    def hold(ready: object) -> None:
        with only_process_in(tmp_path):
            ready.set()
            signal.pause()

    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(ready,))
    process.start()
    ready.wait()
    with pytest.raises(IsolossError, match=rf"another run is working in .* \(process {process.pid} on "):
        pretrain(small(), LANGUAGE, tmp_path)
    assert not (tmp_path / "specification.json").exists()
    process.kill()
    process.join()
    with only_process_in(tmp_path), pytest.raises(IsolossError, match=rf"process {os.getpid()} on "):
        pretrain(small(), LANGUAGE, tmp_path)
    pretrain(small(steps=10), LANGUAGE, tmp_path)


def test_another_specification_is_refused_with_what_differs(undisturbed: Path) -> None:
    before = outcome(undisturbed)
    for changed, words in (
        (replace(small(), batch_size=17), "its batch_size is 16, not 17"),
        (small(seed=3), "its seed is 0, not 3"),
        (
            replace(small(), update_rule=AdamW(warm_up_steps=10)),
            "its update_rule.learning_rate is 0.01, not 0.001",
        ),
    ):
        with pytest.raises(BadInput, match=words):
            pretrain(changed, LANGUAGE, undisturbed)
    assert outcome(undisturbed) == before


def test_a_damaged_specification_is_written_anew_where_nothing_speaks_against_it(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    path = folder / "specification.json"
    whole = path.read_text()
    path.write_text(whole.replace("40", "41", 1))
    with pytest.raises(BadInput, match=r"is damaged, and checkpoints in .* are of another run than this"):
        pretrain(small(seed=9), LANGUAGE, folder)
    assert pretrain(small(), LANGUAGE, folder).resumed_from == 40
    assert path.read_text() == whole


def test_a_file_in_the_way_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IsolossError, match="is a file, where a folder is needed"):
        pretrain(small(), LANGUAGE, tmp_path / "taken" / "run")

from called import answer, json_of, output_of, run

from isoloss.command_line import task as command
from isoloss.experiments.scale import scale_named

SMOKE = scale_named("smoke").real_text


def test_a_task_is_counted_and_shown(monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "_source", lambda name: SMOKE.questions)
    told = json_of(answer(capsys, "task", "qnli-form", "--json"))
    given = SMOKE.questions.given
    assert sum(told["parts"]["train"].values()) == len(given.train)
    assert told["parts"]["test"]["yes"] == given.test.labels.count(1)
    assert told["commit"] is None
    shown = output_of(answer(capsys, "task", "qnli-form", "--examples", "1"))
    first = given.train.labels.index(0)
    assert f"no: {given.train.texts[first]} | {given.train.seconds[first]}" in shown


def test_a_task_that_cannot_be_had_is_one_line(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert run(["task", "sst2-form"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("isoloss: the reviews cannot be fetched")

import re
from pathlib import Path

import pytest

from isoloss.report.page import drawn
from isoloss.report.pictures import COLUMN_WIDTH, one_picture, write_pictures
from shown_results import experiment_result, panels


@pytest.mark.thorough
def test_pictures_for_print_are_as_wide_as_a_column_and_bring_their_fonts(tmp_path: Path) -> None:
    for panel in map(drawn, panels(experiment_result("figure-1", (16,)).table)[:2]):
        write_pictures(panel.picture, tmp_path / panel.name)
        pdf = (tmp_path / f"{panel.name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        (box,) = re.findall(rb"/MediaBox ?\[([^\]]*)\]", pdf)
        assert float(box.split()[2]) == pytest.approx(COLUMN_WIDTH, abs=0.5)
        assert b"/FontFile" in pdf
        assert b"/Subtype /Image" not in pdf


@pytest.mark.thorough
def test_names_with_characters_that_xml_has_not_are_drawn(tmp_path: Path) -> None:
    chart = drawn(panels(experiment_result("figure-1", (16,)).table)[0]).charts
    write_pictures(one_picture(chart, "a\x1b[2J \udce9 \uffff", "beside"), tmp_path / "panel")
    svg = (tmp_path / "panel.svg").read_text("utf-8")
    assert r"a\u001b[2J \udce9 �" in svg
    assert (tmp_path / "panel.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("_nothing_painted")
def test_what_is_drawn_already_is_not_drawn_again(tmp_path: Path) -> None:
    chart = drawn(panels(experiment_result("figure-1", (16,)).table)[0]).charts
    times = []
    for title in ("a", "a", "b"):
        write_pictures(one_picture(chart, title, "beside"), tmp_path / "panel")
        times.append({path.suffix: path.stat().st_mtime_ns for path in tmp_path.iterdir()})
    assert set(times[0]) == {".svg", ".png", ".pdf"}
    assert times[0] == times[1]
    assert all(times[2][kind] > time for kind, time in times[1].items())


@pytest.mark.usefixtures("_nothing_painted")
@pytest.mark.parametrize("kind", [".svg", ".png", ".pdf"])
def test_a_damaged_or_foreign_picture_is_drawn_again(kind: str, tmp_path: Path) -> None:
    picture = tmp_path / f"a{kind}"
    pictures = {
        name: one_picture(
            drawn(panels(experiment_result("figure-1", (width,)).table)[0]).charts, name, "beside"
        )
        for name, width in (("a", 16), ("b", 32))
    }

    def write(name: str) -> bytes:
        write_pictures(pictures[name], tmp_path / name)
        return (tmp_path / f"{name}{kind}").read_bytes()

    whole, other = write("a"), write("b")
    flipped = [whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :] for at in (10, len(whole) - 3)]
    for damaged in (*flipped, other):
        picture.write_bytes(damaged)
        again = write("a")
        assert again != damaged
        assert again[:10] == whole[:10]
        before = picture.stat().st_mtime_ns
        assert write("a") == again
        assert picture.stat().st_mtime_ns == before


def test_a_picture_is_no_wider_than_is_readable_on_a_page() -> None:
    one = drawn(panels(experiment_result("figure-1", (16,)).table)[0]).charts[0]
    for charts, columns in ((1, 1), (2, 2), (3, 3), (4, 2), (5, 3)):
        picture = one_picture([one] * charts, "a " * 200 + "over t = k / 4", "beside")
        assert (picture["columns"], len(picture["concat"])) == (columns, charts)
        assert sum(chart["width"] for chart in picture["concat"][:columns]) <= 780
    *_, last = picture["title"]["text"]
    assert last.endswith("t\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}k\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}4")

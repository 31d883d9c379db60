"""Pages of a site as a browser reads them."""

import re
from html.parser import HTMLParser
from pathlib import Path


class Reader(HTMLParser):
    """The links of a page, the anchors in it, its pictures, and all its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.names: set[str] = set()
        self.pictures: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.places += [p for n in ("href", "src") if (p := attributes.get(n)) and not p.startswith("data:")]
        self.names |= {attributes["id"] or ""} if "id" in attributes else set()
        if tag == "img" or attributes.get("role") == "img":
            self.pictures.append(attributes)

    def handle_data(self, data: str) -> None:
        self.text += data


def pages_of(site: Path) -> dict[str, Reader]:
    """Those in the site's folder, by name."""
    return {path.stem: Reader(path.read_text()) for path in site.glob("*.html")}


def places_that_lead_nowhere(site: Path, pages: dict[str, Reader]) -> list[tuple[str, str]]:
    """By page, the links to what is not in the site, or to an anchor that its page has not."""
    nowhere = []
    for name, page in pages.items():
        for place in page.places:
            file, _, anchor = place.partition("#")
            target = (site / (file or f"{name}.html")).resolve()
            there = target.is_relative_to(site.resolve()) and target.is_file()
            if not there or (anchor and anchor not in pages[target.stem].names):
                nowhere.append((name, place))
    return nowhere

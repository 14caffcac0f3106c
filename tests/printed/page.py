"""The sentences, tables and charts of a report page, as a reader finds them in its elements."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from printed.net import NUMBER

BLOCKS = {"p", "h1", "h2", "h3", "div", "figcaption", "section", "summary", "pre", "footer", "li", "table", "figure"}
SILENT = {"style", "script", "svg", "title"}
EMPTY = {"meta", "link", "br", "hr", "input", "col"}


class Page(HTMLParser):
    """A page: ``blocks`` are pairs of a section and a sentence; ``tables`` are rows of cells by section; ``charts``."""

    def __init__(self, text):
        super().__init__()
        self.blocks, self.tables, self.open, self.section, self.words, figures = [], {}, [], "", [], []
        self.figures = figures
        self.feed(text)
        self.end()
        self.charts = [chart(each) for each in figures]

    def handle_starttag(self, tag, attributes):
        """Begin a sentence, a cell or an element of a figure."""
        if tag in EMPTY:
            return
        if tag in BLOCKS:
            self.end()
        self.open.append(tag)
        if tag == "figure":
            self.figures.append([])
        if "figure" in self.open:
            self.figures[-1].append([tag, dict(attributes), ""])
        if tag == "table":
            self.tables.setdefault(self.section, []).append([])
        elif tag == "tr":
            self.tables[self.section][-1].append([])
        elif tag in ("td", "th"):
            self.tables[self.section][-1][-1].append("")

    def handle_endtag(self, tag):
        """End a sentence; headings begin a section."""
        if tag not in self.open:
            return
        while self.open.pop() != tag:
            pass
        text = self.end() if tag in BLOCKS else ""
        self.words += [" "] if tag == "b" else []
        self.section = text if tag == "h2" else self.section
        self.section = f"{self.section.partition('/')[0]}/{text}" if tag == "h3" else self.section

    def handle_data(self, data):
        """Add text to the sentence, to the cell or to the element of a figure."""
        if "figure" in self.open:
            self.figures[-1][-1][2] += data
        if SILENT & set(self.open) and not {"td", "title"} <= set(self.open):
            return
        if {"td", "th"} & set(self.open):
            self.tables[self.section][-1][-1][-1] += data
        elif "table" not in self.open:
            self.words.append(data)

    def end(self):
        """End a sentence; return it."""
        text, self.words = " ".join("".join(self.words).split()), []
        if text:
            self.blocks.append((self.section, text))
        return text


def chart(elements):
    """Return the title, the axes and the series of a chart. Nothing else knows how charts are drawn.

    Points are those of JSON beside the chart, or are read from the tips of its points: "label 1.5 unit, rows seen 64".
    Tips that are sentences have no points.
    """
    for tag, _, text in elements:
        if tag == "script":
            found = json.loads(text)
            series = [
                {"label": each["label"], "tips": each.get("tips", []),
                 "points": [*zip(each.get("x", found["x"]), each["y"], strict=True)]} for each in found["series"]
            ]  # fmt: skip
            axes = {name: (axis["label"], axis["unit"]) for name, axis in found["axes"].items()}
            return {"title": found["title"], "axes": axes, "series": series}
    title = next((attributes["aria-label"] for _, attributes, _ in elements if "aria-label" in attributes), "")
    ticks = [text.strip() for tag, _, text in elements if tag == "text"]
    labels = [text for text in ticks if not re.search(r"\d|●", text)]
    unit = "%" if any(re.fullmatch(rf"{NUMBER}\w? %", text) for text in ticks) else ""
    series = {}
    for tag, _, text in elements:
        match = re.fullmatch(rf"(.*?) ?({NUMBER})(?: %)?, \D+ ({NUMBER})(?: %)?", text) if tag == "title" else None
        if tag == "title":
            each = series.setdefault(match[1] if match else "", {"label": "", "points": [], "tips": []})
            each["label"] = match[1] if match else ""
            each["points" if match else "tips"].append(
                tuple(float(match[i].replace(",", "")) for i in (3, 2)) if match else text
            )
    axes = {"x": (labels[0] if labels else "", ""), "y": (labels[1] if labels[1:] else "", unit)}
    return {"title": title, "axes": axes, "series": [*series.values()]}

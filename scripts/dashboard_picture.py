#!/usr/bin/env python3
"""Draws the panels of deploy/monitoring/dashboard.json from what a Prometheus server knows, as a PNG.

    python3 -m venv .tools/picture && .tools/picture/bin/pip install matplotlib
    .tools/picture/bin/python scripts/dashboard_picture.py http://127.0.0.1:9090 docs/images/dashboard.png --minutes 10

scripts/dashboard_scene.py makes a Prometheus with something to show, and calls this. It is not Grafana's drawing, but the same
panels, places, units, thresholds and expressions.
"""

import argparse
import datetime
import io
import json
import math
import pathlib
import time
import urllib.parse
import urllib.request

import matplotlib
import matplotlib.dates
import matplotlib.pyplot as plt
from PIL import Image

DASHBOARD = pathlib.Path(__file__).parent.parent / "deploy/monitoring/dashboard.json"
COLUMNS = 24
COLUMN, ROW, GAP = 66, 33, 5  # pixels
PAGE, PANEL, TEXT, FAINT, GRID = "#111217", "#181b1f", "#ccccdc", "#8e8e9a", "#2c3036"
LINES = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#c0d8ff", "#ffee52"]
COLOURS = {"green": "#56a64b", "orange": "#e0861a", "red": "#d0333f", "yellow": "#b89b00", "blue": "#5794f2"}
# The fill of a number's panel, dark enough for white text.
FILLS = {"green": "#2f7d3b", "orange": "#b8650a", "red": "#a82a36", "yellow": "#8f7900"}
# What titles, ticks and legends take from a panel: left, right, top, bottom, in pixels.
MARGINS = {"stat": (0, 0, 0, 0), "timeseries": (66, 14, 34, 66), "state-timeline": (142, 14, 34, 54), "table": (16, 14, 44, 10)}


class Prometheus:
    """Answers expressions of the dashboard for a span of time."""

    def __init__(self, url, begin, end, rate_interval):
        self.url, self.begin, self.end, self.rate_interval = url, begin, end, rate_interval
        self.step = max(1, round((end - begin) / 240))

    def ask(self, path, **parameters):
        expression = parameters["query"].replace("$__rate_interval", self.rate_interval).replace("$instance", ".*")
        query = urllib.parse.urlencode({**parameters, "query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def range(self, expression):
        """Labels, times and values of each series; a gap is a NaN."""
        ticks = range(round((self.end - self.begin) / self.step) + 1)
        times = [moment(self.begin + tick * self.step) for tick in ticks]
        for series in self.ask("query_range", query=expression, start=self.begin, end=self.end, step=self.step):
            known = {round((float(at) - self.begin) / self.step): float(value) for at, value in series["values"]}
            yield series["metric"], times, [known.get(tick, math.nan) for tick in ticks]

    def now(self, expression):
        """The labels of each series at the end."""
        return [series["metric"] for series in self.ask("query", query=expression, time=self.end)]


def moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def with_unit(value, unit):
    if math.isnan(value):
        return "–"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        scale, name = next(((s, n) for s, n in ((1, "s"), (1e-3, "ms")) if abs(value) >= s), (1e-6, "µs"))
        return f"{value / scale:.3g} {name}"
    if unit == "decbytes":
        return f"{value / 1e6:.3g} MB"
    name = {"cps": " c/s", "ops": " ops/s"}.get(unit, "")
    for scale, letter in ((1e6, "M"), (1e3, "K")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {letter}{name}"
    return f"{value:.3g}{name}"


def legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def draw_stat(axes, panel, prometheus):
    defaults = panel["fieldConfig"]["defaults"]
    series = list(prometheus.range(panel["targets"][0]["expr"]))
    _, times, values = series[0] if series else ({}, [], [math.nan])
    steps = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or values[-1] >= step["value"]]
    axes.set_facecolor(FILLS[steps[-1]["color"]])
    if times:
        top = max((value for value in values if not math.isnan(value)), default=0) or 1
        axes.fill_between(times, [0.3 * value / top for value in values], 0, color="white", alpha=0.2, lw=0)
        axes.set_xlim(times[0], times[-1])
    axes.set_ylim(0, 1)
    axes.set_xticks([])
    axes.set_yticks([])
    text = with_unit(values[-1], defaults["unit"])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, color="white", fontsize=24, ha="center", va="center", weight="bold")


def draw_timeseries(axes, panel, prometheus):
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults["custom"]
    is_log = custom["scaleDistribution"]["type"] == "log"
    shown = [(legend(target["legendFormat"], labels), times, values)
             for target in panel["targets"] for labels, times, values in prometheus.range(target["expr"])]
    base = None
    for index, (name, times, values) in enumerate(shown):
        colour = LINES[index % len(LINES)]
        if custom["drawStyle"] == "bars":
            heights = [0 if math.isnan(value) else value for value in values]
            base = base or [0] * len(heights)
            axes.bar(times, heights, width=1.1 * prometheus.step / 86400, bottom=base, color=colour, label=name)
            base = [low + height for low, height in zip(base, heights)]
            continue
        is_dashed = is_log and name == "limit"
        # The first one is seen although another lies upon it.
        axes.plot(times, values, color=colour, lw=1.2 if index else 2.4, label=name, ls="--" if is_dashed else "-",
                  marker="." if custom["showPoints"] == "always" else None, ms=4)
        if not is_dashed:
            axes.fill_between(times, values, 1 if is_log else 0, color=colour, alpha=0.08, lw=0)
    for step in defaults["thresholds"]["steps"][1:]:
        axes.axhline(step["value"], color=COLOURS[step["color"]], lw=1, ls=(0, (6, 4)))
    if is_log:
        axes.set_yscale("log")
    else:
        top = max((value for _, _, values in shown for value in values if not math.isnan(value)), default=0)
        axes.set_ylim(0, defaults.get("max", max(base or [top]) * 1.15 or 1))
    axes.yaxis.set_major_formatter(lambda value, _: with_unit(value, defaults["unit"]))
    axes.grid(color=GRID, lw=0.6)
    time_axis(axes, prometheus)
    columns = 6 if panel["gridPos"]["w"] >= 12 else 3
    axes.legend(**legend_style(max(1, min(columns, len(shown)))))


def legend_style(columns):
    return {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.12), "ncols": columns, "frameon": False, "fontsize": 7.5,
            "labelcolor": TEXT, "handlelength": 1.2, "columnspacing": 1.2, "borderaxespad": 0.2}


def time_axis(axes, prometheus):
    axes.set_xlim(moment(prometheus.begin), moment(prometheus.end))
    minutes = max(1, round((prometheus.end - prometheus.begin) / 60 / 5))
    axes.xaxis.set_major_locator(matplotlib.dates.MinuteLocator(interval=minutes))
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))


def draw_state_timeline(axes, panel, prometheus):
    states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    width = datetime.timedelta(seconds=prometheus.step)
    names = []
    for target in panel["targets"]:
        for labels, times, values in prometheus.range(target["expr"]):
            for at, value in zip(times, values):
                if not math.isnan(value):
                    colour = COLOURS[states[str(int(value))]["color"]]
                    axes.broken_barh([(at, width)], (len(names) + 0.1, 0.8), color=colour, lw=0)
            names.append(legend(target["legendFormat"], labels))
    axes.set_yticks([row + 0.5 for row in range(len(names))], names)
    axes.set_ylim(len(names), 0)
    time_axis(axes, prometheus)
    marks = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[state["color"]]) for state in states.values()]
    axes.legend(marks, [state["text"] for state in states.values()], **legend_style(2))


def draw_table(axes, panel, prometheus):
    columns = next(step["options"]["renameByName"] for step in panel["transformations"] if step["id"] == "organize")
    rows = {}
    for target in panel["targets"]:
        for labels in prometheus.now(target["expr"]):
            rows.setdefault(labels["instance"], {}).update(labels)
    axes.set_axis_off()
    for column, (key, name) in enumerate(columns.items()):
        place = {"transform": axes.transAxes, "va": "top", "fontsize": 9}
        axes.text(column * 0.26, 0.97, name, color=COLOURS["blue"], weight="bold", **place)
        for row, instance in enumerate(sorted(rows)):
            axes.text(column * 0.26, 0.84 - row * 0.13, rows[instance].get(key, "–"), color=TEXT, **place)


DRAW = {"stat": draw_stat, "timeseries": draw_timeseries, "state-timeline": draw_state_timeline, "table": draw_table}


def draw(dashboard, prometheus):
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width, height = COLUMNS * COLUMN, rows * ROW + GAP
    figure = plt.figure(figsize=(width / 100, height / 100), dpi=100, facecolor=PAGE)
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN + GAP, place["y"] * ROW + GAP
        w, h = place["w"] * COLUMN - 2 * GAP, place["h"] * ROW - GAP
        if panel["type"] == "row":
            figure.text(x / width, 1 - (y + h / 2) / height, panel["title"], color=TEXT, fontsize=11, weight="bold", va="center")
            continue
        left, right, top, bottom = MARGINS[panel["type"]]
        corner = (x / width, 1 - (y + h) / height)
        figure.add_artist(plt.Rectangle(corner, w / width, h / height, color=PANEL, lw=0, zorder=-1))
        axes = figure.add_axes([(x + left) / width, 1 - (y + h - bottom) / height, (w - left - right) / width,
                                (h - top - bottom) / height], facecolor=PANEL)
        axes.tick_params(colors=FAINT, labelsize=7.5, length=0, which="both")
        axes.spines[:].set_visible(False)
        DRAW[panel["type"]](axes, panel, prometheus)
        figure.text((x + 10) / width, 1 - (y + 9) / height, panel["title"], color=TEXT, fontsize=9, weight="bold", va="top")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prometheus", help="the URL of the server")
    parser.add_argument("picture", help="the PNG to write")
    parser.add_argument("--minutes", type=float, default=10, help="how far back the panels go")
    parser.add_argument("--rate-interval", default="20s", help="what Grafana calls $__rate_interval: four scrapes or more")
    arguments = parser.parse_args()
    end = time.time()
    prometheus = Prometheus(arguments.prometheus, end - arguments.minutes * 60, end, arguments.rate_interval)
    plt.rcParams["font.family"] = "DejaVu Sans"
    drawn = io.BytesIO()
    draw(json.loads(DASHBOARD.read_text()), prometheus).savefig(drawn, format="png", facecolor=PAGE)
    # A palette keeps the file small enough for a README.
    picture = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(arguments.picture, optimize=True)


if __name__ == "__main__":
    main()

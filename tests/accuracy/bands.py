"""Bands p10..p90 of ln(measured / predicted) per class of load and metric, from errors on groups that were left out."""
import collections
import os
import re

import lib

BAND_CAP = 12  # rows that a group counts as
TARGET = 0.80  # share of rows inside, mean over groups: of nested and shipped bands in the mean
FEWEST_ROWS = 0.77  # share of all rows inside, at least
LIMIT = 2.0  # a band never reaches further than a factor of e^2: beyond the knee it would say nothing
METRICS = ("tpot", "ttft", "throughput")
FEWEST = 5  # groups that a class needs for a width of its own

BAND = re.compile(r"^BAND\((\w+), (\w+), ([0-9.+-]+), ([0-9.+-]+)\)$")
PATH = os.path.join(lib.ROOT, "core", "band.def")


def by_class(rows):
    """{(class, metric): [(hardware × model, ln(measured / predicted))]}"""
    cells = collections.defaultdict(list)
    for row in rows:
        if row.metric in METRICS and not lib.is_offered(row):
            cells[row.band_class, row.metric].append(((row.hw, row.model), -row.residual))
    return cells


def weighted(cell):
    counts = collections.Counter(group for group, _ in cell)
    return [(value, min(1, BAND_CAP / counts[group])) for group, value in cell]


def quantiles(cell):
    pairs = weighted(cell)
    return tuple(lib.weighted_quantile(pairs, p) for p in (0.1, 0.5, 0.9))


def widened(three, factor):
    low, middle, high = three
    return max(-LIMIT, middle + factor * (low - middle)), min(LIMIT, middle + factor * (high - middle))


def without(cell, group):
    return [one for one in cell if one[0] != group]


def nested(cell, fallback):
    """{group: (quantiles of the other groups, values)}; a class of one group takes the pooled quantiles."""
    out = {}
    for group in {group for group, _ in cell}:
        others = without(cell, group)
        three = quantiles(others) if len({one for one, _ in others}) >= FEWEST else quantiles(without(fallback, group))
        out[group] = three, [value for one, value in cell if one == group]
    return out


def hits(nest, factor):
    """{group: (inside, rows)} at this widening."""
    out = {}
    for group, (three, values) in nest.items():
        low, high = widened(three, factor)
        out[group] = sum(low <= value <= high for value in values), len(values)
    return out


def coverage(parts):
    """(share of rows, mean over groups) of several classes' hits: a group's classes are one group."""
    groups = collections.defaultdict(lambda: [0, 0])
    for part in parts:
        for group, (inside, rows) in part.items():
            groups[group][0] += inside
            groups[group][1] += rows
    inside, rows = (sum(one[k] for one in groups.values()) for k in (0, 1))
    return inside / rows, sum(one[0] / one[1] for one in groups.values()) / len(groups)


def factor_for(nest, target):
    factor = 0.70
    while factor < 4 and coverage([hits(nest, factor)])[1] < target:
        factor += 0.01
    return factor


def shipped(cells, pooled, metric, nests):
    """Like nests, but every group sees the quantiles of all: what band.def will hold."""
    out = {}
    for name, nest in nests.items():
        three = quantiles(cells[name, metric] if len(nest) >= FEWEST else pooled)
        out[name] = {group: (three, values) for group, (_, values) in nest.items()}
    return out


def common_scale(nests, ships, factors):
    """Multiplies all widenings of a metric. Groups left out see less than the target, groups that are in see more."""
    scale = 0.70
    while scale < 2:
        by_row, by_group = coverage([hits(nest, scale * factors[name]) for name, nest in nests.items()])
        _, by_known = coverage([hits(ship, scale * factors[name]) for name, ship in ships.items()])
        if by_row >= FEWEST_ROWS and (by_group + by_known) / 2 >= TARGET:
            break
        scale += 0.01
    return scale


def fit(rows, is_quiet=False):
    """({(class, metric): (p10, p90)}, {metric: nested coverage of rows and of groups})."""
    cells = by_class(rows)
    found, reached = {}, {}
    for metric in METRICS:
        pooled = [one for (_, other), cell in sorted(cells.items()) if other == metric for one in cell]
        nests = {name: nested(cell, pooled) for (name, other), cell in sorted(cells.items()) if other == metric}
        general = factor_for(nested(pooled, pooled), TARGET)
        factors = {name: factor_for(nest, TARGET) if len(nest) >= FEWEST else general for name, nest in nests.items()}
        ships = shipped(cells, pooled, metric, nests)
        scale = common_scale(nests, ships, factors)
        reached[metric] = coverage([hits(nest, scale * factors[name]) for name, nest in nests.items()])
        for name, nest in nests.items():
            three, _ = next(iter(ships[name].values()))
            found[name, metric] = widened(three, scale * factors[name])
            if not is_quiet:
                print(f"  {name:20} {metric:11} {len(nest):3} groups  x{scale * factors[name]:.2f}  "
                      f"{found[name, metric][0]:+.3f} {found[name, metric][1]:+.3f}")
        if not is_quiet:
            print(f"  {metric}: nested coverage {reached[metric][0]:.3f} of rows, {reached[metric][1]:.3f} over groups")
    return found, reached


def write(fitted):
    """Puts the bands into core/band.def; a class without rows keeps what it had."""
    found, _ = fitted
    with open(PATH, encoding="utf-8") as lines:
        text = lines.readlines()
    for at, line in enumerate(text):
        match = BAND.match(line.rstrip("\n"))
        if match:
            name, metric, low, high = match.groups()
            low, high = found.get((name.lower(), metric.lower()), (float(low), float(high)))
            text[at] = f"BAND({name}, {metric}, {low:.3f}, {high:.3f})\n"
    with open(PATH, "w", encoding="utf-8") as to:
        to.writelines(text)

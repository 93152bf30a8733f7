"""What the fit and the report share: the table of measurements, runs of the program, groups, weights and quantiles.
The program is a black box here: constants go in by file, one prediction a row comes out."""
import collections
import csv
import io
import json
import math
import os
import re
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TABLE = os.path.join(HERE, "measured_open.csv")
FOLDS = os.path.join(HERE, "folds.json")
MODELS = os.path.join(ROOT, "tests", "data", "models")

Constant = collections.namedtuple("Constant", "name unit value prior spread sentence")
Row = collections.namedtuple("Row", "id metric load hw model measured predicted residual band_class")


# ---- core/step.def ----

STEP = re.compile(r'^STEP\((\w+), ("[^"]*"), ([0-9.eE+-]+), ([0-9.eE+-]+), ([0-9.eE+-]+), (".*")\)$')


def read_constants(path=os.path.join(ROOT, "core", "step.def")):
    found = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            match = STEP.match(line.rstrip("\n"))
            if match:
                name, unit, value, prior, spread, sentence = match.groups()
                found.append(Constant(name, unit, float(value), float(prior), float(spread), sentence))
            elif line.startswith("STEP("):
                raise SystemExit(f"{path}: not understood: {line}")
    return found


def write_constants(values, path=os.path.join(ROOT, "core", "step.def")):
    """Puts fitted values into the lines of step.def and leaves everything else as it is."""
    with open(path, encoding="utf-8") as lines:
        text = lines.readlines()
    for at, line in enumerate(text):
        match = STEP.match(line.rstrip("\n"))
        if match:
            name, unit, _, prior, spread, sentence = match.groups()
            text[at] = f"STEP({name}, {unit}, {values[name]:.3g}, {prior}, {spread}, {sentence})\n"
    with open(path, "w", encoding="utf-8") as to:
        to.writelines(text)


# ---- running the program ----

def run(binary, parameters=None, table=TABLE):
    """Rows of `fitd accuracy --rows`, in the order of the table. residual = ln(predicted / measured)."""
    command = [binary, "accuracy", table, "--rows"]
    name = None
    if parameters is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as to:
            json.dump(parameters, to)
            name = to.name
        command += ["--constants", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8")
    finally:
        if name:
            os.unlink(name)
    rows = []
    for line in csv.DictReader(io.StringIO(done.stdout)):
        measured, predicted = float(line["measured"]), float(line["predicted"])
        rows.append(Row(line["id"], line["metric"], line["load"], line["hw"], line["model"], measured, predicted,
                        math.log(predicted / measured), line["class"]))
    return rows


def read_table(path=TABLE, key="id"):
    with open(path, newline="", encoding="utf-8") as lines:
        return {line[key]: line for line in csv.DictReader(lines)}


def write_table(lines, to):
    """A table of some of the lines of read_table(), with columns that they have been given beside."""
    writer = csv.DictWriter(to, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    to.flush()


def is_offered(row):
    """Throughput of a Poisson run is the rate that was offered: predicting it proves nothing."""
    return row.metric == "throughput" and row.load == "poisson"


# ---- groups ----

SHAPE = ("hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "num_key_value_heads",
         "intermediate_size", "num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok")


def family_of(model, cache={}):
    """Models of one shape are one family: leaving Llama-3-70B out while Llama-3.1-70B stays would prove nothing."""
    if model not in cache:
        path = os.path.join(MODELS, model.replace("/", "--") + ".json")
        with open(path, encoding="utf-8") as text:
            config = json.load(text)
        config = config.get("text_config", config)
        cache[model] = tuple(config.get(key) for key in SHAPE)
    return cache[model]


def group_of(row):
    return row.hw, family_of(row.model)


def capped_weights(rows, cap):
    """A group (hardware × family) counts as at most `cap` rows of a metric."""
    counts = collections.Counter((group_of(row), row.metric) for row in rows)
    return [min(1, cap / counts[group_of(row), row.metric]) for row in rows]


# ---- statistics ----

def quantile(values, p):
    """Linear between order statistics, as the program does it."""
    ordered = sorted(values)
    at = p * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def weighted_quantile(pairs, p):
    """Of (value, weight): linear between the centres of the weights."""
    ordered = sorted(pairs)
    total = sum(weight for _, weight in ordered)
    target, passed, before = p * total, 0.0, None
    for value, weight in ordered:
        centre = passed + weight / 2
        if centre >= target:
            if before is None:
                return value
            share = (target - before[1]) / (centre - before[1])
            return before[0] + share * (value - before[0])
        before = value, centre
        passed += weight
    return ordered[-1][0]

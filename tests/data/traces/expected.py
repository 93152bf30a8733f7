#!/usr/bin/env python3
"""Statistics and digest of traces by another way than api/trace*.c: exact fractions, sets, Python's own calendar."""
import hashlib
import json
import math
import re
import statistics
import sys
from datetime import datetime
from fractions import Fraction


def seconds_of_date(text):
    day, hour, minute, second, fraction = re.match(r"(\S+) (\d+):(\d+):(\d+)\.(\d+)$", text).groups()
    whole = datetime.strptime(day, "%Y-%m-%d").toordinal() * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return whole + Fraction(int(fraction), 10 ** len(fraction))


def rows_of(path):
    with open(path, newline="") as file:
        lines = file.read().splitlines()
    if path.endswith(".jsonl"):
        objects = [json.loads(line) for line in lines]
        return [(Fraction(o["timestamp"], 1000), o["input_length"], o["output_length"], o["hash_ids"]) for o in objects]
    cells = [line.split(",") for line in lines[1:]]
    return [(seconds_of_date(time), int(tokens), int(generated), []) for time, tokens, generated in cells]


def decimal(seconds):
    whole, rest = divmod(int(seconds * 10**9), 10**9)
    return str(whole) + (f".{rest:09d}".rstrip("0") if rest else "")


def describe(path):
    rows = rows_of(path)
    rows = [(arrival - rows[0][0], *rest) for arrival, *rest in rows]
    duration = rows[-1][0]
    gaps = [float(b[0] - a[0]) for a, b in zip(rows, rows[1:])]
    minutes = [int(row[0] // 60) for row in rows]
    print(path, len(rows), "duration", float(duration), "mean", float((len(rows) - 1) / duration))
    print("  fullest minute", max(minutes.count(m) for m in set(minutes)), "of", minutes[-1] + 1)
    print("  cv", statistics.pstdev(gaps) / statistics.fmean(gaps))
    for column in (1, 2):
        values = sorted(row[column] for row in rows)
        ranks = [values[math.ceil(Fraction(p * len(rows), 100)) - 1] for p in (50, 90, 99, 100)]
        print("  mean, p50, p90, p99, max", float(Fraction(sum(values), len(rows))), *ranks)
    seen, repeated = set(), 0
    for _, tokens, _, hashes in rows:
        run = next((i for i, h in enumerate(hashes) if h not in seen), len(hashes))
        repeated += min(tokens, 512 * run)
        seen |= set(hashes)
    print("  blocks", sum(len(row[3]) for row in rows), "distinct", len(seen), end=" ")
    print("share", float(Fraction(repeated, sum(row[1] for row in rows))))
    numbers = {}
    text = "arrival_s,input_tokens,output_tokens,prefix_hashes\r\n"
    for arrival, tokens, generated, hashes in rows:
        names = " ".join(str(numbers.setdefault(h, len(numbers))) for h in hashes)
        text += f"{decimal(arrival)},{tokens},{generated},{names}\r\n"
    print("  sha256:" + hashlib.sha256(text.encode()).hexdigest())


for name in sys.argv[1:]:
    describe(name)

#!/bin/sh
# Checks what stands in deploy/ as far as this machine allows: tools/deploy-check.sh FITD_BINARY. A tool that is missing is
# named and its check left out; everything that is wrong is named before it fails.
# shellcheck disable=SC2317 # the checks are called by name
set -u

binary=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# run NAME TOOL COMMAND…: silent when it passes.
run()
{
  name=$1
  tool=$2
  shift 2
  if ! command -v "$tool" >/dev/null 2>&1; then
    echo "deploy: $name was not checked: no $tool here"
  elif "$@" >"$work/out" 2>&1; then
    echo "deploy: $name passes ($tool)"
  else
    echo "deploy: $name fails:" >&2
    cat "$work/out" >&2
    failed=1
  fi
}

# The unit names an installed binary; the check wants to find one.
units()
{
  for unit in deploy/systemd/*.service deploy/systemd/*.timer; do
    sed "s#/usr/local/bin/fitd#$(realpath "$binary")#" "$unit" >"$work/$(basename "$unit")"
  done
  systemd-analyze verify "$work"/*.service "$work"/*.timer >"$work/units" 2>&1
  status=$?
  cat "$work/units"
  [ "$status" -eq 0 ] && [ ! -s "$work/units" ]
}

# Scores of 0 (locked) to 10 (open); systemd's own words: up to 2 is OK.
exposure()
{
  for unit in deploy/systemd/*.service; do
    systemd-analyze security --offline=true --threshold=20 --no-pager "$unit" || return 1
  done
}

# In the containers the three files lie side by side.
prometheus()
{
  cp deploy/compose/prometheus.yml deploy/prometheus/rules.yml "$work"
  touch "$work/token"
  promtool check config "$work/prometheus.yml"
}

yaml()
{
  python3 - deploy/kubernetes/*.yaml deploy/compose/*.y*ml deploy/compose/*/*/*.yaml deploy/ci/*.yml <<'PYTHON'
import sys
import yaml
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    if not all(documents):
        raise SystemExit(name + ": an empty document")
PYTHON
}

# The dashboard and the rules ask for metrics that the service has.
names()
{
  grep -oh 'fitd_[a-z0-9_]*' deploy/prometheus/rules.yml deploy/prometheus/dashboard.json | sort -u >"$work/asked"
  while read -r metric; do
    short=${metric#fitd_}
    grep -rqF "\"$short\"" api/metrics_api.c server/*.c && continue
    echo "nothing writes $metric"
    return 1
  done <"$work/asked"
}

run "systemd units" systemd-analyze units
run "exposure of the units" systemd-analyze exposure
run "alerting rules" promtool promtool check rules deploy/prometheus/rules.yml
run "tests of the alerting rules" promtool promtool test rules deploy/prometheus/rules_test.yml
run "Prometheus configuration" promtool prometheus
run "names of metrics" grep names
run "YAML files" python3 yaml
run "dashboard" python3 python3 -m json.tool deploy/prometheus/dashboard.json
exit "$failed"

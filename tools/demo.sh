#!/bin/sh
# The main job, end to end: starts a daemon on a free port with a new database, evaluates a workload sketch over every
# profile that the sketch names, shows that the result is stored, and stops. Nothing stays behind, also after a failure.
# tools/demo.sh FITD SKETCH
set -eu

fitd=$1
sketch=$2
work=$(mktemp -d)
daemon=

# timeout hands SIGTERM on, and kills what has not ended fifteen seconds later: draining takes ten at most.
stop_daemon()
{
  [ -n "$daemon" ] || return 0
  kill -TERM "$daemon" 2>/dev/null || true
  ended=0
  wait "$daemon" || ended=$?
  daemon=
  if [ "$ended" -ne 0 ]; then
    echo "demo: the daemon ended with status $ended" >&2
    return 1
  fi
}
finish()
{
  status=$?
  trap - EXIT
  stop_daemon || status=1
  if [ "$status" -ne 0 ] && [ -s "$work/log" ]; then
    echo "demo: the daemon's last words:" >&2
    tail -n 20 "$work/log" >&2
  fi
  rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

timeout --kill-after=15 600 "$fitd" --listen 127.0.0.1:0 --database "$work/fitd.db" >"$work/out" 2>"$work/log" </dev/null &
daemon=$!
tries=0
until grep -q '^fitd listening on ' "$work/out"; do
  tries=$((tries + 1))
  if [ "$tries" -gt 100 ] || ! kill -0 "$daemon" 2>/dev/null; then
    echo "demo: the daemon did not start" >&2
    exit 1
  fi
  sleep 0.1
done
url=$(sed -n 's/^fitd listening on //p' "$work/out")

echo "\$ fitd --listen 127.0.0.1:0 --database fitd.db &"
echo "fitd listening on $url"
echo "\$ fitd evaluate $sketch --server $url"
"$fitd" evaluate "$sketch" --server "$url"
stop_daemon
echo "The daemon has stopped; its database is removed."

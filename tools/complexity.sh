#!/bin/sh
# McCabe complexity of every function (pmccabe): over 15 is named, over 25 fails; functions over 60 lines are named.
# A switch counts as one decision: a table of cases is not hard to read.
set -eu
pmccabe "$@" | awk -F '\t' '
  { functions++; lines[functions] = $5 }
  $1 > 25 { print "complexity: " $6 " is " $1 ", the limit is 25"; failed = 1; next }
  $1 > 15 { print "complexity: " $6 " is " $1 " (note)" }
  $5 > 60 { print "complexity: " $6 " has " $5 " lines (note)" }
  END { print "complexity: " functions + 0 " functions"; exit failed }'

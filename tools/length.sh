#!/bin/sh
# Length of files: over 400 lines is named, over 600 fails. tools/length.sh FILE…
set -eu
wc -l "$@" | awk '
  $2 == "total" { next }
  $1 > 600 { print "length: " $2 " has " $1 " lines, the limit is 600"; failed = 1; next }
  $1 > 400 { print "length: " $2 " has " $1 " lines (note)" }
  END { print "length: " NR - (NR > 1) " files"; exit failed }'

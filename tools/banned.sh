#!/bin/sh
# Names every call of a function that this project does not use: tools/banned.sh FILE… Comments do not count.
# strcpy, strcat, sprintf, gets, strtok: no bound or hidden state; ato*, scanf: no error; localtime, gmtime: shared
# buffer; alloca, system, popen: stack and shell; setenv: races with getenv in threads.
set -eu

pattern='strcpy|strcat|sprintf|vsprintf|strtok|gets|atoi|atol|atoll|atof|scanf|fscanf|sscanf|vscanf|vfscanf|vsscanf|localtime|gmtime|alloca|system|popen'
found=0
for file in "$@"; do
  own=$pattern
  case $file in
  core/* | storage/* | api/* | server/*) own="$pattern|setenv|putenv|unsetenv" ;;
  esac
  if gcc -fpreprocessed -dD -E -x c "$file" 2>/dev/null |
    grep -nE "(^|[^A-Za-z0-9_\"])($own)[[:space:]]*\\("; then
    echo "banned: in $file (line numbers without its comments)" >&2
    found=1
  fi
done
[ "$found" -eq 0 ] || exit 1
echo "banned: none in $# files"

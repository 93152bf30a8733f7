#!/bin/sh
# The arrows of ARCHITECTURE.md as facts: server -> api -> storage -> core. Reads the undefined symbols of each folder's
# library and every #include; tests/arrows.sh BUILD_FOLDER. Everything wrong is named before it fails.
set -eu
LC_ALL=C
export LC_ALL

build=${1:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/faults"

fault()
{
  echo "arrows: $*" >>"$work/faults"
}

library()
{
  case $1 in
  core) echo "$build/libfitcore.a" ;;
  *) echo "$build/lib$1.a" ;;
  esac
}

# Symbols that a folder defines, and those that it needs from elsewhere.
symbols()
{
  file=$(library "$1")
  if [ ! -f "$file" ]; then
    echo "arrows: $file is missing; build it first" >&2
    exit 1
  fi
  nm -A --defined-only --extern-only "$file" 2>/dev/null | awk '{print $NF}' | sort -u >"$work/$1.defined"
  nm -A --undefined-only "$file" 2>/dev/null | awk '{print $NF}' | sort -u | comm -23 - "$work/$1.defined" >"$work/$1.needed"
}

# forbid FOLDER REGEX WHY: no needed symbol may match.
forbid()
{
  grep -E "^($2)" "$work/$1.needed" >"$work/hits" || return 0
  while read -r symbol; do
    fault "$1 uses $symbol ($3)"
  done <"$work/hits"
}

# only FOLDER: needed symbols beyond the allow-list on standard input.
only()
{
  tr -s ' ' '\n' | sort -u >"$work/allowed"
  comm -23 "$work/$1.needed" "$work/allowed" >"$work/hits"
  while read -r symbol; do
    fault "$1 uses $symbol, which is not on its allow-list"
  done <"$work/hits"
}

# left_of FOLDER RIGHT…: nothing that a folder to the right of the arrow defines.
left_of()
{
  left=$1
  shift
  for right in "$@"; do
    comm -12 "$work/$left.needed" "$work/$right.defined" >"$work/hits"
    while read -r symbol; do
      fault "$left uses $symbol of $right"
    done <"$work/hits"
  done
}

# includes FOLDER REGEX REGEX: quoted includes must match the first, <system> headers must not match the second.
includes()
{
  grep -HnE '^[[:space:]]*#[[:space:]]*include' "$1"/*.[ch] >"$work/includes" || return 0
  while IFS= read -r line; do
    where=${line%%:#*}
    case $line in
    *'"'*'"'*)
      name=${line#*\"}
      name=${name%%\"*}
      echo "$name" | grep -qE "^($2)" || fault "$where includes \"$name\", which $1 may not"
      [ -f "$name" ] || fault "$where includes \"$name\", which is not a path from the root"
      ;;
    *)
      name=${line#*<}
      name=${name%%>*}
      if [ -n "$3" ] && echo "$name" | grep -qE "^($3)"; then
        fault "$where includes <$name>, which $1 may not"
      fi
      ;;
    esac
  done <"$work/includes"
}

for folder in core storage api server; do
  symbols "$folder"
done

# core computes: no memory, input, output, time or threads of its own.
only core <<'END'
_GLOBAL_OFFSET_TABLE_ __stack_chk_fail __assert_fail
memcmp memcpy memmove memset memchr strcasecmp strchr strcmp strlen strncasecmp strncmp strnlen strrchr strspn strtol strtoul
__memcpy_chk __memmove_chk __memset_chk
snprintf vsnprintf __snprintf_chk __vsnprintf_chk
acos asin atan ceil cos erf erfc exp exp2 expm1 fabs floor fmax fmin fmod frexp ldexp lgamma log log10 log1p log2 lround
llround modf nan nearbyint pow rint round sin sqrt tgamma trunc cbrt hypot
END
quiet='exit|_exit|abort|printf|__printf_chk|fprintf|__fprintf_chk|puts|putchar|perror|syslog|stderr|stdout|err|warn'
forbid storage "($quiet)\$" "only the server logs and exits"
forbid api "($quiet)\$" "only the server logs and exits"
forbid storage 'MHD_|curl_|json_' "storage knows neither HTTP nor JSON"
forbid api 'MHD_|curl_|sqlite3_' "api knows neither sockets nor SQL"
forbid api '(socket|bind|listen|accept|accept4|connect|send|recv|poll|epoll_.*|pthread_create|fork|signal|sigaction)$' \
  "api knows no sockets, threads or signals"
forbid server 'sqlite3_' "SQL is storage's"
left_of core storage api server
left_of storage api server
left_of api server

includes core 'core/' 'microhttpd|curl/|jansson|sqlite3|pthread|time\.h|sys/|unistd|fcntl|threads'
includes storage 'storage/|core/error\.h' 'microhttpd|curl/|jansson'
includes api 'api/|storage/store\.h|core/' 'microhttpd|curl/|sqlite3|sys/socket|netinet|pthread_create'
includes server 'server/|api/(api|observation|refusals)\.h|storage/store\.h|core/' 'sqlite3'

if [ -s "$work/faults" ]; then
  cat "$work/faults" >&2
  exit 1
fi
echo "arrows: $(cat "$work"/*.needed | wc -l) foreign symbols of four libraries point the right way"

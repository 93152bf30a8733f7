# fitd: build, test, check. Everything is made in build/<flavour>/; `make help` lists the targets.
.DEFAULT_GOAL := all
FLAVOUR ?= release
CC = gcc
PREFIX ?= /usr/local
DESTDIR ?=
B := build/$(FLAVOUR)
GEN := build/gen
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

PACKAGES := libmicrohttpd gnutls jansson sqlite3 libcurl nettle zlib

# ---- flags --------------------------------------------------------------------------------------------------------------
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Wfloat-equal -Wformat=2 \
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wcast-qual -Wwrite-strings -Wpointer-arith \
  -Wswitch-enum -Wnull-dereference -Wredundant-decls -Wimplicit-fallthrough
ifeq ($(findstring clang,$(CC)),)
WARNINGS += -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init -Walloc-zero -Wtrampolines
endif
HARDENING := -fstack-protector-strong -fstack-clash-protection -fPIE
ifneq ($(filter x86_64 i686,$(shell uname -m)),)
HARDENING += -fcf-protection=full
endif
FLAGS_release := -O2 -g -D_FORTIFY_SOURCE=3 $(HARDENING)
LINK_release := -pie -Wl,-z,relro,-z,now
FLAGS_debug := -O0 -g3 $(HARDENING)
LINK_debug := -pie -Wl,-z,relro,-z,now
FLAGS_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LINK_asan := -fsanitize=address,undefined
FLAGS_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
LINK_tsan := -fsanitize=thread
FLAGS_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined
LINK_fuzz := -fsanitize=address,undefined
FLAGS_cov := -O0 -g --coverage -fprofile-update=atomic
LINK_cov := --coverage
ifeq ($(FLAGS_$(FLAVOUR)),)
$(error FLAVOUR is "$(FLAVOUR)"; it can be release, debug, asan, tsan, cov or fuzz)
endif
ifeq ($(FLAVOUR),fuzz)
CC = clang
endif

# -Werror where the project is checked, not where others build it from source.
WERROR ?=
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE -I. -I$(GEN) -pthread -ffp-contract=off $(WARNINGS) $(WERROR) $(FLAGS_$(FLAVOUR)) \
  $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null) $(CPPFLAGS) $(CFLAGS)
LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -pthread
LIBS_TEST := $(shell pkg-config --libs check 2>/dev/null)

# ---- product: one library a folder, one program -------------------------------------------------------------------------
SRC_core := $(wildcard core/*.c)
SRC_storage := $(wildcard storage/*.c)
SRC_api := $(wildcard api/*.c)
SRC_server := $(filter-out server/main.c,$(wildcard server/*.c))
LIB_core := $(B)/libfitcore.a
LIB_storage := $(B)/libstorage.a
LIB_api := $(B)/libapi.a
LIB_server := $(B)/libserver.a
# Link order is the direction of the arrows: a cycle is a link error.
ALL_LIBS := $(LIB_server) $(LIB_api) $(LIB_storage) $(LIB_core)

OBJ = $(patsubst %.c,$(B)/%.o,$(1))

# One line a file; V=1 shows the commands.
RUN = $(if $(V),,@printf '  %-4s %s\n' $(1) $@;)

all: $(B)/fitd $(LIB_core) ## build the daemon and the core library (FLAVOUR=release|debug|asan|tsan|cov|fuzz)

$(LIB_core): $(call OBJ,$(SRC_core))
$(LIB_storage): $(call OBJ,$(SRC_storage)) $(B)/gen/migrations.o
$(LIB_api): $(call OBJ,$(SRC_api)) $(B)/gen/seed.o $(B)/gen/openapi.o
$(LIB_server): $(call OBJ,$(SRC_server))
$(B)/%.a:
	@rm -f $@
	$(call RUN,AR)ar rcs $@ $^

$(B)/fitd: $(B)/server/main.o $(ALL_LIBS)
	$(call RUN,LINK)$(CC) $(LINK_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call RUN,CC)$(CC) $(CFLAGS_ALL) $(OWN) -MMD -MP -c -o $@ $<
$(B)/gen/%.o: $(GEN)/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call RUN,CC)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# Objects depend on the flags they were made with, so that a change of flags can not mix two builds.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@pkg-config --exists --print-errors $(PACKAGES) || { echo "Libraries are missing: run 'make deps'." >&2; exit 1; }
	@echo '$(CC) $(CFLAGS_ALL)' | cmp -s - $@ || echo '$(CC) $(CFLAGS_ALL)' > $@
FORCE:

$(GEN)/migrations.c: $(wildcard migrations/*.sql) tools/embed-migrations.sh
	@mkdir -p $(@D)
	@tools/embed-migrations.sh migrations/*.sql > $@.tmp && mv $@.tmp $@
$(GEN)/seed.c: $(wildcard deploy/catalog/profiles/*.json deploy/catalog/models/*.json) tools/embed-seed.sh
	@mkdir -p $(@D)
	@tools/embed-seed.sh deploy/catalog > $@.tmp && mv $@.tmp $@
$(GEN)/openapi.c: api/openapi.json tools/embed-text.sh
	@mkdir -p $(@D)
	@tools/embed-text.sh api_openapi api/openapi.json > $@.tmp && mv $@.tmp $@

# ---- tests: tests/<folder>/test_*.c → one check binary each -------------------------------------------------------------
TESTS := $(wildcard tests/core/test_*.c tests/storage/test_*.c tests/api/test_*.c tests/server/test_*.c tests/scenario/test_*.c \
  tests/accuracy/test_*.c)
TEST_LIB := $(wildcard tests/lib/*.c)
TEST_BINARIES := $(patsubst %.c,$(B)/%,$(TESTS))
.SECONDARY:
# A null pointer in a test fails that test; asserting each of them would hide what is tested.
$(B)/tests/%.o: OWN = -Wno-null-dereference
$(B)/tests/%: $(B)/tests/%.o $(call OBJ,$(TEST_LIB)) $(ALL_LIBS)
	$(call RUN,LINK)$(CC) $(LINK_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS) $(LIBS_TEST)

# The allocations of all its objects go through the test.
$(B)/tests/api/test_allocation: LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=json_loadb,--wrap=json_loads

tests: $(B)/fitd $(TEST_BINARIES) ## build the test binaries

# Own -j when none was given; under `make -jN` the job server is handed on.
SUB = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

test: deps ## build, run every test, again under ASan and UBSan, and the quick gates: what CI runs
	@$(SUB) FLAVOUR=release tests
	@tools/run-tests.sh build/release $(TESTS)
	@$(SUB) FLAVOUR=asan tests
	@tools/run-tests.sh build/asan $(TESTS)
	@$(SUB) FLAVOUR=asan fuzz-replay
	@$(SUB) arrows headers banned

check: deps-check ## everything: test, both compilers with -Werror, analysers, TSan, format, size and complexity, coverage
	@$(SUB) test
	@$(SUB) FLAVOUR=release B=build/gcc-werror WERROR=-Werror tests
	@$(SUB) FLAVOUR=debug B=build/clang-werror CC=clang WERROR=-Werror tests
	@$(SUB) analyse format-check length complexity scripts docs-check openapi-lint deploy-check
	@$(SUB) tsan
	@$(SUB) cov

accuracy: ## how right predictions of public measurements are, out of sample: tests/accuracy/REPORT.md (needs python3)
	@+$(SUB) FLAVOUR=release build/release/fitd
	@tests/accuracy/report build/release/fitd
accuracy-fit: ## refit core/step.def and core/band.def to the measurements, then `make accuracy`; two minutes
	@+$(SUB) FLAVOUR=release build/release/fitd
	@tests/accuracy/fit build/release/fitd
	@+$(SUB) accuracy

tsan: ## scenario and storage tests under ThreadSanitizer
	@$(SUB) FLAVOUR=tsan tests
	CK_FORK=no tools/run-tests.sh build/tsan $(filter tests/scenario/% tests/storage/%,$(TESTS))

cov: ## line coverage of the tests by folder, with its floors
	@$(SUB) FLAVOUR=cov tests
	find build/cov -name '*.gcda' -delete
	@tools/run-tests.sh build/cov $(TESTS)
	@tools/coverage.sh build/cov

# ---- fuzzing: tests/fuzz/fuzz_<name>.c with its corpus in tests/fuzz/corpus/<name> -----------------------------------------
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
# The fuzzer brings its own main; elsewhere one replays files.
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),-fsanitize=fuzzer,$(B)/tests/fuzz/replay.o)
$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(ALL_LIBS)
	$(call RUN,LINK)$(CC) $(LINK_$(FLAVOUR)) $(LDFLAGS) -o $@ $< $(FUZZ_MAIN) $(ALL_LIBS) $(LIBS)
fuzz-replay: $(patsubst %,$(B)/tests/fuzz/fuzz_%,$(FUZZ_NAMES)) ## give the fuzz targets their corpora once
	@for name in $(FUZZ_NAMES); do $(B)/tests/fuzz/fuzz_$$name tests/fuzz/corpus/$$name || exit 1; done
fuzz: ## fuzz each target for FUZZ_SECONDS (clang); new inputs go to build/fuzz/corpus
	@$(SUB) FLAVOUR=fuzz $(patsubst %,build/fuzz/tests/fuzz/fuzz_%,$(FUZZ_NAMES))
	@for name in $(FUZZ_NAMES); do mkdir -p build/fuzz/corpus/$$name && build/fuzz/tests/fuzz/fuzz_$$name \
	  -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -print_final_stats=1 build/fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; done

bench: deps ## rates and latencies of the daemon beside a bare HTTP server, with their goals
	@$(SUB) bench-http
include tests/bench/bench.mk

# ---- gates --------------------------------------------------------------------------------------------------------------
SOURCES := $(wildcard core/*.c storage/*.c api/*.c server/*.c)
HEADERS := $(wildcard core/*.h storage/*.h api/*.h server/*.h tests/lib/*.h)
TEST_SOURCES := $(TESTS) $(TEST_LIB) $(wildcard tests/bench/*.c tests/fuzz/*.c tools/*.c)

arrows: $(ALL_LIBS) ## dependencies between folders: symbols and includes
	@tests/arrows.sh $(B)

headers: ## every header compiles alone
	@tools/headers.sh '$(CFLAGS_ALL)' $(HEADERS)

banned: ## functions that are not used here
	@tools/banned.sh $(SOURCES) $(HEADERS) $(TEST_SOURCES)

format: ## rewrite the C files in the project's style
	clang-format -i $(SOURCES) $(HEADERS) $(TEST_SOURCES)
format-check: ## refuse C files that `make format` would change
	@clang-format --dry-run -Werror $(SOURCES) $(HEADERS) $(TEST_SOURCES)

analyse: analyse-gcc analyse-tidy analyse-cppcheck ## gcc -fanalyzer, clang-tidy, cppcheck
ANALYSED := $(patsubst %.c,build/analyser/%.o,$(SOURCES))
TIDIED := $(patsubst %.c,build/tidy/%.ok,$(SOURCES))
# Leaks are left to LeakSanitizer: this analyser takes rows that an out parameter carries away for lost.
analyse-gcc: $(ANALYSED)
build/analyser/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(call RUN,GCC)gcc $(CFLAGS_ALL) -Werror -fanalyzer -Wno-analyzer-malloc-leak -c -o $@ $<
analyse-tidy: $(TIDIED)
build/tidy/%.ok: %.c $(HEADERS) .clang-tidy
	@mkdir -p $(@D)
	$(call RUN,TIDY)clang-tidy --quiet $< -- -std=c11 -D_GNU_SOURCE -I. $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
	@touch $@
# jansson.h for its loop macros; out parameters look uninitialised to ctuuninitvar.
analyse-cppcheck:
	@cppcheck --quiet --std=c11 -D_GNU_SOURCE -I. --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  --include=$(shell pkg-config --variable=includedir jansson)/jansson.h --suppress=missingIncludeSystem \
	  --suppress=ctuuninitvar $(SOURCES)

length: ## files over 600 lines fail
	@tools/length.sh $(SOURCES) $(HEADERS) $(TEST_SOURCES)

complexity: ## functions over 25 fail, over 15 are named
	@tools/complexity.sh $(SOURCES)

scripts: ## shellcheck
	@shellcheck $(wildcard tools/*.sh tests/*.sh tests/*/*.sh) .ci/run

# ---- documents ----------------------------------------------------------------------------------------------------------
$(B)/tools/%: $(B)/tools/%.o $(ALL_LIBS)
	$(call RUN,LINK)$(CC) $(LINK_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)
docs: $(B)/tools/routes $(B)/fitd ## write what is derived: README.md's endpoint table, deploy/fitd.conf.example
	@tools/docs.sh $(B)/tools/routes README.md
	@env -i $(B)/fitd --dump-config > deploy/fitd.conf.example
docs-check: $(B)/tools/routes ## refuse a README.md whose endpoint table is not the routes'
	@tools/docs.sh --check $(B)/tools/routes README.md

openapi-lint: ## api/openapi.json under a public OpenAPI linter from the npm registry (skipped where npm or the network is missing)
	@tools/openapi-lint.sh api/openapi.json

deploy-check: $(B)/fitd ## what stands in deploy/, as far as this machine has the tools
	@tools/deploy-check.sh $(B)/fitd

# ---- use ----------------------------------------------------------------------------------------------------------------
deps: ## install the Debian packages that building and testing need
	@tools/deps.sh build
deps-check: ## the same, with those of `make check`
	@tools/deps.sh build check

demo: deps ## build, start the daemon, evaluate a workload sketch over all profiles, stop
	@$(SUB) FLAVOUR=release all
	@tools/demo.sh build/release/fitd deploy/examples/llama-3.1-70b-chat.json

CORE_HEADERS := $(wildcard core/*.h core/*.def)
EXAMPLES := $(wildcard deploy/examples/*.json)
install: ## install below PREFIX (and DESTDIR)
	@$(SUB) FLAVOUR=release all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include/fitd/core \
	  $(DESTDIR)$(PREFIX)/share/fitd/examples
	install -m 755 build/release/fitd $(DESTDIR)$(PREFIX)/bin/fitd
	install -m 644 build/release/libfitcore.a $(DESTDIR)$(PREFIX)/lib/libfitcore.a
	install -m 644 $(CORE_HEADERS) $(DESTDIR)$(PREFIX)/include/fitd/core
	install -m 644 $(EXAMPLES) $(DESTDIR)$(PREFIX)/share/fitd/examples
	install -m 644 $(wildcard deploy/fitd.conf.example) LICENSE $(DESTDIR)$(PREFIX)/share/fitd
uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/fitd $(DESTDIR)$(PREFIX)/lib/libfitcore.a
	rm -rf $(DESTDIR)$(PREFIX)/include/fitd $(DESTDIR)$(PREFIX)/share/fitd

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: all tests test fuzz fuzz-replay check accuracy accuracy-fit tsan cov bench arrows headers banned format format-check analyse \
  analyse-gcc analyse-tidy analyse-cppcheck length complexity scripts docs docs-check openapi-lint deploy-check deps deps-check demo install \
  uninstall clean help FORCE

# HTTP benchmarks: the daemon beside a libmicrohttpd hello-world, both from the release build, and nginx where it is.
$(B)/tests/bench/bench_http $(B)/tests/bench/bench_overload: $(B)/tests/bench/http_load.o
bench-http: ## rates and latencies of the daemon beside a libmicrohttpd hello-world and nginx; idle clients; overload
	$(MAKE) FLAVOUR=release build/release/fitd build/release/tests/bench/hello build/release/tests/bench/bench_http \
	  build/release/tests/bench/bench_overload
	build/release/tests/bench/bench_http
	build/release/tests/bench/bench_overload

bench-core: ## CPU time of the core beside a plain roofline loop
	$(MAKE) FLAVOUR=release build/release/tests/bench/bench_core
	build/release/tests/bench/bench_core

bench-serving: ## requests a second of the serving simulation beside a loop that counts tokens
	$(MAKE) FLAVOUR=release build/release/tests/bench/bench_serving
	build/release/tests/bench/bench_serving

bench-exposition: ## bytes a second of the exposition parser on pages of real exporters
	$(MAKE) FLAVOUR=release build/release/tests/bench/bench_exposition
	build/release/tests/bench/bench_exposition

bench-scrape: ## 500 nodes every 15 s: on time, CPU time and memory; takes 75 s
	$(MAKE) FLAVOUR=release build/release/tests/bench/bench_scrape
	build/release/tests/bench/bench_scrape

bench-history: ## latencies and rates over a million scorecards beside bare SQLite loops; 9 GB in /tmp, five minutes
	$(MAKE) FLAVOUR=release build/release/fitd build/release/tests/bench/bench_history
	build/release/tests/bench/bench_history
.PHONY: bench-http bench-core bench-serving bench-exposition bench-scrape bench-history

# HTTP benchmark: the daemon beside a libmicrohttpd hello-world, both from the release build.
bench-http: ## rates and latencies of the daemon beside a libmicrohttpd hello-world
	$(MAKE) FLAVOUR=release build/release/fitd build/release/tests/bench/hello build/release/tests/bench/bench_http
	build/release/tests/bench/bench_http
.PHONY: bench-http

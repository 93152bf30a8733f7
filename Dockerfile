# Builds fitd and packs it with its libraries, and curl for the health check:
#   docker build -t fitd .
#   docker run -p 8080:8080 -v fitd:/var/lib/fitd fitd
# fitd refuses an address that others reach until a token exists, so make the first one in the same volume:
#   docker run --rm -v fitd:/var/lib/fitd fitd token create --name admin --scope admin
# Upstream versions are pinned, Debian's revision is left open: that is where security fixes arrive.
FROM debian:12-slim AS build
WORKDIR /src
COPY tools/deps.sh tools/
RUN apt-get update && tools/deps.sh build
COPY . .
RUN make -j"$(nproc)" all && make install DESTDIR=/out PREFIX=/usr

FROM debian:12-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    libmicrohttpd12=0.9.75-* libgnutls30=3.7.9-* libjansson4=2.14-* libsqlite3-0=3.40.1-* libcurl4=7.88.1-* libnettle8=3.8.1-* \
    zlib1g=1:1.2.13* ca-certificates tzdata curl=7.88.1-* \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 10001 --home-dir /var/lib/fitd --create-home --shell /usr/sbin/nologin fitd
COPY --from=build /out/usr/bin/fitd /usr/bin/fitd
COPY --from=build /out/usr/share/fitd /usr/share/fitd
USER fitd
VOLUME /var/lib/fitd
EXPOSE 8080
ENV FITD_DATABASE=/var/lib/fitd/fitd.db FITD_LISTEN=0.0.0.0:8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=10s CMD ["curl", "-fsS", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/bin/fitd"]
CMD ["serve"]

/* fitd: commands, start, signals and the order of shutdown. The one file that knows every part; read from bottom to top it
   is the life of the process. */
#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/observation.h"
#include "core/fit.h"
#include "server/clock.h"
#include "server/commands.h"
#include "server/control.h"
#include "server/deps.h"
#include "server/http.h"
#include "server/listener.h"
#include "server/notify.h"
#include "server/tls.h"
#include "server/schedule.h"
#include "server/scrape.h"

#define TICK_MS 100

struct daemon {
  struct config config;
  const struct config_sources *sources;
  struct deps deps;
  struct workers *workers;
  struct api *api;
  struct auth *auth;
  struct http *http;
  struct control *control;
  struct listener listener;
  struct tls *tls; /* NULL: plain HTTP */
  struct notify notify;
  struct log *audit; /* NULL: these lines go into the log */
  struct schedule *schedule;
  struct api_reevaluation reevaluation;
  struct api_limits limits;
};

static struct http_settings http_settings(const struct config *config)
{
  return (struct http_settings){
      .limits = {config->idle_timeout, config->header_timeout, config->body_timeout, config->send_timeout},
      .clients = {config->client_connections, config->client_rate},
      .cors_origins = config->cors_origins,
      .logs_requests = config->access_log};
}

static enum err open_store_and_api(struct daemon *daemon, struct error *e)
{
  const struct config *config = &daemon->config;
  const struct store_options store_options = {
      .path = config->database, .readers = config->readers, .log = deps_log, .log_cls = &daemon->deps};
  struct api_deps api_deps;
  enum err err = addresses_parse(&daemon->deps.scrape_allow, config->scrape_allow, e);
  if (err != ERR_OK)
    return err;
  if (config->time_zone[0] != '\0')
    err = zone_open(&daemon->deps.zone, config->time_zone, e);
  if (err == ERR_OK)
    err = store_open(&daemon->deps.store, &store_options, e);
  if (err != ERR_OK)
    return err;
  daemon->deps.review_teams = config->review_teams;
  deps_fill(&api_deps, &daemon->deps, (size_t)config->evaluation_memory << 20);
  err = api_open(&daemon->api, &api_deps, e);
  if (err == ERR_OK)
    err = auth_open(&daemon->auth, daemon->deps.store, e);
  return err;
}

static enum err start_scraping(struct daemon *daemon, struct error *e)
{
  const struct scrape_options options = {.api = daemon->api,
                                         .log = daemon->deps.log,
                                         .allowed = &daemon->deps.scrape_allow,
                                         .body_max_bytes = (size_t)daemon->config.scrape_page_max << 20};
  return scrape_start(&daemon->deps.scrape, &options, e);
}

static enum err load_certificate(struct daemon *daemon, struct error *e)
{
  const struct config *config = &daemon->config;
  const bool has_certificate = config->tls_certificate[0] != '\0', has_key = config->tls_key[0] != '\0';
  if (has_certificate != has_key)
    return error_set(e, ERR_INVALID, "", "%s is set without %s: HTTPS needs both",
                     has_certificate ? "tls_certificate" : "tls_key", has_certificate ? "tls_key" : "tls_certificate");
  return has_certificate ? tls_open(&daemon->tls, config->tls_certificate, config->tls_key, e) : ERR_OK;
}

static enum err listen_here(struct daemon *daemon, struct error *e)
{
  enum err err = listener_open_tcp(&daemon->listener, daemon->config.listen, daemon->tls != NULL, e);
  if (err != ERR_OK || daemon->listener.is_loopback || auth_has_tokens(daemon->auth))
    return err;
  (void)close(daemon->listener.fd);
  return error_set(e, ERR_PRECONDITION, "",
                   "%s is reachable from other machines, which needs a token first: fitd token create --name admin "
                   "--scope admin --database %.150s",
                   daemon->config.listen, daemon->config.database);
}

static enum err reevaluate(void *cls, bool *again, struct error *e)
{
  struct daemon *daemon = cls;
  return api_reevaluate(daemon->api, &daemon->reevaluation, again, e);
}

static enum err store_observed(void *cls, bool *again, struct error *e)
{
  struct daemon *daemon = cls;
  const struct api_retention retention = {daemon->config.keep_minutes, daemon->config.keep_hours};
  *again = false;
  return api_store_observed(daemon->api, &retention, e);
}

static enum err open_review(void *cls, bool *again, struct error *e)
{
  const struct daemon *daemon = cls;
  const int day = commands_review_day(&daemon->config);
  *again = false;
  return day < 7 ? api_review_due(daemon->api, day, (int)daemon->config.review_hour, e) : ERR_OK;
}

static enum err refresh_limits(void *cls, bool *again, struct error *e)
{
  struct daemon *daemon = cls;
  return api_refresh_limits(daemon->api, &daemon->limits, again, e);
}

/* What the daemon does by itself. */
static enum err start_schedule(struct daemon *daemon, struct error *e)
{
  const struct schedule_job jobs[] = {{"reevaluate", 1, reevaluate, daemon},
                                      {"observed", 5, store_observed, daemon},
                                      {"limits", 10, refresh_limits, daemon},
                                      {"review", 60, open_review, daemon}};
  return schedule_start(&daemon->schedule, jobs, sizeof jobs / sizeof jobs[0], daemon->deps.log, e);
}

/* Threads begin here: signals are blocked already, so every thread inherits that. */
static enum err start(struct daemon *daemon, struct error *e)
{
  const struct config *config = &daemon->config;
  const struct http_settings settings = http_settings(config);
  struct http_options options = {.listen_fd = -1,
                                 .threads = config->threads > 0 ? config->threads : commands_cores(),
                                 .connections_max = listener_capacity(config->connections),
                                 .idle_timeout_s = config->idle_timeout,
                                 .bodies_max_bytes = (size_t)config->body_memory << 20,
                                 .log = daemon->deps.log};
  unsigned workers = config->workers > 0 ? config->workers : commands_cores() > 2 ? commands_cores() : 2;
  enum err err = open_store_and_api(daemon, e);
  if (err == ERR_OK && config->audit_file[0] != '\0')
    err = log_open(&daemon->audit, config->audit_file, LOG_DEBUG, e);
  options.audit = daemon->audit != NULL ? daemon->audit : daemon->deps.log;
  if (err == ERR_OK)
    err = workers_open(&daemon->workers, workers, config->queue, (int64_t)config->queue_wait * 1000, e);
  if (err == ERR_OK)
    err = start_scraping(daemon, e);
  daemon->deps.workers = daemon->workers;
  options.api = daemon->api;
  options.auth = daemon->auth;
  options.workers = daemon->workers;
  if (err == ERR_OK)
    err = control_start(&daemon->control, config->database, &options, &settings, e);
  if (err == ERR_OK)
    err = load_certificate(daemon, e);
  if (err == ERR_OK)
    err = listen_here(daemon, e);
  options.listen_fd = daemon->listener.fd;
  options.is_https = daemon->tls != NULL;
  if (err == ERR_OK)
    err = http_start(&daemon->http, &options, &settings, e);
  if (err == ERR_OK)
    err = start_schedule(daemon, e);
  return err;
}

static void tick(struct daemon *daemon)
{
  http_tick(daemon->http);
  http_tick(control_http(daemon->control));
  log_flush(daemon->deps.log);
  if (daemon->audit != NULL)
    log_flush(daemon->audit);
  notify_alive(&daemon->notify, clock_monotonic_us());
}

/* Waits a tick for a signal; 0 when none came. */
static int next_signal(const sigset_t *signals)
{
  const struct timespec timeout = {.tv_sec = 0, .tv_nsec = TICK_MS * 1000000L};
  int number = sigtimedwait(signals, NULL, &timeout);
  return number > 0 ? number : 0;
}

/* SIGHUP: a configuration with faults changes nothing. */
static void reload(struct daemon *daemon)
{
  struct config fresh;
  struct faults faults = {.count = 0};
  struct error e = {.code = ERR_OK};
  struct http_settings settings;
  struct addresses allowed;
  char fixed[256];
  struct log *log = daemon->deps.log;
  if (log_reopen(log, &e) != ERR_OK)
    log_write(log, LOG_ERROR, "%s", e.message);
  if (daemon->audit != NULL && log_reopen(daemon->audit, &e) != ERR_OK)
    log_write(log, LOG_ERROR, "%s", e.message);
  if (daemon->tls != NULL && tls_reload(daemon->tls, &e) != ERR_OK)
    log_write(log, LOG_ERROR, "the certificate is kept: %s", e.message);
  config_load(&fresh, daemon->sources, &faults);
  if (faults.count > 0) {
    log_write(log, LOG_ERROR, "settings are kept: %s: %s", faults.items[0].pointer, faults.items[0].detail);
    return;
  }
  if (fresh.database[0] == '\0')
    memcpy(fresh.database, daemon->config.database, sizeof fresh.database);
  if (addresses_parse(&allowed, fresh.scrape_allow, &e) != ERR_OK) {
    log_write(log, LOG_ERROR, "settings are kept: %s", e.message);
    return;
  }
  addresses_replace(&daemon->deps.scrape_allow, &allowed);
  config_reload(&daemon->config, &fresh, fixed, sizeof fixed);
  settings = http_settings(&daemon->config);
  log_set_level(log, daemon->config.log_level);
  http_set(daemon->http, &settings);
  http_set(control_http(daemon->control), &settings);
  log_write(log, LOG_INFO, "settings are re-read%s%s", fixed[0] != '\0' ? "; a restart is needed for " : "", fixed);
}

static void wait_for_end(struct daemon *daemon, const sigset_t *signals)
{
  int number;
  while ((number = next_signal(signals)) == 0 || number == SIGHUP) {
    if (number == SIGHUP)
      reload(daemon);
    tick(daemon);
  }
  log_write(daemon->deps.log, LOG_INFO, "signal %d: finishing what runs", number);
}

/* Until the last connection is gone, the time is over, or a second signal comes. */
static void drain(struct daemon *daemon, const sigset_t *signals)
{
  int64_t end_us = clock_monotonic_us() + (int64_t)daemon->config.drain_timeout * 1000000;
  int number = 0;
  atomic_store(&daemon->deps.is_stopping, true);
  http_drain(daemon->http);
  http_drain(control_http(daemon->control));
  while (http_connections(daemon->http) + http_connections(control_http(daemon->control)) > 0 &&
         clock_monotonic_us() < end_us && (number == 0 || number == SIGHUP)) {
    number = next_signal(signals);
    tick(daemon);
  }
}

/* The schedule first, which is a client; then the workers: they resume the suspended connections, without which the HTTP
   servers must not stop. */
static void stop(struct daemon *daemon)
{
  schedule_stop(daemon->schedule);
  workers_close(daemon->workers);
  http_stop(daemon->http);
  control_stop(daemon->control);
  tls_close(daemon->tls);
  scrape_stop(daemon->deps.scrape); /* after those who may ask it for figures */
  auth_close(daemon->auth);
  api_close(daemon->api);
  store_close(daemon->deps.store);
  zone_close(daemon->deps.zone);
}

static void tell_supervisor(const struct daemon *daemon, const char *state)
{
  if (!notify_send(&daemon->notify, state))
    log_write(daemon->deps.log, LOG_WARNING, "the supervisor can not be told %s: %s", state, strerror(errno));
}

static int run(struct daemon *daemon)
{
  struct error e = {.code = ERR_OK, .message = ""};
  sigset_t signals;
  int status = EXIT_STATUS_OK;
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGTERM);
  (void)sigaddset(&signals, SIGINT);
  (void)sigaddset(&signals, SIGHUP);
  (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
  if (log_open(&daemon->deps.log, daemon->config.log_file, daemon->config.log_level, &e) != ERR_OK) {
    (void)fprintf(stderr, "fitd: %s\n", e.message);
    return EXIT_STATUS_FAILED;
  }
  notify_init(&daemon->notify);
  if (start(daemon, &e) == ERR_OK) {
    log_write(daemon->deps.log, LOG_INFO, "fitd %s serves %s on %s", CORE_VERSION, daemon->config.database,
              daemon->listener.url);
    if (printf("fitd listening on %s\n", daemon->listener.url) < 0 || fflush(stdout) != 0)
      log_write(daemon->deps.log, LOG_WARNING, "standard output can not be written: %s", strerror(errno));
    tell_supervisor(daemon, "READY=1");
    wait_for_end(daemon, &signals);
    tell_supervisor(daemon, "STOPPING=1");
    drain(daemon, &signals);
  } else {
    (void)fprintf(stderr, "fitd (database %s): %s\n", daemon->config.database, e.message);
    status = EXIT_STATUS_FAILED;
  }
  stop(daemon);
  if (daemon->audit != NULL)
    log_close(daemon->audit);
  log_close(daemon->deps.log);
  return status;
}

static int serve(int argc, char *const *argv)
{
  struct config_sources sources = {.file = NULL, .environment = environ};
  struct daemon daemon = {.sources = &sources};
  bool runs = false;
  int status = commands_settings(&runs, &daemon.config, &sources, argc, argv);
  return runs ? run(&daemon) : status;
}

static int dispatch(int argc, char *const *argv)
{
  static const struct {
    const char *name;
    int (*run)(int argc, char *const *argv);
  } commands[] = {{"serve", serve},
                  {"evaluate", command_evaluate},
                  {"advise", command_advise},
                  {"check", command_check},
                  {"accuracy", command_accuracy},
                  {"scrape", command_scrape},
                  {"token", command_token},
                  {"migrate", command_migrate},
                  {"backup", command_backup},
                  {"restore", command_restore}};
  size_t i;
  int word;
  for (word = 1; word < argc; word++) {
    if (strcmp(argv[word], "--help") == 0 || strcmp(argv[word], "-h") == 0)
      return commands_help();
    if (strcmp(argv[word], "--version") == 0)
      return commands_version();
  }
  if (argc < 2 || argv[1][0] == '-')
    return serve(argc - 1, argv + 1);
  for (i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(argv[1], commands[i].name) == 0)
      return commands[i].run(argc - 2, argv + 2);
  return commands_refuse_word(argv[1]);
}

int main(int argc, char **argv)
{
  int status;
  json_object_seed(0);
  /* A file at its size limit is an error to report, not a reason to die. */
  if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || signal(SIGXFSZ, SIG_IGN) == SIG_ERR ||
      curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    (void)fputs("fitd: the process can not be set up\n", stderr);
    return EXIT_STATUS_FAILED;
  }
  status = dispatch(argc, argv);
  curl_global_cleanup();
  return status;
}

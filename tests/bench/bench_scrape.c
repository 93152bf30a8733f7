/* 500 nodes at 15 s intervals against a server in a process of its own: scraped on time, within a tenth of a core, memory
   bounded. The page is dcgm-exporter's with four devices. Prints; fails when a goal is missed. */
#include <curl/curl.h>
#include <ftw.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "api/observation.h"
#include "server/deps.h"
#include "storage/store.h"

#define NODES 500
#define INTERVAL_S 15
#define ROUNDS 4
#define PAGE "tests/data/exporters/samples/dcgm-exporter__HEAD-shape-mig-k8s-SYNTHETIC.prom"
#define CORE_SHARE_MAX 0.1
#define RESIDENT_MIB_MAX 200.0

static char page[65536];
static size_t page_length;

static enum MHD_Result serve_page(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **state)
{
  struct MHD_Response *response = MHD_create_response_from_buffer(page_length, page, MHD_RESPMEM_PERSISTENT);
  enum MHD_Result result;
  (void)cls;
  (void)url;
  (void)method;
  (void)version;
  (void)upload;
  (void)upload_size;
  (void)state;
  result = MHD_queue_response(connection, 200, response);
  MHD_destroy_response(response);
  return result;
}

/* The exporters' process: writes its port and serves until the pipe is closed. */
static void serve(int port_fd)
{
  struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL,
                                               serve_page, NULL, MHD_OPTION_CONNECTION_LIMIT, 1000u, MHD_OPTION_END);
  const union MHD_DaemonInfo *info = daemon != NULL ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
  const unsigned port = info != NULL ? info->port : 0;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (write(port_fd, &port, sizeof port) != (ssize_t)sizeof port)
    _exit(1);
  (void)pause();
  _exit(0);
}

static bool read_page(void)
{
  FILE *file = fopen(PAGE, "re");
  if (file == NULL)
    return false;
  page_length = fread(page, 1, sizeof page, file);
  (void)fclose(file);
  return page_length > 0;
}

static double cpu_s(void)
{
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_sec +
         1e-6 * (double)usage.ru_stime.tv_usec;
}

static double resident_mib(void)
{
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

static bool put_nodes(struct api *api, unsigned port)
{
  static const struct api_caller caller = {SCOPE_ADMIN, "bench"};
  for (int i = 0; i < NODES; i++) {
    char path[64], body[160];
    struct api_response response;
    struct api_request request = {
        .method = "PUT", .path = path, .query_text = "", .request_id = "bench", .caller = &caller, .body = body};
    (void)snprintf(path, sizeof path, "/v1/nodes/node-%03d", i);
    (void)snprintf(body, sizeof body,
                   "{\"url\": \"http://127.0.0.1:%u/%d\", \"profile\": \"h100-sxm-80gb\", \"interval_s\": %d}", port, i,
                   INTERVAL_S);
    request.body_len = strlen(body);
    api_handle(api, &request, &response);
    api_response_fini(&response);
    if (response.status != 201)
      return false;
  }
  return true;
}

/* Seconds of the measurement, with the roll-ups written as the daemon does. */
static void pass(struct api *api, int seconds)
{
  static const struct api_retention retention = {3, 90};
  struct error e;
  for (int i = 0; i < seconds; i++) {
    (void)sleep(1);
    if (i % 5 == 0 && api_store_observed(api, &retention, &e) != ERR_OK)
      (void)fprintf(stderr, "%s\n", e.message);
  }
}

static int report(const struct scrape_counts *before, const struct scrape_counts *after, double cpu, int seconds)
{
  const double share = cpu / seconds, expected = (double)NODES * seconds / INTERVAL_S;
  const double done = (double)(after->scrapes - before->scrapes);
  const unsigned long long late = after->late - before->late, failures = after->failures - before->failures;
  const bool is_met = late == 0 && failures == 0 && share < CORE_SHARE_MAX && resident_mib() < RESIDENT_MIB_MAX;
  printf("%d nodes every %d s for %d s, %zu bytes a page\n", NODES, INTERVAL_S, seconds, page_length);
  printf("  scrapes    %.0f of %.0f, %llu late, %llu failed\n", done, expected, late, failures);
  printf("  CPU        %.3f of a core (goal: below %.1f), %.0f us a scrape\n", share, CORE_SHARE_MAX, 1e6 * cpu / done);
  printf("  resident   %.0f MiB at most (goal: below %.0f)\n", resident_mib(), RESIDENT_MIB_MAX);
  printf("goals: %s\n", is_met ? "met" : "MISSED");
  return is_met ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int measure(struct deps *deps, struct api *api, struct log *log, unsigned port)
{
  const struct scrape_options options = {
      .api = api, .log = log, .allowed = &deps->scrape_allow, .body_max_bytes = 16 << 20};
  struct scrape_counts before, after;
  struct error e;
  double cpu;
  if (!put_nodes(api, port) || scrape_start(&deps->scrape, &options, &e) != ERR_OK)
    return EXIT_FAILURE;
  pass(api, INTERVAL_S); /* every node once */
  scrape_count(&before, deps->scrape);
  cpu = cpu_s();
  pass(api, ROUNDS * INTERVAL_S);
  cpu = cpu_s() - cpu;
  scrape_count(&after, deps->scrape);
  scrape_stop(deps->scrape);
  return report(&before, &after, cpu, ROUNDS * INTERVAL_S);
}

static int remove_entry(const char *path, const struct stat *entry, int kind, struct FTW *place)
{
  (void)entry;
  (void)kind;
  (void)place;
  return remove(path);
}

static void remove_folder(const char *folder)
{
  if (nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
    (void)fprintf(stderr, "%s can not be removed\n", folder);
}

int main(void)
{
  char folder[] = "/tmp/fitd-bench-XXXXXX", path[64];
  struct deps deps = {.store = NULL};
  struct store_options store_options = {.path = path, .readers = 2};
  struct api_deps api_deps;
  struct api *api = NULL;
  struct log *log = NULL;
  struct error e = {.code = ERR_OK};
  int ports[2], status = EXIT_FAILURE;
  unsigned port = 0;
  pid_t server;
  if (!read_page() || pipe(ports) != 0 || mkdtemp(folder) == NULL)
    return EXIT_FAILURE;
  server = fork();
  if (server == 0)
    serve(ports[1]);
  (void)snprintf(path, sizeof path, "%s/fitd.db", folder);
  if (read(ports[0], &port, sizeof port) != (ssize_t)sizeof port || port == 0)
    return EXIT_FAILURE;
  (void)curl_global_init(CURL_GLOBAL_DEFAULT);
  if (addresses_parse(&deps.scrape_allow, "127.0.0.0/8", &e) == ERR_OK &&
      log_open(&log, "", LOG_WARNING, &e) == ERR_OK && store_open(&deps.store, &store_options, &e) == ERR_OK) {
    deps.log = log;
    deps_fill(&api_deps, &deps, (size_t)16 << 20);
    if (api_open(&api, &api_deps, &e) == ERR_OK)
      status = measure(&deps, api, log, port);
  }
  if (e.code != ERR_OK)
    (void)fprintf(stderr, "%s\n", e.message);
  api_close(api);
  store_close(deps.store);
  log_close(log);
  (void)kill(server, SIGKILL);
  (void)waitpid(server, NULL, 0);
  curl_global_cleanup();
  remove_folder(folder);
  return status;
}

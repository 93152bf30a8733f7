/* Speed of the exposition parser on pages of real exporters, beside the search for line feeds alone. CPU time of one thread,
   best of several rounds; fails below the goal of 400 MB/s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/exposition.h"

#define GOAL_MB_S 400.0
#define ROUNDS 7
#define BYTES_A_ROUND ((size_t)64 << 20)
#define PIECE 16384 /* what libcurl hands on at a time */

static double cpu_s(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double sum;

static void take_sample(void *cls, const struct exposition_sample *sample)
{
  (void)cls;
  sum += sample->value + (double)sample->label_count;
}

static void leave_out(void *cls, uint64_t line, const char *reason)
{
  (void)cls;
  (void)line;
  (void)reason;
}

static bool parse(const char *bytes, size_t length)
{
  const struct exposition_sink sink = {take_sample, leave_out, NULL};
  struct exposition parser;
  enum err code = exposition_init(&parser, EXPOSITION_TEXT, EXPOSITION_LIMITS_DEFAULT, sink, NULL);
  for (size_t at = 0; at < length && code == ERR_OK; at += PIECE)
    code = exposition_feed(&parser, bytes + at, length - at < PIECE ? length - at : PIECE, NULL);
  if (code == ERR_OK)
    code = exposition_finish(&parser, NULL);
  exposition_fini(&parser);
  return code == ERR_OK;
}

static bool find_feeds(const char *bytes, size_t length)
{
  const char *at = bytes, *const end = bytes + length;
  while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
    sum += 1;
    at++;
  }
  return true;
}

/* MB (10^6) a second of the best round. */
static double rate(bool (*run)(const char *bytes, size_t length), const char *bytes, size_t length)
{
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const double began = cpu_s();
    size_t done = 0;
    for (; done < BYTES_A_ROUND; done += length)
      if (!run(bytes, length))
        return 0;
    if ((double)done / (cpu_s() - began) > best)
      best = (double)done / (cpu_s() - began);
  }
  return best / 1e6;
}

static char *read_file(const char *path, size_t *length)
{
  FILE *file = fopen(path, "re");
  char *bytes = malloc(1 << 20);
  *length = 0;
  if (file != NULL && bytes != NULL)
    *length = fread(bytes, 1, 1 << 20, file);
  if (file != NULL)
    (void)fclose(file);
  return bytes;
}

int main(void)
{
  static const char *const pages[] = {"tests/data/exporters/samples/dcgm-exporter__HEAD-shape-mig-k8s-SYNTHETIC.prom",
                                      "tests/data/exporters/samples/nvidia_gpu_exporter__linux-x86_64__nvidia-h100-"
                                      "80gb-hbm3__590.48.01__load.prom",
                                      "tests/data/exporters/samples/node_exporter-1.5.0-debian12.prom",
                                      "tests/data/exporters/samples/vllm__v1-shape-SYNTHETIC.prom"};
  bool is_met = true;
  printf("%-58s %9s %14s\n", "page", "MB/s", "line feeds only");
  for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
    size_t length;
    char *bytes = read_file(pages[i], &length);
    const double parsed = length > 0 ? rate(parse, bytes, length) : 0;
    printf("%-58.58s %9.0f %14.0f\n", strrchr(pages[i], '/') + 1, parsed,
           length > 0 ? rate(find_feeds, bytes, length) : 0);
    is_met = is_met && parsed >= GOAL_MB_S;
    free(bytes);
  }
  printf("goal: %.0f MB/s on each page: %s\n", GOAL_MB_S, is_met ? "met" : "MISSED");
  return is_met ? EXIT_SUCCESS : EXIT_FAILURE;
}

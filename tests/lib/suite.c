/* The runner shared by all scenario tests. A test that passes removes its own directory, so what is left after the
   run explains the failures. */
#include "tests/lib/suite.h"

#include "tests/lib/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEST_TIMEOUT_S 60
#define LOG_TAIL_BYTES 3000

static char run_dir[64];

TCase *suite_case(Suite *suite, const char *name, SFun setup, SFun teardown)
{
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, TEST_TIMEOUT_S);
  tcase_add_checked_fixture(tcase, setup, teardown);
  suite_add_tcase(suite, tcase);
  return tcase;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
  (void)status;
  (void)kind;
  (void)place;
  return remove(path);
}

void suite_remove_dir(const char *path)
{
  if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
    fprintf(stderr, "cannot remove %s: %s\n", path, strerror(errno));
}

void suite_make_dir(char *path, size_t size)
{
  const int length = snprintf(path, size, "%s/test-XXXXXX", run_dir);
  ck_assert_int_lt(length, (int)size);
  ck_assert_msg(mkdtemp(path) != NULL, "mkdtemp %s: %s", path, strerror(errno));
}

const char *suite_dir(void)
{
  return run_dir;
}

static void print_tail(const char *path)
{
  char text[LOG_TAIL_BYTES + 1];
  size_t bytes;
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return;
  if (fseek(file, -(long)LOG_TAIL_BYTES, SEEK_END) != 0)
    rewind(file);
  bytes = fread(text, 1, LOG_TAIL_BYTES, file);
  text[bytes] = '\0';
  fclose(file);
  if (bytes > 0)
    fprintf(stderr, "---- end of %s\n%s\n", path, text);
}

static void print_logs_left_behind(void)
{
  struct dirent *entry;
  DIR *dir = opendir(run_dir);
  if (dir == NULL)
    return;
  while ((entry = readdir(dir)) != NULL) {
    char path[sizeof run_dir + sizeof entry->d_name + 16];
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(path, sizeof path, "%s/%s/stderr.log", run_dir, entry->d_name);
    print_tail(path);
  }
  closedir(dir);
}

int suite_run(Suite *suite)
{
  SRunner *runner = srunner_create(suite);
  int ran, failed;
  if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
    return EXIT_FAILURE;
  (void)snprintf(run_dir, sizeof run_dir, "/tmp/fitd-scenario-XXXXXX");
  if (mkdtemp(run_dir) == NULL) {
    perror(run_dir);
    return EXIT_FAILURE;
  }
  srunner_run_all(runner, CK_ENV);
  ran = srunner_ntests_run(runner);
  failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  if (failed > 0)
    print_logs_left_behind();
  suite_remove_dir(run_dir);
  if (ran == 0)
    fprintf(stderr, "no check ran\n");
  return ran > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The binary is build/<flavour>/tests/<folder>/<name>: five levels below the root. */
char *suite_source_path(const char *relative)
{
  char exe[4096];
  const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  ck_assert_int_gt(length, 0);
  exe[length] = '\0';
  for (int level = 0; level < 5; level++) {
    char *slash = strrchr(exe, '/');
    ck_assert_msg(slash != NULL, "%s is not five levels deep", exe);
    *slash = '\0';
  }
  return scratch_printf("%s/%s", exe, relative);
}

unsigned suite_rounds(unsigned full)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  return full < 5 ? 1 : full / 5;
#else
  return full;
#endif
}

double suite_now_s(void)
{
  struct timespec now;
  ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void suite_sleep_s(double seconds)
{
  const double whole_s = (double)(time_t)seconds;
  struct timespec left = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - whole_s) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
    continue;
}

/* Child processes of the tests. They die with the test that started them, whatever way it ends. */
#include "tests/lib/command.h"

#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32
#define COMMAND_TIMEOUT_S 30.0

const char *command_binary(void)
{
  const char *set = getenv("FITD_BINARY");
  char exe[4096];
  ssize_t length;
  if (set != NULL && set[0] != '\0')
    return set;
  length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  ck_assert_int_gt(length, 0);
  exe[length] = '\0';
  for (int level = 0; level < 3; level++)
    *strrchr(exe, '/') = '\0';
  return scratch_printf("%s/fitd", exe);
}

static char **environment_without_settings(void)
{
  size_t count = 0, kept = 0;
  char **copy;
  while (environ[count] != NULL)
    count++;
  copy = scratch_alloc((count + 1) * sizeof *copy);
  for (size_t i = 0; i < count; i++)
    if (strncmp(environ[i], "FITD_", 5) != 0)
      copy[kept++] = environ[i];
  return copy;
}

static void become_binary(const char *binary, char **argv, char **environment, const int fds[3])
{
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || signal(SIGPIPE, SIG_DFL) == SIG_ERR)
    _exit(126);
  for (int fd = 0; fd < 3; fd++)
    if (dup2(fds[fd], fd) < 0)
      _exit(126);
  execve(binary, argv, environment);
  _exit(127);
}

pid_t command_spawn(const char *const *arguments, int in_fd, int out_fd, int err_fd)
{
  const int fds[3] = {in_fd, out_fd, err_fd};
  const char *binary = command_binary();
  char **environment = environment_without_settings();
  char *argv[ARGUMENTS_MAX] = {scratch_printf("%s", binary)};
  size_t count = 1;
  pid_t pid;
  for (size_t i = 0; arguments[i] != NULL; i++) {
    ck_assert_uint_lt(count, ARGUMENTS_MAX - 1);
    argv[count++] = scratch_printf("%s", arguments[i]);
  }
  ck_assert_msg(access(binary, X_OK) == 0, "no binary %s", binary);
  pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0)
    become_binary(binary, argv, environment, fds);
  return pid;
}

int command_wait(pid_t pid, double timeout_s)
{
  const double deadline_s = suite_now_s() + timeout_s;
  int status = 0;
  for (;;) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    ck_assert_msg(got >= 0, "waitpid: %s", strerror(errno));
    if (got == pid)
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (suite_now_s() > deadline_s)
      break;
    suite_sleep_s(0.005);
  }
  kill(pid, SIGKILL);
  (void)waitpid(pid, &status, 0);
  ck_abort_msg("process still running after %.0f s", timeout_s);
}

static int open_file(const char *path, int flags)
{
  const int fd = open(path, flags | O_CLOEXEC, 0600);
  ck_assert_msg(fd >= 0, "open %s: %s", path, strerror(errno));
  return fd;
}

static int open_input(const char *path, const char *input)
{
  int fd;
  if (input == NULL)
    return open_file("/dev/null", O_RDONLY);
  fd = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
  ck_assert_int_eq(write(fd, input, strlen(input)), (ssize_t)strlen(input));
  ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
  return fd;
}

struct command_result command_run(const char *const *arguments, const char *input)
{
  struct command_result result = {0};
  char dir[128];
  const char *out, *err;
  int fds[3];
  suite_make_dir(dir, sizeof dir);
  out = scratch_printf("%s/stdout.log", dir);
  err = scratch_printf("%s/stderr.log", dir);
  fds[0] = open_input(scratch_printf("%s/stdin", dir), input);
  fds[1] = open_file(out, O_WRONLY | O_CREAT);
  fds[2] = open_file(err, O_WRONLY | O_CREAT);
  result.exit_status = command_wait(command_spawn(arguments, fds[0], fds[1], fds[2]), COMMAND_TIMEOUT_S);
  for (size_t i = 0; i < 3; i++)
    close(fds[i]);
  result.out = scratch_read_file(out);
  result.err = scratch_read_file(err);
  suite_remove_dir(dir);
  return result;
}

static int open_terminal(int *child_fd)
{
  const int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  char name[64];
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(grantpt(fd), 0);
  ck_assert_int_eq(unlockpt(fd), 0);
  ck_assert_int_eq(ptsname_r(fd, name, sizeof name), 0);
  *child_fd = open_file(name, O_RDWR | O_NOCTTY);
  return fd;
}

/* Reading fails with EIO once the last process that had the terminal is gone. */
static char *read_terminal(int fd)
{
  const size_t size = 1 << 20;
  char *text = scratch_alloc(size);
  size_t bytes = 0;
  ssize_t got;
  while (bytes + 1 < size && (got = read(fd, text + bytes, size - bytes - 1)) > 0)
    bytes += (size_t)got;
  return text;
}

struct command_result command_run_on_terminal(const char *const *arguments)
{
  struct command_result result = {.err = scratch_printf("%s", "")};
  int child_fd;
  const int fd = open_terminal(&child_fd);
  const int in_fd = open_file("/dev/null", O_RDONLY);
  const pid_t pid = command_spawn(arguments, in_fd, child_fd, child_fd);
  close(child_fd);
  close(in_fd);
  result.out = read_terminal(fd);
  result.exit_status = command_wait(pid, COMMAND_TIMEOUT_S);
  close(fd);
  return result;
}

/* Life of the daemon under test. Its log stays in the directory, where suite_run finds it after a failure. */
#include "tests/lib/daemon.h"

#include "tests/lib/command.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TIMEOUT_S 30.0
#define STOP_TIMEOUT_S 20.0
#define GREETING "fitd listening on "

void daemon_prepare(struct daemon *daemon)
{
  memset(daemon, 0, sizeof *daemon);
  daemon->stdout_fd = -1;
  suite_make_dir(daemon->dir, sizeof daemon->dir);
  (void)snprintf(daemon->database, sizeof daemon->database, "%s/fitd.db", daemon->dir);
  (void)snprintf(daemon->log, sizeof daemon->log, "%s/stderr.log", daemon->dir);
}

/* One line within the deadline, without its newline. */
static void read_line(int fd, char *line, size_t size, double timeout_s)
{
  const double deadline_s = suite_now_s() + timeout_s;
  size_t length = 0;
  for (;;) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    const double left_s = deadline_s - suite_now_s();
    ck_assert_msg(left_s > 0, "the daemon did not say within %.0f s that it listens", timeout_s);
    if (poll(&poll_fd, 1, (int)(left_s * 1000) + 1) <= 0)
      continue;
    ck_assert_uint_lt(length, size - 1);
    ck_assert_msg(read(fd, line + length, 1) == 1, "the daemon ended before it listened");
    if (line[length] == '\n')
      break;
    length++;
  }
  line[length] = '\0';
}

static void read_greeting(struct daemon *daemon)
{
  static const char *const schemes[] = {"http://127.0.0.1:", "https://127.0.0.1:"};
  char line[256], *end;
  const char *url = line + strlen(GREETING);
  unsigned long port = 0;
  read_line(daemon->stdout_fd, line, sizeof line, START_TIMEOUT_S);
  ck_assert_msg(strncmp(line, GREETING, strlen(GREETING)) == 0, "unexpected first line: %s", line);
  end = line;
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
    if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
      port = strtoul(url + strlen(schemes[i]), &end, 10);
  ck_assert_msg(*end == '\0' && port > 0 && port < 65536, "no port in: %s", line);
  daemon->port = (unsigned)port;
  ck_assert_int_lt(snprintf(daemon->url, sizeof daemon->url, "%s", url), (int)sizeof daemon->url);
}

void daemon_launch(struct daemon *daemon, const char *const *more)
{
  const char *arguments[24] = {"--listen", "127.0.0.1:0", "--database", daemon->database};
  int pipe_fds[2];
  const int in_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int log_fd = open(daemon->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ck_assert_int_ge(in_fd, 0);
  ck_assert_int_ge(log_fd, 0);
  ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
  for (size_t i = 0; more != NULL && more[i] != NULL; i++)
    arguments[4 + i] = more[i];
  daemon->pid = command_spawn(arguments, in_fd, pipe_fds[1], log_fd);
  daemon->stdout_fd = pipe_fds[0];
  close(pipe_fds[1]);
  close(in_fd);
  close(log_fd);
  read_greeting(daemon);
}

void daemon_start(struct daemon *daemon)
{
  daemon_prepare(daemon);
  daemon_launch(daemon, NULL);
}

static void forget_process(struct daemon *daemon)
{
  close(daemon->stdout_fd);
  daemon->stdout_fd = -1;
  daemon->pid = 0;
}

void daemon_stop(struct daemon *daemon)
{
  int status;
  ck_assert_int_gt(daemon->pid, 0);
  ck_assert_msg(kill(daemon->pid, SIGTERM) == 0, "kill: %s", strerror(errno));
  status = command_wait(daemon->pid, STOP_TIMEOUT_S);
  forget_process(daemon);
  ck_assert_msg(status == 0, "exit status %d after SIGTERM (-1: died of a signal)", status);
}

void daemon_kill(struct daemon *daemon)
{
  int status;
  ck_assert_int_eq(kill(daemon->pid, SIGKILL), 0);
  ck_assert_int_eq(waitpid(daemon->pid, &status, 0), daemon->pid);
  ck_assert_msg(WIFSIGNALED(status), "the daemon had already ended with status %d", WEXITSTATUS(status));
  forget_process(daemon);
}

void daemon_finish(struct daemon *daemon)
{
  if (daemon->pid > 0)
    daemon_stop(daemon);
  suite_remove_dir(daemon->dir);
  scratch_release();
}

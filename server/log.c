/* The log: two buffers, one filled under a short lock, one being written outside of it. Destinations are polled before
   each write, so a reader that stopped reading costs lines and never blocks a request. */
#include "server/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/clock.h"

#define BUFFER_BYTES (1024 * 1024)
#define FLUSH_BYTES (64 * 1024)

struct log {
  pthread_mutex_t fill_lock;  /* guards filling and dropped */
  pthread_mutex_t write_lock; /* guards writing, written and fd; taken before fill_lock */
  char *filling, *writing;
  size_t filled, to_write, written;
  uint64_t dropped;
  atomic_int level;
  int fd;
  bool is_file;
  char *path;
};

/* A line under construction. No line has more than five texts, each cut to TEXT_MAX bytes, so it always fits. */
struct line {
  char bytes[8192];
  size_t length;
};
#define TEXT_MAX 1300

static const char *const level_names[] = {"debug", "info", "warning", "error"};

const char *log_level_name(enum log_level level)
{
  return level_names[level];
}

bool log_level_parse(enum log_level *level, const char *name)
{
  size_t i;
  for (i = 0; i < sizeof level_names / sizeof level_names[0]; i++)
    if (strcmp(name, level_names[i]) == 0) {
      *level = (enum log_level)i;
      return true;
    }
  return false;
}

/* ---- Lines ---- */

static void put(struct line *line, const char *bytes, size_t count)
{
  assert(line->length + count <= sizeof line->bytes);
  memcpy(line->bytes + line->length, bytes, count);
  line->length += count;
}

/* Bytes of the UTF-8 character that begins here, 0 when none does. */
static size_t utf8_length(const unsigned char *at)
{
  size_t i, length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  if (at[0] > 0xf4 || (at[0] >= 0x80 && at[0] < 0xc2))
    return 0;
  for (i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80)
      return 0;
  if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
      (at[0] == 0xf4 && at[1] > 0x8f))
    return 0; /* overlong, a surrogate, or beyond Unicode */
  return length;
}

/* Bytes at `at` that stand for themselves in a JSON string. */
static size_t plain_length(const unsigned char *at, size_t max)
{
  size_t i = 0;
  while (i < max && at[i] >= 0x20 && at[i] < 0x7f && at[i] != '"' && at[i] != '\\')
    i++;
  return i;
}

static void put_escaped(struct line *line, unsigned char c)
{
  static const char hex[] = "0123456789abcdef";
  const char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
  put(line, escape, 6);
}

/* Clients choose some of these bytes: whatever they are, the line stays JSON. */
static void put_text(struct line *line, const char *text)
{
  const unsigned char *at = (const unsigned char *)text;
  const size_t end = line->length + TEXT_MAX;
  put(line, "\"", 1);
  while (*at != '\0' && line->length + 6 < end) {
    size_t length = plain_length(at, end - line->length - 1);
    if (length == 0)
      length = *at < 0x80 ? 1 : utf8_length(at);
    if (length == 0)
      put(line, "\\ufffd", 6);
    else if (length == 1 && plain_length(at, 1) == 0)
      put_escaped(line, *at);
    else
      put(line, (const char *)at, length);
    at += length > 0 ? length : 1;
  }
  put(line, "\"", 1);
}

static void put_integer(struct line *line, uint64_t value)
{
  char digits[20];
  size_t at = sizeof digits;
  do
    digits[--at] = (char)('0' + value % 10);
  while ((value /= 10) > 0);
  put(line, digits + at, sizeof digits - at);
}

static void put_padded(struct line *line, unsigned value, unsigned width)
{
  char digits[10];
  unsigned i;
  for (i = width; i > 0; i--, value /= 10)
    digits[i - 1] = (char)('0' + value % 10);
  put(line, digits, width);
}

static void put_key(struct line *line, const char *key)
{
  put(line, ",\"", 2);
  put(line, key, strlen(key));
  put(line, "\":", 2);
}

/* "2026-11-30T12:00:00" of the last second that this thread wrote in: most lines of a busy thread share it. */
struct second {
  time_t at;
  char text[32];
};

static void format_second(struct second *second, time_t at)
{
  struct tm t;
  (void)gmtime_r(&at, &t);
  second->at = at;
  if (strftime(second->text, sizeof second->text, "%Y-%m-%dT%H:%M:%S", &t) == 0)
    second->text[0] = '\0';
}

static void begin_line(struct line *line)
{
  static _Thread_local struct second last;
  const int64_t now_ms = clock_unix_ms();
  const time_t now = (time_t)(now_ms / 1000);
  if (last.at != now)
    format_second(&last, now);
  line->length = 0;
  put(line, "{\"time\":\"", 9);
  put(line, last.text, strlen(last.text));
  put(line, ".", 1);
  put_padded(line, (unsigned)(now_ms % 1000), 3);
  put(line, "Z\"", 2);
}

static void end_line(struct line *line)
{
  put(line, "}\n", 2);
}

/* ---- Buffers ---- */

/* How much the destination takes now without blocking: pipes promise PIPE_BUF bytes when they poll writable. */
static size_t writable_bytes(const struct log *log)
{
  struct pollfd poll_fd = {.fd = log->fd, .events = POLLOUT, .revents = 0};
  if (log->is_file)
    return BUFFER_BYTES;
  return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLOUT) != 0 ? PIPE_BUF : 0;
}

/* Writes the writing buffer as far as it goes; true when it is empty. A destination that fails loses the buffer: there is
   nowhere left to say so. */
static bool write_out(struct log *log)
{
  while (log->written < log->to_write) {
    size_t room = writable_bytes(log), left = log->to_write - log->written;
    ssize_t count;
    if (room == 0)
      return false;
    count = write(log->fd, log->writing + log->written, left < room ? left : room);
    if (count < 0 && errno == EAGAIN)
      return false;
    if (count < 0 && errno != EINTR)
      break;
    log->written += count > 0 ? (size_t)count : 0;
  }
  log->to_write = log->written = 0;
  return true;
}

static void swap_buffers(struct log *log)
{
  char *full;
  uint64_t dropped;
  (void)pthread_mutex_lock(&log->fill_lock);
  full = log->filling;
  log->filling = log->writing;
  log->writing = full;
  log->to_write = log->filled;
  log->filled = 0;
  dropped = log->dropped;
  log->dropped = 0;
  (void)pthread_mutex_unlock(&log->fill_lock);
  if (dropped > 0)
    log_write(log, LOG_INFO, "%llu log lines were dropped: the destination did not take them",
              (unsigned long long)dropped);
}

void log_flush(struct log *log)
{
  if (pthread_mutex_trylock(&log->write_lock) != 0)
    return; /* somebody is writing already */
  if (write_out(log)) {
    swap_buffers(log);
    (void)write_out(log);
  }
  (void)pthread_mutex_unlock(&log->write_lock);
}

static void append(struct log *log, const struct line *line, bool is_urgent)
{
  bool is_full;
  (void)pthread_mutex_lock(&log->fill_lock);
  if (log->filled + line->length <= BUFFER_BYTES) {
    memcpy(log->filling + log->filled, line->bytes, line->length);
    log->filled += line->length;
  } else {
    log->dropped++;
  }
  is_full = log->filled >= FLUSH_BYTES;
  (void)pthread_mutex_unlock(&log->fill_lock);
  if (is_full || is_urgent)
    log_flush(log);
}

/* ---- What is logged ---- */

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
  struct line line;
  char message[1024];
  va_list args;
  if ((int)level < atomic_load_explicit(&log->level, memory_order_relaxed))
    return;
  va_start(args, format);
  (void)vsnprintf(message, sizeof message, format, args);
  va_end(args);
  begin_line(&line);
  put_key(&line, "level");
  put_text(&line, level_names[level]);
  put_key(&line, "message");
  put_text(&line, message);
  end_line(&line);
  append(log, &line, level >= LOG_WARNING);
}

void log_request(struct log *log, const struct log_request *request)
{
  struct line line;
  begin_line(&line);
  put_key(&line, "id");
  put_text(&line, request->id);
  put_key(&line, "method");
  put_text(&line, request->method);
  put_key(&line, "route");
  put_text(&line, request->route);
  put_key(&line, "status");
  put_integer(&line, request->status);
  put_key(&line, "ms");
  put_integer(&line, (uint64_t)request->duration_us / 1000);
  put(&line, ".", 1);
  put_padded(&line, (unsigned)(request->duration_us % 1000), 3);
  put_key(&line, "bytes");
  put_integer(&line, request->bytes);
  put_key(&line, "caller");
  put_text(&line, request->caller);
  put_key(&line, "termination");
  put_text(&line, request->termination);
  end_line(&line);
  append(log, &line, false);
}

void log_audit(struct log *log, const struct log_audit *audit)
{
  struct line line;
  begin_line(&line);
  put_key(&line, "audit");
  put_text(&line, audit->path);
  put_key(&line, "method");
  put_text(&line, audit->method);
  put_key(&line, "status");
  put_integer(&line, audit->status);
  put_key(&line, "caller");
  put_text(&line, audit->caller);
  put_key(&line, "client");
  put_text(&line, audit->client);
  put_key(&line, "id");
  put_text(&line, audit->id);
  end_line(&line);
  append(log, &line, true);
}

void log_set_level(struct log *log, enum log_level level)
{
  atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

/* ---- Life cycle ---- */

static enum err open_destination(int *fd, bool *is_file, const char *path, struct error *e)
{
  struct stat status;
  *fd = path[0] == '\0' ? STDERR_FILENO : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (*fd < 0)
    return error_set(e, ERR_UNAVAILABLE, "", "the log file %s can not be opened: %s", path, strerror(errno));
  *is_file = fstat(*fd, &status) == 0 && S_ISREG(status.st_mode);
  return ERR_OK;
}

enum err log_open(struct log **out, const char *path, enum log_level level, struct error *e)
{
  struct log *log = calloc(1, sizeof *log);
  enum err err = ERR_OK;
  *out = NULL;
  if (log == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the log");
  (void)pthread_mutex_init(&log->fill_lock, NULL);
  (void)pthread_mutex_init(&log->write_lock, NULL);
  atomic_init(&log->level, (int)level);
  log->fd = STDERR_FILENO;
  log->filling = malloc(BUFFER_BYTES);
  log->writing = malloc(BUFFER_BYTES);
  log->path = strdup(path);
  if (log->filling == NULL || log->writing == NULL || log->path == NULL)
    err = error_set(e, ERR_NOMEM, "", "no memory for the log");
  else
    err = open_destination(&log->fd, &log->is_file, path, e);
  if (err == ERR_OK)
    *out = log;
  else
    log_close(log);
  return err;
}

enum err log_reopen(struct log *log, struct error *e)
{
  int fd = -1;
  bool is_file = false;
  enum err err;
  if (log->path[0] == '\0')
    return ERR_OK;
  err = open_destination(&fd, &is_file, log->path, e);
  if (err != ERR_OK)
    return err;
  (void)pthread_mutex_lock(&log->write_lock);
  (void)write_out(log);
  (void)close(log->fd);
  log->fd = fd;
  log->is_file = is_file;
  (void)pthread_mutex_unlock(&log->write_lock);
  return ERR_OK;
}

/* At exit a slow destination gets a second to take the rest. */
static void flush_last(struct log *log)
{
  unsigned tries;
  for (tries = 0; tries < 100 && (log->filled > 0 || log->to_write > 0); tries++) {
    struct pollfd poll_fd = {.fd = log->fd, .events = POLLOUT, .revents = 0};
    log_flush(log);
    if (log->to_write > 0)
      (void)poll(&poll_fd, 1, 10);
  }
}

void log_close(struct log *log)
{
  if (log == NULL)
    return;
  if (log->filling != NULL && log->writing != NULL)
    flush_last(log);
  if (log->fd > STDERR_FILENO)
    (void)close(log->fd);
  (void)pthread_mutex_destroy(&log->write_lock);
  (void)pthread_mutex_destroy(&log->fill_lock);
  free(log->path);
  free(log->writing);
  free(log->filling);
  free(log);
}

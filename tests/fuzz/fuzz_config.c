/* Configuration files. What is accepted is dumped and reads back to the same settings. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(struct config *config, int fd, struct faults *faults)
{
  static char *const none[] = {NULL};
  struct config_sources sources = {.environment = none};
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  sources.file = path;
  faults->count = 0;
  faults->is_truncated = false;
  config_load(config, &sources, faults);
}

static int file_of(const void *bytes, size_t size)
{
  const int fd = memfd_create("config", MFD_CLOEXEC);
  if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
    abort();
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct config config, again;
  static struct faults faults;
  char *dump = NULL;
  size_t length = 0;
  FILE *to;
  int fd = file_of(data, size);
  load(&config, fd, &faults);
  (void)close(fd);
  for (size_t i = 0; i < faults.count; i++)
    if (faults.items[i].pointer[0] == '\0' || faults.items[i].detail[0] == '\0')
      abort();
  if (faults.count > 0)
    return 0;
  to = open_memstream(&dump, &length);
  if (to == NULL)
    abort();
  config_dump(to, &config);
  if (fclose(to) != 0)
    abort();
  fd = file_of(dump, length);
  load(&again, fd, &faults);
  (void)close(fd);
  free(dump);
  if (faults.count > 0 || memcmp(&config, &again, sizeof config) != 0)
    abort();
  return 0;
}

/* The process as the kernel sees it. */
#include "server/stats.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double resident_bytes(void)
{
  long total = 0, resident = 0;
  char line[128] = "", *end;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL)
    return (double)NAN;
  if (fgets(line, sizeof line, file) != NULL) {
    total = strtol(line, &end, 10);
    resident = strtol(end, NULL, 10);
  }
  (void)fclose(file);
  return total > 0 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : (double)NAN;
}

static double open_descriptors(void)
{
  DIR *folder = opendir("/proc/self/fd");
  double count = -3; /* ".", ".." and the folder itself */
  if (folder == NULL)
    return (double)NAN;
  while (readdir(folder) != NULL)
    count++;
  (void)closedir(folder);
  return count;
}

static double seconds(struct timeval time)
{
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

void stats_process(struct api_stats *out)
{
  struct rusage usage;
  struct rlimit files;
  out->cpu_s = getrusage(RUSAGE_SELF, &usage) == 0 ? seconds(usage.ru_utime) + seconds(usage.ru_stime) : (double)NAN;
  out->resident_bytes = resident_bytes();
  out->open_descriptors = open_descriptors();
  out->max_descriptors = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : (double)NAN;
}

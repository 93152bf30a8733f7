/* Gives a fuzz target every file of the folders named, as a test of what fuzzing has found so far: no fuzzer is needed. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX ((size_t)1 << 20)

static int replay_file(const char *path)
{
  FILE *file = fopen(path, "re");
  uint8_t *data = malloc(INPUT_MAX);
  size_t size = 0;
  int failed = file == NULL || data == NULL;
  if (!failed) {
    size = fread(data, 1, INPUT_MAX, file);
    failed = ferror(file);
  }
  if (failed)
    (void)fprintf(stderr, "replay: %s can not be read: %s\n", path, strerror(errno));
  else
    (void)LLVMFuzzerTestOneInput(data, size);
  if (file != NULL)
    (void)fclose(file);
  free(data);
  return failed;
}

/* How many files were given; -1 after a complaint. */
static int replay_folder(const char *folder)
{
  DIR *entries = opendir(folder);
  struct dirent *entry;
  int count = 0;
  if (entries == NULL) {
    (void)fprintf(stderr, "replay: %s can not be read: %s\n", folder, strerror(errno));
    return -1;
  }
  while ((entry = readdir(entries)) != NULL && count >= 0) {
    char path[1024];
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    count = replay_file(path) != 0 ? -1 : count + 1;
  }
  (void)closedir(entries);
  return count;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    const int count = replay_folder(argv[i]);
    if (count <= 0) {
      (void)fprintf(stderr, "replay: nothing was given from %s\n", argv[i]);
      return EXIT_FAILURE;
    }
    printf("== %s: %d inputs of %s\n", argv[0], count, argv[i]);
  }
  return argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

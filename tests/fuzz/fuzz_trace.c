/* Traces: the first byte chooses CSV or JSON lines. What is read is in canonical form: its CSV reads back to the same
   requests, with the same digest. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const struct trace *trace)
{
  static struct faults faults;
  struct text text = {NULL, 0, 0, false};
  struct error e = {.code = ERR_OK};
  struct trace again;
  size_t length;
  char *csv;
  trace_write_csv(&text, &trace->requests);
  csv = text_take(&text, &length);
  faults.count = 0;
  if (csv == NULL || trace_read(&again, TRACE_CSV, csv, length, &faults, &e) != ERR_OK ||
      strcmp(again.digest, trace->digest) != 0)
    abort();
  trace_fini(&again);
  free(csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct faults faults;
  struct error e = {.code = ERR_OK};
  struct trace trace;
  json_t *document;
  enum err err;
  char *copy;
  if (size == 0)
    return 0;
  copy = malloc(size); /* its end is the end of the heap block */
  if (copy == NULL)
    abort();
  memcpy(copy, data + 1, size - 1);
  faults.count = 0;
  faults.is_truncated = false;
  err = trace_read(&trace, data[0] & 1 ? TRACE_JSON_LINES : TRACE_CSV, copy, size - 1, &faults, &e);
  free(copy);
  if (err == ERR_INVALID && faults.count == 0)
    abort();
  if (err != ERR_OK)
    return 0;
  document = trace_document(&trace);
  if (document == NULL)
    abort();
  json_decref(document);
  read_back(&trace);
  trace_fini(&trace);
  return 0;
}

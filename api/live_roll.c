/* Rolling scrapes of a GPU up. */
#include "api/live_roll.h"

#include <math.h>
#include <string.h>

#define VERSION 1
#define HEAD_BYTES 8
#define FIGURE_BYTES 28 /* position 2, count 2, sum, min, max 8 each */

void roll_init(struct roll *roll, int64_t time_ms)
{
  *roll = (struct roll){.time_ms = time_ms};
}

static void add_value(struct roll_figure *figure, double add, double value)
{
  figure->sum += add;
  figure->min = figure->count == 0 ? value : fmin(figure->min, value);
  figure->max = figure->count == 0 ? value : fmax(figure->max, value);
  figure->count++;
}

static void add_bits(struct roll_figure *figure, double value)
{
  const uint64_t bits = (uint64_t)value;
  figure->sum += (bits & THROTTLE_HARMFUL) != 0;
  figure->max = (double)((figure->count == 0 ? 0 : (uint64_t)figure->max) | bits);
  figure->count++;
}

/* A counter that fell began anew: what it shows is what it grew by since. */
static double increase(double now, double before)
{
  return now >= before ? now - before : now;
}

void roll_add(struct roll *roll, const double now[GPU_QUANTITIES], const double *previous)
{
  roll->scrape_count++;
  for (size_t q = 0; q < GPU_QUANTITIES; q++) {
    const enum quantity_kind kind = gpu_quantities[q].kind;
    if (isnan(now[q]))
      continue;
    if (kind == QUANTITY_BITS)
      add_bits(&roll->figures[q], now[q]);
    else if (kind != QUANTITY_COUNTER)
      add_value(&roll->figures[q], now[q], now[q]);
    else if (previous != NULL && !isnan(previous[q]))
      add_value(&roll->figures[q], increase(now[q], previous[q]), now[q]);
  }
}

void roll_merge(struct roll *into, const struct roll *more)
{
  into->scrape_count += more->scrape_count;
  for (size_t q = 0; q < GPU_QUANTITIES; q++) {
    struct roll_figure *to = &into->figures[q];
    const struct roll_figure *from = &more->figures[q];
    if (from->count == 0)
      continue;
    if (to->count == 0) {
      *to = *from;
      continue;
    }
    to->sum += from->sum;
    to->min = fmin(to->min, from->min);
    to->max = gpu_quantities[q].kind == QUANTITY_BITS ? (double)((uint64_t)to->max | (uint64_t)from->max)
                                                      : fmax(to->max, from->max);
    to->count += from->count;
  }
}

double roll_value(const struct roll *roll, enum gpu_quantity quantity)
{
  const struct roll_figure *figure = &roll->figures[quantity];
  if (figure->count == 0)
    return (double)NAN;
  switch (gpu_quantities[quantity].kind) {
  case QUANTITY_GAUGE: return figure->sum / figure->count;
  case QUANTITY_COUNTER: return figure->sum;
  case QUANTITY_BITS:
  case QUANTITY_LAST: return figure->max;
  }
  return (double)NAN;
}

double roll_min(const struct roll *roll, enum gpu_quantity quantity)
{
  return roll->figures[quantity].count > 0 && gpu_quantities[quantity].kind == QUANTITY_GAUGE
             ? roll->figures[quantity].min
             : (double)NAN;
}

double roll_max(const struct roll *roll, enum gpu_quantity quantity)
{
  return roll->figures[quantity].count > 0 && gpu_quantities[quantity].kind == QUANTITY_GAUGE
             ? roll->figures[quantity].max
             : (double)NAN;
}

/* ---- Bytes: least significant first ---- */

static unsigned char *put_number(unsigned char *to, uint64_t value, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    to[i] = (unsigned char)(value >> 8 * i);
  return to + bytes;
}

static uint64_t take_number(const unsigned char **from, size_t bytes)
{
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)(*from)[i] << 8 * i;
  *from += bytes;
  return value;
}

static unsigned char *put_double(unsigned char *to, double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return put_number(to, bits, sizeof bits);
}

static double take_double(const unsigned char **from)
{
  const uint64_t bits = take_number(from, 8);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

size_t roll_encode(unsigned char to[ROLL_BYTES_MAX], const struct roll *roll)
{
  unsigned char *at = put_number(to, VERSION, 2);
  at = put_number(at, 0, 2);
  at = put_number(at, roll->scrape_count, 4);
  for (size_t q = 0; q < GPU_QUANTITIES; q++) {
    const struct roll_figure *figure = &roll->figures[q];
    if (figure->count == 0)
      continue;
    at = put_number(at, q, 2);
    at = put_number(at, figure->count < UINT16_MAX ? figure->count : UINT16_MAX, 2);
    at = put_double(at, figure->sum);
    at = put_double(at, figure->min);
    at = put_double(at, figure->max);
  }
  return (size_t)(at - to);
}

bool roll_decode(struct roll *roll, const void *bytes, size_t length)
{
  const unsigned char *at = bytes;
  *roll = (struct roll){.time_ms = roll->time_ms};
  if (length < HEAD_BYTES || (length - HEAD_BYTES) % FIGURE_BYTES != 0 || take_number(&at, 4) != VERSION)
    return false;
  roll->scrape_count = (unsigned)take_number(&at, 4);
  for (size_t left = (length - HEAD_BYTES) / FIGURE_BYTES; left > 0; left--) {
    const size_t q = (size_t)take_number(&at, 2);
    struct roll_figure figure = {.count = (unsigned)take_number(&at, 2)};
    figure.sum = take_double(&at);
    figure.min = take_double(&at);
    figure.max = take_double(&at);
    if (q < GPU_QUANTITIES && isfinite(figure.sum) && isfinite(figure.min) && isfinite(figure.max))
      roll->figures[q] = figure;
  }
  return true;
}

/* Numbers of an exposition. Most have few digits, for which one multiplication or division by a power of ten that a double
   holds exactly gives the correctly rounded result; strtod has the rest. */
#include "server/exposition_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 18       /* of what an uint64_t takes without a check */
#define EXACT_MANTISSA 53   /* bits of a double's mantissa */
#define EXACT_EXPONENT 22   /* 10^22 is the largest power of ten that a double holds exactly */
#define EXPONENT_MAX 100000 /* larger ones are cut to this, which overflows or underflows as well */
#define TOKEN_MAX 4096      /* longer numbers are refused */

static bool is_digit(char c)
{
  return (unsigned char)(c - '0') < 10;
}

/* mantissa × 10^exponent10; `is_cut`: digits were left out of the mantissa. */
struct decimal {
  uint64_t mantissa;
  int exponent10;
  unsigned digit_count; /* significant ones */
  bool has_digits, is_cut;
};

static const char *read_digits(struct decimal *decimal, const char *at, const char *end, int exponent_step)
{
  for (; at < end && is_digit(*at); at++) {
    decimal->has_digits = true;
    if (decimal->mantissa == 0 && *at == '0') {
      decimal->exponent10 += exponent_step;
    } else if (decimal->digit_count < DIGITS_MAX) {
      decimal->mantissa = decimal->mantissa * 10 + (uint64_t)(*at - '0');
      decimal->digit_count++;
      decimal->exponent10 += exponent_step;
    } else {
      decimal->is_cut = true;
    }
  }
  return at;
}

/* The digits of an exponent; NULL when there are none. */
static const char *read_exponent(struct decimal *decimal, const char *at, const char *end)
{
  bool is_negative = false;
  int exponent = 0;
  if (at < end && (*at == '+' || *at == '-'))
    is_negative = *at++ == '-';
  if (at == end || !is_digit(*at))
    return NULL;
  for (; at < end && is_digit(*at); at++)
    if (exponent < EXPONENT_MAX)
      exponent = exponent * 10 + (*at - '0');
  decimal->exponent10 += is_negative ? -exponent : exponent;
  return at;
}

static bool by_strtod(double *out, struct exposition_text text)
{
  char token[TOKEN_MAX];
  if (text.length >= sizeof token)
    return false;
  memcpy(token, text.at, text.length);
  token[text.length] = '\0';
  *out = strtod(token, NULL);
  return isfinite(*out);
}

static bool finish(double *out, const struct decimal *decimal, bool is_negative, struct exposition_text text)
{
  static const double powers[EXACT_EXPONENT + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const double mantissa = (double)decimal->mantissa;
  double value;
  if (decimal->is_cut || decimal->mantissa >> EXACT_MANTISSA != 0)
    return by_strtod(out, text);
  if (decimal->mantissa == 0)
    value = 0;
  else if (decimal->exponent10 >= 0 && decimal->exponent10 <= EXACT_EXPONENT)
    value = mantissa * powers[decimal->exponent10];
  else if (decimal->exponent10 < 0 && decimal->exponent10 >= -EXACT_EXPONENT)
    value = mantissa / powers[-decimal->exponent10];
  else
    return by_strtod(out, text);
  *out = is_negative ? -value : value;
  return true;
}

static bool read_word(double *out, struct exposition_text text)
{
  const bool is_signed = text.length > 0 && (text.at[0] == '+' || text.at[0] == '-');
  const bool is_negative = is_signed && text.at[0] == '-';
  const char *word = text.at + (is_signed ? 1 : 0);
  const size_t length = text.length - (is_signed ? 1 : 0);
  if (length == 3 && strncasecmp(word, "nan", 3) == 0 && !is_signed)
    *out = (double)NAN;
  else if ((length == 3 && strncasecmp(word, "inf", 3) == 0) || (length == 8 && strncasecmp(word, "infinity", 8) == 0))
    *out = is_negative ? -(double)INFINITY : (double)INFINITY;
  else
    return false;
  return true;
}

bool exposition_number(double *out, struct exposition_text text)
{
  const char *at = text.at, *const end = text.at + text.length;
  struct decimal decimal = {.mantissa = 0};
  bool is_negative = false;
  if (at < end && (*at == '-' || *at == '+'))
    is_negative = *at++ == '-';
  if (at < end && !is_digit(*at) && *at != '.')
    return read_word(out, text);
  at = read_digits(&decimal, at, end, 0);
  if (at < end && *at == '.')
    at = read_digits(&decimal, at + 1, end, -1);
  if (!decimal.has_digits)
    return false;
  if (at < end && (*at == 'e' || *at == 'E')) {
    at = read_exponent(&decimal, at + 1, end);
    if (at == NULL)
      return false;
  }
  return at == end && finish(out, &decimal, is_negative, text);
}

bool exposition_integer(double *out, struct exposition_text text)
{
  size_t i = text.length > 0 && (text.at[0] == '-' || text.at[0] == '+') ? 1 : 0;
  if (i == text.length)
    return false;
  for (; i < text.length; i++)
    if (!is_digit(text.at[i]))
      return false;
  return exposition_number(out, text);
}

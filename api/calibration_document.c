/* What of a calibration is kept as numbers: its factors, and how much narrower its bands are. */
#include "api/catalogue.h"

#include "api/put.h"
#include "api/write.h"

static const char *const band_names[BAND_METRIC_COUNT] = {"tpot", "ttft", "throughput"};

static bool read_positive(double *to, const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  *to = json_number_value(value);
  return json_is_number(value) && *to > 0;
}

bool calibration_read(struct calibration *out, const json_t *document)
{
  const json_t *factors = json_object_get(document, "factors"), *bands = json_object_get(document, "band_scale");
  bool is_read = true;
  for (int i = 0; i < CALIBRATION_FACTOR_COUNT; i++)
    is_read =
        read_positive(&out->factor_ratio[i], factors, calibration_factor_name((enum calibration_factor)i)) && is_read;
  for (int i = 0; i < BAND_METRIC_COUNT; i++)
    is_read = read_positive(&out->band_scale[i], bands, band_names[i]) && is_read;
  return is_read;
}

json_t *calibration_factors_write(const struct calibration *calibration)
{
  json_t *object = json_object();
  for (int i = 0; i < CALIBRATION_FACTOR_COUNT; i++)
    put_member(&object, calibration_factor_name((enum calibration_factor)i),
               write_number(calibration->factor_ratio[i]));
  return object;
}

json_t *calibration_bands_write(const struct calibration *calibration)
{
  json_t *object = json_object();
  for (int i = 0; i < BAND_METRIC_COUNT; i++)
    put_member(&object, band_names[i], write_number(calibration->band_scale[i]));
  return object;
}

/* A key of P-256 is made in a millisecond, so each test has its own. */
#include "tests/lib/certificate.h"

#include <check.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S (24 * 3600)

#define OK(call) ck_assert_msg((call) == GNUTLS_E_SUCCESS, #call)

static void save(const char *file, const gnutls_datum_t *text)
{
  FILE *to = fopen(file, "w");
  ck_assert_ptr_nonnull(to);
  ck_assert_uint_eq(fwrite(text->data, 1, text->size, to), text->size);
  ck_assert_int_eq(fclose(to), 0);
}

static void describe(gnutls_x509_crt_t certificate, const char *common_name)
{
  static const unsigned char loopback[] = {127, 0, 0, 1}, serial[] = {1};
  const time_t now = time(NULL);
  OK(gnutls_x509_crt_set_version(certificate, 3));
  OK(gnutls_x509_crt_set_serial(certificate, serial, sizeof serial));
  OK(gnutls_x509_crt_set_activation_time(certificate, now - 60));
  OK(gnutls_x509_crt_set_expiration_time(certificate, now + DAY_S));
  OK(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, common_name,
                                   (unsigned)strlen(common_name)));
  OK(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, loopback, sizeof loopback,
                                          GNUTLS_FSAN_SET));
  OK(gnutls_x509_crt_set_basic_constraints(certificate, 1, -1));
}

void certificate_write(const char *certificate_file, const char *key_file, const char *common_name)
{
  gnutls_x509_privkey_t key;
  gnutls_x509_crt_t certificate;
  gnutls_datum_t text;
  OK(gnutls_x509_privkey_init(&key));
  OK(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
  OK(gnutls_x509_crt_init(&certificate));
  describe(certificate, common_name);
  OK(gnutls_x509_crt_set_key(certificate, key));
  OK(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0));
  OK(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text));
  save(certificate_file, &text);
  gnutls_free(text.data);
  OK(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text));
  save(key_file, &text);
  gnutls_free(text.data);
  gnutls_x509_crt_deinit(certificate);
  gnutls_x509_privkey_deinit(key);
}

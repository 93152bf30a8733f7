/* Self-signed certificates for 127.0.0.1, made with GnuTLS. Errors fail the running test. */
#ifndef FITD_TESTS_LIB_CERTIFICATE_H
#define FITD_TESTS_LIB_CERTIFICATE_H

/* Writes a fresh key and a certificate of this name, valid for a day, as PEM files. */
void certificate_write(const char *certificate_file, const char *key_file, const char *common_name);

#endif

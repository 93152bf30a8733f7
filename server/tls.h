/* The certificate and key that the daemon shows, loaded from PEM files and exchanged while it runs.
   Threads: open, reload and close from one thread; tls_retrieve from any. One object a process: the library's callback
   carries no context, so it finds the newest pair through the module.
   Ownership: pairs that were replaced stay until tls_close, because handshakes may still use them.
   Errors: ERR_INVALID, naming the file and what is wrong with it; a failed reload changes nothing. */
#ifndef FITD_SERVER_TLS_H
#define FITD_SERVER_TLS_H

#include <gnutls/abstract.h>

#include "core/error.h"

/* Cipher suites and versions, in the notation of GnuTLS: nothing older than TLS 1.2. */
#define TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct tls;

enum err tls_open(struct tls **out, const char *certificate_file, const char *key_file, struct error *e) MUST_CHECK;
enum err tls_reload(struct tls *tls, struct error *e) MUST_CHECK;
void tls_close(struct tls *tls);

/* What MHD_OPTION_HTTPS_CERT_CALLBACK takes. */
int tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                 const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **chain,
                 unsigned *chain_length, gnutls_privkey_t *key);

#endif

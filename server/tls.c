/* Certificates. A pair is checked as a whole before it replaces the one in use, so a half-written file never serves. */
#include "server/tls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_MAX 16

struct pair {
  gnutls_pcert_st chain[CHAIN_MAX];
  unsigned chain_length;
  gnutls_privkey_t key;
  struct pair *older;
};

struct tls {
  struct pair *newest;
  char certificate_file[512], key_file[512];
};

static _Atomic(struct pair *) shown;

static void pair_free(struct pair *pair)
{
  for (unsigned i = 0; i < pair->chain_length; i++)
    gnutls_pcert_deinit(&pair->chain[i]);
  if (pair->key != NULL)
    gnutls_privkey_deinit(pair->key);
  free(pair);
}

/* Whether the two belong together: the library compares them where they are made credentials. */
static enum err check_pair(const struct tls *tls, struct error *e)
{
  gnutls_certificate_credentials_t credentials = NULL;
  int status = gnutls_certificate_allocate_credentials(&credentials);
  if (status == GNUTLS_E_SUCCESS)
    status = gnutls_certificate_set_x509_key_file2(credentials, tls->certificate_file, tls->key_file,
                                                   GNUTLS_X509_FMT_PEM, NULL, 0);
  if (credentials != NULL)
    gnutls_certificate_free_credentials(credentials);
  if (status >= 0)
    return ERR_OK;
  return error_set(e, ERR_INVALID, "", "certificate %.150s with key %.150s: %s", tls->certificate_file, tls->key_file,
                   gnutls_strerror(status));
}

static enum err load_chain(struct pair *pair, const char *file, struct error *e)
{
  unsigned length = CHAIN_MAX;
  const int status = gnutls_pcert_list_import_x509_file(pair->chain, &length, file, GNUTLS_X509_FMT_PEM, NULL, NULL, 0);
  if (status < 0)
    return error_set(e, ERR_INVALID, "", "certificate %.300s: %s", file, gnutls_strerror(status));
  pair->chain_length = length;
  return ERR_OK;
}

static enum err load_key(struct pair *pair, const char *file, struct error *e)
{
  gnutls_datum_t text = {NULL, 0};
  int status = gnutls_load_file(file, &text);
  if (status == GNUTLS_E_SUCCESS)
    status = gnutls_privkey_init(&pair->key);
  if (status == GNUTLS_E_SUCCESS)
    status = gnutls_privkey_import_x509_raw(pair->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (text.data != NULL)
    gnutls_memset(text.data, 0, text.size);
  gnutls_free(text.data);
  if (status == GNUTLS_E_SUCCESS)
    return ERR_OK;
  return error_set(e, ERR_INVALID, "", "key %.300s: %s", file, gnutls_strerror(status));
}

enum err tls_reload(struct tls *tls, struct error *e)
{
  struct pair *pair;
  enum err err = check_pair(tls, e);
  if (err != ERR_OK)
    return err;
  pair = calloc(1, sizeof *pair);
  if (pair == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the certificate");
  err = load_chain(pair, tls->certificate_file, e);
  if (err == ERR_OK)
    err = load_key(pair, tls->key_file, e);
  if (err != ERR_OK) {
    pair_free(pair);
    return err;
  }
  pair->older = tls->newest;
  tls->newest = pair;
  atomic_store(&shown, pair);
  return ERR_OK;
}

enum err tls_open(struct tls **out, const char *certificate_file, const char *key_file, struct error *e)
{
  struct tls *tls = calloc(1, sizeof *tls);
  enum err err;
  *out = NULL;
  if (tls == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the certificate");
  (void)snprintf(tls->certificate_file, sizeof tls->certificate_file, "%s", certificate_file);
  (void)snprintf(tls->key_file, sizeof tls->key_file, "%s", key_file);
  err = tls_reload(tls, e);
  if (err == ERR_OK)
    *out = tls;
  else
    free(tls);
  return err;
}

void tls_close(struct tls *tls)
{
  if (tls == NULL)
    return;
  atomic_store(&shown, (struct pair *)NULL);
  while (tls->newest != NULL) {
    struct pair *pair = tls->newest;
    tls->newest = pair->older;
    pair_free(pair);
  }
  free(tls);
}

int tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                 const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **chain,
                 unsigned *chain_length, gnutls_privkey_t *key)
{
  struct pair *pair = atomic_load(&shown);
  (void)session, (void)authorities, (void)authority_count, (void)algorithms, (void)algorithm_count;
  if (pair == NULL)
    return -1;
  *chain = pair->chain;
  *chain_length = pair->chain_length;
  *key = pair->key;
  return 0;
}

/* Bearer tokens. Every token in force is tried against the one presented, in constant time each, so that the time of an
   answer tells nothing about how near a guess was. */
#include "server/auth.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "storage/store.h"

#define SALT_BYTES_MAX 64

struct entry {
  uint8_t salt[SALT_BYTES_MAX], hash[SHA256_DIGEST_SIZE];
  size_t salt_bytes;
  struct auth_caller caller;
};

struct auth {
  struct store *store;
  pthread_rwlock_t lock; /* guards what follows */
  bool is_loaded;
  uint64_t version;
  size_t count;
  struct entry *entries;
};

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes written, 0 when `hex` is not hex or has no place. */
static size_t from_hex(uint8_t *to, size_t size, const char *hex)
{
  size_t i, count = strlen(hex) / 2;
  if (strlen(hex) % 2 != 0 || count > size)
    return 0;
  for (i = 0; i < count; i++) {
    int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return 0;
    to[i] = (uint8_t)(high << 4 | low);
  }
  return count;
}

static bool read_entry(struct entry *entry, const struct store_token *row)
{
  size_t length = strlen(row->name);
  if (length >= sizeof entry->caller.name || !scope_parse(&entry->caller.scope, row->scope))
    return false;
  memcpy(entry->caller.name, row->name, length + 1);
  entry->salt_bytes = from_hex(entry->salt, sizeof entry->salt, row->salt);
  return entry->salt_bytes > 0 && from_hex(entry->hash, sizeof entry->hash, row->hash) == sizeof entry->hash;
}

/* Under the write lock. A row that can not be read fails the load: skipping it could leave no token in force, which would
   open the door. */
static enum err load(struct auth *auth, struct error *e)
{
  struct store_tokens list = {NULL, 0};
  struct entry *entries = NULL;
  uint64_t version = store_token_version(auth->store);
  size_t i, count = 0;
  enum err err = store_token_list(auth->store, &list, e);
  if (err != ERR_OK)
    goto out;
  entries = calloc(list.count + 1, sizeof *entries);
  if (entries == NULL) {
    err = error_set(e, ERR_NOMEM, "", "no memory for the list of tokens");
    goto out;
  }
  for (i = 0; i < list.count; i++) {
    if (list.rows[i].revoked_at_ms != 0)
      continue;
    if (!read_entry(&entries[count++], &list.rows[i])) {
      err = error_set(e, ERR_UNAVAILABLE, "", "the stored token %.64s can not be read", list.rows[i].name);
      goto out;
    }
  }
  free(auth->entries);
  auth->entries = entries;
  entries = NULL;
  auth->count = count;
  auth->version = version;
  auth->is_loaded = true;
out:
  free(entries);
  store_tokens_fini(&list);
  return err;
}

/* Takes the read lock over a list that is fresh; the caller unlocks when ERR_OK comes back. */
static enum err lock_fresh(struct auth *auth, struct error *e)
{
  enum err err = ERR_OK;
  (void)pthread_rwlock_rdlock(&auth->lock);
  while (!auth->is_loaded || auth->version != store_token_version(auth->store)) {
    (void)pthread_rwlock_unlock(&auth->lock);
    (void)pthread_rwlock_wrlock(&auth->lock);
    if (!auth->is_loaded || auth->version != store_token_version(auth->store))
      err = load(auth, e);
    (void)pthread_rwlock_unlock(&auth->lock);
    if (err != ERR_OK)
      return err;
    (void)pthread_rwlock_rdlock(&auth->lock);
  }
  return ERR_OK;
}

enum err auth_open(struct auth **out, struct store *store, struct error *e)
{
  struct auth *auth = calloc(1, sizeof *auth);
  enum err err;
  *out = NULL;
  if (auth == NULL)
    return error_set(e, ERR_NOMEM, "", "no memory for the list of tokens");
  auth->store = store;
  (void)pthread_rwlock_init(&auth->lock, NULL);
  err = lock_fresh(auth, e);
  if (err != ERR_OK) {
    auth_close(auth);
    return err;
  }
  (void)pthread_rwlock_unlock(&auth->lock);
  *out = auth;
  return ERR_OK;
}

void auth_close(struct auth *auth)
{
  if (auth == NULL)
    return;
  (void)pthread_rwlock_destroy(&auth->lock);
  free(auth->entries);
  free(auth);
}

bool auth_has_tokens(struct auth *auth)
{
  bool has;
  (void)pthread_rwlock_rdlock(&auth->lock);
  has = auth->count > 0;
  (void)pthread_rwlock_unlock(&auth->lock);
  return has;
}

/* The text after "Bearer ", NULL when the value is something else. */
static const char *bearer(const char *authorization)
{
  const char *text;
  if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
    return NULL;
  text = authorization + 7;
  return text + strspn(text, " ");
}

static const struct entry *find(const struct auth *auth, const char *text)
{
  const struct entry *found = NULL;
  uint8_t hash[SHA256_DIGEST_SIZE];
  size_t i, length = strlen(text);
  for (i = 0; i < auth->count; i++) {
    const struct entry *entry = &auth->entries[i];
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, entry->salt_bytes, entry->salt);
    sha256_update(&context, length, (const uint8_t *)text);
    sha256_digest(&context, sizeof hash, hash);
    if (memeql_sec(hash, entry->hash, sizeof hash))
      found = entry;
  }
  return found;
}

enum err auth_resolve(struct auth_caller *out, struct auth *auth, const char *authorization, bool is_local,
                      struct error *e)
{
  const struct entry *entry;
  const char *text = bearer(authorization);
  enum err err = lock_fresh(auth, e);
  if (err != ERR_OK)
    return err;
  entry = text != NULL ? find(auth, text) : NULL;
  if (entry != NULL) {
    *out = entry->caller;
  } else if (auth->count == 0 && is_local) {
    out->scope = SCOPE_ADMIN;
    out->name[0] = '\0';
  } else if (authorization == NULL) {
    err = error_set(e, ERR_PRECONDITION, "", "a token is needed: Authorization: Bearer TOKEN");
  } else if (text == NULL) {
    err = error_set(e, ERR_PRECONDITION, "", "the Authorization header is not of the form Bearer TOKEN");
  } else {
    err = error_set(e, ERR_PRECONDITION, "", "the token is not known, or revoked");
  }
  (void)pthread_rwlock_unlock(&auth->lock);
  return err;
}

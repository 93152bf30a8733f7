/* A direct-mapped cache of immutable documents. */
#include "storage/recent.h"

#include <stdlib.h>
#include <string.h>

void recent_init(struct recent *recent)
{
  memset(recent->slots, 0, sizeof recent->slots);
  for (size_t i = 0; i < RECENT_LOCKS; i++)
    (void)pthread_mutex_init(&recent->locks[i], NULL);
}

void recent_fini(struct recent *recent)
{
  for (size_t i = 0; i < RECENT_SLOTS; i++)
    free(recent->slots[i].document);
  for (size_t i = 0; i < RECENT_LOCKS; i++)
    (void)pthread_mutex_destroy(&recent->locks[i]);
}

/* FNV-1a over the id. */
static size_t slot_of(const char *id)
{
  size_t hash = 1469598103934665603U;
  for (; *id != '\0'; id++)
    hash = (hash ^ (unsigned char)*id) * 1099511628211U;
  return hash % RECENT_SLOTS;
}

bool recent_get(struct recent *recent, char **document, size_t *length, const char *id)
{
  const size_t at = slot_of(id);
  struct recent_slot *slot = &recent->slots[at];
  bool is_found = false;
  (void)pthread_mutex_lock(&recent->locks[at % RECENT_LOCKS]);
  if (slot->document != NULL && strcmp(slot->id, id) == 0 && (*document = malloc(slot->length + 1)) != NULL) {
    memcpy(*document, slot->document, slot->length + 1);
    *length = slot->length;
    is_found = true;
  }
  (void)pthread_mutex_unlock(&recent->locks[at % RECENT_LOCKS]);
  return is_found;
}

void recent_put(struct recent *recent, const char *id, const char *document, size_t length)
{
  const size_t at = slot_of(id);
  const size_t id_length = strlen(id);
  struct recent_slot *slot = &recent->slots[at];
  char *copy, *old;
  if (length > RECENT_DOCUMENT_BYTES || id_length >= sizeof slot->id || (copy = malloc(length + 1)) == NULL)
    return;
  memcpy(copy, document, length);
  copy[length] = '\0';
  (void)pthread_mutex_lock(&recent->locks[at % RECENT_LOCKS]);
  old = slot->document;
  slot->document = copy;
  slot->length = length;
  memcpy(slot->id, id, id_length + 1);
  (void)pthread_mutex_unlock(&recent->locks[at % RECENT_LOCKS]);
  free(old);
}

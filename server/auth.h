/* Who calls: bearer tokens against the salted hashes in the store. Without any token in force, callers on this machine
   have the admin scope and nobody else gets in.
   Threads: auth_resolve from any thread. The list of hashes is cached and re-read when the store's token version moves.
   Errors: ERR_PRECONDITION: no valid token; ERR_UNAVAILABLE and others of the store when the list can not be read: nobody
   is let in then. */
#ifndef FITD_SERVER_AUTH_H
#define FITD_SERVER_AUTH_H

#include "api/api.h"

struct auth;
struct auth_caller {
  enum scope scope;
  char name[65]; /* of the token; "" = no tokens are in force, or the control socket */
};

enum err auth_open(struct auth **out, struct store *store, struct error *e) MUST_CHECK;
void auth_close(struct auth *auth);

bool auth_has_tokens(struct auth *auth);

/* `authorization`: the header's value, NULL = absent. */
enum err auth_resolve(struct auth_caller *out, struct auth *auth, const char *authorization, bool is_local,
                      struct error *e) MUST_CHECK;

#endif

/* Nodes as documents: reading what a client puts, writing what is answered, and back from the store. Private to api/. */
#ifndef FITD_API_NODES_H
#define FITD_API_NODES_H

#include <jansson.h>

#include "api/observation.h"
#include "storage/store.h"

struct node {
  char name[65], profile[65], workload[65];
  double interval_s, timeout_s;
  struct api_target target; /* its name and times are set by node_finish */
};

/* The host and port of an http or https URL without userinfo and fragment; why not in *fault, a sentence. */
struct node_address {
  char host[256], port[6];
};
bool node_address_read(struct node_address *out, const char *url, const char **fault);

/* A PUT body. Faults carry their pointers; profile and address are checked by the handler. */
void node_read(struct node *out, const json_t *body, struct faults *faults);
/* What is answered of the configuration, and what is not; NULL when memory is out. */
json_t *node_write(const struct node *node);
json_t *node_write_secrets(const struct node *node);

struct nodes {
  struct node *rows;
  size_t count;
};
/* All nodes of the store; overwrites secrets at the end. */
enum err nodes_load(struct nodes *out, struct store *store, struct error *e) MUST_CHECK;
void nodes_fini(struct nodes *nodes);

#endif

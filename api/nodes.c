/* Nodes between JSON, the store and the scraper. */
#include "api/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/live.h"
#include "api/put.h"
#include "api/read.h"
#include "api/write.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define INTERVAL_DEFAULT_S 15
#define TIMEOUT_DEFAULT_S 5
#define PAGE 1000

/* ---- URLs ---- */

static bool refuse(const char **fault, const char *sentence)
{
  *fault = sentence;
  return false;
}

static bool is_port(const char *text)
{
  const size_t length = strlen(text);
  if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
    return false;
  return strtol(text, NULL, 10) >= 1 && strtol(text, NULL, 10) <= 65535;
}

/* host, host:port, [v6] or [v6]:port. */
static bool read_authority(struct node_address *out, const char *at, size_t length, const char *fallback_port,
                           const char **fault)
{
  const char *const end = at + length;
  const char *host_end;
  const bool is_bracketed = length > 0 && *at == '[';
  (void)snprintf(out->port, sizeof out->port, "%s", fallback_port);
  host_end = is_bracketed ? memchr(at, ']', length) : memchr(at, ':', length);
  if (is_bracketed && host_end == NULL)
    return refuse(fault, "has an address in brackets without its end");
  if (is_bracketed)
    at++;
  if (host_end == NULL)
    host_end = end;
  if (host_end == at || (size_t)(host_end - at) >= sizeof out->host)
    return refuse(fault, "has no host, or one that is too long");
  (void)snprintf(out->host, sizeof out->host, "%.*s", (int)(host_end - at), at);
  if (is_bracketed)
    host_end++;
  if (host_end == end)
    return true;
  if (*host_end != ':' || (size_t)(end - host_end) > sizeof out->port)
    return refuse(fault, "has a port that is no number from 1 to 65535");
  (void)snprintf(out->port, sizeof out->port, "%.*s", (int)(end - host_end - 1), host_end + 1);
  return is_port(out->port) || refuse(fault, "has a port that is no number from 1 to 65535");
}

bool node_address_read(struct node_address *out, const char *url, const char **fault)
{
  const bool is_https = strncmp(url, "https://", 8) == 0;
  const char *at = url + (is_https ? 8 : 7);
  size_t length;
  if (!is_https && strncmp(url, "http://", 7) != 0)
    return refuse(fault, "must start with http:// or https://");
  for (const char *c = url; *c != '\0'; c++)
    if (*c <= ' ' || *c >= 0x7f || strchr("\\\"<>^`{|}", *c) != NULL)
      return refuse(fault, "holds a character that a URL may not");
  if (strchr(url, '#') != NULL)
    return refuse(fault, "must not have a fragment");
  length = strcspn(at, "/?");
  if (memchr(at, '@', length) != NULL)
    return refuse(fault, "must not hold a user or a password: use basic_auth");
  return read_authority(out, at, length, is_https ? "443" : "80", fault);
}

/* ---- Bodies ---- */

static void read_url(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  char *url = to;
  struct node_address address;
  const char *fault = NULL;
  const struct read_field field = {.kind = READ_TEXT, .to = url, .size = 512};
  const size_t before = faults->count;
  read_value(value, pointer, &field, faults);
  if (faults->count == before && !node_address_read(&address, url, &fault))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "%s", fault);
}

static void read_basic_auth(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct api_target *target = to;
  const struct read_field fields[] = {
      {.name = "username",
       .kind = READ_TEXT,
       .is_required = true,
       .to = target->username,
       .size = sizeof target->username},
      {.name = "password",
       .kind = READ_TEXT,
       .is_required = true,
       .to = target->password,
       .size = sizeof target->password},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  if (strchr(target->username, ':') != NULL)
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL,
               "has a username with a colon, which basic authentication can not tell from the password");
}

static void read_tls(const json_t *value, const char *pointer, void *to, struct faults *faults)
{
  struct api_target *target = to;
  const struct read_field fields[] = {
      {.name = "ca_file", .kind = READ_TEXT, .to = target->ca_file, .size = sizeof target->ca_file},
      {.name = "server_name", .kind = READ_TEXT, .to = target->server_name, .size = sizeof target->server_name},
  };
  (void)read_object(value, pointer, fields, COUNT_OF(fields), faults);
  if (strspn(target->server_name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") !=
      strlen(target->server_name))
    faults_add(faults, FAULT_OUT_OF_RANGE, pointer, NULL, "has a server_name that is no host name");
}

/* RFC 6750: a token is made of these. */
static bool is_token(const char *text)
{
  return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")] == '\0';
}

static void check_whole(const struct node *node, struct faults *faults)
{
  if (!is_token(node->target.bearer_token))
    faults_add(faults, FAULT_OUT_OF_RANGE, "/bearer_token", NULL,
               "has characters that no bearer token has: letters, digits and -._~+/= are expected");
  if (node->timeout_s > node->interval_s)
    faults_add(faults, FAULT_CONFLICT, "/timeout_s", NULL, "is %g, longer than interval_s, %g", node->timeout_s,
               node->interval_s);
  if (node->target.bearer_token[0] != '\0' && node->target.username[0] != '\0')
    faults_add(faults, FAULT_CONFLICT, "/basic_auth", NULL, "excludes bearer_token: one of them");
  if (node->target.server_name[0] != '\0' && strncmp(node->target.url, "https://", 8) != 0)
    faults_add(faults, FAULT_CONFLICT, "/tls/server_name", NULL, "needs an https URL");
}

static void finish(struct node *node)
{
  memcpy(node->target.name, node->name, sizeof node->target.name);
  node->target.interval_ms = (unsigned)(node->interval_s * 1e3);
  node->target.timeout_ms = (unsigned)(node->timeout_s * 1e3);
}

void node_read(struct node *out, const json_t *body, struct faults *faults)
{
  const struct read_field fields[] = {
      {.name = "url", .kind = READ_CALL, .is_required = true, .to = out->target.url, .call = read_url},
      {.name = "profile", .kind = READ_NAME, .is_required = true, .to = out->profile, .size = sizeof out->profile},
      {.name = "exporter", .kind = READ_WORD, .to = &out->target.exporter, .words = observation_exporters},
      {.name = "workload", .kind = READ_NAME, .allows_null = true, .to = out->workload, .size = sizeof out->workload},
      {.name = "interval_s", .kind = READ_NUMBER, .to = &out->interval_s, .min = 1, .max = 3600},
      {.name = "timeout_s", .kind = READ_NUMBER, .to = &out->timeout_s, .min = 0.1, .max = 30},
      {.name = "bearer_token",
       .kind = READ_TEXT,
       .to = out->target.bearer_token,
       .size = sizeof out->target.bearer_token},
      {.name = "basic_auth", .kind = READ_CALL, .to = &out->target, .call = read_basic_auth},
      {.name = "tls", .kind = READ_CALL, .allows_null = true, .to = &out->target, .call = read_tls},
  };
  *out = (struct node){.interval_s = INTERVAL_DEFAULT_S, .timeout_s = TIMEOUT_DEFAULT_S};
  if (!read_object(body, "", fields, COUNT_OF(fields), faults))
    return;
  if (json_object_get(body, "timeout_s") == NULL && out->timeout_s > out->interval_s)
    out->timeout_s = out->interval_s;
  check_whole(out, faults);
  finish(out);
}

static const char *text_or_null(const char *text)
{
  return text[0] != '\0' ? text : NULL;
}

json_t *node_write(const struct node *node)
{
  const struct api_target *target = &node->target;
  json_t *document = json_object(), *tls = json_null();
  if (target->ca_file[0] != '\0' || target->server_name[0] != '\0') {
    tls = json_object();
    put_member(&tls, "ca_file", write_text(text_or_null(target->ca_file)));
    put_member(&tls, "server_name", write_text(text_or_null(target->server_name)));
  }
  put_member(&document, "url", json_string(target->url));
  put_member(&document, "profile", json_string(node->profile));
  put_member(&document, "exporter", json_string(observation_exporters[target->exporter]));
  put_member(&document, "workload", write_text(text_or_null(node->workload)));
  put_member(&document, "interval_s", write_number(node->interval_s));
  put_member(&document, "timeout_s", write_number(node->timeout_s));
  put_member(&document, "authentication",
             json_string(target->bearer_token[0] != '\0' ? "bearer"
                         : target->username[0] != '\0'   ? "basic"
                                                         : "none"));
  put_member(&document, "tls", tls);
  return document;
}

json_t *node_write_secrets(const struct node *node)
{
  json_t *secrets = json_object();
  if (node->target.bearer_token[0] != '\0')
    put_member(&secrets, "bearer_token", json_string(node->target.bearer_token));
  if (node->target.username[0] != '\0') {
    put_member(&secrets, "username", json_string(node->target.username));
    put_member(&secrets, "password", json_string(node->target.password));
  }
  return secrets;
}

/* ---- From the store ---- */

static void copy_member(char *to, size_t size, const json_t *object, const char *name)
{
  const char *text = json_string_value(json_object_get(object, name));
  (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

static int exporter_of(const json_t *document)
{
  const char *word = json_string_value(json_object_get(document, "exporter"));
  for (int i = 0; word != NULL && observation_exporters[i] != NULL; i++)
    if (strcmp(observation_exporters[i], word) == 0)
      return i;
  return 0;
}

static enum err parse_row(struct node *out, const struct store_node *row, struct error *e)
{
  json_t *document = json_loads(row->document, 0, NULL), *secrets = json_loads(row->secrets, 0, NULL);
  const json_t *tls = json_object_get(document, "tls");
  struct api_target *target = &out->target;
  *out = (struct node){.interval_s = json_number_value(json_object_get(document, "interval_s")),
                       .timeout_s = json_number_value(json_object_get(document, "timeout_s"))};
  if (document != NULL && secrets != NULL) {
    (void)snprintf(out->name, sizeof out->name, "%s", row->name);
    copy_member(out->profile, sizeof out->profile, document, "profile");
    copy_member(out->workload, sizeof out->workload, document, "workload");
    copy_member(target->url, sizeof target->url, document, "url");
    copy_member(target->ca_file, sizeof target->ca_file, tls, "ca_file");
    copy_member(target->server_name, sizeof target->server_name, tls, "server_name");
    copy_member(target->bearer_token, sizeof target->bearer_token, secrets, "bearer_token");
    copy_member(target->username, sizeof target->username, secrets, "username");
    copy_member(target->password, sizeof target->password, secrets, "password");
    target->exporter = exporter_of(document);
    finish(out);
  }
  json_decref(document);
  json_decref(secrets);
  return document != NULL && secrets != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "", "not enough memory to read a node");
}

static enum err append(struct nodes *out, const struct store_nodes *page, struct error *e)
{
  struct node *larger = reallocarray(out->rows, out->count + page->count + 1, sizeof *larger);
  enum err code = ERR_OK;
  if (larger == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory for the nodes");
  out->rows = larger;
  for (size_t i = 0; i < page->count && code == ERR_OK; i++)
    code = parse_row(&out->rows[out->count++], &page->rows[i], e);
  return code;
}

enum err nodes_load(struct nodes *out, struct store *store, struct error *e)
{
  struct store_page page = {.limit = PAGE};
  bool has_more = true;
  enum err code = ERR_OK;
  *out = (struct nodes){.rows = NULL};
  while (has_more && code == ERR_OK) {
    struct store_nodes list;
    code = store_node_list(store, &list, &page, e);
    if (code != ERR_OK)
      break;
    code = append(out, &list, e);
    has_more = list.has_more;
    if (list.count > 0)
      (void)snprintf(page.after, sizeof page.after, "%s", list.rows[list.count - 1].name);
    store_nodes_fini(&list);
  }
  if (code != ERR_OK)
    nodes_fini(out);
  return code;
}

void nodes_fini(struct nodes *nodes)
{
  if (nodes->rows != NULL)
    explicit_bzero(nodes->rows, nodes->count * sizeof *nodes->rows);
  free(nodes->rows);
  *nodes = (struct nodes){.rows = NULL};
}

/* ---- For the scraper ---- */

enum err api_targets_load(struct api_targets *out, struct api *api, struct error *e)
{
  struct nodes nodes;
  enum err code = nodes_load(&nodes, live_store(api), e);
  *out = (struct api_targets){.rows = NULL};
  if (code != ERR_OK)
    return code;
  out->rows = calloc(nodes.count + 1, sizeof *out->rows);
  if (out->rows == NULL)
    code = error_set(e, ERR_NOMEM, "", "not enough memory for the targets");
  for (size_t i = 0; code == ERR_OK && i < nodes.count; i++)
    out->rows[out->count++] = nodes.rows[i].target;
  nodes_fini(&nodes);
  return code;
}

void api_targets_fini(struct api_targets *targets)
{
  if (targets->rows != NULL)
    explicit_bzero(targets->rows, targets->count * sizeof *targets->rows);
  free(targets->rows);
  *targets = (struct api_targets){.rows = NULL};
}

uint64_t api_targets_version(const struct api *api)
{
  return store_node_version(live_store(api));
}

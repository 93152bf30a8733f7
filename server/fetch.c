/* A scrape with libcurl. Every option that guards something is checked: a misspelt one would leave everything allowed. */
#include "server/fetch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/fit.h"

#define CONNECT_TIMEOUT_MS 3000

struct fetch {
  CURL *easy;
  struct curl_slist *headers, *connect_to;
  const struct fetch_options *options;
  struct reading *reading;
  struct exposition parser;
  bool has_parser, is_address_refused, starts_like_html;
  unsigned timeout_ms;
  size_t byte_count;
  char failure[200]; /* "" = none yet */
};

static void fail(struct fetch *fetch, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail(struct fetch *fetch, const char *format, ...)
{
  va_list arguments;
  if (fetch->failure[0] != '\0')
    return;
  va_start(arguments, format);
  (void)vsnprintf(fetch->failure, sizeof fetch->failure, format, arguments);
  va_end(arguments);
}

/* ---- While it runs ---- */

static curl_socket_t open_socket(void *cls, curlsocktype purpose, struct curl_sockaddr *address)
{
  struct fetch *fetch = cls;
  (void)purpose;
  if (fetch->options->allowed != NULL && !addresses_allow(fetch->options->allowed, &address->addr)) {
    fetch->is_address_refused = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_header(char *bytes, size_t size, size_t count, void *cls)
{
  static const char name[] = "content-encoding:";
  struct fetch *fetch = cls;
  const size_t length = size * count;
  size_t at = sizeof name - 1;
  if (length <= at || strncasecmp(bytes, name, at) != 0)
    return length;
  while (at < length && (bytes[at] == ' ' || bytes[at] == '\t'))
    at++;
  if (!(length - at >= 4 && strncasecmp(bytes + at, "gzip", 4) == 0 && strcspn(bytes + at + 4, " \t\r\n") == 0) &&
      !(length - at >= 8 && strncasecmp(bytes + at, "identity", 8) == 0)) {
    fail(fetch, "the answer is encoded, and not with gzip");
    return 0;
  }
  return length;
}

/* Once, when the first bytes of the body are there: the status and the type are known then. */
static bool begin_body(struct fetch *fetch)
{
  struct error e;
  const char *type = NULL;
  long status = 0;
  (void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
  (void)curl_easy_getinfo(fetch->easy, CURLINFO_CONTENT_TYPE, &type);
  if (status != 200) {
    fail(fetch, "the answer has the status %ld", status);
    return false;
  }
  if (exposition_init(&fetch->parser, exposition_format_of(type), EXPOSITION_LIMITS_DEFAULT,
                      reading_sink(fetch->reading), &e) != ERR_OK) {
    fail(fetch, "%s", e.message);
    return false;
  }
  fetch->has_parser = true;
  return true;
}

static void fail_page(struct fetch *fetch, const struct error *e)
{
  if (fetch->starts_like_html)
    fail(fetch, "the answer is HTML and no metrics: is the path of the URL right?");
  else
    fail(fetch, "the page is refused: %.160s", e->message);
}

/* Returning less than was given makes libcurl end the transfer. */
static size_t take_body(char *bytes, size_t size, size_t count, void *cls)
{
  struct fetch *fetch = cls;
  const size_t length = size * count;
  struct error e;
  if (length == 0)
    return 0;
  if (!fetch->has_parser) {
    if (!begin_body(fetch))
      return 0;
    fetch->starts_like_html = bytes[0] == '<';
  }
  fetch->byte_count += length;
  if (fetch->byte_count > fetch->options->body_max_bytes) {
    fail(fetch, "the page is larger than %zu MiB", fetch->options->body_max_bytes >> 20);
    return 0;
  }
  if (exposition_feed(&fetch->parser, bytes, length, &e) != ERR_OK) {
    fail_page(fetch, &e);
    return 0;
  }
  return length;
}

/* ---- Before ---- */

static bool add_header(struct fetch *fetch, const char *format, ...) PRINTF_LIKE(2, 3);
static bool add_header(struct fetch *fetch, const char *format, ...)
{
  char line[1200];
  struct curl_slist *longer;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  longer = curl_slist_append(fetch->headers, line);
  explicit_bzero(line, sizeof line);
  if (longer == NULL)
    return false;
  fetch->headers = longer;
  return true;
}

/* vLLM and SGLang print OpenMetrics pages that its own readers refuse, so the text format is asked for. */
static bool set_headers(struct fetch *fetch, const struct api_target *target)
{
  return add_header(fetch, "Accept: text/plain;version=0.0.4;q=1,application/openmetrics-text;version=1.0.0;q=0.5,"
                           "*/*;q=0.1") &&
         add_header(fetch, "X-Prometheus-Scrape-Timeout-Seconds: %.3f", target->timeout_ms / 1e3) &&
         (target->bearer_token[0] == '\0' || add_header(fetch, "Authorization: Bearer %s", target->bearer_token)) &&
         curl_easy_setopt(fetch->easy, CURLOPT_HTTPHEADER, fetch->headers) == CURLE_OK;
}

static bool set_guards(struct fetch *fetch, const struct api_target *target)
{
  CURL *easy = fetch->easy;
  const long timeout_ms = (long)target->timeout_ms;
  return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                          timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms : (long)CONNECT_TIMEOUT_MS) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, fetch) == CURLE_OK;
}

static bool set_transfer(struct fetch *fetch, const struct api_target *target)
{
  CURL *easy = fetch->easy;
  return curl_easy_setopt(easy, CURLOPT_URL, target->url) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip") == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_USERAGENT, "fitd/" CORE_VERSION) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch) == CURLE_OK &&
         curl_easy_setopt(easy, CURLOPT_PRIVATE, fetch) == CURLE_OK;
}

/* The certificate's name in place of the URL's host, while the connection goes to the URL's. */
static bool set_server_name(struct fetch *fetch, const struct api_target *target)
{
  CURLU *url = curl_url();
  char *host = NULL, *port = NULL;
  char route[600];
  bool is_set = url != NULL && curl_url_set(url, CURLUPART_URL, target->url, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
  if (is_set) {
    char *renamed = NULL;
    (void)snprintf(route, sizeof route, "%s:%s:%s:%s", target->server_name, port, host, port);
    fetch->connect_to = curl_slist_append(NULL, route);
    is_set = fetch->connect_to != NULL && curl_url_set(url, CURLUPART_HOST, target->server_name, 0) == CURLUE_OK &&
             curl_url_get(url, CURLUPART_URL, &renamed, 0) == CURLUE_OK &&
             curl_easy_setopt(fetch->easy, CURLOPT_URL, renamed) == CURLE_OK &&
             curl_easy_setopt(fetch->easy, CURLOPT_CONNECT_TO, fetch->connect_to) == CURLE_OK;
    curl_free(renamed);
  }
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(url);
  return is_set;
}

static bool set_credentials(struct fetch *fetch, const struct api_target *target)
{
  CURL *easy = fetch->easy;
  if (target->username[0] != '\0' && (curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC) != CURLE_OK ||
                                      curl_easy_setopt(easy, CURLOPT_USERNAME, target->username) != CURLE_OK ||
                                      curl_easy_setopt(easy, CURLOPT_PASSWORD, target->password) != CURLE_OK))
    return false;
  if (target->ca_file[0] != '\0' && curl_easy_setopt(easy, CURLOPT_CAINFO, target->ca_file) != CURLE_OK)
    return false;
  return target->server_name[0] == '\0' || set_server_name(fetch, target);
}

enum err fetch_new(struct fetch **out, const struct api_target *target, const struct fetch_options *options,
                   struct error *e)
{
  struct fetch *fetch = calloc(1, sizeof *fetch);
  if (fetch == NULL)
    return error_set(e, ERR_NOMEM, "", "not enough memory to scrape");
  fetch->options = options;
  fetch->timeout_ms = target->timeout_ms;
  fetch->easy = curl_easy_init();
  if (fetch->easy == NULL || reading_new(&fetch->reading, options->exporters, target->exporter, e) != ERR_OK ||
      !set_transfer(fetch, target) || !set_guards(fetch, target) || !set_headers(fetch, target) ||
      !set_credentials(fetch, target)) {
    fetch_free(fetch);
    return error_set(e, ERR_NOMEM, "", "a scrape can not be set up");
  }
  *out = fetch;
  return ERR_OK;
}

void fetch_free(struct fetch *fetch)
{
  if (fetch == NULL)
    return;
  curl_easy_cleanup(fetch->easy);
  curl_slist_free_all(fetch->headers);
  curl_slist_free_all(fetch->connect_to);
  if (fetch->has_parser)
    exposition_fini(&fetch->parser);
  reading_free(fetch->reading);
  free(fetch);
}

CURL *fetch_easy(const struct fetch *fetch)
{
  return fetch->easy;
}

const struct reading *fetch_reading(const struct fetch *fetch)
{
  return fetch->reading;
}

/* ---- Afterwards ---- */

/* One sentence for what went wrong on the way; libcurl's own may quote the peer. */
static void explain(struct fetch *fetch, CURLcode code)
{
  static const struct {
    CURLcode code;
    const char *sentence;
  } sentences[] = {{CURLE_COULDNT_RESOLVE_HOST, "the name of the host does not resolve"},
                   {CURLE_COULDNT_CONNECT, "the host takes no connection"},
                   {CURLE_GOT_NOTHING, "the host closed the connection without an answer"},
                   {CURLE_PARTIAL_FILE, "the answer ends before its length"},
                   {CURLE_RECV_ERROR, "the connection broke"},
                   {CURLE_BAD_CONTENT_ENCODING, "the answer says gzip and is none, or ends early"},
                   {CURLE_WEIRD_SERVER_REPLY, "the answer is no HTTP"},
                   {CURLE_UNSUPPORTED_PROTOCOL, "the answer is no HTTP"},
                   {CURLE_PEER_FAILED_VERIFICATION, "the certificate does not verify"},
                   {CURLE_SSL_CACERT_BADFILE, "the CA file can not be read"},
                   {CURLE_SSL_CONNECT_ERROR, "TLS can not be agreed on"}};
  if (fetch->is_address_refused)
    fail(fetch, "the address of the host is outside scrape_allow");
  if (code == CURLE_OPERATION_TIMEDOUT)
    fail(fetch, "no complete answer within %g s", fetch->timeout_ms / 1e3);
  for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
    if (sentences[i].code == code)
      fail(fetch, "%s", sentences[i].sentence);
  fail(fetch, "the scrape failed: %s", curl_easy_strerror(code));
}

bool fetch_result(const struct observation **seen, const char **failure, struct fetch *fetch, CURLcode code)
{
  struct error e;
  bool is_fine = false;
  *failure = fetch->failure;
  *seen = NULL;
  if (code != CURLE_OK || fetch->failure[0] != '\0')
    explain(fetch, code);
  else if (!fetch->has_parser && !begin_body(fetch))
    is_fine = false;
  else if (exposition_finish(&fetch->parser, &e) != ERR_OK)
    fail_page(fetch, &e);
  else if (reading_finish(seen, fetch->reading, &e) != ERR_OK)
    fail(fetch, "%s", e.message);
  else
    is_fine = true;
  return is_fine;
}

/* Nodes and roll-ups in a real store. */
#include "storage/store.h"
#include "tests/lib/scratch.h"
#include "tests/lib/suite.h"

#include <string.h>

static struct store *store;
static struct error e;

static void setup(void)
{
  char dir[256];
  struct store_options options = {.readers = 2};
  suite_make_dir(dir, sizeof dir);
  options.path = scratch_printf("%s/nodes.db", dir);
  ck_assert_msg(store_open(&store, &options, &e) == ERR_OK, "%s", e.message);
}

static void teardown(void)
{
  store_close(store);
  scratch_release();
}

/* Strings of rows are only read by puts. */
static char name_a[] = "a", name_b[] = "b", one[] = "{\"url\":1}", two[] = "{\"url\":2}",
            secret[] = "{\"bearer\":\"x\"}", gpu_0[] = "0", gpu_1[] = "1", figures[] = "abc";

struct put {
  struct store_node row;
  int expected;
  bool created;
};

static enum err put_work(struct store_tx *tx, void *cls, struct error *error)
{
  struct put *put = cls;
  return store_node_put(tx, &put->row, put->expected, &put->created, error);
}

static enum err put(char *name, char *document, int expected, bool *created)
{
  struct put work = {{.name = name, .created_at_ms = 5, .document = document, .secrets = secret}, expected, false};
  const enum err code = store_write(store, "put", put_work, &work, &e);
  *created = work.created;
  return code;
}

static enum err delete_work(struct store_tx *tx, void *cls, struct error *error)
{
  return store_node_delete(tx, cls, error);
}

START_TEST(put_get_list_delete)
{
  const struct store_page page = {.limit = 1};
  struct store_node row;
  struct store_nodes list;
  bool created;
  const uint64_t before = store_node_version(store);
  ck_assert_int_eq(put(name_b, one, -1, &created), ERR_OK);
  ck_assert(created);
  ck_assert_int_eq(put(name_b, two, 1, &created), ERR_OK);
  ck_assert(!created);
  ck_assert_int_eq(put(name_b, two, 1, &created), ERR_PRECONDITION);
  ck_assert_int_eq(put(name_a, one, 0, &created), ERR_OK);
  ck_assert_uint_ne(store_node_version(store), before);
  ck_assert_int_eq(store_node_get(store, &row, "b", &e), ERR_OK);
  ck_assert_int_eq(row.revision, 2);
  ck_assert_str_eq(row.document, two);
  ck_assert_str_eq(row.secrets, secret);
  store_node_fini(&row);
  ck_assert_int_eq(store_node_list(store, &list, &page, &e), ERR_OK);
  ck_assert_uint_eq(list.count, 1);
  ck_assert(list.has_more);
  ck_assert_str_eq(list.rows[0].name, "a");
  store_nodes_fini(&list);
  ck_assert_int_eq(store_write(store, "delete", delete_work, name_a, &e), ERR_OK);
  ck_assert_int_eq(store_write(store, "delete", delete_work, name_a, &e), ERR_NOT_FOUND);
  ck_assert_int_eq(store_node_get(store, &row, "a", &e), ERR_NOT_FOUND);
}
END_TEST

static enum err samples_work(struct store_tx *tx, void *cls, struct error *error)
{
  enum err code = ERR_OK;
  (void)cls;
  for (int minute = 0; minute < 4 && code == ERR_OK; minute++) {
    const int64_t time_ms = (int64_t)minute * 60000;
    const struct store_gpu_sample rows[] = {{name_a, gpu_0, 60, time_ms, figures, 3},
                                            {name_a, gpu_1, 60, time_ms, figures, (size_t)minute},
                                            {name_b, gpu_0, 60, time_ms, figures, 3}};
    const struct store_engine_sample engine = {name_a, 60, time_ms, one};
    for (size_t i = 0; i < 3 && code == ERR_OK; i++)
      code = store_gpu_sample_put(tx, &rows[i], error);
    if (code == ERR_OK)
      code = store_engine_sample_put(tx, &engine, error);
  }
  return code;
}

static enum err prune_work(struct store_tx *tx, void *cls, struct error *error)
{
  (void)cls;
  return store_samples_prune(tx, 60, 120000, error);
}

static size_t gpu_rows(const char *gpu, size_t limit)
{
  const struct store_sample_filter filter = {"a", gpu, 60, 60000, 240000, limit};
  struct store_gpu_samples list;
  size_t count;
  ck_assert_int_eq(store_gpu_sample_list(store, &list, &filter, &e), ERR_OK);
  count = list.count;
  for (size_t i = 1; i < count; i++)
    ck_assert_int_ge(strcmp(list.rows[i].gpu, list.rows[i - 1].gpu), 0);
  if (gpu != NULL && strcmp(gpu, "0") == 0 && count > 0)
    ck_assert_int_eq(memcmp(list.rows[0].figures, figures, list.rows[0].figures_bytes), 0);
  store_gpu_samples_fini(&list);
  return count;
}

START_TEST(samples_by_time_and_gpu)
{
  const struct store_sample_filter engines = {"a", NULL, 60, 0, 240000, 100};
  struct store_engine_samples list;
  bool created;
  ck_assert_int_eq(put(name_a, one, -1, &created), ERR_OK);
  ck_assert_int_eq(store_write(store, "samples", samples_work, NULL, &e), ERR_OK); /* b is not there: left out */
  ck_assert_uint_eq(gpu_rows("0", 100), 3);
  ck_assert_uint_eq(gpu_rows("0", 2), 2);
  ck_assert_uint_eq(gpu_rows(NULL, 100), 6);
  ck_assert_int_eq(store_write(store, "prune", prune_work, NULL, &e), ERR_OK);
  ck_assert_uint_eq(gpu_rows("0", 100), 2);
  ck_assert_int_eq(store_engine_sample_list(store, &list, &engines, &e), ERR_OK);
  ck_assert_uint_eq(list.count, 2);
  ck_assert_int_eq(list.rows[0].time_ms, 120000);
  store_engine_samples_fini(&list);
  ck_assert_int_eq(store_write(store, "delete", delete_work, name_a, &e), ERR_OK);
  ck_assert_uint_eq(gpu_rows(NULL, 100), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("nodes");
  TCase *tcase = suite_case(suite, "nodes", setup, teardown);
  tcase_add_test(tcase, put_get_list_delete);
  tcase_add_test(tcase, samples_by_time_and_gpu);
  return suite_run(suite);
}

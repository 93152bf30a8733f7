/* The arena: alignment, bounds, release, and formatted text. */
#include "core/arena.h"

#include <stdalign.h>
#include <stdint.h>

#include "tests/core/fixtures.h"

START_TEST(memory_is_zeroed_aligned_and_within_the_block)
{
  unsigned char block[1024];
  for (size_t offset = 0; offset < 32; offset++) {
    struct arena arena;
    memset(block, 0xab, sizeof block);
    arena_init(&arena, block + offset, sizeof block - 64);
    for (size_t size = 1; size < 40; size += 7) {
      const unsigned char *bytes = arena_alloc(&arena, size, 1);
      ck_assert_ptr_nonnull(bytes);
      ck_assert_uint_eq((uintptr_t)bytes % alignof(max_align_t), 0);
      ck_assert(bytes >= block + offset && bytes + size <= block + offset + sizeof block - 64);
      for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(bytes[i], 0);
    }
  }
}
END_TEST

START_TEST(an_exhausted_arena_says_so_and_stays_usable)
{
  alignas(max_align_t) unsigned char block[64];
  struct arena arena;
  arena_init(&arena, block, sizeof block);
  ck_assert_ptr_nonnull(arena_alloc(&arena, 32, 1));
  ck_assert_ptr_null(arena_alloc(&arena, 33, 1));
  ck_assert_uint_eq(arena.used_bytes, 32);
  ck_assert_ptr_nonnull(arena_alloc(&arena, 32, 1));
  ck_assert_ptr_null(arena_alloc(&arena, 1, 1));
  ck_assert_ptr_null(arena_printf(&arena, "x"));
  ck_assert_uint_eq(arena.peak_bytes, 64);
}
END_TEST

START_TEST(products_that_overflow_are_refused)
{
  alignas(max_align_t) unsigned char block[64];
  struct arena arena;
  arena_init(&arena, block, sizeof block);
  ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX, 2));
  ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX / 2 + 1, 2));
  ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX, 1));
  ck_assert_ptr_null(arena_alloc(&arena, 2, SIZE_MAX));
  ck_assert_uint_eq(arena.used_bytes, 0);
}
END_TEST

START_TEST(a_block_smaller_than_the_alignment_holds_nothing)
{
  alignas(max_align_t) unsigned char block[64];
  struct arena arena;
  arena_init(&arena, block + 1, 3);
  ck_assert_ptr_null(arena_alloc(&arena, 1, 1));
  arena_init(&arena, block, 0);
  ck_assert_ptr_null(arena_alloc(&arena, 1, 1));
  ck_assert_ptr_null(arena_printf(&arena, "%s", ""));
}
END_TEST

START_TEST(release_hands_the_same_memory_out_again)
{
  alignas(max_align_t) unsigned char block[256];
  struct arena arena;
  size_t mark;
  unsigned char *first, *second;
  arena_init(&arena, block, sizeof block);
  ck_assert_ptr_nonnull(arena_alloc(&arena, 1, 16));
  mark = arena_mark(&arena);
  first = arena_alloc(&arena, 1, 64);
  ck_assert_ptr_nonnull(first);
  memset(first, 0xff, 64);
  arena_release(&arena, mark);
  second = arena_alloc(&arena, 1, 64);
  ck_assert_ptr_eq(first, second);
  ck_assert_int_eq(second[63], 0);
  ck_assert_uint_eq(arena.peak_bytes, 80);
}
END_TEST

START_TEST(text_is_formatted_and_kept)
{
  alignas(max_align_t) unsigned char block[256];
  struct arena arena;
  const char *one, *two;
  arena_init(&arena, block, sizeof block);
  one = arena_printf(&arena, "%d %s", 17, "seventeen");
  two = arena_printf(&arena, "%.2f", 0.125);
  ck_assert_str_eq(one, "17 seventeen");
  ck_assert_uint_eq(strlen(two), 4);
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("arena");
  tcase_add_test(tcase, memory_is_zeroed_aligned_and_within_the_block);
  tcase_add_test(tcase, an_exhausted_arena_says_so_and_stays_usable);
  tcase_add_test(tcase, products_that_overflow_are_refused);
  tcase_add_test(tcase, a_block_smaller_than_the_alignment_holds_nothing);
  tcase_add_test(tcase, release_hands_the_same_memory_out_again);
  tcase_add_test(tcase, text_is_formatted_and_kept);
  return fixture_run("core/arena", tcase);
}

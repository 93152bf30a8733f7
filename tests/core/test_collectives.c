/* All-reduce times: by hand from the fitted constants, and the choice of link, algorithm and number of devices. */
#include "core/collectives.h"

#include "core/units.h"
#include "tests/core/fixtures.h"

static double time_s(const struct hardware *hardware, unsigned devices, double bytes)
{
  const struct collective_time time = collective_all_reduce(hardware, devices, 2.0 * (devices - 1) / devices * bytes);
  return time.floor_s + time.work_s;
}

START_TEST(one_device_talks_to_nobody)
{
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t i = 0; i < count; i++) {
    const struct hardware hardware = fixture_hardware_of(&devices[i]);
    const struct collective_time time = collective_all_reduce(&hardware, 1, 1e9);
    ck_assert(time.floor_s <= 0 && time.work_s <= 0);
  }
}
END_TEST

/* V = 2·7/8·bytes; t = alpha + V/B + s·√V.
   H100, 8 devices, 16 KiB: V 28,672: custom 4.62 + 28672/479.5e3 + 5.03e-3·169.33 = 4.62 + 0.0598 + 0.8517 = 5.531 µs
   (NCCL starts at 15.15). 1 GB: V 1.75e9: custom 4.62 + 3649.64 + 210.42 = 3864.7, NCCL 15.15 + 3467.41 + 334.66 = 3817.2. */
START_TEST(the_faster_algorithm_is_taken)
{
  const struct hardware hardware = fixture_hardware("h100-sxm-80gb");
  assert_close(time_s(&hardware, 8, 16384) / US, 5.531, 1e-3);
  assert_close(time_s(&hardware, 8, 1e9) / US, 3817.2, 1e-4);
}
END_TEST

/* A100 tp 2, 64 KiB: V = 65536: 4.99 + 65536/186.2e3 + 0.25e-3·256 = 4.99 + 0.352 + 0.064 = 5.406 µs. */
START_TEST(links_have_their_own_constants)
{
  const struct hardware a100 = fixture_hardware("a100-sxm-80gb"), b200 = fixture_hardware("b200-sxm-180gb");
  assert_close(time_s(&a100, 2, 65536) / US, 5.406, 1e-3);
  /* B200 tp 4, 1 MiB: V 1,572,864: 6.55 + 2.1928 + 5.33e-3·1254.14 = 15.427 µs. */
  assert_close(time_s(&b200, 4, 1048576) / US, 15.427, 1e-3);
}
END_TEST

/* Three devices take the row of four, five to eight that of eight, 16 and more that of eight. */
START_TEST(unmeasured_numbers_of_devices_take_the_next_larger_row)
{
  const struct hardware hardware = fixture_hardware("gb200-nvl72");
  const double v = 1e6;
  const double four = collective_all_reduce(&hardware, 4, v).floor_s,
               eight = collective_all_reduce(&hardware, 8, v).floor_s;
  ck_assert(eight > four);
  assert_close(collective_all_reduce(&hardware, 3, v).floor_s, four, 1e-12);
  assert_close(collective_all_reduce(&hardware, 5, v).floor_s, eight, 1e-12);
  assert_close(collective_all_reduce(&hardware, 64, v).floor_s, eight, 1e-12);
}
END_TEST

/* STEPMODEL §2: A100 PCIe has a bridge for two, PCIe 4 beyond, there with five times the table's bandwidth (3.8 and 5.1
   GB/s were a host without peer access). tp 4, 1 MB: V 1.5e6: custom 12.68 + 1.5e6/19e3 = 91.63; NCCL 11.47 + 1.5e6/25.5e3 =
   70.29 µs. */
START_TEST(a_bridge_joins_two)
{
  const struct hardware bridged = fixture_hardware("a100-pcie-80gb"), switched = fixture_hardware("a100-sxm-80gb");
  assert_close(time_s(&bridged, 2, 1e6), time_s(&switched, 2, 1e6), 1e-12);
  assert_close(time_s(&bridged, 4, 1e6) / US, 70.29, 1e-3);
}
END_TEST

/* L40S tp 2 (PCIe 4), 1 MB: V 1e6: custom 5.34 + 1e6/19.2e3 + 0.84e-3·1000 = 58.26, NCCL 6.25 + 48.08 + 14.86 = 69.2.
   RTX PRO 6000 (PCIe 5): 4.35 + 1e6/38.3e3 + 0.01 = 30.47. Consumer Ada without peer access: 1.5 times the table for n > 2:
   tp 4: NCCL 11.47 + 1.5e6/7.65e3 = 207.55, custom 12.68 + 263.2. */
START_TEST(boards_without_a_link_use_the_host_bus)
{
  struct hardware l40s = fixture_hardware("l40s-48gb");
  const struct hardware pro = fixture_hardware("rtxpro6000-server-96gb");
  assert_close(time_s(&l40s, 2, 1e6) / US, 58.26, 1e-3);
  assert_close(time_s(&pro, 2, 1e6) / US, 30.47, 1e-3);
  l40s.family = HARDWARE_ADA_CONSUMER;
  assert_close(time_s(&l40s, 4, 1e6) / US, 207.55, 1e-3);
}
END_TEST

/* V100's NVLink 2 has half the one-way rate of NVLink 3: half the bandwidth of its table; AMD's link is measured like
   NVLink 4. */
START_TEST(links_without_a_table_scale_the_nearest)
{
  const struct hardware v100 = fixture_hardware("v100-sxm-32gb"), mi300 = fixture_hardware("mi300x-192gb"),
                        h100 = fixture_hardware("h100-sxm-80gb");
  /* tp 2, 1 MB: V 1e6: 4.99 + 1e6/93.1e3 + 0.25 = 15.98 µs. */
  assert_close(time_s(&v100, 2, 1e6) / US, 15.98, 1e-3);
  assert_close(time_s(&mi300, 8, 1e6), time_s(&h100, 8, 1e6), 1e-12);
}
END_TEST

START_TEST(larger_messages_take_longer)
{
  size_t count;
  const struct fixture_device *devices = fixture_devices(&count);
  for (size_t i = 0; i < count; i++) {
    const struct hardware hardware = fixture_hardware_of(&devices[i]);
    for (unsigned n = 2; n <= 8; n++) {
      double before = 0;
      for (double v = 1; v < 1e10; v *= 1.7) {
        const struct collective_time time = collective_all_reduce(&hardware, n, v);
        ck_assert_msg(isfinite(time.work_s) && time.floor_s > 0 && time.floor_s + time.work_s > before, "%s n %u V %g",
                      hardware.name, n, v);
        before = time.floor_s + time.work_s;
      }
    }
  }
}
END_TEST

START_TEST(domains_are_switches_or_hosts)
{
  const struct hardware h100 = fixture_hardware("h100-sxm-80gb"), gb200 = fixture_hardware("gb200-nvl72"),
                        l40s = fixture_hardware("l40s-48gb"), bridged = fixture_hardware("a100-pcie-80gb"),
                        gh200 = fixture_hardware("gh200-96gb");
  ck_assert_uint_eq(collective_domain_devices(&h100), 8);
  ck_assert_uint_eq(collective_domain_devices(&gb200), 72);
  ck_assert_uint_eq(collective_domain_devices(&l40s), 8);
  ck_assert_uint_eq(collective_domain_devices(&bridged), 8);
  ck_assert_uint_eq(collective_domain_devices(&gh200), 1);
}
END_TEST

static double sum_s(struct collective_time time)
{
  return time.floor_s + time.work_s;
}

/* 1 MB. H100: 4.2 + 1e6/282.8e3 + 0.61e-3·1000 = 8.346 µs; a bridged A100 to the next pair over PCIe 4: 58.26 (above); to
   another host at the usual 12.5 GB/s: 20 + 80 = 100, at a stated 50 GB/s: 20 + 20 = 40. */
START_TEST(a_message_takes_the_link_that_it_crosses)
{
  struct hardware h100 = fixture_hardware("h100-sxm-80gb");
  const struct hardware bridged = fixture_hardware("a100-pcie-80gb");
  bool is_assumed;
  assert_close(sum_s(collective_send(&h100, SPAN_LINK, 1e6)) / US, 8.346, 1e-3);
  assert_close(sum_s(collective_send(&bridged, SPAN_HOST, 1e6)) / US, 58.26, 1e-3);
  assert_close(sum_s(collective_send(&h100, SPAN_NETWORK, 1e6)) / US, 100, 1e-9);
  (void)collective_network_bytes_s(&h100, &is_assumed);
  ck_assert(is_assumed);
  h100.inter_node_gb_s = 50;
  assert_close(sum_s(collective_send(&h100, SPAN_NETWORK, 1e6)) / US, 40, 1e-9);
  assert_close(collective_network_bytes_s(&h100, &is_assumed), 50e9, 1e-12);
  ck_assert(!is_assumed);
}
END_TEST

START_TEST(spans_are_the_narrowest_that_hold_it)
{
  const struct hardware h100 = fixture_hardware("h100-sxm-80gb"), bridged = fixture_hardware("a100-pcie-80gb"),
                        l40s = fixture_hardware("l40s-48gb"), gh200 = fixture_hardware("gh200-96gb");
  ck_assert_int_eq(collective_span_of(&h100, 8), SPAN_LINK);
  ck_assert_int_eq(collective_span_of(&h100, 9), SPAN_NETWORK);
  ck_assert_int_eq(collective_span_of(&bridged, 2), SPAN_LINK);
  ck_assert_int_eq(collective_span_of(&bridged, 4), SPAN_HOST);
  ck_assert_int_eq(collective_span_of(&bridged, 16), SPAN_NETWORK);
  ck_assert_int_eq(collective_span_of(&l40s, 2), SPAN_HOST);
  ck_assert_int_eq(collective_span_of(&gh200, 2), SPAN_NETWORK);
}
END_TEST

/* 1 MB a hop. H100, four stages of four: two a host, so link, network, link: 2·8.346 + 100. Bridged A100, eight stages of one:
   four over bridges (4.99 + 1e6/186.2e3 + 0.25 = 10.611), three over PCIe: 4·10.611 + 3·58.26. A stage that fills a host
   alone crosses the network every time. */
START_TEST(stages_hand_off_over_what_lies_between_them)
{
  const struct hardware h100 = fixture_hardware("h100-sxm-80gb"), bridged = fixture_hardware("a100-pcie-80gb");
  assert_close(sum_s(collective_hand_off(&h100, 4, 4, 3e6)) / US, 116.69, 1e-3);
  assert_close(sum_s(collective_hand_off(&bridged, 1, 8, 7e6)) / US, 217.2, 1e-3);
  assert_close(sum_s(collective_hand_off(&h100, 16, 3, 2e6)) / US, 200, 1e-9);
  ck_assert(sum_s(collective_hand_off(&h100, 8, 1, 0)) <= 0);
}
END_TEST

START_TEST(more_bandwidth_never_slows_a_hand_off)
{
  uint64_t random = 11;
  for (int i = 0; i < 500; i++) {
    struct hardware hardware = fixture_hardware(i % 2 == 0 ? "h100-sxm-80gb" : "b200-sxm-180gb");
    const unsigned devices = 1u << fixture_random_index(&random, 5), stages = 2 + fixture_random_index(&random, 15);
    const double bytes = exp(fixture_random(&random, 0, 22));
    const double before = sum_s(collective_hand_off(&hardware, devices, stages, bytes));
    double faster;
    ck_assert(before > 0 && isfinite(before));
    hardware.unidirectional_gb_s *= 1.5;
    hardware.inter_node_gb_s = 12.5 * 1.5;
    faster = sum_s(collective_hand_off(&hardware, devices, stages, bytes));
    ck_assert(faster <= before);
    ck_assert(sum_s(collective_hand_off(&hardware, devices, stages, 2 * bytes)) >= faster);
  }
}
END_TEST

int main(void)
{
  TCase *tcase = tcase_create("collectives");
  tcase_add_test(tcase, one_device_talks_to_nobody);
  tcase_add_test(tcase, the_faster_algorithm_is_taken);
  tcase_add_test(tcase, links_have_their_own_constants);
  tcase_add_test(tcase, unmeasured_numbers_of_devices_take_the_next_larger_row);
  tcase_add_test(tcase, a_bridge_joins_two);
  tcase_add_test(tcase, boards_without_a_link_use_the_host_bus);
  tcase_add_test(tcase, links_without_a_table_scale_the_nearest);
  tcase_add_test(tcase, larger_messages_take_longer);
  tcase_add_test(tcase, domains_are_switches_or_hosts);
  tcase_add_test(tcase, a_message_takes_the_link_that_it_crosses);
  tcase_add_test(tcase, spans_are_the_narrowest_that_hold_it);
  tcase_add_test(tcase, stages_hand_off_over_what_lies_between_them);
  tcase_add_test(tcase, more_bandwidth_never_slows_a_hand_off);
  return fixture_run("core/collectives", tcase);
}

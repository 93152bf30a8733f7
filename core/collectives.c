/* All-reduce by fitted constants; which constants apply follows from the link inside and outside of the domain. */
#include "core/collectives.h"

#include "core/units.h"

#include <math.h>
#include <string.h>

enum link_class { LINK_NVLINK3, LINK_NVLINK4, LINK_NVLINK5, LINK_PCIE5, LINK_PCIE4, LINK_COUNT };
enum algorithm { ALGORITHM_CUSTOM, ALGORITHM_NCCL, ALGORITHM_COUNT };

/* Measured on 2, 4 and 8 devices: rows 0, 1 and 2. */
#define ROW_OF(devices) ((devices) / 4)
struct all_reduce_row {
  double alpha_us, bandwidth_gb_s, ramp;
};
static const struct all_reduce_row rows[LINK_COUNT][3][ALGORITHM_COUNT] = {
#define ALL_REDUCE(link, algorithm, devices, alpha, bandwidth, ramp)                                                   \
  [LINK_##link][ROW_OF(devices)][ALGORITHM_##algorithm] = {alpha, bandwidth, ramp},
#include "core/timing.def"
};

/* A link as one of the measured classes, with a factor on its bandwidth. */
struct link_use {
  enum link_class link;
  double bandwidth_scale;
};

/* PCIe 4 beyond two boards was measured on a host without peer access across sockets (4 and 2 GB/s); hosts of public
   end-to-end runs reach five times that, GeForce boards (no peer access at all) 1.5 times. Boards with a bridge fall back
   to the same class beyond it. STEPMODEL §2. */
static struct link_use pcie_use(const struct hardware *hardware, unsigned devices)
{
  struct link_use use = {LINK_PCIE4, 1.0};
  if (hardware->pcie_gen >= 5 && hardware->link == HARDWARE_LINK_PCIE) {
    use.link = LINK_PCIE5;
    return use;
  }
  if (devices > 2)
    use.bandwidth_scale = hardware->family == HARDWARE_ADA_CONSUMER ? 1.5 : 5.0;
  return use;
}

/* Links without a table of their own take the nearest measured one, scaled by their datasheet bandwidth. */
static struct link_use scaled_use(const struct hardware *hardware, enum link_class link, double datasheet_gb_s)
{
  struct link_use use = {link, 1.0};
  if (hardware->unidirectional_gb_s > 0)
    use.bandwidth_scale = hardware->unidirectional_gb_s / datasheet_gb_s;
  return use;
}

static struct link_use rated_use_of(const struct hardware *hardware, unsigned devices)
{
  struct link_use use = {LINK_NVLINK4, 1.0};
  if (devices > hardware->domain_size)
    return pcie_use(hardware, devices);
  switch (hardware->link) {
  case HARDWARE_LINK_NVLINK2: return scaled_use(hardware, LINK_NVLINK3, 300);
  case HARDWARE_LINK_NVLINK3: return scaled_use(hardware, LINK_NVLINK3, 300);
  case HARDWARE_LINK_NVLINK4: return scaled_use(hardware, LINK_NVLINK4, 450);
  case HARDWARE_LINK_NVLINK5: return scaled_use(hardware, LINK_NVLINK5, 900);
  case HARDWARE_LINK_XGMI: return use; /* measured end to end like NVLink 4. STEPMODEL §2 */
  case HARDWARE_LINK_OTHER: return scaled_use(hardware, LINK_NVLINK4, 450);
  case HARDWARE_LINK_PCIE: break;
  }
  return pcie_use(hardware, devices);
}

static struct link_use link_use_of(const struct hardware *hardware, unsigned devices)
{
  struct link_use use = rated_use_of(hardware, devices);
  if (hardware->link_scale_ratio > 0)
    use.bandwidth_scale *= hardware->link_scale_ratio;
  return use;
}

static unsigned measured_devices(unsigned devices)
{
  if (devices <= 2)
    return 2;
  return devices <= 4 ? 4 : 8;
}

static struct collective_time time_of(const struct all_reduce_row *row, double bandwidth_scale, double wire_bytes)
{
  const double bytes_s = row->bandwidth_gb_s * GIGA * bandwidth_scale;
  return (struct collective_time){wire_bytes / bytes_s + row->ramp * 1e-9 * sqrt(wire_bytes), row->alpha_us * US};
}

static struct collective_time fastest(const struct link_use *use, unsigned devices, double wire_bytes)
{
  const struct all_reduce_row *by_algorithm = rows[use->link][ROW_OF(devices)];
  const struct collective_time custom = time_of(&by_algorithm[ALGORITHM_CUSTOM], use->bandwidth_scale, wire_bytes);
  const struct collective_time nccl = time_of(&by_algorithm[ALGORITHM_NCCL], use->bandwidth_scale, wire_bytes);
  return nccl.floor_s + nccl.work_s < custom.floor_s + custom.work_s ? nccl : custom;
}

struct collective_time collective_all_reduce(const struct hardware *hardware, unsigned devices, double wire_bytes)
{
  const struct link_use use = link_use_of(hardware, devices);
  if (devices <= 1)
    return (struct collective_time){0.0, 0.0};
  return fastest(&use, measured_devices(devices), wire_bytes);
}

/* ---- from one device to another ---- */

enum collective_span collective_span_of(const struct hardware *hardware, double devices)
{
  const double host = collective_domain_devices(hardware);
  if (devices <= fmin(hardware->domain_size, host))
    return SPAN_LINK;
  return devices <= host ? SPAN_HOST : SPAN_NETWORK;
}

/* 100 Gbit/s where nothing is stated: between the 6 and 17 GB/s of public runs over two hosts (PREDICTOR §2d). */
double collective_network_bytes_s(const struct hardware *hardware, bool *is_assumed)
{
  const double usual_gb_s = 12.5;
  const bool is_stated = hardware->inter_node_gb_s > 0;
  if (is_assumed != NULL)
    *is_assumed = !is_stated;
  return GIGA * (is_stated ? hardware->inter_node_gb_s : usual_gb_s);
}

/* Within a host an all-reduce of two is a message each way at the same time: its measured time is that of one. */
struct collective_time collective_send(const struct hardware *hardware, enum collective_span span, double bytes)
{
  const double network_latency_us = 20;
  if (span == SPAN_NETWORK)
    return (struct collective_time){bytes / collective_network_bytes_s(hardware, NULL), network_latency_us * US};
  const struct link_use use = span == SPAN_LINK ? link_use_of(hardware, 2) : pcie_use(hardware, 2);
  return fastest(&use, 2, bytes);
}

/* Hand-offs that leave a group of `devices` when stages fill one group after the other. */
static double crossings(double devices, unsigned stage_devices, unsigned stages)
{
  const double stages_each = fmax(1, floor(devices / stage_devices));
  return ceil(stages / stages_each) - 1;
}

struct collective_time collective_hand_off(const struct hardware *hardware, unsigned stage_devices, unsigned stages,
                                           double bytes)
{
  const double host = collective_domain_devices(hardware);
  const double off_host = crossings(host, stage_devices, stages);
  const double off_link = crossings(fmin(hardware->domain_size, host), stage_devices, stages);
  const double hops[] = {
      [SPAN_LINK] = stages - 1.0 - off_link, [SPAN_HOST] = off_link - off_host, [SPAN_NETWORK] = off_host};
  struct collective_time sum = {0.0, 0.0};
  for (int span = SPAN_LINK; span <= SPAN_NETWORK && stages > 1; span++) {
    const struct collective_time hop = collective_send(hardware, (enum collective_span)span, bytes / (stages - 1));
    sum.work_s += hops[span] * hop.work_s;
    sum.floor_s += hops[span] * hop.floor_s;
  }
  return sum;
}

unsigned collective_domain_devices(const struct hardware *hardware)
{
  const unsigned host_boards = 8;
  if (strcmp(hardware->topology, "superchip") == 0)
    return 1; /* its link goes to its own CPU; other chips are other nodes */
  if (hardware->domain_size < host_boards)
    return host_boards;
  return (unsigned)hardware->domain_size;
}

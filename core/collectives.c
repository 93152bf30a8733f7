/* All-reduce by fitted constants; which constants apply follows from the link inside and outside of the domain. */
#include "core/collectives.h"

#include "core/units.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum link_class { LINK_NVLINK3, LINK_NVLINK4, LINK_NVLINK5, LINK_PCIE5, LINK_PCIE4 };
enum algorithm { ALGORITHM_CUSTOM, ALGORITHM_NCCL };

struct all_reduce_row {
  enum link_class link;
  enum algorithm algorithm;
  unsigned devices;
  double alpha_us, bandwidth_gb_s, ramp;
};
static const struct all_reduce_row rows[] = {
#define ALL_REDUCE(link, algorithm, devices, alpha, bandwidth, ramp)                                                   \
  {LINK_##link, ALGORITHM_##algorithm, devices, alpha, bandwidth, ramp},
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

static struct link_use link_use_of(const struct hardware *hardware, unsigned devices)
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

static unsigned measured_devices(unsigned devices)
{
  if (devices <= 2)
    return 2;
  return devices <= 4 ? 4 : 8;
}

struct collective_time collective_all_reduce(const struct hardware *hardware, unsigned devices, double wire_bytes)
{
  struct collective_time best = {0.0, 0.0};
  struct link_use use;
  bool is_first = true;
  if (devices <= 1)
    return best;
  use = link_use_of(hardware, devices);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct all_reduce_row *row = &rows[i];
    struct collective_time time;
    if (row->link != use.link || row->devices != measured_devices(devices))
      continue;
    time.floor_s = row->alpha_us * US;
    time.work_s = wire_bytes / (row->bandwidth_gb_s * GIGA * use.bandwidth_scale) + row->ramp * 1e-9 * sqrt(wire_bytes);
    if (is_first || time.floor_s + time.work_s < best.floor_s + best.work_s)
      best = time;
    is_first = false;
  }
  return best;
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

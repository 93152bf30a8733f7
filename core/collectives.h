/* Time of collectives over the links of a profile: Hockney's form with a ramp term, constants fitted per link, algorithm
   and number of devices (core/timing.def). Pure functions. */
#ifndef FITD_CORE_COLLECTIVES_H
#define FITD_CORE_COLLECTIVES_H

#include "core/hardware.h"

struct collective_time {
  double work_s;  /* grows with the message */
  double floor_s; /* alpha: paid by the smallest message */
};

/* All-reduce of a message whose ring volume is `wire_bytes` = 2(n-1)/n · bytes over `devices` of this profile. Devices
   beyond the interconnect domain (a bridge pair, a PCIe board) talk over PCIe. devices 1 costs nothing. */
struct collective_time collective_all_reduce(const struct hardware *hardware, unsigned devices, double wire_bytes);

/* Devices of one node that a tensor-parallel group may span: the interconnect domain, or the eight boards of a PCIe host. */
unsigned collective_domain_devices(const struct hardware *hardware);

#endif

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

/* What a message between two devices crosses. */
enum collective_span { SPAN_LINK, SPAN_HOST, SPAN_NETWORK };

/* The narrowest span that holds so many neighbouring devices. */
enum collective_span collective_span_of(const struct hardware *hardware, double devices);

/* One device sends `bytes` to one other. */
struct collective_time collective_send(const struct hardware *hardware, enum collective_span span, double bytes);

/* Bandwidth of one device to other nodes. *is_assumed (may be NULL): the profile does not state it. */
double collective_network_bytes_s(const struct hardware *hardware, bool *is_assumed);

/* Activations on their way through a pipeline: each device sends `bytes` in all to its successor in the next stage, over
   `stages` of `stage_devices` neighbours each. */
struct collective_time collective_hand_off(const struct hardware *hardware, unsigned stage_devices, unsigned stages,
                                           double bytes);

/* Devices of one node that a tensor-parallel group may span: the interconnect domain, or the eight boards of a PCIe host. */
unsigned collective_domain_devices(const struct hardware *hardware);

#endif

/* Unit factors. Core counts in SI units (seconds, bytes, FLOP/s); these turn wire units into them. */
#ifndef FITD_CORE_UNITS_H
#define FITD_CORE_UNITS_H

#define KIB 1024.0
#define MIB (1024.0 * KIB)
#define GIB (1024.0 * MIB)
#define GIGA 1e9 /* decimal, as in GB/s */
#define TERA 1e12
#define US 1e-6
#define MS 1e-3
#define SECONDS_PER_HOUR 3600.0
#define HOURS_PER_MONTH 730.0

#endif

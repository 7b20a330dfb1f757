/* rss.h: how much memory this process has, as the kernel sees it. */
#ifndef DATA_BASE_RSS_H
#define DATA_BASE_RSS_H

#include <stdint.h>

uint64_t rss_now(void);  // bytes resident
uint64_t rss_peak(void); // the most there ever were

#endif

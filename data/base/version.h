/* version.h: the version of siTrain, which runs and reports record. */
#ifndef DATA_BASE_VERSION_H
#define DATA_BASE_VERSION_H

#define SITRAIN_VERSION "0.1.0"

#endif

/* version.h: the version of siTrain, which runs and reports record. */
#pragma once

#define SITRAIN_VERSION "0.1.0"
